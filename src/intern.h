/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * intern: one copy of every string, frame and stack. Ids are indices from 0 in order of arrival;
 * pointers stay valid until intern__free().
 */
#ifndef OFFCPU_INTERN_H
#define OFFCPU_INTERN_H

#include <stdint.h>

#include "frame.h"

struct intern;

struct intern *intern__new(void);
void intern__free(struct intern *in);

/* Copies a string, or returns the copy made before. NULL gives NULL. */
const char *intern__string(struct intern *in, const char *text);

/* Copies a stack, root first, or finds an equal one: same function, module, kind, inlined and line
 * in every frame. Address, file and build ID are those of the first one seen. */
uint32_t intern__stack(struct intern *in, const struct frame *frames, uint32_t n);

uint32_t intern__stacks(const struct intern *in);
uint32_t intern__stack_frames(const struct intern *in, uint32_t stack,
			      const struct frame ***frames);
uint32_t intern__frames(const struct intern *in);
const struct frame *intern__frame(const struct intern *in, uint32_t id);
/* The id of a frame that came from here. */
uint32_t intern__frame_id(const struct frame *frame);

#endif
