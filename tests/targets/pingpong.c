/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * pingpong [PAIRS [DEPTH [pipe|futex [SECONDS]]]]: pairs of threads that wake each other in turn as
 * fast as they can, pair i on CPU i, each under DEPTH frames. Ends after SECONDS (0: when told to).
 */
#include "truth.h"

enum kind { PIPE, FUTEX };

struct end {
	struct tape tape;
	pthread_t thread;
	int cpu;
	int rx, tx;		/* pipe: own end, other's end */
	uint32_t *mine, *other; /* futex: 1 = that thread's turn */
	bool starts;
	uint64_t rounds;
};

static enum kind kind;
static int depth;

static __attribute__((always_inline)) inline void hand_over(struct end *e)
{
	char c = 'x';

	if (kind == PIPE) {
		truth__syscall4(SYS_write, e->tx, (long)&c, 1, 0);
		return;
	}
	__atomic_store_n(e->other, 1, __ATOMIC_SEQ_CST);
	truth__syscall4(SYS_futex, (long)e->other, FUTEX_WAKE_PRIVATE, 1, 0);
}

static __attribute__((always_inline)) inline bool await_turn(struct end *e)
{
	char c;

	if (kind == PIPE)
		return truth__syscall4(SYS_read, e->rx, (long)&c, 1, 0) == 1;
	while (!__atomic_load_n(e->mine, __ATOMIC_SEQ_CST)) {
		if (truth__stop)
			return false;
		truth__syscall4(SYS_futex, (long)e->mine, FUTEX_WAIT_PRIVATE, 0, 0);
	}
	__atomic_store_n(e->mine, 0, __ATOMIC_SEQ_CST);
	return true;
}

static FRAME void play(struct end *e)
{
	if (e->starts)
		hand_over(e);
	while (await_turn(e)) {
		hand_over(e);
		if (++e->rounds % 512 == 0)
			tape__mark(&e->tape);
		if (truth__stop)
			break;
	}
	hand_over(e);
}

static FRAME void descend(struct end *e, int left)
{
	if (left > 0)
		descend(e, left - 1);
	else
		play(e);
	AFTER_CALL();
}

static FRAME void *player(void *arg)
{
	struct end *e = arg;

	truth__pin(e->cpu);
	tape__mark(&e->tape);
	descend(e, depth);
	tape__mark(&e->tape);
	return NULL;
}

static void pair__init(struct end *a, struct end *b, int cpu)
{
	int ab[2], ba[2];

	if (pipe(ab) || pipe(ba))
		exit(1);
	*a = (struct end){.cpu = cpu, .rx = ba[0], .tx = ab[1], .starts = true};
	*b = (struct end){.cpu = cpu, .rx = ab[0], .tx = ba[1]};
	/* A cache line each. */
	a->mine = b->other = aligned_alloc(64, 64);
	b->mine = a->other = aligned_alloc(64, 64);
	if (!a->mine || !b->mine)
		exit(1);
	*a->mine = *b->mine = 0;
}

static void report(const struct end *ends, int n, uint64_t start)
{
	uint64_t rounds = 0, wall = truth__now() - start;
	struct rusage ru;

	getrusage(RUSAGE_SELF, &ru);
	for (int i = 0; i < n; i++)
		rounds += ends[i].rounds;
	printf("{\"rounds\": %llu, \"wall_ns\": %llu, \"voluntary\": %ld, \"involuntary\": %ld, "
	       "\"cpu_ns\": %llu, \"ns_per_switch\": %.1f, \"tapes\": [",
	       (unsigned long long)rounds, (unsigned long long)wall, ru.ru_nvcsw, ru.ru_nivcsw,
	       (unsigned long long)truth__clock(CLOCK_PROCESS_CPUTIME_ID),
	       rounds ? (double)wall * (n / 2) / (double)rounds : 0.0);
	for (int i = 0; i < n; i++) {
		printf("%s", i ? ", " : "");
		tape__print(&ends[i].tape);
	}
	printf("]}\n");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	int pairs = (int)truth__arg(argc, argv, 1, 1), seconds;
	struct end *ends = calloc(2 * (size_t)pairs, sizeof(*ends));
	uint64_t start;

	if (!ends)
		return 1;
	depth = (int)truth__arg(argc, argv, 2, 0);
	kind = argc > 3 && !strcmp(argv[3], "futex") ? FUTEX : PIPE;
	seconds = (int)truth__arg(argc, argv, 4, 0);
	truth__init();
	for (int i = 0; i < pairs; i++)
		pair__init(&ends[2 * i], &ends[2 * i + 1], truth__cpu_number(i));
	start = truth__now();
	for (int i = 0; i < 2 * pairs; i++)
		truth__spawn(&ends[i].thread, player, &ends[i]);
	truth__ready();
	if (seconds) {
		truth__sleep_ns((uint64_t)seconds * NSEC_PER_SEC);
		truth__stop = 1;
	}
	for (int i = 0; i < 2 * pairs; i++)
		pthread_join(ends[i].thread, NULL);
	report(ends, 2 * pairs, start);
	return 0;
}
