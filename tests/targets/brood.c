/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * brood [wait] N MS [COPY]: N short-lived children, two at a time, each running for a third of MS
 * and sleeping for the rest. They are plain forks, or with COPY each runs a file of its own: a copy
 * of this program named COPY.number, which it deletes first thing. With "wait" it begins on a line
 * from stdin.
 */
#include <sys/sendfile.h>

#include "truth.h"

static FRAME void child_run(uint64_t ns)
{
	truth__burn_ns(ns);
	AFTER_CALL();
}

static FRAME void child_sleep(uint64_t ns)
{
	truth__sleep_ns(ns);
	AFTER_CALL();
}

static FRAME void child_life(long ms)
{
	child_run((uint64_t)ms * 1000000 / 3);
	child_sleep((uint64_t)ms * 1000000 * 2 / 3);
	AFTER_CALL();
}

static void copy_self(const char *path)
{
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int to = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);

	while (from >= 0 && to >= 0 && sendfile(to, from, NULL, 1 << 20) > 0)
		;
	close(from);
	close(to);
}

static pid_t bear(long number, long ms, const char *copy)
{
	char path[4096], text[32];
	pid_t pid = fork();

	if (pid)
		return pid;
	if (!copy) {
		child_life(ms);
		_exit(0);
	}
	snprintf(path, sizeof(path), "%s.%ld", copy, number);
	snprintf(text, sizeof(text), "%ld", ms);
	copy_self(path);
	execl(path, path, "child", text, NULL);
	_exit(127);
}

static int failed;

static void bury(void)
{
	int status;

	if (wait(&status) > 0 && status)
		failed++;
}

int main(int argc, char **argv)
{
	const char *copy;
	uint64_t start;
	struct rusage ru;
	long n, ms;

	if (argc == 3 && !strcmp(argv[1], "child")) {
		unlink(argv[0]);
		prctl(PR_SET_TIMERSLACK, 1);
		child_life(atol(argv[2]));
		return 0;
	}
	truth__init();
	if (argc > 1 && !strcmp(argv[1], "wait")) {
		truth__ready();
		truth__wait_go();
		argv++;
		argc--;
	}
	n = truth__arg(argc, argv, 1, 200);
	ms = truth__arg(argc, argv, 2, 30);
	copy = argc > 3 ? argv[3] : NULL;
	start = truth__now();
	for (long i = 0; i < n; i++) {
		if (i >= 2)
			bury();
		if (bear(i, ms, copy) < 0)
			failed++;
	}
	bury();
	if (n > 1)
		bury();
	getrusage(RUSAGE_CHILDREN, &ru);
	printf("{\"children\": %ld, \"failed\": %d, \"wall_ns\": %llu, \"cpu_us\": %lld}\n", n,
	       failed, (unsigned long long)(truth__now() - start),
	       (long long)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) * 1000000 +
		       ru.ru_utime.tv_usec + ru.ru_stime.tv_usec);
	fflush(stdout);
	return failed != 0;
}
