/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * parked [THREADS]: threads that block once, by turns in a timer, a futex, a pipe and epoll, and
 * stay there until the end; the main thread too. Prints how often its threads were switched out.
 */
#include "truth.h"

static uint32_t never;
static int pipe_fds[2], epoll_fd;

static FRAME void park_timer(void)
{
	truth__sleep_ns(100000 * NSEC_PER_SEC);
	AFTER_CALL();
}

static FRAME void park_futex(void)
{
	truth__syscall4(SYS_futex, (long)&never, FUTEX_WAIT_PRIVATE, 0, 0);
	AFTER_CALL();
}

static FRAME void park_pipe(void)
{
	char c;

	truth__syscall4(SYS_read, pipe_fds[0], (long)&c, 1, 0);
	AFTER_CALL();
}

static FRAME void park_epoll(void)
{
	struct epoll_event event;

	truth__syscall4(SYS_epoll_wait, epoll_fd, (long)&event, 1, -1);
	AFTER_CALL();
}

static void (*const parks[])(void) = {park_timer, park_futex, park_pipe, park_epoll};

static FRAME void *parked(void *arg)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	for (;;)
		parks[(uintptr_t)arg % 4]();
	return NULL;
}

int main(int argc, char **argv)
{
	long n = truth__arg(argc, argv, 1, 4);
	pthread_t thread;

	truth__init();
	epoll_fd = epoll_create1(0);
	if (epoll_fd < 0 || pipe(pipe_fds))
		return 1;
	for (long i = 0; i < n; i++)
		truth__spawn(&thread, parked, (void *)i);
	truth__sleep_ns(100000000);
	truth__ready();
	while (!truth__stop)
		park_timer();
	printf("{\"threads\": %ld}\n", n + 1);
	fflush(stdout);
	_exit(0);
}
