/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * births: threads that are born, run, sleep and die, four at a time, until told to end. For each
 * the truth holds four times: before its creation, its own first and last act, and after it was
 * joined.
 */
#include "truth.h"

#define MAX_LIVES 20000

struct life {
	pid_t tid;
	uint64_t before_ns, first_ns, last_ns, after_ns, cpu_ns;
};

static struct life lives[MAX_LIVES];

static FRAME void live_here(void)
{
	truth__burn_ns(1000000);
	truth__sleep_ns(15000000);
	AFTER_CALL();
}

static FRAME void *live(void *arg)
{
	struct life *life = arg;

	life->tid = truth__tid();
	life->first_ns = truth__now();
	live_here();
	life->cpu_ns = truth__cpu();
	life->last_ns = truth__now();
	return NULL;
}

static void generation(struct life *first, int n)
{
	pthread_t threads[8];

	for (int i = 0; i < n; i++) {
		first[i].before_ns = truth__now();
		truth__spawn(&threads[i], live, &first[i]);
	}
	for (int i = 0; i < n; i++) {
		pthread_join(threads[i], NULL);
		first[i].after_ns = truth__now();
	}
}

int main(void)
{
	int n = 0;

	truth__init();
	truth__ready();
	for (; !truth__stop && n + 4 <= MAX_LIVES; n += 4)
		generation(&lives[n], 4);
	printf("{\"lives\": [");
	for (int i = 0; i < n; i++)
		printf("%s[%d, %llu, %llu, %llu, %llu, %llu]", i ? ", " : "", lives[i].tid,
		       (unsigned long long)lives[i].before_ns,
		       (unsigned long long)lives[i].first_ns, (unsigned long long)lives[i].last_ns,
		       (unsigned long long)lives[i].after_ns, (unsigned long long)lives[i].cpu_ns);
	printf("]}\n");
	return 0;
}
