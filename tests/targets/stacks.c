/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * stacks [N]: on a line from stdin, sleeps N times, each time under another stack: the path taken
 * through the two functions spells the number in binary. Each stack blocks at least once: a sleep
 * whose timer fires before the thread gets to sleep, on a busy machine, is repeated.
 */
#include "truth.h"

#define DEPTH 20

typedef void step_fn(uint32_t bits, int left);

static step_fn zero, one;

static long blocks;

static long voluntary(void)
{
	struct rusage ru;

	getrusage(RUSAGE_THREAD, &ru);
	return ru.ru_nvcsw;
}

static FRAME void bottom(void)
{
	long before = voluntary(), now;

	do {
		truth__sleep_ns(20000);
		now = voluntary();
	} while (now == before);
	blocks += now - before;
}

static inline __attribute__((always_inline)) void step(uint32_t bits, int left)
{
	if (!left)
		bottom();
	else if (bits & 1)
		one(bits >> 1, left - 1);
	else
		zero(bits >> 1, left - 1);
}

static FRAME void zero(uint32_t bits, int left)
{
	step(bits, left);
	AFTER_CALL();
}

static FRAME void one(uint32_t bits, int left)
{
	step(bits, left);
	AFTER_CALL();
}

int main(int argc, char **argv)
{
	uint32_t n = (uint32_t)truth__arg(argc, argv, 1, 20000);
	uint64_t start, end;

	truth__init();
	truth__ready();
	truth__wait_go();
	start = truth__now();
	for (uint32_t i = 0; i < n; i++)
		zero(i, DEPTH);
	end = truth__now();
	printf("{\"stacks\": %u, \"blocks\": %ld, \"start_ns\": %llu, \"end_ns\": %llu}\n", n,
	       blocks, (unsigned long long)start, (unsigned long long)end);
	fflush(stdout);
	while (!truth__stop)
		truth__sleep_ns(NSEC_PER_SEC);
	return 0;
}
