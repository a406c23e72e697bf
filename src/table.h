/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * table: rows of text in columns on the terminal, through libsmartcols. The last column takes what
 * the others leave, so it is filled last: table__room() tells how wide it may be.
 */
#ifndef OFFCPU_TABLE_H
#define OFFCPU_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct table;

/* Headings separated by '|'; one that begins with '>' is of a column aligned to the right. */
struct table *table__new(const char *headings, int width, bool color);
void table__free(struct table *t);

/* Begins a row. */
void table__row(struct table *t);
/* The next cell of the row; the text is copied. */
void table__cell(struct table *t, const char *text);
/* Sets the last cell of a row that was begun earlier. */
void table__set_last(struct table *t, size_t row, const char *text);
/* Columns left for the last column, at least 20. */
size_t table__room(const struct table *t);

/* Prints with two columns of indent. */
void table__print(struct table *t, FILE *out);

#endif
