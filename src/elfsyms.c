// SPDX-License-Identifier: GPL-2.0-or-later
#include "elfsyms.h"

#include <gelf.h>
#include <stdlib.h>
#include <string.h>

#include "ranges.h"
#include "util/xalloc.h"

struct elfsym {
	uint64_t start, end; /* a symbol without size: end of its section, then of its reach */
	const char *name;
	uint8_t bind;
	bool sized;
	bool complete; /* from a complete table */
};

struct elfsyms {
	struct elfsym *v;
	size_t n, cap;
	struct ranges ranges; /* id: index in v */
};

/* Code sections of the file that is being added. */
struct sections {
	GElf_Shdr *v;
	size_t n, cap;
};

struct elfsyms *elfsyms__new(void)
{
	return xcalloc(1, sizeof(struct elfsyms));
}

void elfsyms__free(struct elfsyms *es)
{
	if (!es)
		return;
	ranges__clear(&es->ranges);
	free(es->v);
	free(es);
}

static void find_code(Elf *elf, struct sections *code)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;

	while ((scn = elf_nextscn(elf, scn))) {
		if (!gelf_getshdr(scn, &shdr) || !(shdr.sh_flags & SHF_EXECINSTR) ||
		    !(shdr.sh_flags & SHF_ALLOC) || shdr.sh_size > UINT64_MAX - shdr.sh_addr)
			continue;
		code->v = xgrow(code->v, code->n, &code->cap, sizeof(*code->v));
		code->v[code->n++] = shdr;
	}
}

static const GElf_Shdr *section_at(const struct sections *code, uint64_t addr)
{
	for (size_t i = 0; i < code->n; i++)
		if (addr >= code->v[i].sh_addr && addr - code->v[i].sh_addr < code->v[i].sh_size)
			return &code->v[i];
	return NULL;
}

/* "$x", "$d": say whether code or data follows, name nothing. */
static bool is_mapping_symbol(const GElf_Ehdr *ehdr, const char *name)
{
	return name[0] == '$' && (ehdr->e_machine == EM_ARM || ehdr->e_machine == EM_AARCH64 ||
				  ehdr->e_machine == EM_RISCV);
}

static bool is_function(const GElf_Sym *sym)
{
	int type = GELF_ST_TYPE(sym->st_info);

	return (type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE) &&
	       sym->st_shndx != SHN_UNDEF && sym->st_shndx != SHN_ABS &&
	       sym->st_shndx != SHN_COMMON;
}

static void add_symbol(struct elfsyms *es, const struct sections *code, const GElf_Sym *sym,
		       const char *name, int64_t bias, bool complete)
{
	const GElf_Shdr *section = section_at(code, sym->st_value);
	uint64_t end;

	if (!section || es->n == UINT32_MAX)
		return;
	end = section->sh_addr + section->sh_size;
	if (sym->st_size && sym->st_size < end - sym->st_value)
		end = sym->st_value + sym->st_size;
	es->v = xgrow(es->v, es->n, &es->cap, sizeof(*es->v));
	es->v[es->n++] = (struct elfsym){
		.start = sym->st_value + bias,
		.end = end + bias,
		.name = name,
		.bind = GELF_ST_BIND(sym->st_info),
		.sized = sym->st_size,
		.complete = complete,
	};
}

static void add_table(struct elfsyms *es, Elf *elf, Elf_Scn *scn, const struct sections *code,
		      int64_t bias, bool complete)
{
	Elf_Data *data = elf_getdata(scn, NULL);
	GElf_Shdr shdr;
	GElf_Ehdr ehdr;
	GElf_Sym sym;
	const char *name;

	if (!data || !gelf_getshdr(scn, &shdr) || !gelf_getehdr(elf, &ehdr))
		return;
	for (int i = 0; gelf_getsym(data, i, &sym); i++) {
		if (!is_function(&sym))
			continue;
		if (ehdr.e_machine == EM_ARM)
			sym.st_value &= ~1ULL; /* says that it is Thumb code */
		name = elf_strptr(elf, shdr.sh_link, sym.st_name);
		if (name && *name && !is_mapping_symbol(&ehdr, name))
			add_symbol(es, code, &sym, name, bias, complete);
	}
}

