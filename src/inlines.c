// SPDX-License-Identifier: GPL-2.0-or-later
#include "inlines.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "ranges.h"
#include "util/xalloc.h"

/* Broken DWARF may have loops: steps that one search may take, and nesting. */
#define MAX_STEPS	(8 * 1000 * 1000)
#define MAX_SCOPES	32		  /* of namespaces and types around functions */
#define MAX_UNITS_BYTES (64ULL << 20)	  /* of DIEs, of the units that are read */
#define MAX_INLINED	64		  /* chain of inlined functions */
#define MAX_RANGES	(4 * 1000 * 1000) /* of a unit, of all units */

struct unit {
	Dwarf_Off offset; /* of its DIE */
	uint64_t size;
	bool has_aranges;
	bool listed; /* die and functions are set */
	Dwarf_Die die;
	struct ranges functions; /* id: index in dies */
	Dwarf_Die *dies;
	size_t n, cap;
};

struct inlines {
	Dwarf *dwarf;
	bool listed, complete, full;
	struct ranges ranges; /* id: index of the unit */
	struct unit *units;   /* in order of offset */
	size_t n, cap;
	uint64_t bytes; /* size of the units listed */
	unsigned steps; /* left */
};

struct inlines *inlines__new(Dwarf *dwarf)
{
	struct inlines *in = xcalloc(1, sizeof(*in));

	in->dwarf = dwarf;
	return in;
}

void inlines__free(struct inlines *in)
{
	if (!in)
		return;
	for (size_t i = 0; i < in->n; i++) {
		ranges__clear(&in->units[i].functions);
		free(in->units[i].dies);
	}
	free(in->units);
	ranges__clear(&in->ranges);
	free(in);
}

/* Functions that the linker dropped keep their DWARF, at address 0. */
static void add_ranges(struct ranges *ranges, Dwarf_Die *die, uint32_t id)
{
	Dwarf_Addr base, start, end;
	ptrdiff_t at = 0;

	while (ranges->n < MAX_RANGES) {
		at = dwarf_ranges(die, at, &base, &start, &end);
		if (at <= 0)
			break;
		if (start)
			ranges__add(ranges, start, end, id);
	}
}

/* Reads the units' headers only. */
static void list_units(struct inlines *in)
{
	Dwarf_Off at = 0, next;
	size_t header;

	while (!dwarf_next_unit(in->dwarf, at, &next, &header, NULL, NULL, NULL, NULL, NULL,
				NULL)) {
		in->units = xgrow(in->units, in->n, &in->cap, sizeof(*in->units));
		in->units[in->n++] = (struct unit){.offset = at + header, .size = next - at};
		at = next;
	}
}

static int compare_offset(const void *key, const void *member)
{
	Dwarf_Off offset = *(const Dwarf_Off *)key;
	const struct unit *unit = member;

	return (offset > unit->offset) - (offset < unit->offset);
}

static void add_arange(struct inlines *in, Dwarf_Arange *arange)
{
	struct unit *unit;
	Dwarf_Addr start;
	Dwarf_Word len;
	Dwarf_Off offset;

	if (dwarf_getarangeinfo(arange, &start, &len, &offset) || !start)
		return;
	unit = bsearch(&offset, in->units, in->n, sizeof(*unit), compare_offset);
	if (!unit)
		return;
	unit->has_aranges = true;
	ranges__add(&in->ranges, start, start + len, unit - in->units);
}

/*
 * The ranges of units come from .debug_aranges: to read them from the units' DIEs costs libdw some
 * 15 KB for each.
 */
static void read_aranges(struct inlines *in)
{
	Dwarf_Aranges *aranges;
	size_t n;

	if (!in->n || dwarf_getaranges(in->dwarf, &aranges, &n))
		return;
	for (size_t i = 0; i < n; i++)
		add_arange(in, dwarf_onearange(aranges, i));
	ranges__flatten(&in->ranges);
}

/* Compilers other than gcc leave .debug_aranges out: the DIEs of such units are read after all. */
static void read_other_units(struct inlines *in)
{
	Dwarf_Die die;

	for (size_t i = 0; i < in->n; i++) {
		if (in->units[i].has_aranges || !dwarf_offdie(in->dwarf, in->units[i].offset, &die))
			continue;
		if (dwarf_tag(&die) == DW_TAG_compile_unit ||
		    dwarf_tag(&die) == DW_TAG_skeleton_unit)
			add_ranges(&in->ranges, &die, i);
	}
	ranges__flatten(&in->ranges);
}

static const struct range *find_range(struct inlines *in, uint64_t pc)
{
	const struct range *range;

	if (!in->listed) {
		list_units(in);
		read_aranges(in);
	}
	in->listed = true;
	range = ranges__find(&in->ranges, pc);
	if (range || in->complete)
		return range;
	in->complete = true;
	read_other_units(in);
	return ranges__find(&in->ranges, pc);
}

static bool step(struct inlines *in)
{
	if (!in->steps)
		return false;
	in->steps--;
	return true;
}

static bool holds_functions(int tag)
{
	switch (tag) {
	case DW_TAG_namespace:
	case DW_TAG_module:
	case DW_TAG_class_type:
	case DW_TAG_structure_type:
	case DW_TAG_union_type:
	case DW_TAG_interface_type:
	case DW_TAG_enumeration_type: /* Rust */
		return true;
	default:
		return false;
	}
}

static void add_function(struct unit *unit, Dwarf_Die *die)
{
	unit->dies = xgrow(unit->dies, unit->n, &unit->cap, sizeof(*unit->dies));
	unit->dies[unit->n] = *die;
	add_ranges(&unit->functions, die, unit->n++);
}

