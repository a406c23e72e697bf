// SPDX-License-Identifier: GPL-2.0-or-later
#include "usyms.h"

#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>

#include "debugfile.h"
#include "elfsyms.h"
#include "fdes.h"
#include "plt.h"
#include "util/log.h"
#include "util/mapguard.h"
#include "util/xalloc.h"

/* Compressed DWARF is unpacked to memory, all at once; beyond this only symbols are used. */
#define MAX_UNPACKED_BYTES (512ULL << 20)

struct usyms {
	struct usyms_source source;
	bool loaded, broken;
	struct usyms *next_broken;
	struct elf_file file, debug, mini, alt;
	int64_t debug_bias; /* address in the file - address in the debug file */
	struct elfsyms *symbols;
	bool dwarf_tried, full_said;
	Dwarf *dwarf, *alt_dwarf;
	int64_t dwarf_bias;
	struct inlines *inlines;
};

struct usyms *usyms__new(const struct usyms_source *source)
{
	struct usyms *us = xcalloc(1, sizeof(*us));

	us->source = *source;
	return us;
}

/* libelf and libdw were cut off in the middle: nothing that they or we hold can be freed. */
static void abandon(struct usyms *us)
{
	static struct usyms *abandoned;

	us->next_broken = abandoned;
	abandoned = us;
}

void usyms__free(struct usyms *us)
{
	if (!us)
		return;
	if (us->broken) {
		abandon(us);
		return;
	}
	inlines__free(us->inlines);
	dwarf_end(us->dwarf);
	dwarf_end(us->alt_dwarf);
	elfsyms__free(us->symbols);
	elf_file__close(&us->alt);
	elf_file__close(&us->mini);
	elf_file__close(&us->debug);
	elf_file__close(&us->file);
	free(us);
}

static bool open_file(struct usyms *us)
{
	const struct usyms_source *source = &us->source;
	int fd;

	if (source->image)
		return elf_file__open_image(&us->file, source->image, source->image_size);
	fd = source->fd < 0 ? -1 : fcntl(source->fd, F_DUPFD_CLOEXEC, 0);
	return fd >= 0 && elf_file__open(&us->file, fd);
}

static bool first_load(Elf *elf, uint64_t *vaddr)
{
	GElf_Phdr phdr;
	size_t n;

	if (elf_getphdrnum(elf, &n))
		return false;
	for (size_t i = 0; i < n; i++) {
		if (gelf_getphdr(elf, i, &phdr) && phdr.p_type == PT_LOAD) {
			*vaddr = phdr.p_vaddr;
			return true;
		}
	}
	return false;
}

/* Not 0 if the file was moved (prelinked) after its debug file was split off. */
static int64_t find_bias(Elf *file, Elf *debug)
{
	uint64_t x, y;

	return first_load(file, &x) && first_load(debug, &y) ? (int64_t)(x - y) : 0;
}

static void find_debug_file(struct usyms *us)
{
	struct debug_query query = {
		.elf = us->file.elf,
		.path = us->source.path ? us->source.path : "",
		.pid = us->source.pid,
		.debuginfod = us->source.debuginfod,
	};

	if (us->source.image || !debugfile__find(&query, &us->debug))
		return;
	us->debug_bias = find_bias(us->file.elf, us->debug.elf);
	log__info("debug information of '%s' found in a separate file", log__safe(query.path));
}

static bool has_dwarf(const struct elf_file *file)
{
	return file->elf && (elf_file__has_section(file, ".debug_info") ||
			     elf_file__has_section(file, ".zdebug_info"));
}

static void load(struct usyms *us)
{
	bool complete;

	us->symbols = elfsyms__new();
	if (!open_file(us))
		return;
	complete = elf_file__has_section(&us->file, ".symtab");
	if (!complete || !has_dwarf(&us->file))
		find_debug_file(us);
	elfsyms__add(us->symbols, us->file.elf, 0, false);
	if (us->debug.elf) {
		complete |= elf_file__has_section(&us->debug, ".symtab");
		elfsyms__add(us->symbols, us->debug.elf, us->debug_bias, false);
	}
	if (!complete && debugfile__unpack_mini(us->file.elf, &us->mini))
		elfsyms__add(us->symbols, us->mini.elf, 0, true);
	elfsyms__finish(us->symbols);
}

static uint64_t unpacked_bytes(Elf *elf)
{
	Elf_Scn *scn = NULL;
	uint64_t total = 0;
	GElf_Shdr shdr;
	GElf_Chdr chdr;

	while ((scn = elf_nextscn(elf, scn))) {
		if (!gelf_getshdr(scn, &shdr) || !(shdr.sh_flags & SHF_COMPRESSED) ||
		    !gelf_getchdr(scn, &chdr))
			continue;
		if (chdr.ch_size > MAX_UNPACKED_BYTES)
			return chdr.ch_size;
		total += chdr.ch_size;
	}
	return total;
}

