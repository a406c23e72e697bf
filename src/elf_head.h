/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * elf_head: the part of an ELF file that says what it is and where it is loaded: build ID and
 * PT_LOAD headers. The file may be hostile: what is read and kept is bounded.
 */
#ifndef OFFCPU_ELF_HEAD_H
#define OFFCPU_ELF_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ELF_HEAD_MAX_LOADS 64

struct elf_load {
	uint64_t offset, file_size, vaddr;
	bool executable;
};

struct elf_head {
	bool valid; /* an ELF file of this machine's byte order, safe to hand to libelf */
	uint8_t build_id_len;
	uint8_t build_id[20];
	uint16_t loads_n;
	struct elf_load *loads;
};

/* Reads from a file by pread (its position stays), or from memory. Not ELF: *head is all zero. */
void elf_head__read(int fd, struct elf_head *head);
void elf_head__read_image(void *image, size_t size, struct elf_head *head);
void elf_head__clear(struct elf_head *head);

bool elf_head__equal(const struct elf_head *a, const struct elf_head *b);

/* ELF virtual address of the byte at a file offset, as mapped; the offset itself if unknown. */
uint64_t elf_head__vaddr(const struct elf_head *head, uint64_t file_offset);

#endif
