/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * summary: the report on the terminal: the accounting, the stacks with most blocked time, the
 * hottest on-CPU stacks, a table of threads, and what was lost. Tables through libsmartcols.
 */
#ifndef OFFCPU_SUMMARY_H
#define OFFCPU_SUMMARY_H

#include <stdbool.h>
#include <stdio.h>

struct profile;

struct summary_opts {
	int width; /* columns, 0: not a terminal (120 is used and nothing is coloured) */
	bool color;
	bool verbose; /* -v: cost, memo hit rates, causes of truncation */
	int top;      /* rows per table, 10 */
};

void summary__print(const struct profile *p, const struct summary_opts *opts, FILE *out);

#endif
