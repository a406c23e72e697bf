// SPDX-License-Identifier: GPL-2.0-or-later
#include "plt.h"

#include <gelf.h>
#include <stdbool.h>
#include <string.h>

static bool is_plt(Elf *elf, const GElf_Shdr *shdr)
{
	size_t names;
	const char *name;

	if (shdr->sh_type != SHT_PROGBITS || !(shdr->sh_flags & SHF_EXECINSTR) ||
	    elf_getshdrstrndx(elf, &names))
		return false;
	name = elf_strptr(elf, names, shdr->sh_name);
	return name && !strncmp(name, ".plt", 4);
}

static Elf_Scn *find_plt(Elf *elf, uint64_t vaddr, GElf_Shdr *shdr)
{
	Elf_Scn *scn = NULL;

	while ((scn = elf_nextscn(elf, scn)))
		if (gelf_getshdr(scn, shdr) && vaddr >= shdr->sh_addr &&
		    vaddr - shdr->sh_addr < shdr->sh_size && is_plt(elf, shdr))
			return scn;
	return NULL;
}

/* [endbr64] [bnd] jmp *slot(%rip) */
static bool decode(const uint8_t *code, size_t size, uint64_t vaddr, uint64_t *slot)
{
	static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
	size_t at = 0;
	int32_t disp;

	if (size >= 4 && !memcmp(code, endbr64, 4))
		at = 4;
	if (at < size && code[at] == 0xf2)
		at++;
	if (size < at + 6 || code[at] != 0xff || code[at + 1] != 0x25)
		return false;
	memcpy(&disp, code + at + 2, sizeof(disp));
	*slot = vaddr + at + 6 + disp;
	return true;
}

static const char *symbol_name(Elf *elf, size_t table, size_t index)
{
	Elf_Scn *scn = elf_getscn(elf, table);
	Elf_Data *data = scn ? elf_getdata(scn, NULL) : NULL;
	GElf_Shdr shdr;
	GElf_Sym sym;
	const char *name;

	if (!index || !data || !gelf_getshdr(scn, &shdr) || !gelf_getsym(data, index, &sym))
		return NULL;
	name = elf_strptr(elf, shdr.sh_link, sym.st_name);
	return name && *name ? name : NULL;
}

static const char *find_relocation(Elf *elf, uint64_t slot)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;
	GElf_Rela rela;

	while ((scn = elf_nextscn(elf, scn))) {
		Elf_Data *data;

		if (!gelf_getshdr(scn, &shdr) || shdr.sh_type != SHT_RELA)
			continue;
		data = elf_getdata(scn, NULL);
		for (int i = 0; data && gelf_getrela(data, i, &rela); i++)
			if (rela.r_offset == slot)
				return symbol_name(elf, shdr.sh_link, GELF_R_SYM(rela.r_info));
	}
	return NULL;
}

const char *plt__find(Elf *elf, uint64_t vaddr)
{
	GElf_Shdr shdr;
	GElf_Ehdr ehdr;
	Elf_Scn *scn;
	Elf_Data *data;
	uint64_t at, slot;

	if (!gelf_getehdr(elf, &ehdr) || ehdr.e_machine != EM_X86_64)
		return NULL;
	scn = find_plt(elf, vaddr, &shdr);
	data = scn ? elf_getdata(scn, NULL) : NULL;
	if (!data || !data->d_buf || !shdr.sh_entsize)
		return NULL;
	at = vaddr - shdr.sh_addr;
	at -= at % shdr.sh_entsize;
	if (at >= data->d_size ||
	    !decode((uint8_t *)data->d_buf + at, data->d_size - at, shdr.sh_addr + at, &slot))
		return NULL;
	return find_relocation(elf, slot);
}
