/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sideband: follows exec, fork, exit and executable mappings of all processes through perf's
 * side-band records (PERF_RECORD_MMAP2 with build ID where the kernel has it, COMM with
 * PERF_RECORD_MISC_COMM_EXEC, FORK, EXIT): one software dummy event per CPU with
 * attr.use_clockid = CLOCK_MONOTONIC, so that its times compare with the BPF side's. Never stops or
 * slows the target. Records of the CPUs are handed on in time order.
 *
 * Owns: the perf event descriptors and their ring buffers.
 */
#ifndef OFFCPU_SIDEBAND_H
#define OFFCPU_SIDEBAND_H

#include <stdint.h>

struct sideband;
struct procmaps;

/* Opens and enables. Returns NULL with errno set, after saying why (a warning: the capture goes on
 * without, and processes that are gone before they could be read stay unnamed). */
struct sideband *sideband__open(struct procmaps *pm);
void sideband__close(struct sideband *sb);

/*
 * Passes what has arrived to procmaps. Returns the number of records. Call it a few times a second:
 * a file is pinned when its record is read, so the sooner the better.
 */
int sideband__poll(struct sideband *sb);

/* A descriptor to wait on (epoll): readable when there is something to read, at most every 5 ms. */
int sideband__fd(const struct sideband *sb);

/* Records lost because a ring was full. */
uint64_t sideband__lost(const struct sideband *sb);

#endif
