/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * recording: what the BPF side delivered, merged over the drains: records of threads, stacks by id,
 * rows of time. Turned into a profile at the end. Knows nothing of BPF, so it can be fed from
 * anything.
 *
 * Memory grows with the number of threads, distinct stacks and distinct (thread, stack) pairs, not
 * with time.
 */
#ifndef OFFCPU_RECORDING_H
#define OFFCPU_RECORDING_H

#include <stdint.h>
#include <sys/types.h>

#include "abi.h"

struct recording;
struct profile;
struct symbolizer;

struct recording *recording__new(void);
void recording__free(struct recording *r);

/* A stack that comes again under the same id must be equal; if not, it is counted. */
void recording__add_stack(struct recording *r, uint64_t id, const struct stack_value *stack);
void recording__add_row(struct recording *r, const struct row_key *key,
			const struct row_value *value);
void recording__add_thread(struct recording *r, const struct thread_rec *rec);

/* Number of stacks, and of threads' records, so far. */
uint64_t recording__stacks(const struct recording *r);
uint64_t recording__threads(const struct recording *r);
/* Ids of stacks that came with different frames: a hash collision between two drains. */
uint64_t recording__conflicts(const struct recording *r);
/* Sum over all threads of a thread_rec's counters. */
struct thread_rec recording__totals(const struct recording *r);
/* Thread time (ns) under stacks that were not stored. */
uint64_t recording__lost_stack_ns(const struct recording *r);

/* Calls fn for every process id that has a thread record. */
void recording__each_process(const struct recording *r, void (*fn)(void *data, pid_t pid),
			     void *data);

/* Resolves and adds all threads and samples to the profile, whose window is [start_ns, end_ns]. */
void recording__resolve(const struct recording *r, struct symbolizer *sym, struct profile *p,
			uint64_t start_ns, uint64_t end_ns);

#endif
