// SPDX-License-Identifier: GPL-2.0-or-later
#include "symbolize.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "demangle.h"
#include "ksyms.h"
#include "module.h"
#include "perfmap.h"
#include "procmap.h"
#include "usyms.h"
#include "util/log.h"
#include "util/text.h"
#include "util/xalloc.h"

#define uthash_malloc(size)    xmalloc(size)
#define uthash_free(ptr, size) free(ptr)
#include <uthash.h>

#define MAX_TEXT   4096 /* longer names are cut */
#define MAX_FRAMES 64	/* of one address */

/* A string that frames point to. */
struct string {
	UT_hash_handle hh;
	char text[];
};

/* What a symbol's name is shown as. */
struct shown {
	UT_hash_handle hh;
	const char *text;
	char symbol[];
};

struct place_key {
	struct module *module;
	uint64_t vaddr;
	uint64_t return_address;
};

/* A resolved address of a file. */
struct place {
	struct place_key key;
	UT_hash_handle hh;
	bool named;
	int n;
	struct frame frames[];
};

struct jit {
	pid_t pid;
	struct perfmap *map;
	UT_hash_handle hh;
};

struct symbolizer {
	struct symbolizer_opts opts;
	struct procmaps *pm;
	struct ksyms *ksyms; /* NULL: not read yet */
	struct string *strings;
	struct shown *shown;
	struct place *places;
	struct jit *jits;
	/* the strings of the module that was needed last */
	struct module *module;
	const char *module_path, *module_build_id;
};

struct symbolizer *symbolizer__new(const struct symbolizer_opts *opts, struct procmaps *pm)
{
	struct symbolizer *sym = xcalloc(1, sizeof(*sym));

	sym->opts = *opts;
	sym->pm = pm;
	return sym;
}

static void free_jits(struct symbolizer *sym)
{
	struct jit *jit, *next;

	HASH_ITER (hh, sym->jits, jit, next) {
		HASH_DEL(sym->jits, jit);
		perfmap__free(jit->map);
		free(jit);
	}
}

/* Per-file tables hang on the modules and refer to nothing of ours. */
void symbolizer__free(struct symbolizer *sym)
{
	struct string *string, *next_string;
	struct shown *shown, *next_shown;
	struct place *place, *next_place;

	if (!sym)
		return;
	HASH_ITER (hh, sym->strings, string, next_string) {
		HASH_DEL(sym->strings, string);
		free(string);
	}
	HASH_ITER (hh, sym->shown, shown, next_shown) {
		HASH_DEL(sym->shown, shown);
		free(shown);
	}
	HASH_ITER (hh, sym->places, place, next_place) {
		HASH_DEL(sym->places, place);
		free(place);
	}
	free_jits(sym);
	ksyms__free(sym->ksyms);
	free(sym);
}

/* The one copy of 'text', made printable; NULL stays NULL. */
static const char *intern(struct symbolizer *sym, const char *text)
{
	char buf[MAX_TEXT];
	struct string *string;
	size_t len;

	if (!text)
		return NULL;
	len = text__printable(buf, sizeof(buf), text);
	HASH_FIND(hh, sym->strings, buf, len, string);
	if (!string) {
		string = xmalloc(sizeof(*string) + len + 1);
		memcpy(string->text, buf, len + 1);
		HASH_ADD_KEYPTR(hh, sym->strings, string->text, len, string);
	}
	return string->text;
}

/* Symbol versions ("memcpy@@GLIBC_2.14") say nothing to a reader. */
static const char *beautify(struct symbolizer *sym, const char *symbol)
{
	size_t len = strcspn(symbol, "@");
	char *name = len ? xasprintf("%.*s", (int)len, symbol) : xstrdup(symbol);
	char *text = demangle__name(name);
	const char *result = intern(sym, text ? text : name);

	free(text);
	free(name);
	return result;
}

static const char *show(struct symbolizer *sym, const char *symbol)
{
	struct shown *shown;
	size_t len = strnlen(symbol, MAX_TEXT);

	HASH_FIND(hh, sym->shown, symbol, len, shown);
	if (!shown) {
		shown = xmalloc(sizeof(*shown) + len + 1);
		memcpy(shown->symbol, symbol, len);
		shown->symbol[len] = 0;
		shown->text = beautify(sym, shown->symbol);
		HASH_ADD_KEYPTR(hh, sym->shown, shown->symbol, len, shown);
	}
	return shown->text;
}

static void free_table(void *table)
{
	usyms__free(table);
}

static struct usyms *table_of(struct symbolizer *sym, struct module *module)
{
	struct usyms_source source = {
		.fd = module__fd(module),
		.path = module__path(module),
		.pid = module__pid(module),
		.debuginfod = sym->opts.debuginfod,
	};
	struct usyms *table = module__symbols(module);

	if (!table) {
		source.image = module__image(module, &source.image_size);
		table = usyms__new(&source);
		module__set_symbols(module, table, free_table);
	}
	return table;
}

static const char *offset_name(struct symbolizer *sym, const struct module *module, uint64_t vaddr)
{
	char *text = xasprintf("%s+0x%" PRIx64, module__name(module), vaddr);
	const char *name = intern(sym, text);

	free(text);
	return name;
}

