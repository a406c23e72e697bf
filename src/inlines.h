/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * inlines: functions, inlined ones included, and source lines by address, from a file's DWARF. Only
 * what an address needs is read: units are found through their address ranges, which are gathered
 * once; the functions of a unit are listed when an address falls into it; DIEs below a function
 * are walked for each address.
 *
 * Never opens files: split DWARF (.dwo) is not followed, so it gives lines but no functions.
 */
#ifndef OFFCPU_INLINES_H
#define OFFCPU_INLINES_H

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stdint.h>

struct inlines;

struct source_frame {
	const char *name; /* mangled where the language has that; NULL: unknown */
	const char *file; /* NULL: unknown */
	uint32_t line;	  /* 0: unknown */
	bool inlined;	  /* into the next one */
	bool plt;	  /* a stub that jumps to 'name' */
};

/* 'dwarf' stays the caller's and must outlive this, and what it returns. */
struct inlines *inlines__new(Dwarf *dwarf);
void inlines__free(struct inlines *in);

/*
 * Whether as many units were read as memory is spent on (libdw keeps what it has parsed). Nothing
 * is known then of addresses in others.
 */
bool inlines__is_full(const struct inlines *in);

/*
 * Fills at most 'max' frames, innermost first; the last is always the function that holds the
 * others, and may be without a name: with 'max' 1 there is only that one, with the line in it.
 * Returns their number, 0 if nothing is known of the address.
 */
int inlines__find(struct inlines *in, uint64_t pc, struct source_frame *frames, int max);

#endif
