// SPDX-License-Identifier: GPL-2.0-or-later
#include "demangle.h"

#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/xalloc.h"

/* libiberty itself refuses C++ names over 1,024 bytes (its stack use grows with them). */
#define MAX_INPUT  4096
#define MAX_OUTPUT (16 * 1024)
/* Two D back references ("Q") can double what they refer to. */
#define MAX_D_BACKREFS 24

#define OPTIONS (DMGL_PARAMS | DMGL_ANSI)

/*
 * libiberty has allocators under the same names as util/xalloc. It uses this one too; without it
 * the linker would take its whole set and find the others defined twice.
 */
void *xrealloc(void *ptr, size_t size);

void *xrealloc(void *ptr, size_t size)
{
	return xreallocarray(ptr, size, 1);
}

struct output {
	jmp_buf overflow;
	size_t len;
	char text[MAX_OUTPUT + 1];
};

/* The only way to stop libiberty's printers is to jump out of them; they hold no memory here. */
static void append(const char *text, size_t len, void *arg)
{
	struct output *out = arg;

	if (len > MAX_OUTPUT - out->len)
		longjmp(out->overflow, 1);
	memcpy(out->text + out->len, text, len);
	out->len += len;
}

typedef int (*demangler)(const char *, int, demangle_callbackref, void *);

static char *run(demangler fn, const char *name)
{
	/* static: too large for the stack, and what changes after setjmp must not be in registers
	 */
	static __thread struct output out;

	out.len = 0;
	if (setjmp(out.overflow) || !fn(name, OPTIONS, append, &out))
		return NULL;
	out.text[out.len] = 0;
	return out.len ? xstrdup(out.text) : NULL;
}

/* LLVM appends ".llvm.HASH" to local names that it promotes, which the Rust demangler may refuse.
 */
static char *rust(const char *name)
{
	const char *suffix = strstr(name, ".llvm.");
	char *cut, *text = run(rust_demangle_callback, name);

	if (text || !suffix)
		return text;
	cut = xasprintf("%.*s", (int)(suffix - name), name);
	text = run(rust_demangle_callback, cut);
	free(cut);
	return text;
}

static char *dlang(const char *name)
{
	unsigned backrefs = 0;
	const char *p;
	char *text;

	for (p = name; *p; p++)
		backrefs += *p == 'Q';
	text = backrefs > MAX_D_BACKREFS ? NULL : dlang_demangle(name, OPTIONS);
	if (!text || strlen(text) <= MAX_OUTPUT)
		return text;
	free(text);
	return NULL;
}

char *demangle__name(const char *name)
{
	char *text;

	if (name[0] != '_' || strnlen(name, MAX_INPUT + 1) > MAX_INPUT)
		return NULL;
	if (name[1] == 'R')
		return rust(name);
	if (name[1] == 'D')
		return dlang(name);
	if (name[1] == 'Z') {
		text = rust(name);
		return text ? text : run(cplus_demangle_v3_callback, name);
	}
	if (!strncmp(name, "_GLOBAL_", 8))
		return run(cplus_demangle_v3_callback, name);
	return NULL;
}
