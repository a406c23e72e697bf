/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * usyms: functions and source lines of one ELF file by address: its symbol tables and DWARF, and
 * those of its separate debug file or mini debug information. Nothing is read before the first
 * look-up. What is found does not depend on how the file is mapped: addresses are ELF virtual
 * addresses of the file.
 */
#ifndef OFFCPU_USYMS_H
#define OFFCPU_USYMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "inlines.h"

struct usyms;

struct usyms_source {
	int fd;		   /* the file; the caller's; < 0: image */
	const void *image; /* ELF image in memory, or NULL */
	size_t image_size;
	const char *path; /* as the process sees it */
	pid_t pid;	  /* in whose root to look for debug files */
	bool debuginfod;
};

/* What 'source' points to must outlive the table. */
struct usyms *usyms__new(const struct usyms_source *source);
void usyms__free(struct usyms *us);

/*
 * Fills at most 'max' (>= 1) frames, innermost first: inlined functions, then the one that holds
 * them, which with 'max' 1 is the only one. Returns their number; 0 if nothing is known of the
 * address. Only the last can be without a name. Names and files live as long as the table.
 */
int usyms__find(struct usyms *us, uint64_t vaddr, struct source_frame *frames, int max);

#endif
