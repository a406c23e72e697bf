// SPDX-License-Identifier: GPL-2.0-or-later
#include "units.h"

#include <inttypes.h>
#include <langinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "util/text.h"

const struct signs *signs(void)
{
	static const struct signs utf8 = {"µ", "×", "←", "…", true};
	static const struct signs ascii = {"u", "x", "<-", "...", false};

	return strcmp(nl_langinfo(CODESET), "UTF-8") == 0 ? &utf8 : &ascii;
}

/* Bytes and columns of the character at 'text'. */
static size_t character(const char *text, size_t *columns)
{
	mbstate_t state = {0};
	wchar_t wide;
	size_t len = mbrtowc(&wide, text, MB_CUR_MAX, &state);
	int width;

	*columns = 1;
	if (len == 0 || len > MB_CUR_MAX)
		return 1;
	width = wcwidth(wide);
	if (width >= 0)
		*columns = width;
	return len;
}

size_t text__width(const char *text)
{
	size_t sum = 0, columns;

	while (*text) {
		text += character(text, &columns);
		sum += columns;
	}
	return sum;
}

void text__fit(char *text, size_t size, size_t width)
{
	const char *ellipsis = signs()->ellipsis, *tail = text;
	size_t have = text__width(text), mark = text__width(ellipsis), columns, len;

	if (have <= width)
		return;
	while (*tail && have + mark > width) {
		tail += character(tail, &columns);
		have -= columns;
	}
	len = strlen(tail);
	if (len + strlen(ellipsis) >= size)
		return;
	memmove(text + strlen(ellipsis), tail, len + 1);
	memcpy(text, ellipsis, strlen(ellipsis));
}

void text__show(char *out, size_t size, const char *in)
{
	char *c;

	text__printable(out, size, in);
	if (signs()->utf8)
		return;
	for (c = out; *c; c++)
		if ((unsigned char)*c >= 0x80)
			*c = '?';
}

/* value / unit with the given number of decimals, rounded half up, and what stands behind it. */
static const char *decimal(struct unit_text *buf, uint64_t value, uint64_t unit, int decimals,
			   const char *behind)
{
	static const unsigned int powers[] = {1, 10, 100};
	unsigned __int128 scaled = (unsigned __int128)value * powers[decimals];
	uint64_t rounded = (scaled + unit / 2) / unit;

	if (decimals)
		snprintf(buf->s, sizeof(buf->s), "%" PRIu64 ".%0*" PRIu64 "%s",
			 rounded / powers[decimals], decimals, rounded % powers[decimals], behind);
	else
		snprintf(buf->s, sizeof(buf->s), "%" PRIu64 "%s", rounded, behind);
	return buf->s;
}

const char *units__duration(struct unit_text *buf, uint64_t ns)
{
	char micro[8];

	snprintf(micro, sizeof(micro), " %ss", signs()->micro);
	/* a unit ends half a last digit early: 999.6 µs is 1.0 ms */
	if (ns < 1000)
		return decimal(buf, ns, 1, 0, " ns");
	if (ns < 9950)
		return decimal(buf, ns, 1000, 1, micro);
	if (ns < 999500)
		return decimal(buf, ns, 1000, 0, micro);
	if (ns < 9950000)
		return decimal(buf, ns, 1000000, 1, " ms");
	if (ns < 999500000)
		return decimal(buf, ns, 1000000, 0, " ms");
	if (ns < 9995000000)
		return decimal(buf, ns, 1000000000, 2, " s");
	return decimal(buf, ns, 1000000000, 1, " s");
}

/* Says neither zero for something nor all for less than all. */
static const char *percentage(struct unit_text *buf, uint64_t part, uint64_t whole, int decimals,
			      const char *behind)
{
	uint64_t one = decimals == 1 ? 10 : 100, all = 100 * one;
	unsigned __int128 scaled = (unsigned __int128)part * all;
	uint64_t steps = whole ? (scaled + whole / 2) / whole : 0;

	if (part && whole && !steps) {
		snprintf(buf->s, sizeof(buf->s), "<%s%s", decimals == 1 ? "0.1" : "0.01", behind);
		return buf->s;
	}
	if (part < whole && steps == all)
		steps--;
	return decimal(buf, steps, one, decimals, behind);
}

const char *units__percent(struct unit_text *buf, uint64_t part, uint64_t whole)
{
	return percentage(buf, part, whole, 2, " %");
}

const char *units__tenths(struct unit_text *buf, uint64_t part, uint64_t whole)
{
	return percentage(buf, part, whole, 1, "");
}

const char *units__count(struct unit_text *buf, uint64_t count)
{
	if (count < 1000000)
		snprintf(buf->s, sizeof(buf->s), "%" PRIu64, count);
	else if (count < 999500000)
		decimal(buf, count, 1000000, 1, " M");
	else
		decimal(buf, count, 1000000000, 1, " G");
	return buf->s;
}

const char *units__bytes(struct unit_text *buf, uint64_t bytes)
{
	if (bytes < 1024 * 1024)
		return decimal(buf, bytes, 1024, 0, " KiB");
	return decimal(buf, bytes, 1024 * 1024, 1, " MiB");
}
