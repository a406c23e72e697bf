/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * frame: one resolved frame of a stack, as symbolizers make it and the profile keeps it.
 */
#ifndef OFFCPU_FRAME_H
#define OFFCPU_FRAME_H

#include <stdbool.h>
#include <stdint.h>

enum frame_kind {
	FRAME_USER,   /* a function of an ELF file, or "module+0xoffset" when none contains the address */
	FRAME_KERNEL, /* a kernel or module function */
	FRAME_JIT,    /* named by a perf map */
	FRAME_MARK,   /* not code: "[truncated]", "[lost]", "[unsampled]", "[filtered]", ... */
};

/*
 * Strings belong to whoever made the frame: a symbolizer's live as long as the symbolizer, the
 * profile interns them on arrival. 'func' is never NULL; the others may be.
 */
struct frame {
	enum frame_kind kind;
	bool inlined;	    /* this function was inlined into the next outer frame */
	uint32_t line;	    /* 0: unknown */
	uint64_t addr;	    /* ELF virtual address in the module, or kernel address */
	const char *func;   /* demangled */
	const char *module; /* path as the target sees it; "[kernel]" or "[modname]" for kernel */
	const char *build_id; /* lower-case hex, or NULL */
	const char *file;   /* source file, or NULL */
};

#endif
