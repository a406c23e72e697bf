/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * pingpong CPU [DEPTH [RATE]]: two threads on one CPU that wake each other in turn through pipes,
 * each under DEPTH frames (20); RATE switches a second (0: as fast as they can). Until SIGTERM it
 * prints a line for every window of about 4 ms:
 *
 *     end (CLOCK_MONOTONIC ns)   wall ns   CPU ns   context switches   pace (see pace.h)
 *
 * One of the two can always run, so the CPU is never idle: what the process used of it is the wall
 * time less what others took, and includes all that a tracer adds to a switch. Under SCHED_BATCH a
 * wakeup does not preempt, so that every switch is of the same kind: a thread that blocks.
 */
#include "pace.h"

#define WINDOW_NS 4000000ull

struct end {
	pthread_t thread;
	int cpu, rx, tx, depth;
	bool starts;
	uint64_t interval_ns; /* between switches; 0: none */
};

struct reading {
	uint64_t now_ns, cpu_ns, switches;
};

static struct reading read_all(void)
{
	struct rusage ru;

	getrusage(RUSAGE_SELF, &ru);
	return (struct reading){
		.now_ns = truth__now(),
		.cpu_ns = truth__clock(CLOCK_PROCESS_CPUTIME_ID),
		.switches = (uint64_t)(ru.ru_nvcsw + ru.ru_nivcsw),
	};
}

static void print_window(const struct reading *from, const struct reading *to, uint64_t pace_ns)
{
	char line[128];
	int n = snprintf(
		line, sizeof(line), "%llu %llu %llu %llu %llu\n", (unsigned long long)to->now_ns,
		(unsigned long long)(to->now_ns - from->now_ns),
		(unsigned long long)(to->cpu_ns - from->cpu_ns),
		(unsigned long long)(to->switches - from->switches), (unsigned long long)pace_ns);

	if (write(STDOUT_FILENO, line, (size_t)n) != n)
		exit(1);
}

__attribute__((always_inline)) static inline void hand_over(const struct end *e)
{
	char c = 'x';

	truth__syscall4(SYS_write, e->tx, (long)&c, 1, 0);
}

__attribute__((always_inline)) static inline bool await_turn(const struct end *e)
{
	char c;

	return truth__syscall4(SYS_read, e->rx, (long)&c, 1, 0) == 1;
}

/* Keeps the CPU until the next switch is due. What is overdue for long is not made up for. */
static void pace(const struct end *e)
{
	static uint64_t due;
	uint64_t now;

	if (!e->interval_ns)
		return;
	while ((now = truth__now()) < due)
		;
	due = now > due + 100 * e->interval_ns ? now : due + e->interval_ns;
}

/* The clock is read once in 64 turns. A window is as slow as its slower end. */
static FRAME void measure(const struct end *e)
{
	static struct reading last;
	static unsigned int turns;
	static uint64_t pace_ns;
	struct reading now;
	uint64_t before = pace_ns;

	if (!e->starts || turns++ % 64 || truth__now() < last.now_ns + WINDOW_NS)
		return;
	now = read_all();
	pace_ns = pace__ns();
	if (last.now_ns)
		print_window(&last, &now, pace_ns > before ? pace_ns : before);
	last = read_all();
}

static FRAME void play(const struct end *e)
{
	if (e->starts)
		hand_over(e);
	while (!truth__stop && await_turn(e)) {
		measure(e);
		pace(e);
		hand_over(e);
	}
	hand_over(e);
}

static FRAME void descend(const struct end *e, int left)
{
	if (left > 0)
		descend(e, left - 1);
	else
		play(e);
	AFTER_CALL();
}

static FRAME void *player(void *arg)
{
	const struct end *e = arg;

	truth__pin(e->cpu);
	descend(e, e->depth);
	return NULL;
}

int main(int argc, char **argv)
{
	int cpu = (int)truth__arg(argc, argv, 1, 0), depth = (int)truth__arg(argc, argv, 2, 20);
	long rate = truth__arg(argc, argv, 3, 0);
	uint64_t interval_ns = rate ? NSEC_PER_SEC / (uint64_t)rate : 0;
	struct sched_param batch = {0};
	int ab[2], ba[2];

	if (sched_setscheduler(0, SCHED_BATCH, &batch))
		return 1;
	if (pipe(ab) || pipe(ba))
		return 1;
	/* below 'play' are 'player' and the thread's entry in the C library */
	depth = depth > 4 ? depth - 4 : 0;
	struct end a = {.cpu = cpu,
			.rx = ba[0],
			.tx = ab[1],
			.depth = depth,
			.starts = true,
			.interval_ns = interval_ns};
	struct end b = {
		.cpu = cpu, .rx = ab[0], .tx = ba[1], .depth = depth, .interval_ns = interval_ns};

	truth__init();
	truth__spawn(&a.thread, player, &a);
	truth__spawn(&b.thread, player, &b);
	pthread_join(a.thread, NULL);
	pthread_join(b.thread, NULL);
	return 0;
}
