// SPDX-License-Identifier: GPL-2.0-or-later
#include "inlines.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "ranges.h"
#include "util/xalloc.h"

/* Broken DWARF may have loops: steps that one search may take, and nesting. */
#define MAX_STEPS   (8 * 1000 * 1000)
#define MAX_SCOPES  32		      /* of namespaces and types around functions */
#define MAX_INLINED 64		      /* chain of inlined functions */
#define MAX_RANGES  (4 * 1000 * 1000) /* of a unit, of all units */

struct unit {
	Dwarf_Die die;
	bool listed;
	struct ranges functions; /* id: index in dies */
	Dwarf_Die *dies;
	size_t n, cap;
};

struct inlines {
	Dwarf *dwarf;
	bool listed;
	struct ranges ranges; /* id: index of the unit */
	struct unit *units;
	size_t n, cap;
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

static void list_units(struct inlines *in)
{
	Dwarf_CU *cu = NULL;
	Dwarf_Die die;
	uint8_t type;

	while (!dwarf_get_units(in->dwarf, cu, &cu, NULL, &type, &die, NULL)) {
		if (type != DW_UT_compile && type != DW_UT_skeleton)
			continue;
		in->units = xgrow(in->units, in->n, &in->cap, sizeof(*in->units));
		memset(&in->units[in->n], 0, sizeof(*in->units));
		in->units[in->n].die = die;
		add_ranges(&in->ranges, &die, in->n++);
	}
	ranges__flatten(&in->ranges);
	in->listed = true;
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
	const struct range *range;
	struct unit *unit;

	if (!in->listed)
		list_units(in);
	range = ranges__find(&in->ranges, pc);
	if (!range)
		return NULL;
	unit = &in->units[range->id];
	if (!unit->listed) {
		list_functions(in, unit, &unit->die, 0);
		ranges__flatten(&unit->functions);
		unit->listed = true;
	}
	return unit;
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
