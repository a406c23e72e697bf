// SPDX-License-Identifier: GPL-2.0-or-later
#include "ksyms.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/log.h"
#include "util/xalloc.h"

#define MAX_LINE 1024 /* names have at most 512 bytes (KSYM_NAME_LEN) */

/*
 * What follows the last symbol of a module or BPF program is unknown; no function is longer than
 * this, and code loaded later must not take the name of its neighbour.
 */
#define MAX_LAST_BYTES (64 * 1024)

struct ksym {
	uint64_t addr;
	uint32_t name; /* offset in names */
	uint16_t module;
	char type; /* 0: not a function, only bounds the one before */
};

struct kmodule {
	char name[64];	     /* with brackets */
	uint64_t start, end; /* 0: unknown */
};

struct ksyms {
	struct ksym *v;
	size_t n, cap;
	char *names;
	size_t names_len, names_cap;
	struct kmodule *modules; /* the first is the kernel itself */
	size_t n_modules, modules_cap;
};

static size_t add_module(struct ksyms *ks, const char *name)
{
	struct kmodule *module;

	ks->modules = xgrow(ks->modules, ks->n_modules, &ks->modules_cap, sizeof(*ks->modules));
	module = &ks->modules[ks->n_modules];
	memset(module, 0, sizeof(*module));
	snprintf(module->name, sizeof(module->name), "%s", name);
	return ks->n_modules++;
}

/* Symbols of a module come together, so the one that was found last is tried first. */
static size_t find_module(struct ksyms *ks, const char *name, size_t last)
{
	if (!strcmp(ks->modules[last].name, name))
		return last;
	for (size_t i = 0; i < ks->n_modules; i++)
		if (!strcmp(ks->modules[i].name, name))
			return i;
	if (ks->n_modules > UINT16_MAX)
		return last;
	return add_module(ks, name);
}

static uint32_t add_name(struct ksyms *ks, const char *name)
{
	size_t len = strlen(name) + 1;
	uint32_t at = ks->names_len;

	if (ks->names_len + len > ks->names_cap) { /* len < MAX_LINE */
		ks->names_cap = ks->names_cap ? ks->names_cap * 2 : 1 << 20;
		ks->names = xreallocarray(ks->names, ks->names_cap, 1);
	}
	memcpy(ks->names + at, name, len);
	ks->names_len += len;
	return at;
}

static void note_text_bound(struct ksyms *ks, const char *name, uint64_t addr)
{
	if (!strcmp(name, "_stext"))
		ks->modules[0].start = addr;
	else if (!strcmp(name, "_etext"))
		ks->modules[0].end = addr;
}

/*
 * "ffffffffa0000000 t name\t[module]", cut up in place. By hand: scanf takes longer over the
 * 100,000 lines than the kernel takes to print them.
 */
static bool split_line(char *line, uint64_t *addr, char *type, char **name, char **module)
{
	char *p;

	*addr = strtoull(line, &p, 16);
	if (p[0] != ' ' || !p[1] || p[2] != ' ')
		return false;
	*type = p[1];
	*name = p + 3;
	p = *name + strcspn(*name, " \t\n");
	*module = *p == '\t' ? p + 1 : NULL;
	*p = 0;
	if (*module)
		(*module)[strcspn(*module, " \t\n")] = 0;
	return **name;
}

/* Returns the symbol's module, to be tried first for the next one. */
static size_t parse_symbol(struct ksyms *ks, char *line, size_t module)
{
	char *name, *owner, type;
	struct ksym *sym;
	uint64_t addr;
	bool text;

	if (!split_line(line, &addr, &type, &name, &owner) || !addr)
		return module;
	text = strchr("tTwW", type);
	module = owner ? find_module(ks, owner, module) : 0;
	if (!module)
		note_text_bound(ks, name, addr);
	ks->v = xgrow(ks->v, ks->n, &ks->cap, sizeof(*ks->v));
	sym = &ks->v[ks->n++];
	sym->addr = addr;
	sym->name = text ? add_name(ks, name) : 0;
	sym->module = module;
	sym->type = text ? type : 0;
	return module;
}

