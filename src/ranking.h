/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ranking: the stacks of a profile merged as a reader would (see where.h), most time first. Stacks
 * of all threads and processes of the same name come together, as in a folded file.
 */
#ifndef OFFCPU_RANKING_H
#define OFFCPU_RANKING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct profile;
struct frame;

enum ranking_kind {
	RANK_OFF_STACKS,   /* blocked + run-queue time by stack */
	RANK_ON_FUNCTIONS, /* on-CPU time by innermost function */
};

struct rank {
	uint32_t process;   /* the first of this name */
	uint32_t stack;	    /* the one with most time */
	uint32_t stacks;    /* number of different ways here, 1 for stacks */
	uint32_t thread;    /* one of the threads */
	uint32_t threads;   /* number of threads */
	bool one_name;	    /* all threads have the same name */
	uint64_t ns, count; /* count: waits, or samples */
	uint64_t max_ns;    /* longest wait */
	uint64_t stack_ns;  /* share of 'stack' */
};

struct ranking;

struct ranking *ranking__new(const struct profile *p, enum ranking_kind kind);
void ranking__free(struct ranking *r);
enum ranking_kind ranking__kind(const struct ranking *r);
/* Number of rows, most time first. */
size_t ranking__rows(const struct ranking *r, const struct rank **rows);
/* The telling frames of a row's stack, leaf first; valid until the next call. */
uint32_t ranking__frames(struct ranking *r, const struct rank *row, const struct frame ***frames);

#endif