static const char *plt_name(struct symbolizer *sym, const char *symbol)
{
	char *text = xasprintf("%s@plt", show(sym, symbol));
	const char *name = intern(sym, text);

	free(text);
	return name;
}

static const char *name_of(struct symbolizer *sym, const struct source_frame *from,
			   const struct place_key *key)
{
	if (!from->name)
		return offset_name(sym, key->module, key->vaddr + key->return_address);
	return from->plt ? plt_name(sym, from->name) : show(sym, from->name);
}

static void set_module(struct symbolizer *sym, struct module *module)
{
	if (sym->module == module)
		return;
	sym->module = module;
	sym->module_path = intern(sym, module__path(module));
	sym->module_build_id = intern(sym, module__build_id(module));
}

static struct place *resolve(struct symbolizer *sym, const struct place_key *key)
{
	struct source_frame found[MAX_FRAMES];
	int n = usyms__find(table_of(sym, key->module), key->vaddr, found,
			    sym->opts.no_inline ? 1 : MAX_FRAMES);
	struct place *place;

	if (!n)
		found[n++] = (struct source_frame){0};
	set_module(sym, key->module);
	place = xmalloc(sizeof(*place) + n * sizeof(place->frames[0]));
	place->key = *key;
	place->n = n;
	place->named = found[n - 1].name;
	for (int i = 0; i < n; i++)
		place->frames[i] = (struct frame){
			.kind = FRAME_USER,
			.inlined = found[i].inlined,
			.line = found[i].line,
			.addr = key->vaddr + key->return_address,
			.func = name_of(sym, &found[i], key),
			.module = sym->module_path,
			.build_id = sym->module_build_id,
			.file = intern(sym, found[i].file),
		};
	HASH_ADD(hh, sym->places, key, sizeof(*key), place);
	return place;
}

static const struct place *find_place(struct symbolizer *sym, const struct place_key *key)
{
	struct place *place;

	HASH_FIND(hh, sym->places, key, sizeof(*key), place);
	return place ? place : resolve(sym, key);
}

/* All but the outermost frames that do not fit are kept. */
static int copy_frames(const struct place *place, struct frame *frames, int max)
{
	int n = place->n < max ? place->n : max;

	memcpy(frames, place->frames, n * sizeof(*frames));
	frames[n - 1] = place->frames[place->n - 1];
	return n;
}

static bool find_jit(struct symbolizer *sym, pid_t pid, uint64_t addr, uint64_t lookup,
		     struct frame *frame)
{
	const char *name;
	struct jit *jit;

	HASH_FIND(hh, sym->jits, &pid, sizeof(pid), jit);
	name = jit ? perfmap__find(jit->map, lookup) : NULL;
	if (!name)
		return false;
	*frame = (struct frame){
		.kind = FRAME_JIT,
		.addr = addr,
		.func = intern(sym, name),
		.module = intern(sym, "[jit]"),
	};
	return true;
}

static int find_file(struct symbolizer *sym, const struct mapping *mapping, pid_t pid,
		     uint64_t addr, uint64_t lookup, struct frame *frames, int max)
{
	struct place_key key = {
		.module = mapping->module,
		.vaddr = module__vaddr(mapping->module, lookup - mapping->start + mapping->offset),
		.return_address = addr - lookup,
	};
	const struct place *place = find_place(sym, &key);

	/* runtimes may also map their code cache from a file */
	if (!place->named && find_jit(sym, pid, addr, lookup, frames))
		return 1;
	return copy_frames(place, frames, max);
}

int symbolizer__user(struct symbolizer *sym, pid_t pid, uint64_t time_ns, uint64_t addr,
		     bool return_address, struct frame *frames, int max)
{
	uint64_t lookup = addr - (return_address && addr);
	const struct mapping *mapping = procmaps__find(sym->pm, pid, time_ns, lookup);

	if (mapping && mapping->module)
		return find_file(sym, mapping, pid, addr, lookup, frames, max);
	if (!find_jit(sym, pid, addr, lookup, frames))
		frames[0] = (struct frame){
			.kind = FRAME_USER,
			.addr = addr,
			.func = "[unknown]",
		};
	return 1;
}

int symbolizer__kernel(struct symbolizer *sym, uint64_t addr, bool return_address,
		       struct frame *frame)
{
	const char *name, *module = "[kernel]";

	if (!sym->ksyms)
		sym->ksyms = ksyms__new(NULL, NULL);
	name = ksyms__find(sym->ksyms, addr - (return_address && addr), &module);
	*frame = (struct frame){
		.kind = FRAME_KERNEL,
		.addr = addr,
		.func = name ? name : "[unknown]",
		.module = module,
	};
	return 1;
}

void symbolizer__read_perf_map(struct symbolizer *sym, pid_t pid)
{
	struct jit *jit;
	int err;

	HASH_FIND(hh, sym->jits, &pid, sizeof(pid), jit);
	if (!jit) {
		jit = xcalloc(1, sizeof(*jit));
		jit->pid = pid;
		jit->map = perfmap__new();
		HASH_ADD(hh, sym->jits, pid, sizeof(pid), jit);
	}
	err = perfmap__read(jit->map, pid);
	if (err && err != -ENOENT && err != -ESRCH)
		log__info("perf map of process %d not read: %s", (int)pid, strerror(-err));
}
