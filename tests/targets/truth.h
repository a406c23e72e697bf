/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * truth: what the workloads share. A workload measures itself with its own clocks and prints what
 * it did as one line of JSON, so that a recording can be compared with it. It talks to the test
 * over stdout: a line "ready", then, when told to end (SIGTERM) or when done, the truth.
 *
 * Sleeps and waits are system calls made in line: the function that waits is the leaf of its stack,
 * whatever the C library was built with.
 */
#ifndef TRUTH_H
#define TRUTH_H

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A function whose frame, name and callers stay as written. */
#define FRAME __attribute__((noipa, noinline))
/* Keeps a call from becoming a jump: something is left to do after it. */
#define AFTER_CALL() asm volatile("" ::: "memory")

#define NSEC_PER_SEC 1000000000ull

static volatile sig_atomic_t truth__stop;

static inline uint64_t truth__clock(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

static inline uint64_t truth__now(void)
{
	return truth__clock(CLOCK_MONOTONIC);
}

static inline pid_t truth__tid(void)
{
	return (pid_t)syscall(SYS_gettid);
}

__attribute__((always_inline)) static inline long truth__syscall4(long nr, long a, long b, long c,
								  long d)
{
#ifdef __x86_64__
	long ret;
	register long r10 asm("r10") = d;

	/* Makes the caller set up its frame, which it would not need for this. */
	asm volatile("" : : "r"(__builtin_frame_address(0)));
	asm volatile("syscall"
		     : "=a"(ret)
		     : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10)
		     : "rcx", "r11", "memory");
	return ret;
#else
	return syscall(nr, a, b, c, d);
#endif
}

/* The thread's CPU time. In line, so that a sample in it belongs to the caller. */
__attribute__((always_inline)) static inline uint64_t truth__cpu(void)
{
	struct timespec ts;

	truth__syscall4(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, (long)&ts, 0, 0);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

__attribute__((always_inline)) static inline void truth__sleep_ns(uint64_t ns)
{
	struct timespec ts = {
		.tv_sec = (time_t)(ns / NSEC_PER_SEC),
		.tv_nsec = (long)(ns % NSEC_PER_SEC),
	};

	truth__syscall4(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, (long)&ts, 0);
}

/* Runs on the CPU for 'ns' of thread time. Inlined: the time is the caller's own. */
__attribute__((always_inline)) static inline void truth__burn_ns(uint64_t ns)
{
	uint64_t end = truth__cpu() + ns;

	do {
		for (int i = 0; i < 20000; i++)
			asm volatile("" ::: "memory");
	} while (truth__cpu() < end);
}

static inline void truth__pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set)) {
		perror("sched_setaffinity");
		exit(1);
	}
}

/* The n-th CPU this process may use, counted round. */
static inline int truth__cpu_number(int n)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set))
		exit(1);
	n %= CPU_COUNT(&set);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &set) && n-- == 0)
			return cpu;
	return 0;
}

static inline void truth__on_signal(int sig)
{
	(void)sig;
	truth__stop = 1;
}

/* SIGTERM and SIGINT set truth__stop; sleeps end early. Timers are made as exact as they can be. */
static inline void truth__init(void)
{
	struct sigaction sa = {.sa_handler = truth__on_signal};

	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGINT, &sa, NULL);
	signal(SIGPIPE, SIG_DFL);
	prctl(PR_SET_TIMERSLACK, 1);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setvbuf(stdout, NULL, _IOFBF, 1 << 16);
}

static inline void truth__ready(void)
{
	printf("ready\n");
	fflush(stdout);
}

/* Waits for the test's go-ahead: a line (or the end) on stdin. */
static inline void truth__wait_go(void)
{
	char c;

	while (read(STDIN_FILENO, &c, 1) == 1 && c != '\n')
		;
}

static inline void truth__spawn(pthread_t *thread, void *(*fn)(void *), void *arg)
{
	pthread_attr_t attr;
	int err;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 256 << 10);
	err = pthread_create(thread, &attr, fn, arg);
	pthread_attr_destroy(&attr);
	if (err) {
		fprintf(stderr, "cannot create thread: %s\n", strerror(err));
		exit(1);
	}
}

static inline long truth__arg(int argc, char **argv, int i, long otherwise)
{
	return i < argc ? atol(argv[i]) : otherwise;
}

/*
 * A tape: the thread's own readings of (time, CPU time, voluntary switches, time slept) at moments
 * of its choice. The test interpolates it at the edges of the recorded window.
 */
struct tape_mark {
	uint64_t now_ns, cpu_ns, slept_ns;
	long voluntary;
};

struct tape {
	pid_t tid;
	uint64_t slept_ns;
	size_t n, cap;
	struct tape_mark *marks;
};

static inline void tape__mark(struct tape *t)
{
	struct rusage ru;

	if (t->n == t->cap) {
		t->cap = t->cap ? 2 * t->cap : 4096;
		t->marks = realloc(t->marks, t->cap * sizeof(*t->marks));
		if (!t->marks)
			exit(1);
	}
	getrusage(RUSAGE_THREAD, &ru);
	t->tid = truth__tid();
	t->marks[t->n++] = (struct tape_mark){
		.now_ns = truth__now(),
		.cpu_ns = truth__cpu(),
		.slept_ns = t->slept_ns,
		.voluntary = ru.ru_nvcsw,
	};
}

/* Thins long tapes to about 20,000 marks: plenty to interpolate between. */
static inline void tape__print(const struct tape *t)
{
	size_t step = t->n / 20000 + 1;

	printf("{\"tid\": %d, \"marks\": [", t->tid);
	for (size_t i = 0; i < t->n; i += step)
		printf("%s[%llu, %llu, %llu, %ld]", i ? ", " : "",
		       (unsigned long long)t->marks[i].now_ns,
		       (unsigned long long)t->marks[i].cpu_ns,
		       (unsigned long long)t->marks[i].slept_ns, t->marks[i].voluntary);
	printf("]}");
}

static inline void tapes__print(const struct tape *tapes, int n)
{
	printf("{\"tapes\": [");
	for (int i = 0; i < n; i++) {
		printf("%s", i ? ", " : "");
		tape__print(&tapes[i]);
	}
	printf("]}\n");
	fflush(stdout);
}

#endif
