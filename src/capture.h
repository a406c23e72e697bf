/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * capture: the BPF side's life: load, attach, seed, open the window, drain, close the window,
 * flush. Delivers everything into a recording.
 *
 *     capture__load      open, set knobs, load (verify)
 *     capture__attach    scheduler events, on-CPU sampling, then seed the targets
 *     capture__start     open the window
 *     capture__poll      now and then: drain
 *     capture__stop      close the window, detach, flush
 *     capture__free
 *
 * Owns: the BPF skeleton, links and perf events. Nothing is pinned: when the process ends, however
 * it ends, the kernel detaches everything.
 */
#ifndef OFFCPU_CAPTURE_H
#define OFFCPU_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "abi.h"

struct capture;
struct profile;
struct profile_cost;
struct recording;

struct capture_opts {
	enum target_mode mode;
	const pid_t *ids; /* pids or tids, for TARGET_PROCESSES and TARGET_THREADS */
	int nids;
	const char *name;   /* TARGET_NAME */
	uint64_t cgroup;    /* TARGET_CGROUP: inode of the directory */
	int cgroup_subsys;  /* index of a v1 controller, or -1 for v2 */
	bool children;	    /* follow forked processes */
	bool fresh_command; /* the one target is our own child that has not called exec yet */
	bool user, kernel;  /* which stacks */
	uint32_t max_depth;
	uint32_t sample_hz;		     /* 0: no on-CPU samples */
	uint64_t min_block_ns, max_block_ns; /* 0 and UINT64_MAX: no filter */
	uint64_t state_mask;		     /* UINT64_MAX: no filter */
	bool verify_memo;		     /* walk on every hit as well, and compare */
	bool measure;	      /* have the kernel measure the BPF programs' run time */
	uint32_t map_entries; /* size of the maps; 0: by the number of CPUs */
};

/* All return 0 or -errno after saying why, except where stated. */
int capture__load(struct capture **out, const struct capture_opts *opts, struct recording *rec);
/* Calls 'found' for every process of the target that runs already. */
int capture__attach(struct capture *c, void (*found)(void *data, pid_t pid), void *data);

/* Opens the window; it closes by itself after 'duration_ns' (0: when capture__stop is called). */
void capture__start(struct capture *c, uint64_t duration_ns);
uint64_t capture__start_ns(const struct capture *c);
uint64_t capture__end_ns(const struct capture *c);

/* Threads followed now; and when the last one that ended did so (CLOCK_MONOTONIC ns). */
uint64_t capture__live_threads(const struct capture *c);
uint64_t capture__last_end_ns(const struct capture *c);

/* To be called every 50 ms or so: drains the maps when it is time (or when they fill up). */
int capture__poll(struct capture *c);

/* Closes the window at 'end_ns' if that is earlier than its planned end (0: now). */
int capture__stop(struct capture *c, uint64_t end_ns);

/* After stop: adds the counted losses to the profile, and fills the cost. */
void capture__report(struct capture *c, struct profile *p, struct profile_cost *cost);

void capture__free(struct capture *c);

/* CLOCK_MONOTONIC, which is bpf_ktime_get_ns(). */
uint64_t clock_ns(void);

#endif
