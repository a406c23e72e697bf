// SPDX-License-Identifier: GPL-2.0-or-later
#include "elf_head.h"

#include <elf.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/xalloc.h"

#define MAX_PHDRS      4096
#define MAX_SECTIONS   (1u << 20)
#define MAX_NOTE_BYTES (1u << 20)

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define NATIVE_DATA ELFDATA2LSB
#else
#define NATIVE_DATA ELFDATA2MSB
#endif

/*
 * libelf allocates and touches one descriptor per section at elf_begin(). A file whose number of
 * sections does not fit e_shnum keeps it in the first section's sh_size, so a few bytes of a sparse
 * file can ask for billions: look there first.
 */
static bool sections_bounded(int fd)
{
	union {
		unsigned char ident[EI_NIDENT];
		Elf32_Ehdr e32;
		Elf64_Ehdr e64;
	} ehdr;
	union {
		Elf32_Shdr s32;
		Elf64_Shdr s64;
	} shdr;
	uint64_t shoff, shnum;
	bool is64;

	if (pread(fd, &ehdr, sizeof(ehdr), 0) < (ssize_t)sizeof(ehdr.e32) ||
	    memcmp(ehdr.ident, ELFMAG, SELFMAG) || ehdr.ident[EI_DATA] != NATIVE_DATA)
		return false;
	is64 = ehdr.ident[EI_CLASS] == ELFCLASS64;
	shoff = is64 ? ehdr.e64.e_shoff : ehdr.e32.e_shoff;
	shnum = is64 ? ehdr.e64.e_shnum : ehdr.e32.e_shnum;
	if (shnum || !shoff)
		return true;
	memset(&shdr, 0, sizeof(shdr));
	if (shoff > INT64_MAX || pread(fd, &shdr, sizeof(shdr), shoff) <= 0)
		return true; /* libelf meets the same end of file */
	return (is64 ? shdr.s64.sh_size : shdr.s32.sh_size) <= MAX_SECTIONS;
}

static void add_load(struct elf_head *head, const GElf_Phdr *phdr)
{
	if (head->loads_n == ELF_HEAD_MAX_LOADS)
		return;
	if (!head->loads)
		head->loads = xcalloc(ELF_HEAD_MAX_LOADS, sizeof(*head->loads));
	head->loads[head->loads_n++] = (struct elf_load){
		.offset = phdr->p_offset,
		.file_size = phdr->p_filesz,
		.vaddr = phdr->p_vaddr,
		.executable = phdr->p_flags & PF_X,
	};
}

/* As the kernel's build_id_parse(): the first GNU note of 1 to 20 bytes. */
static void read_build_id(Elf *elf, const GElf_Phdr *phdr, struct elf_head *head)
{
	size_t pos = 0, name, desc;
	GElf_Nhdr note;
	Elf_Data *data;

	if (head->build_id_len || phdr->p_filesz > MAX_NOTE_BYTES || phdr->p_offset > INT64_MAX)
		return;
	data = elf_getdata_rawchunk(elf, phdr->p_offset, phdr->p_filesz,
				    phdr->p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR);
	while (data && (pos = gelf_getnote(data, pos, &note, &name, &desc)) > 0) {
		if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != sizeof("GNU") ||
		    memcmp((char *)data->d_buf + name, "GNU", sizeof("GNU")))
			continue;
		if (!note.n_descsz || note.n_descsz > sizeof(head->build_id))
			continue;
		head->build_id_len = note.n_descsz;
		memcpy(head->build_id, (char *)data->d_buf + desc, note.n_descsz);
		return;
	}
}

static void read_headers(Elf *elf, struct elf_head *head)
{
	GElf_Phdr phdr;
	size_t i, n;

	if (elf_kind(elf) != ELF_K_ELF)
		return;
	head->valid = true;
	if (elf_getphdrnum(elf, &n) || n > MAX_PHDRS)
		return;
	for (i = 0; i < n && gelf_getphdr(elf, i, &phdr); i++) {
		if (phdr.p_type == PT_LOAD)
			add_load(head, &phdr);
		else if (phdr.p_type == PT_NOTE)
			read_build_id(elf, &phdr, head);
	}
	if (head->loads)
		head->loads = xreallocarray(head->loads, head->loads_n, sizeof(*head->loads));
}

void elf_head__read(int fd, struct elf_head *head)
{
	Elf *elf;

	memset(head, 0, sizeof(*head));
	elf_version(EV_CURRENT);
	if (!sections_bounded(fd))
		return;
	/* Not mapped: another process may truncate the file, and reading it would be a SIGBUS. */
	elf = elf_begin(fd, ELF_C_READ, NULL);
	if (elf)
		read_headers(elf, head);
	elf_end(elf);
}

void elf_head__read_image(void *image, size_t size, struct elf_head *head)
{
	Elf *elf;

	memset(head, 0, sizeof(*head));
	elf_version(EV_CURRENT);
	elf = elf_memory(image, size);
	if (elf)
		read_headers(elf, head);
	elf_end(elf);
}

void elf_head__clear(struct elf_head *head)
{
	free(head->loads);
	memset(head, 0, sizeof(*head));
}

bool elf_head__equal(const struct elf_head *a, const struct elf_head *b)
{
	uint16_t i;

	if (a->valid != b->valid || a->build_id_len != b->build_id_len ||
	    memcmp(a->build_id, b->build_id, a->build_id_len) || a->loads_n != b->loads_n)
		return false;
	for (i = 0; i < a->loads_n; i++) {
		const struct elf_load *x = &a->loads[i], *y = &b->loads[i];

		if (x->offset != y->offset || x->file_size != y->file_size ||
		    x->vaddr != y->vaddr || x->executable != y->executable)
			return false;
	}
	return true;
}

/* Does the segment hold the offset; with 'page' > 1: once rounded to whole pages, as it is mapped?
 */
static bool load_holds(const struct elf_load *load, uint64_t offset, uint64_t page)
{
	uint64_t start = load->offset & -page, end;

	if (!load->file_size || __builtin_add_overflow(load->offset, load->file_size, &end))
		return false;
	if (__builtin_add_overflow(end, page - 1, &end))
		return false;
	return start <= offset && offset < (end & -page);
}

/*
 * Two segments may share a page of the file: it is then mapped twice, and an offset alone does not
 * say through which. What is looked up is code, so executable segments come first; and a segment's
 * own bytes before the neighbours' that rounding brings in.
 */
uint64_t elf_head__vaddr(const struct elf_head *head, uint64_t file_offset)
{
	uint64_t page = sysconf(_SC_PAGESIZE);
	int pass;
	uint16_t i;

	for (pass = 0; pass < 4; pass++) {
		for (i = 0; i < head->loads_n; i++) {
			const struct elf_load *load = &head->loads[i];

			if (load->executable == (pass < 2) &&
			    load_holds(load, file_offset, pass & 1 ? page : 1))
				return file_offset - load->offset + load->vaddr;
		}
	}
	return file_offset;
}
