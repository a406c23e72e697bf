/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plt: which function a PLT stub jumps to. The stub's jump is decoded for the GOT slot that it
 * reads and the slot's relocation names the function, so the answer holds for every layout that
 * linkers make. x86-64 only: elsewhere, and for stubs that are something else, there is no answer.
 */
#ifndef OFFCPU_PLT_H
#define OFFCPU_PLT_H

#include <libelf.h>
#include <stdint.h>

/* Name of the function (belongs to 'elf'), or NULL if there is no such stub at 'vaddr'. */
const char *plt__find(Elf *elf, uint64_t vaddr);

#endif