/* Functions nested in functions (Ada, GNU C) are left out: they keep their symbol's name. */
static void list_functions(struct inlines *in, struct unit *unit, Dwarf_Die *parent, int depth)
{
	Dwarf_Die die;

	if (depth > MAX_SCOPES || dwarf_child(parent, &die))
		return;
	do {
		int tag = dwarf_tag(&die);

		if (tag == DW_TAG_subprogram) {
			if (dwarf_hasattr(&die, DW_AT_low_pc) || dwarf_hasattr(&die, DW_AT_ranges))
				add_function(unit, &die);
		} else if (holds_functions(tag)) {
			list_functions(in, unit, &die, depth + 1);
		}
	} while (step(in) && !dwarf_siblingof(&die, &die));
}

static struct unit *find_unit(struct inlines *in, uint64_t pc)
{
	const struct range *range = find_range(in, pc);
	struct unit *unit = range ? &in->units[range->id] : NULL;

	if (!unit || unit->listed)
		return unit;
	in->full |= in->bytes + unit->size > MAX_UNITS_BYTES;
	if (in->full || !dwarf_offdie(in->dwarf, unit->offset, &unit->die))
		return NULL;
	list_functions(in, unit, &unit->die, 0);
	ranges__flatten(&unit->functions);
	in->bytes += unit->size;
	unit->listed = true;
	return unit;
}

bool inlines__is_full(const struct inlines *in)
{
	return in->full;
}

static bool is_scope(int tag)
{
	switch (tag) {
	case DW_TAG_lexical_block:
	case DW_TAG_inlined_subroutine:
	case DW_TAG_try_block:
	case DW_TAG_catch_block:
	case DW_TAG_with_stmt:
		return true;
	default:
		return false;
	}
}

/* The child of 'parent' that is a scope around 'pc'. */
static bool find_scope(struct inlines *in, Dwarf_Die *parent, uint64_t pc, Dwarf_Die *child)
{
	if (dwarf_child(parent, child))
		return false;
	do {
		if (is_scope(dwarf_tag(child)) && dwarf_haspc(child, pc) > 0)
			return true;
	} while (step(in) && !dwarf_siblingof(child, child));
	return false;
}

/* The functions inlined at 'pc', outermost first. */
static int find_chain(struct inlines *in, Dwarf_Die *function, uint64_t pc, Dwarf_Die *chain)
{
	Dwarf_Die scope = *function, child;
	int n = 0;

	while (n < MAX_INLINED && find_scope(in, &scope, pc, &child)) {
		if (dwarf_tag(&child) == DW_TAG_inlined_subroutine)
			chain[n++] = child;
		scope = child;
	}
	return n;
}

static const char *function_name(Dwarf_Die *die)
{
	static const unsigned names[] = {DW_AT_linkage_name, DW_AT_MIPS_linkage_name, DW_AT_name};
	Dwarf_Attribute attr;
	const char *name;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		name = dwarf_formstring(dwarf_attr_integrate(die, names[i], &attr));
		if (name && *name)
			return name;
	}
	return NULL;
}

static void set_pc_line(Dwarf_Die *unit, uint64_t pc, struct source_frame *frame)
{
	Dwarf_Line *line = dwarf_getsrc_die(unit, pc);
	int number;

	if (!line)
		return;
	frame->file = dwarf_linesrc(line, NULL, NULL);
	if (!dwarf_lineno(line, &number) && number > 0)
		frame->line = number;
}

static bool number_of(Dwarf_Die *die, unsigned name, Dwarf_Word *value)
{
	Dwarf_Attribute attr;

	return !dwarf_formudata(dwarf_attr(die, name, &attr), value);
}

/* Where the inlined function 'die' was called. */
static void set_call_line(Dwarf_Die *unit, Dwarf_Die *die, struct source_frame *frame)
{
	Dwarf_Word file, line;
	Dwarf_Files *files;
	size_t n;

	if (number_of(die, DW_AT_call_line, &line) && line <= INT32_MAX)
		frame->line = line;
	if (number_of(die, DW_AT_call_file, &file) && !dwarf_getsrcfiles(unit, &files, &n) &&
	    file < n)
		frame->file = dwarf_filesrc(files, file, NULL, NULL);
}

/* 'chain' has the function itself first. */
static int fill(Dwarf_Die *unit, uint64_t pc, Dwarf_Die *chain, int n, struct source_frame *frames,
		int max)
{
	int skip = n > max ? n - max : 0, out = 0;

	for (int i = n - 1; i >= 0; i--) {
		/* too many: leave out the middle, keep the function itself */
		if (i && i <= skip)
			continue;
		frames[out] = (struct source_frame){.inlined = i > 0};
		frames[out].name = function_name(&chain[i]);
		if (i == n - 1)
			set_pc_line(unit, pc, &frames[out]);
		else
			set_call_line(unit, &chain[i + 1], &frames[out]);
		out++;
	}
	return out;
}

int inlines__find(struct inlines *in, uint64_t pc, struct source_frame *frames, int max)
{
	const struct range *function;
	Dwarf_Die chain[MAX_INLINED + 1];
	struct unit *unit;
	int n = 1;

	in->steps = MAX_STEPS;
	unit = find_unit(in, pc);
	if (!unit)
		return 0;
	function = ranges__find(&unit->functions, pc);
	if (!function) {
		frames[0] = (struct source_frame){0};
		set_pc_line(&unit->die, pc, &frames[0]);
		return 1;
	}
	chain[0] = unit->dies[function->id];
	n += find_chain(in, &chain[0], pc, chain + 1);
	return fill(&unit->die, pc, chain, n, frames, max);
}
