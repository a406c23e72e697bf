/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * summary_impl: what the files of the summary share: summary.c (tables) and summary_totals.c (the
 * accounting, and with -v its quality and cost).
 */
#ifndef OFFCPU_SUMMARY_IMPL_H
#define OFFCPU_SUMMARY_IMPL_H

#include "profile.h"
#include "summary.h"

struct summary {
	const struct profile *p;
	struct summary_opts opts; /* with defaults filled in */
	FILE *out;
	const struct profile_meta *meta;
	const struct profile_process *processes;
	const struct profile_thread *threads;
	uint32_t n_processes, n_threads;
	struct profile_process total;
	uint64_t window_ns;
};

struct summary_name {
	char s[256];
};

/* A line that begins a part. */
void summary__heading(const struct summary *s, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* A name from the target, harmless, at most 'width' columns. */
void summary__name(struct summary_name *name, const char *text, size_t width);

/* Title, on-CPU, run queue, blocked, what is filtered and lost. */
void summary__accounting(const struct summary *s);
/* How good the stacks are, and what the recording cost. */
void summary__quality(const struct summary *s);

#endif
