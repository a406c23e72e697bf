/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sleeps N1 US1 N2 US2: on a line from stdin, N1 sleeps of US1 in one function mixed with N2 of US2
 * in another; the time of each kind is measured.
 */
#include "truth.h"

struct kind {
	long left;
	uint64_t each_ns, total_ns;
};

static FRAME void sleep_first(uint64_t ns)
{
	truth__sleep_ns(ns);
	AFTER_CALL();
}

static FRAME void sleep_second(uint64_t ns)
{
	truth__sleep_ns(ns);
	AFTER_CALL();
}

static void one_sleep(struct kind *k, void (*fn)(uint64_t))
{
	uint64_t start = truth__now();

	fn(k->each_ns);
	k->total_ns += truth__now() - start;
	k->left--;
}

int main(int argc, char **argv)
{
	struct kind first = {.left = truth__arg(argc, argv, 1, 100),
			     .each_ns = (uint64_t)truth__arg(argc, argv, 2, 500) * 1000};
	struct kind second = {.left = truth__arg(argc, argv, 3, 100),
			      .each_ns = (uint64_t)truth__arg(argc, argv, 4, 5000) * 1000};
	uint64_t start, end;

	truth__init();
	truth__ready();
	truth__wait_go();
	start = truth__now();
	while (first.left || second.left) {
		if (first.left)
			one_sleep(&first, sleep_first);
		if (second.left)
			one_sleep(&second, sleep_second);
	}
	end = truth__now();
	printf("{\"first_ns\": %llu, \"second_ns\": %llu, \"start_ns\": %llu, \"end_ns\": %llu}\n",
	       (unsigned long long)first.total_ns, (unsigned long long)second.total_ns,
	       (unsigned long long)start, (unsigned long long)end);
	fflush(stdout);
	while (!truth__stop)
		truth__burn_ns(1000000);
	return 0;
}
