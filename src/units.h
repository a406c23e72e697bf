/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * units: numbers for people: few digits, a unit that fits, right to the digit shown. And the few
 * signs beyond ASCII, which fall back to ASCII where the locale has no UTF-8.
 */
#ifndef OFFCPU_UNITS_H
#define OFFCPU_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct signs {
	const char *micro, *times, *arrow, *ellipsis;
	bool utf8;
};

/* The signs that the current locale can show. */
const struct signs *signs(void);

/* Columns that a text takes on the terminal. */
size_t text__width(const char *text);
/* Shortens a text to at most 'width' columns by cutting its beginning; the end of a qualified name
 * says most. */
void text__fit(char *text, size_t size, size_t width);
/* text__printable(), and '?' for what the locale cannot show. */
void text__show(char *out, size_t size, const char *in);

/* Each formats into the caller's buffer and returns it. */
struct unit_text {
	char s[32];
};

/* "812 ns", "4.0 µs", "31 ms", "12.4 s" */
const char *units__duration(struct unit_text *buf, uint64_t ns);
/* "97.34 %"; "<0.01 %" for what would round to zero; never 100 for less than all. */
const char *units__percent(struct unit_text *buf, uint64_t part, uint64_t whole);
/* The same for a column of percentages: "97.3", "<0.1". */
const char *units__tenths(struct unit_text *buf, uint64_t part, uint64_t whole);
/* "12345", "1.23 M" */
const char *units__count(struct unit_text *buf, uint64_t count);
/* "31.2 MiB" */
const char *units__bytes(struct unit_text *buf, uint64_t bytes);

#endif
