/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sleeper [BUSY_US [SLEEP_US [MIGRATE]]]: runs and sleeps by turns. With MIGRATE = 1 the thread
 * moves to the next CPU before each sleep, so that it resumes on another CPU than it left.
 */
#include "truth.h"

static FRAME void run_here(uint64_t ns)
{
	truth__burn_ns(ns);
	AFTER_CALL();
}

static FRAME void sleep_here(struct tape *tape, uint64_t ns)
{
	uint64_t start = truth__now();

	truth__sleep_ns(ns);
	tape->slept_ns += truth__now() - start;
}

static FRAME void turn(struct tape *tape, uint64_t busy_ns, uint64_t sleep_ns)
{
	run_here(busy_ns);
	tape__mark(tape);
	sleep_here(tape, sleep_ns);
	tape__mark(tape);
	AFTER_CALL();
}

int main(int argc, char **argv)
{
	uint64_t busy_ns = (uint64_t)truth__arg(argc, argv, 1, 3000) * 1000;
	uint64_t sleep_ns = (uint64_t)truth__arg(argc, argv, 2, 7000) * 1000;
	bool migrate = truth__arg(argc, argv, 3, 0);
	int cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
	struct tape tape = {0};

	truth__init();
	truth__ready();
	tape__mark(&tape);
	for (int i = 0; !truth__stop; i++) {
		if (migrate)
			truth__pin(i % cpus);
		turn(&tape, busy_ns, sleep_ns);
	}
	tapes__print(&tape, 1);
	return 0;
}
