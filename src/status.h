/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * status: the one line on a terminal's stderr while recording. Prints nothing anywhere else.
 */
#ifndef OFFCPU_STATUS_H
#define OFFCPU_STATUS_H

#include <stdbool.h>
#include <stdint.h>

struct status {
	bool active;
	uint64_t shown_ns; /* when it was last drawn */
};

void status__init(struct status *s, bool wanted);
/* Draws at most four times a second. 'duration_ns' 0: unknown. */
void status__show(struct status *s, uint64_t now_ns, uint64_t elapsed_ns, uint64_t duration_ns,
		  uint64_t threads, uint64_t stacks);
/* Wipes the line. */
void status__clear(struct status *s);

#endif