static int read_kallsyms(struct ksyms *ks, const char *path)
{
	FILE *file = fopen(path, "re");
	char line[MAX_LINE];
	size_t module = 0, lines = 0;

	if (!file) {
		log__warn("cannot name kernel functions: cannot read '%s': %s", path,
			  strerror(errno));
		return -errno;
	}
	while (fgets(line, sizeof(line), file)) {
		lines++;
		module = parse_symbol(ks, line, module);
	}
	fclose(file);
	if (lines && !ks->n) {
		log__warn(
			"cannot name kernel functions: '%s' hides its addresses; run as root with "
			"'sysctl kernel.kptr_restrict=1'",
			path);
		return -EPERM;
	}
	return 0;
}

/* "name size uses users state 0xaddress" */
static void read_modules(struct ksyms *ks, const char *path)
{
	FILE *file = fopen(path, "re");
	unsigned long long start, size;
	char line[4096], name[60], bracketed[62];
	size_t last = 0;

	if (!file)
		return;
	while (fgets(line, sizeof(line), file)) {
		const char *addr = strstr(line, " 0x");

		if (!addr || sscanf(line, "%59s %llu", name, &size) != 2)
			continue;
		start = strtoull(addr, NULL, 16);
		snprintf(bracketed, sizeof(bracketed), "[%.59s]", name);
		last = find_module(ks, bracketed, last);
		ks->modules[last].start = start;
		ks->modules[last].end = start ? start + size : 0;
	}
	fclose(file);
}

static unsigned underscores(const char *name)
{
	return strspn(name, "_");
}

static int rank(char type)
{
	return type == 'T' ? 3 : type == 'W' || type == 'w' ? 2 : type == 't' ? 1 : 0;
}

/* By address; of several at one address the best to show comes first. */
static int compare(const void *a, const void *b, void *arg)
{
	const struct ksym *x = a, *y = b;
	const struct ksyms *ks = arg;
	const char *p, *q;
	size_t m, n;

	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	if (rank(x->type) != rank(y->type))
		return rank(y->type) - rank(x->type);
	if (!x->type)
		return 0;
	p = ks->names + x->name;
	q = ks->names + y->name;
	if (underscores(p) != underscores(q))
		return underscores(p) < underscores(q) ? -1 : 1;
	m = strlen(p);
	n = strlen(q);
	return m != n ? (m < n ? -1 : 1) : strcmp(p, q);
}

static void keep_best(struct ksyms *ks)
{
	size_t n = 0;

	for (size_t i = 0; i < ks->n; i++)
		if (!n || ks->v[n - 1].addr != ks->v[i].addr)
			ks->v[n++] = ks->v[i];
	ks->n = n;
}

struct ksyms *ksyms__new(const char *kallsyms_path, const char *modules_path)
{
	struct ksyms *ks = xcalloc(1, sizeof(*ks));

	add_module(ks, "[kernel]");
	if (read_kallsyms(ks, kallsyms_path ? kallsyms_path : "/proc/kallsyms"))
		return ks;
	read_modules(ks, modules_path ? modules_path : "/proc/modules");
	if (ks->n)
		qsort_r(ks->v, ks->n, sizeof(*ks->v), compare, ks);
	keep_best(ks);
	return ks;
}

void ksyms__free(struct ksyms *ks)
{
	if (!ks)
		return;
	free(ks->v);
	free(ks->names);
	free(ks->modules);
	free(ks);
}

/* Whether a function that begins at 'sym' and is the last before 'addr' can reach there. */
static bool reaches(const struct ksyms *ks, const struct ksym *sym, uint64_t addr)
{
	const struct kmodule *module = &ks->modules[sym->module];
	bool last = sym + 1 == ks->v + ks->n || sym[1].module != sym->module;

	if (module->end && (addr < module->start || addr >= module->end))
		return false;
	/* BPF programs come and go, and lie apart: each is the last of its kind. */
	last |= sym->module && !module->end;
	return !last || addr - sym->addr < MAX_LAST_BYTES;
}

const char *ksyms__find(const struct ksyms *ks, uint64_t addr, const char **module)
{
	size_t lo = 0, hi = ks->n;
	const struct ksym *sym;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (ks->v[mid].addr <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (!lo)
		return NULL;
	sym = &ks->v[lo - 1];
	if (!sym->type || !reaches(ks, sym, addr))
		return NULL;
	*module = ks->modules[sym->module].name;
	return ks->names + sym->name;
}
