/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * xalloc: allocation that does not fail. Out of memory ends the program with one line and status 1;
 * the kernel detaches what was attached.
 */
#ifndef OFFCPU_XALLOC_H
#define OFFCPU_XALLOC_H

#include <stddef.h>

void *xmalloc(size_t size);
void *xcalloc(size_t count, size_t size);
/* Resizes an array of 'count' elements of 'size' bytes; refuses an overflowing product. */
void *xreallocarray(void *ptr, size_t count, size_t size);
char *xstrdup(const char *text);
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/*
 * Makes room for one more element in a growing array: with 'n' elements used and '*cap' allocated,
 * doubles the array when it is full. Usage: v = xgrow(v, n, &cap, sizeof(*v)); v[n++] = x;
 */
void *xgrow(void *array, size_t n, size_t *cap, size_t size);

#endif
