/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * symbolize: addresses to frames. Right or not at all: an address that no symbol contains
 * ([st_value, st_value + size)) becomes "module+0xoffset", never the nearest name. Return addresses
 * are looked up at pc - 1. Puts together usyms (ELF + DWARF through libdw), ksyms (/proc/kallsyms),
 * perfmap (/tmp/perf-PID.map) and demangle (libiberty).
 *
 * Owns all strings it returns, until symbolizer__free(). Caches by (file, address).
 */
#ifndef OFFCPU_SYMBOLIZE_H
#define OFFCPU_SYMBOLIZE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "frame.h"

struct procmaps;
struct symbolizer;

struct symbolizer_opts {
	bool no_inline;	 /* leave inlined frames out */
	bool debuginfod; /* may ask debuginfod servers (libdw's own client, DEBUGINFOD_URLS) */
};

struct symbolizer *symbolizer__new(const struct symbolizer_opts *opts, struct procmaps *pm);
void symbolizer__free(struct symbolizer *sym);

/*
 * Resolves a user address of the image 'pid' ran at 'time_ns' into at most 'max' frames, innermost
 * first (inlined frames, then the function that holds them). 'return_address' says that the
 * address follows a call. Returns the number of frames, at least 1.
 */
int symbolizer__user(struct symbolizer *sym, pid_t pid, uint64_t time_ns, uint64_t addr,
		     bool return_address, struct frame *frames, int max);

/* The same for a kernel address; always one frame. */
int symbolizer__kernel(struct symbolizer *sym, uint64_t addr, bool return_address,
		       struct frame *frame);

/*
 * Reads perf maps (JIT) of 'pid' now: call when the process is first seen and again at the end;
 * what the first reading knew is kept where the second does not replace it.
 */
void symbolizer__read_perf_map(struct symbolizer *sym, pid_t pid);

#endif
