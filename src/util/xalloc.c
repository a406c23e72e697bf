// SPDX-License-Identifier: GPL-2.0-or-later
#include "util/xalloc.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *check(void *ptr)
{
	if (!ptr) {
		fputs("offcpu: out of memory\n", stderr);
		exit(1);
	}
	return ptr;
}

void *xmalloc(size_t size)
{
	return check(malloc(size ? size : 1));
}

void *xcalloc(size_t count, size_t size)
{
	return check(calloc(count ? count : 1, size ? size : 1));
}

void *xreallocarray(void *ptr, size_t count, size_t size)
{
	return check(reallocarray(ptr, count ? count : 1, size ? size : 1));
}

char *xstrdup(const char *text)
{
	return check(strdup(text));
}

char *xasprintf(const char *fmt, ...)
{
	va_list args;
	char *text;
	int len;

	va_start(args, fmt);
	len = vasprintf(&text, fmt, args);
	va_end(args);
	return check(len < 0 ? NULL : text);
}

void *xgrow(void *array, size_t n, size_t *cap, size_t size)
{
	if (n < *cap)
		return array;
	*cap = *cap ? *cap * 2 : 16;
	return xreallocarray(array, *cap, size);
}
