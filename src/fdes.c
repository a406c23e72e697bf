// SPDX-License-Identifier: GPL-2.0-or-later
#include "fdes.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>

static Elf_Data *find_index(Elf *elf, GElf_Shdr *shdr)
{
	Elf_Scn *scn = NULL;
	const char *name;
	size_t names;

	if (elf_getshdrstrndx(elf, &names))
		return NULL;
	while ((scn = elf_nextscn(elf, scn))) {
		if (!gelf_getshdr(scn, shdr) || shdr->sh_type == SHT_NOBITS)
			continue;
		name = elf_strptr(elf, names, shdr->sh_name);
		if (name && !strcmp(name, ".eh_frame_hdr"))
			return elf_rawdata(scn, NULL);
	}
	return NULL;
}

/* The encodings that linkers use; others are as good as no index. */
static bool is_usual(const uint8_t *p)
{
	uint8_t size = p[1] & 0xf;

	return p[0] == 1 && (size == DW_EH_PE_sdata4 || size == DW_EH_PE_udata4) &&
	       p[2] == DW_EH_PE_udata4 && p[3] == (DW_EH_PE_datarel | DW_EH_PE_sdata4);
}

static bool search_index(const GElf_Shdr *shdr, const Elf_Data *data, uint64_t after, uint64_t upto)
{
	const uint8_t *p = data->d_buf;
	uint64_t begin;
	uint32_t count;
	int32_t start;

	/* version, three encodings, pointer to .eh_frame, count; then pairs (function, FDE) */
	memcpy(&count, p + 8, sizeof(count));
	for (size_t i = 0; i < count && 20 + 8 * i <= data->d_size; i++) {
		memcpy(&start, p + 12 + 8 * i, sizeof(start));
		begin = shdr->sh_addr + start;
		if (begin > after && begin <= upto)
			return true;
	}
	return false;
}

static bool changes_between(Elf *elf, uint64_t after, uint64_t upto)
{
	Dwarf_CFI *cfi = dwarf_getcfi_elf(elf);
	Dwarf_Addr start, end;
	Dwarf_Frame *frame;
	bool signal, changes = false;

	if (!cfi)
		return false;
	if (!dwarf_cfi_addrframe(cfi, upto, &frame)) {
		changes = dwarf_frame_info(frame, &start, &end, &signal) < 0 || start > after;
		free(frame);
	}
	dwarf_cfi_end(cfi);
	return changes;
}

bool fdes__begin_between(Elf *elf, uint64_t after, uint64_t upto)
{
	GElf_Shdr shdr;
	Elf_Data *data = find_index(elf, &shdr);

	if (data && data->d_buf && data->d_size >= 12 && is_usual(data->d_buf))
		return search_index(&shdr, data, after, upto);
	return changes_between(elf, after, upto);
}
