/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * write_impl: the writers' functions, for the table in write.c only.
 */
#ifndef OFFCPU_WRITE_IMPL_H
#define OFFCPU_WRITE_IMPL_H

#include "write.h"

/* Folded stacks in µs of thread time: running, and not running. */
int write_folded__on(const struct profile *p, const struct write_opts *opts, FILE *out);
int write_folded__off(const struct profile *p, const struct write_opts *opts, FILE *out);

/* See docs/json.md. */
int write_json(const struct profile *p, const struct write_opts *opts, FILE *out);

#endif
