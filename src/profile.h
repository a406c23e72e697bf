/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * profile: the result of a recording, in memory: processes, threads, stacks of frames, and what
 * each (thread, stack) spent running, waiting for a CPU and blocked. Everything that is printed or
 * written is derived from here, and from nothing else.
 *
 * Owns all strings (interned), frames and stacks. Ids are indices from 0 in order of creation.
 * Times are ns of thread time; CLOCK_MONOTONIC where absolute.
 *
 * Invariant, per thread: on_ns + runq_ns + blocked_ns + lost_ns = window_ns, and per thread the
 * samples' on_ns, runq_ns and blocked_ns sum to the thread's (profile__finish() sees to that, with
 * the marks [unsampled], [filtered] and [lost] where a stack is missing).
 */
#ifndef OFFCPU_PROFILE_H
#define OFFCPU_PROFILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "frame.h"

struct profile;

struct profile_meta {
	const char *title;	/* "postgres (pid 4242)", "3 processes", "cgroup /x", "system" */
	const char *command;	/* the command line of offcpu itself */
	const char *filter;	/* what -m/-M/--state leave out, in words, or NULL */
	uint64_t start_ns, end_ns; /* window, CLOCK_MONOTONIC */
	uint64_t start_unix_ns;	   /* the same start in CLOCK_REALTIME */
	uint32_t cpus;		   /* CPUs online */
	uint32_t sample_hz;	   /* 0: no on-CPU sampling */
};

/* One thread, or one life of it between execs. */
struct profile_thread {
	uint32_t process;    /* index of its process */
	uint32_t tid;
	const char *comm;    /* last name */
	uint64_t start_ns, end_ns; /* its window, clipped to the profile's */
	uint64_t on_ns, user_ns, system_ns; /* user + system = on */
	uint64_t runq_ns, blocked_ns;
	uint64_t filtered_ns; /* part of blocked_ns whose stacks -m/-M/--state left out */
	uint64_t lost_ns;     /* window that could not be placed */
	uint64_t switches;    /* times it was switched out: voluntary (blocked) + preempted */
	uint64_t voluntary;
	uint64_t samples;     /* on-CPU samples taken */
	bool blocked_at_start, blocked_at_end;
};

/* One process, or one image of it between execs; sums are over its threads. */
struct profile_process {
	uint32_t pid;
	const char *comm;
	uint32_t threads; /* number of threads */
	uint64_t window_ns; /* sum of the threads' windows */
	uint64_t wall_ns;   /* from the first thread's start to the last one's end */
	uint64_t on_ns, user_ns, system_ns, runq_ns, blocked_ns, filtered_ns, lost_ns;
	uint64_t switches, voluntary, samples;
};

/* One (thread, stack). */
struct profile_sample {
	uint32_t thread, stack;
	uint64_t samples;    /* on-CPU samples; weights of on_ns */
	uint64_t on_ns;	     /* set by profile__finish() */
	uint64_t runq_ns, blocked_ns;
	uint64_t blocks;     /* number of waits (of both kinds) */
	uint64_t max_ns;     /* longest single wait, run queue included */
};

/* A kind of loss: what, how often, and how much thread time it touches (0 where unknown). */
struct profile_loss {
	const char *kind; /* "stack_map_full", ... */
	const char *text; /* in words */
	uint64_t count, ns;
};

struct profile_cost {
	uint64_t bpf_ns, bpf_runs;     /* BPF run time and runs (0: statistics not available) */
	uint64_t switches;	       /* context switches of the target */
	uint64_t user_cpu_ns;	       /* CPU time of the tool itself during the capture */
	uint64_t rss_bytes;	       /* peak resident memory of the tool */
	uint64_t kernel_bytes;	       /* memory of the BPF maps */
	uint64_t load_ns, attach_ns;   /* open + load + verify; attach + seed */
	uint64_t user_memo_hits, user_memo_misses, kernel_memo_hits, kernel_memo_misses;
};

struct profile *profile__new(void);
void profile__free(struct profile *p);

void profile__set_meta(struct profile *p, const struct profile_meta *meta);
void profile__set_cost(struct profile *p, const struct profile_cost *cost);
void profile__add_loss(struct profile *p, const char *kind, const char *text, uint64_t count,
		       uint64_t ns);

/* Copies strings. One process object per (pid, comm). */
uint32_t profile__add_process(struct profile *p, uint32_t pid, const char *comm);
uint32_t profile__add_thread(struct profile *p, const struct profile_thread *thread);
/* Interns a stack, root first; equal stacks (same function, module, kind, inlined, line) get the
 * same id. An empty stack is allowed. */
uint32_t profile__add_stack(struct profile *p, const struct frame *frames, uint32_t n);
/* Adds to the sample (thread, stack). */
void profile__add_sample(struct profile *p, const struct profile_sample *sample);

/*
 * To be called once, when all is added: sums threads into processes, computes lost_ns, spreads each
 * thread's exact on_ns over its samples in proportion to their counts (largest remainder, so that
 * the sum is exact; a thread without samples gets one stack [unsampled]), and adds [filtered] and
 * [lost] stacks for blocked and run-queue time that has no stack.
 */
void profile__finish(struct profile *p);

const struct profile_meta *profile__meta(const struct profile *p);
const struct profile_cost *profile__cost(const struct profile *p);
uint32_t profile__losses(const struct profile *p, const struct profile_loss **losses);
uint32_t profile__processes(const struct profile *p, const struct profile_process **processes);
uint32_t profile__threads(const struct profile *p, const struct profile_thread **threads);
uint32_t profile__samples(const struct profile *p, const struct profile_sample **samples);
uint32_t profile__stacks(const struct profile *p);
/* Frames of a stack, root first: pointers valid as long as the profile. */
uint32_t profile__stack(const struct profile *p, uint32_t stack, const struct frame ***frames);
/* All distinct frames, by id, and the id of a frame that came from profile__stack(). */
uint32_t profile__frames(const struct profile *p);
const struct frame *profile__frame(const struct profile *p, uint32_t id);
uint32_t profile__frame_id(const struct frame *frame);
/* Sums over all processes, as a process without pid and name. */
struct profile_process profile__total(const struct profile *p);

#endif
