/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * procmap: what is mapped where, in every process of the target, over time. A process goes through
 * one or more images (address spaces): it inherits its parent's at fork and gets a new one at exec.
 * Addresses are looked up with the process and the time at which the thread's record began, so that
 * stacks from before an exec, or from a dead process whose pid was reused, still resolve.
 *
 * Fed by /proc/PID/maps (processes that already run) and by perf side-band records (what happens
 * while recording). Times are CLOCK_MONOTONIC ns. Pids are as /proc shows them to this process.
 */
#ifndef OFFCPU_PROCMAP_H
#define OFFCPU_PROCMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "module.h"

struct procmaps;

enum mapping_kind {
	MAPPING_FILE,
	MAPPING_VDSO,
	MAPPING_ANON, /* anonymous executable memory: JIT code */
	MAPPING_OTHER, /* [vsyscall], [uprobes], ... */
};

struct mapping {
	uint64_t start, end; /* addresses */
	uint64_t offset;     /* file offset of 'start' */
	enum mapping_kind kind;
	struct module *module; /* FILE and VDSO; NULL otherwise */
};

struct procmaps *procmaps__new(struct modules *mods);
void procmaps__free(struct procmaps *pm);

/*
 * Reads /proc/PID/maps (executable mappings only) as the process's image from 'time_ns' on, or, if
 * an image is already known, adds what it lacks. Returns 0 or -errno (-ESRCH: gone).
 */
int procmaps__scan(struct procmaps *pm, pid_t pid, uint64_t time_ns);

/* Side-band events. Events of processes that are not being followed are ignored: a process is
 * followed from procmaps__scan(), or from a fork of a followed process, or procmaps__follow(). */
void procmaps__follow(struct procmaps *pm, pid_t pid);
void procmaps__on_fork(struct procmaps *pm, uint64_t time_ns, pid_t pid, pid_t parent);
void procmaps__on_exec(struct procmaps *pm, uint64_t time_ns, pid_t pid);
void procmaps__on_mmap(struct procmaps *pm, uint64_t time_ns, pid_t pid, uint64_t start,
		       uint64_t len, uint64_t offset, const struct module_id *id,
		       const char *path);
void procmaps__on_exit(struct procmaps *pm, uint64_t time_ns, pid_t pid);

/*
 * The mapping that held 'addr' in the image that 'pid' ran at 'time_ns', or NULL. Within an image
 * the newest mapping of an address wins. The pointer is valid until the next call that adds.
 */
const struct mapping *procmaps__find(struct procmaps *pm, pid_t pid, uint64_t time_ns,
				     uint64_t addr);

#endif
