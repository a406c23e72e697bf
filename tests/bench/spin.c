/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * spin CPU [DEPTH]: reads the clock without a pause, under DEPTH frames (20), and so sees how long
 * each interruption of its own work lasts. Until SIGTERM it prints a line for every window of about
 * 1 ms:
 *
 *     end (CLOCK_MONOTONIC ns)   wall ns   ns lost to interruptions   times switched out   pace
 */
#include "pace.h"

#define WINDOW_NS 1000000ull
#define GAP_NS	  300ull /* many times a reading of the clock, less than any interrupt */

static long switched_out(void)
{
	struct rusage ru;

	getrusage(RUSAGE_THREAD, &ru);
	return ru.ru_nvcsw + ru.ru_nivcsw;
}

/* How long the thread did not run in the next WINDOW_NS, which end at 'end'. */
static FRAME uint64_t watch_clock(uint64_t *start, uint64_t *end)
{
	uint64_t last = truth__now(), lost = 0, now;

	*start = last;
	do {
		now = truth__now();
		if (now - last > GAP_NS)
			lost += now - last;
		last = now;
	} while (now < *start + WINDOW_NS);
	*end = now;
	return lost;
}

static FRAME void window(void)
{
	static uint64_t pace_ns;
	uint64_t before = pace_ns, start, end, lost;
	long out = switched_out();
	char line[128];
	int n;

	lost = watch_clock(&start, &end);
	out = switched_out() - out;
	pace_ns = pace__ns();
	n = snprintf(line, sizeof(line), "%llu %llu %llu %ld %llu\n", (unsigned long long)end,
		     (unsigned long long)(end - start), (unsigned long long)lost, out,
		     (unsigned long long)(pace_ns > before ? pace_ns : before));
	if (write(STDOUT_FILENO, line, (size_t)n) != n)
		exit(1);
}

static FRAME void descend(int left)
{
	if (left > 0)
		descend(left - 1);
	else
		while (!truth__stop)
			window();
	AFTER_CALL();
}

int main(int argc, char **argv)
{
	int depth = (int)truth__arg(argc, argv, 2, 20);

	truth__init();
	truth__pin((int)truth__arg(argc, argv, 1, 0));
	descend(depth > 5 ? depth - 5 : 0);
	return 0;
}
