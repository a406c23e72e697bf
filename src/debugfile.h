/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * debugfile: the debug information that belongs to an ELF file but lies elsewhere: separate debug
 * files (by build ID, by .gnu_debuglink), dwz's common files, mini debug information inside the
 * file, debuginfod. Looked for in the root of the process that maps the file, then in our own. What
 * does not match by build ID (or, where there is none, by checksum) is not used.
 */
#ifndef OFFCPU_DEBUGFILE_H
#define OFFCPU_DEBUGFILE_H

#include <libelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct debug_query {
	Elf *elf;	  /* the file that is mapped */
	const char *path; /* as the process sees it */
	pid_t pid;
	bool debuginfod; /* may ask servers */
};

/* An opened ELF file; all zero: none. */
struct elf_file {
	Elf *elf;
	int fd;	      /* -1: in memory */
	void *memory; /* to be freed */
};

/* Takes over 'fd'. Returns false, having closed it, if it is not an ELF file. */
bool elf_file__open(struct elf_file *file, int fd);
/* The same for an image in memory, which stays the caller's. */
bool elf_file__open_image(struct elf_file *file, const void *image, size_t size);
void elf_file__close(struct elf_file *file);
bool elf_file__has_section(const struct elf_file *file, const char *name);

/* Each returns false if there is none. */
bool debugfile__find(const struct debug_query *query, struct elf_file *file);
bool debugfile__find_alt(const struct debug_query *query, const char *name, const void *build_id,
			 size_t build_id_len, struct elf_file *file);
bool debugfile__unpack_mini(Elf *elf, struct elf_file *file);

#endif
