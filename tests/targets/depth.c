/* SPDX-License-Identifier: GPL-2.0-or-later */
/* depth N: a thread that runs and sleeps at the bottom of N calls of deeper(). */
#include "truth.h"

static FRAME void deep_run(void)
{
	truth__burn_ns(1000000);
	AFTER_CALL();
}

static FRAME void deep_sleep(void)
{
	truth__sleep_ns(1000000);
	AFTER_CALL();
}

static FRAME void deeper(int left)
{
	if (left > 1) {
		deeper(left - 1);
	} else {
		while (!truth__stop) {
			deep_run();
			deep_sleep();
		}
	}
	AFTER_CALL();
}

static FRAME void *diver(void *arg)
{
	deeper((int)(intptr_t)arg);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	truth__init();
	truth__spawn(&thread, diver, (void *)(intptr_t)truth__arg(argc, argv, 1, 100));
	truth__ready();
	pthread_join(thread, NULL);
	printf("{}\n");
	return 0;
}