void elfsyms__add(struct elfsyms *es, Elf *elf, int64_t bias, bool mini)
{
	struct sections code = {0};
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;

	find_code(elf, &code);
	while ((scn = elf_nextscn(elf, scn))) {
		if (!gelf_getshdr(scn, &shdr))
			continue;
		if (shdr.sh_type == SHT_SYMTAB)
			add_table(es, elf, scn, &code, bias, !mini);
		else if (shdr.sh_type == SHT_DYNSYM)
			add_table(es, elf, scn, &code, bias, false);
	}
	free(code.v);
}

static int bind_rank(const struct elfsym *sym)
{
	switch (sym->bind) {
	case STB_GLOBAL:
	case STB_GNU_UNIQUE:
		return 2;
	case STB_WEAK:
		return 1;
	default:
		return 0;
	}
}

/* > 0 if x is the better name. */
static int compare_names(const struct elfsym *x, const struct elfsym *y)
{
	size_t m, n;

	if (bind_rank(x) != bind_rank(y))
		return bind_rank(x) - bind_rank(y);
	m = strspn(x->name, "_");
	n = strspn(y->name, "_");
	if (m != n)
		return m < n ? 1 : -1;
	m = strlen(x->name);
	n = strlen(y->name);
	if (m != n)
		return m < n ? 1 : -1;
	return strcmp(y->name, x->name);
}

/* In order of priority: without size first, then by start, then the better name later. */
static int compare(const void *a, const void *b)
{
	const struct elfsym *x = a, *y = b;
	int order;

	if (x->sized != y->sized)
		return x->sized - y->sized;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	order = compare_names(x, y);
	if (order)
		return order;
	if (x->complete != y->complete)
		return x->complete - y->complete;
	return (x->end > y->end) - (x->end < y->end);
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* The first of the sorted 'starts' that is greater than 'addr', or UINT64_MAX. */
static uint64_t next_start(const uint64_t *starts, size_t n, uint64_t addr)
{
	size_t lo = 0, hi = n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (starts[mid] <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < n ? starts[lo] : UINT64_MAX;
}

/* Symbols without size: v[0..n). */
static void add_unsized(struct elfsyms *es, size_t n)
{
	uint64_t *starts = xreallocarray(NULL, es->n, sizeof(*starts));
	size_t i, pieces = es->ranges.n;
	struct ranges sized = es->ranges;

	for (i = 0; i < es->n; i++)
		starts[i] = es->v[i].start;
	qsort(starts, es->n, sizeof(*starts), compare_u64);
	memset(&es->ranges, 0, sizeof(es->ranges));
	for (i = 0; i < n; i++) {
		struct elfsym *sym = &es->v[i];
		uint64_t next = next_start(starts, es->n, sym->start);

		if (!sym->complete)
			sym->end = sym->start + 1;
		else if (next < sym->end)
			sym->end = next;
		if (!ranges__find(&sized, sym->start))
			ranges__add(&es->ranges, sym->start, sym->end, i);
	}
	for (i = 0; i < pieces; i++)
		ranges__add(&es->ranges, sized.v[i].start, sized.v[i].end, sized.v[i].id);
	ranges__clear(&sized);
	ranges__flatten(&es->ranges);
	free(starts);
}

void elfsyms__finish(struct elfsyms *es)
{
	size_t i, unsized = 0;

	if (es->n)
		qsort(es->v, es->n, sizeof(*es->v), compare);
	while (unsized < es->n && !es->v[unsized].sized)
		unsized++;
	for (i = unsized; i < es->n; i++)
		ranges__add(&es->ranges, es->v[i].start, es->v[i].end, i);
	ranges__flatten(&es->ranges);
	if (unsized)
		add_unsized(es, unsized);
}

bool elfsyms__find(const struct elfsyms *es, uint64_t addr, struct elfsym_hit *hit)
{
	const struct range *range = ranges__find(&es->ranges, addr);
	const struct elfsym *sym;

	if (!range)
		return false;
	sym = &es->v[range->id];
	hit->name = sym->name;
	hit->start = sym->start;
	hit->guessed = !sym->sized && addr != sym->start;
	return true;
}