/*
 * Part of the DWARF may lie in a common file (dwz). Without that file strings and functions would
 * be missing, and libdw must not look for it by itself: it would open whatever is called so.
 */
static bool open_alt(struct usyms *us)
{
	struct debug_query query = {.elf = us->file.elf, .pid = us->source.pid};
	const char *name;
	const void *id;
	ssize_t len = dwelf_dwarf_gnu_debugaltlink(us->dwarf, &name, &id);

	if (!len)
		return true;
	if (len < 0 || !debugfile__find_alt(&query, name, id, len, &us->alt))
		return false;
	if (unpacked_bytes(us->alt.elf) > MAX_UNPACKED_BYTES)
		return false;
	us->alt_dwarf = dwarf_begin_elf(us->alt.elf, DWARF_C_READ, NULL);
	if (!us->alt_dwarf)
		return false;
	dwarf_setalt(us->dwarf, us->alt_dwarf);
	return true;
}

static void open_dwarf(struct usyms *us)
{
	const struct elf_file *file = has_dwarf(&us->file) ? &us->file : &us->debug;

	us->dwarf_tried = true;
	if (!has_dwarf(file))
		return;
	if (unpacked_bytes(file->elf) > MAX_UNPACKED_BYTES) {
		log__warn("debug information of '%s' is too large when unpacked: no inlined "
			  "functions and lines for it",
			  log__safe(us->source.path));
		return;
	}
	us->dwarf_bias = file == &us->debug ? us->debug_bias : 0;
	us->dwarf = dwarf_begin_elf(file->elf, DWARF_C_READ, NULL);
	if (us->dwarf && open_alt(us))
		us->inlines = inlines__new(us->dwarf);
}

/* A symbol without size reaches no further than where another function begins. */
static bool find_symbol(struct usyms *us, uint64_t vaddr, struct source_frame *frame)
{
	struct elfsym_hit hit;

	if (!elfsyms__find(us->symbols, vaddr, &hit))
		return false;
	if (hit.guessed && fdes__begin_between(us->file.elf, hit.start, vaddr))
		return false;
	frame->name = hit.name;
	return true;
}

static bool find_plt(struct usyms *us, uint64_t vaddr, struct source_frame *frame)
{
	if (us->file.elf)
		frame->name = plt__find(us->file.elf, vaddr);
	frame->plt = frame->name;
	return frame->plt;
}

/* Inlined functions without a name say nothing. */
static int drop_unnamed(struct source_frame *frames, int n)
{
	int kept = 0;

	for (int i = 0; i < n; i++)
		if (!frames[i].inlined || frames[i].name)
			frames[kept++] = frames[i];
	return kept;
}

struct lookup {
	struct usyms *us;
	uint64_t vaddr;
	struct source_frame *frames;
	int max, n;
};

static int find_in_dwarf(struct lookup *look)
{
	struct usyms *us = look->us;
	int n;

	if (!us->dwarf_tried)
		open_dwarf(us);
	if (!us->inlines)
		return 0;
	n = inlines__find(us->inlines, look->vaddr - us->dwarf_bias, look->frames, look->max);
	if (inlines__is_full(us->inlines) && !us->full_said) {
		us->full_said = true;
		log__warn("'%s' has too much debug information: some inlined functions and lines "
			  "are left out",
			  log__safe(us->source.path ? us->source.path : "?"));
	}
	return drop_unnamed(look->frames, n);
}

/*
 * The function itself is named after its symbol, which tells clones ("f.cold", "f.part.0") apart;
 * DWARF names it only where symbols are missing.
 */
static void find(void *arg)
{
	struct lookup *look = arg;
	struct usyms *us = look->us;
	struct source_frame *last;

	if (!us->loaded)
		load(us);
	us->loaded = true;
	look->n = find_in_dwarf(look);
	if (!look->n) {
		look->frames[0] = (struct source_frame){0};
		look->n = 1;
	}
	last = &look->frames[look->n - 1];
	if (!find_symbol(us, look->vaddr, last) && !last->name)
		find_plt(us, look->vaddr, last);
	if (look->n == 1 && !last->name && !last->file)
		look->n = 0;
}

int usyms__find(struct usyms *us, uint64_t vaddr, struct source_frame *frames, int max)
{
	struct lookup look = {us, vaddr, frames, max, 0};

	if (us->broken)
		return 0;
	if (mapguard__run(find, &look))
		return look.n;
	log__warn("'%s' was cut short while its symbols were read: they are not used",
		  log__safe(us->source.path ? us->source.path : "?"));
	us->broken = true;
	return 0;
}
