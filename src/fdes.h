/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fdes: where functions begin according to the unwind tables, from the sorted index that linkers
 * put in .eh_frame_hdr (LSB core specification, "Exception Frames").
 */
#ifndef OFFCPU_FDES_H
#define OFFCPU_FDES_H

#include <libelf.h>
#include <stdbool.h>
#include <stdint.h>

/* Whether a function with unwind information begins in (after, upto]. False if there is no index.
 */
bool fdes__begin_between(Elf *elf, uint64_t after, uint64_t upto);

#endif
