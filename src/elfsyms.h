/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * elfsyms: the functions of one file by address, from its ELF symbol tables. Names are those in the
 * tables, still mangled; they belong to the Elf descriptors, which must outlive this.
 *
 * An address belongs to a symbol if it lies in [st_value, st_value + st_size). Where symbols
 * overlap, the one that begins last wins; of those that begin together, a global one before a weak
 * before a local one, then the one with fewest leading underscores, the shortest, the first in
 * order of bytes.
 *
 * A symbol without a size (hand-written assembly) counts at its own address. Beyond that it counts
 * up to the next symbol or the end of its section, if the file's complete symbol table is known
 * and the symbol does not lie inside another; such a hit is marked as 'guessed', because symbols
 * may have been stripped from between.
 */
#ifndef OFFCPU_ELFSYMS_H
#define OFFCPU_ELFSYMS_H

#include <libelf.h>
#include <stdbool.h>
#include <stdint.h>

struct elfsyms;

struct elfsym_hit {
	const char *name;
	uint64_t start;
	bool guessed;
};

struct elfsyms *elfsyms__new(void);
void elfsyms__free(struct elfsyms *es);

/*
 * Adds the tables of 'elf'; 'bias' is added to their addresses. 'mini' says that .symtab is not
 * complete (mini debug information). To be followed by one elfsyms__finish().
 */
void elfsyms__add(struct elfsyms *es, Elf *elf, int64_t bias, bool mini);
void elfsyms__finish(struct elfsyms *es);

bool elfsyms__find(const struct elfsyms *es, uint64_t addr, struct elfsym_hit *hit);

#endif
