/* SPDX-License-Identifier: GPL-2.0-or-later */
/* spinners [THREADS [CPU]]: threads that never sleep, all on one CPU. */
#include "truth.h"

static int cpu;

static FRAME void spin(struct tape *tape)
{
	while (!truth__stop) {
		truth__burn_ns(1000000);
		tape__mark(tape);
	}
}

static FRAME void *spinner(void *arg)
{
	truth__pin(cpu);
	tape__mark(arg);
	spin(arg);
	return NULL;
}

int main(int argc, char **argv)
{
	int n = (int)truth__arg(argc, argv, 1, 2);
	struct tape *tapes = calloc((size_t)n, sizeof(*tapes));
	pthread_t *threads = calloc((size_t)n, sizeof(*threads));

	if (!tapes || !threads)
		return 1;
	cpu = truth__cpu_number((int)truth__arg(argc, argv, 2, 1));
	truth__init();
	for (int i = 0; i < n; i++)
		truth__spawn(&threads[i], spinner, &tapes[i]);
	truth__ready();
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	tapes__print(tapes, n);
	return 0;
}
