/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * abi: all that the BPF side and the loader share. Fixed widths, explicit padding. "tgid/tid" are
 * the kernel's words for what the user calls pid/tid.
 */
#ifndef OFFCPU_ABI_H
#define OFFCPU_ABI_H

#ifndef __bpf__
#include <linux/types.h>
#endif

#define MAX_FRAMES    127 /* per stack; kernel.perf_event_max_stack's default */
#define COMM_LEN      16
#define MAX_PID_LEVEL 32 /* MAX_PID_NS_LEVEL */

/* Which tasks are followed. */
enum target_mode {
	TARGET_PROCESSES, /* tgid in 'targets' */
	TARGET_THREADS,	  /* tid in 'targets' */
	TARGET_NAME,	  /* the process's main thread is called 'target_name' */
	TARGET_CGROUP,	  /* in the cgroup 'target_cgroup' or below it */
	TARGET_ALL,
};

/* Stack ids are 64-bit hashes of the frames; these are not hashes. */
enum stack_special {
	STACK_NONE = 0,	    /* there is none, or it was not asked for */
	STACK_LOST = 1,	    /* there was one, but no room to store it */
	STACK_FILTERED = 2, /* left out by -m, -M or --state */
	STACK_RESERVED = 16, /* hashes are larger than this */
};

/* How a walk of a user stack ended. */
enum walk_end {
	WALK_COMPLETE,	 /* reached the thread's entry */
	WALK_DEPTH,	 /* more frames than --max-depth */
	WALK_UNREADABLE, /* a stack slot could not be read (paged out, or not a stack) */
	WALK_BAD_FRAME,	 /* the frame pointer does not point further up the stack */
	WALK_ENDS,
};

/* Value of the stack maps. Frames are leaf first. */
struct stack_value {
	__u16 n;
	__u16 end; /* enum walk_end */
	__u32 pad;
	__u64 frames[MAX_FRAMES];
};

/* Key and value of the row maps: what one thread spent under one pair of stacks. */
struct row_key {
	__u64 ustack, kstack;
	__u32 thread; /* thread_rec.id */
	__u32 pad;
};

struct row_value {
	__u64 samples; /* on-CPU samples */
	__u64 runq_ns, blocked_ns;
	__u64 blocks; /* times it was switched out here */
	__u64 max_ns; /* longest single wait, run queue included */
};

/* Stores into the maps, per CPU: begun and ended. */
struct store_count {
	__u64 begun, ended;
};

enum thread_flags {
	THREAD_BLOCKED_AT_START = 1,
	THREAD_BLOCKED_AT_END = 2,
	THREAD_KERNEL = 4,
	THREAD_ALIVE = 8, /* the recording ended before the thread did */
};

/* CPU time as the kernel accounts it (task->utime, stime, se.sum_exec_runtime). */
struct cpu_times {
	__u64 user_ns, system_ns, runtime_ns;
};

/*
 * The accounting of one thread, or of one of its lives between execs: sent when it ends, or read by
 * an iterator at the end of the recording.
 */
struct thread_rec {
	__u32 id; /* never reused, unlike tids */
	__u32 tgid, tid;
	__u32 flags;
	__u64 birth_ns; /* 0: older than the recording */
	__u64 end_ns;	/* 0: still alive */
	__u64 on_ns, runq_ns, blocked_ns;
	__u64 filtered_ns; /* part of blocked_ns */
	__u64 switches, voluntary;
	__u64 samples;
	__u64 user_hits, user_misses, kernel_hits, kernel_misses; /* stack memos */
	struct cpu_times first, last;
	char comm[COMM_LEN];
	char process[COMM_LEN]; /* name of the process's main thread */
};

/*
 * Everything that can go wrong while recording, one counter each:
 * X(name, words, is something lost? else it is only told with -v)
 */
#define COUNTERS(X)                                                                                \
	X(stack_full, "stacks not stored: stack map full", 1)                                      \
	X(stack_collision, "different stacks with the same hash, kept apart", 0)                   \
	X(row_full, "waits without their stack: row map full", 1)                                  \
	X(sample_lost, "on-CPU samples not stored", 0)                                             \
	X(exit_full, "ended threads not recorded: ring buffer full", 1)                            \
	X(no_storage, "threads not followed: no memory for their state", 1)                        \
	X(clock_back, "clock steps backwards between CPUs", 0)                                     \
	X(missed_wakeup, "wakeups not seen; counted as blocked until it ran", 0)                   \
	X(missed_switch_in, "switches to a thread not seen; placed by its CPU time", 0)            \
	X(missed_switch_out, "switches from a thread not seen; time until its next one lost", 1)   \
	X(walk_unreadable, "user stacks cut short: memory not readable", 1)                        \
	X(walk_bad_frame, "user stacks cut short: no frame pointer to follow", 0)                  \
	X(walk_depth, "user stacks deeper than --max-depth", 1)                                    \
	X(memo_checked, "memo hits walked again and compared", 0)                                  \
	X(memo_wrong, "memo hits that differed from the walk", 1)

enum counter {
#define X(name, words, loss) COUNTER_##name,
	COUNTERS(X)
#undef X
	COUNTER_MAX,
};

#endif
