// SPDX-License-Identifier: GPL-2.0-or-later
#include "table.h"

#include <libsmartcols/libsmartcols.h>
#include <stdlib.h>
#include <string.h>

#include "units.h"
#include "util/xalloc.h"

#define INDENT	    2
#define MIN_ROOM    20
#define MAX_COLUMNS 12

struct table {
	struct libscols_table *scols;
	struct libscols_line *line;
	size_t columns, column;
	size_t widths[MAX_COLUMNS];
	size_t width;
};

/* libsmartcols fails only for want of memory. */
static void *check(void *ptr)
{
	return ptr ?: xmalloc(SIZE_MAX / 2);
}

static void add_column(struct table *t, const char *heading)
{
	bool right = *heading == '>';
	const char *name = heading + right;
	struct libscols_column *column;

	column = scols_table_new_column(t->scols, name, 0, right ? SCOLS_FL_RIGHT : 0);
	check(column);
	scols_cell_set_color(scols_column_get_header(column), "bold");
	t->widths[t->columns++] = text__width(name);
}

struct table *table__new(const char *headings, int width, bool color)
{
	struct table *t = xcalloc(1, sizeof(*t));
	char *copy = xstrdup(headings), *rest = copy, *heading;
	struct libscols_column *last;

	t->scols = check(scols_new_table());
	t->width = width > INDENT + MIN_ROOM ? width - INDENT : MIN_ROOM;
	scols_table_set_termforce(t->scols, SCOLS_TERMFORCE_ALWAYS);
	scols_table_set_termwidth(t->scols, t->width);
	scols_table_set_column_separator(t->scols, "  ");
	scols_table_enable_colors(t->scols, color);
	while ((heading = strsep(&rest, "|")) && t->columns < MAX_COLUMNS)
		add_column(t, heading);
	last = scols_table_get_column(t->scols, t->columns - 1);
	scols_column_set_flags(last, scols_column_get_flags(last) | SCOLS_FL_TRUNC);
	free(copy);
	return t;
}

void table__free(struct table *t)
{
	scols_unref_table(t->scols);
	free(t);
}

void table__row(struct table *t)
{
	t->line = check(scols_table_new_line(t->scols, NULL));
	t->column = 0;
}

void table__cell(struct table *t, const char *text)
{
	size_t width = text__width(text);

	if (width > t->widths[t->column])
		t->widths[t->column] = width;
	scols_line_set_data(t->line, t->column++, text);
}

void table__set_last(struct table *t, size_t row, const char *text)
{
	scols_line_set_data(scols_table_get_line(t->scols, row), t->columns - 1, text);
}

size_t table__room(const struct table *t)
{
	size_t i, used = 0;

	for (i = 0; i + 1 < t->columns; i++)
		used += t->widths[i] + 2;
	return used + MIN_ROOM < t->width ? t->width - used : MIN_ROOM;
}

/* Indents, and leaves out blanks at the end. */
static void print_indented(char *text, FILE *out)
{
	char *rest = text, *line;

	while ((line = strsep(&rest, "\n"))) {
		size_t len = strlen(line);

		while (len && line[len - 1] == ' ')
			len--;
		if (len)
			fprintf(out, "%*s%.*s\n", INDENT, "", (int)len, line);
	}
}

void table__print(struct table *t, FILE *out)
{
	char *text = NULL;

	if (scols_print_table_to_string(t->scols, &text) == 0 && text)
		print_indented(text, out);
	free(text);
}
