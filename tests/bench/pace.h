/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * pace: how fast the CPU is at this moment. Two CPUs of a machine may be threads of one core, as
 * they often are in virtual machines without it being told: while one is busy, the other has half
 * the speed. Independent additions, which fill a core's units, show it.
 */
#ifndef PACE_H
#define PACE_H

#include "../targets/truth.h"

#define PACE_ROUNDS 10000

/* ns for a fixed piece of work; some 10 us */
static inline uint64_t pace__ns(void)
{
	uint64_t a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, start = truth__now();

	for (int i = 0; i < PACE_ROUNDS; i++) {
		a += 1, b += 3, c += 5, d += 7, e += 9, f += 11;
		asm volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f));
	}
	return truth__now() - start;
}

#endif
