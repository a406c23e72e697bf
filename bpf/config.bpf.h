/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * config: knobs set by the loader before loading (the verifier drops what they switch off), and the
 * few words that both sides share while recording.
 */
#ifndef OFFCPU_CONFIG_BPF_H
#define OFFCPU_CONFIG_BPF_H

#include "vmlinux.h"

#include "abi.h"

const volatile enum target_mode target_mode = TARGET_PROCESSES;
const volatile char target_name[COMM_LEN] = "";
const volatile __u64 target_cgroup = 0;	      /* inode of the cgroup's directory (kernfs id) */
const volatile int target_cgroup_subsys = -1; /* v1: index of the controller; -1: v2 */
const volatile bool follow_threads = true;    /* new threads of a followed process */
const volatile bool follow_children = false;  /* processes forked by followed ones */
const volatile bool fresh_command = false;    /* the target is our own child, about to exec */

const volatile bool want_user = true, want_kernel = true;
const volatile bool have_state_arg = true;   /* sched_switch has prev_state (5.18) */
const volatile bool have_direct_read = true; /* see read_word() */
const volatile bool verify_memo = false;
const volatile __u32 max_depth = MAX_FRAMES;

/* Waits outside [min_block_ns, max_block_ns], or in a task state not in state_mask, are
 * accounted, but their stacks are not recorded. */
const volatile bool filter_blocks = false;
const volatile __u64 min_block_ns = 0, max_block_ns = ~0ULL;
const volatile __u64 state_mask = ~0ULL;

/* Depth of the PID namespace whose pids the user sees; 0 is the initial one. */
volatile __u32 pidns_level = 0;

/* The window. Nothing is accounted before 'window_start' is set; both are set a little ahead of
 * time, so that every CPU sees them before they come. */
volatile __u64 window_start = 0;
volatile __u64 window_end = ~0ULL;

/* Set when the window is over: from then on only threads that die are looked at, so that they do not
 * slip through between the last event and the flushing iterator. */
volatile bool closing = false;

/* Which of the two sets of maps is being filled. */
volatile __u32 active = 0;

/* Number of the drain: a thread that notices a new one flushes what it has accumulated. */
volatile __u32 epoch = 1;

/* Threads followed now; ended ones; the time the last one ended. */
__u64 live_threads = 0;
__u64 last_end_ns = 0;
/* Threads that would gain from memos but have none yet: the loader runs the iterator for them. */
__u64 memo_wanted = 0;
/* Stacks stored since the last drain, which comes early when they are many. */
__u64 stored = 0;

#endif
