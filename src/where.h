/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * where: a stack in one line, leaf first, without what every stack has in common. Of the kernel it
 * shows the one function that says what it is (do_nanosleep, not __schedule or do_syscall_64), and
 * of user space everything between the thread's entry and the system call.
 */
#ifndef OFFCPU_WHERE_H
#define OFFCPU_WHERE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frame.h"

enum where_role {
	WHERE_UNKNOWN,	/* not classified yet */
	WHERE_TELLING,	/* shown; of several kernel functions the innermost */
	WHERE_LOCK,	/* a kernel lock or completion: shown together with who uses it */
	WHERE_PLUMBING, /* kernel entry, exit and scheduler; start of a thread */
};

enum where_role where__role(const struct frame *frame);

/* "libc.so.6+0x9d2a1": no symbol contains the address. */
bool where__is_unnamed(const struct frame *frame);

/*
 * Picks the telling frames of a stack (root first) into 'out' (room for n), leaf first. 'roles'
 * caches where__role() by profile__frame_id(). With 'on_cpu' the leaf is always picked: there it is
 * what runs. Returns their number, not 0 unless n is 0.
 */
uint32_t where__pick(const struct frame **frames, uint32_t n, bool on_cpu, uint8_t *roles,
		     const struct frame **out);

/* "do_nanosleep ← clock_nanosleep ← work ← main", at most 'width' columns. */
void where__format(char *out, size_t size, const struct frame **picked, uint32_t n, size_t width);

/* A function's name without template arguments, parameters, return type and clone marks. */
void where__short_name(char *out, size_t size, const struct frame *frame);

#endif
