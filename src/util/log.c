// SPDX-License-Identifier: GPL-2.0-or-later
#include "util/log.h"

#include <stdarg.h>
#include <stdio.h>

#include "util/text.h"

static enum log_level current_level = LOG_NORMAL;

void log__set_level(enum log_level level)
{
	current_level = level;
}

enum log_level log__level(void)
{
	return current_level;
}

static void print(const char *kind, const char *fmt, va_list args)
{
	char line[1024];

	vsnprintf(line, sizeof(line), fmt, args);
	fprintf(stderr, "offcpu: %s%s\n", kind, line);
}

void log__error(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	print("", fmt, args);
	va_end(args);
}

void log__warn(const char *fmt, ...)
{
	va_list args;

	if (current_level < LOG_NORMAL)
		return;
	va_start(args, fmt);
	print("warning: ", fmt, args);
	va_end(args);
}

void log__info(const char *fmt, ...)
{
	va_list args;

	if (current_level < LOG_VERBOSE)
		return;
	va_start(args, fmt);
	print("", fmt, args);
	va_end(args);
}

const char *log__safe(const char *text)
{
	static char buffers[8][256];
	static unsigned int next;
	char *buf = buffers[next++ % 8];

	text__printable(buf, sizeof(buffers[0]), text);
	return buf;
}
