/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * usersys [USER_US [SYSTEM_US]]: CPU time spent by turns in user code and inside system calls
 * (reading /dev/zero), never sleeping. Both are measured with the thread's CPU clock.
 */
#include "truth.h"

static char buffer[1 << 18];
static int zero_fd;

static FRAME void in_user(uint64_t ns)
{
	truth__burn_ns(ns);
	AFTER_CALL();
}

static FRAME void in_system(uint64_t ns)
{
	uint64_t end = truth__cpu() + ns;

	while (truth__cpu() < end)
		truth__syscall4(SYS_read, zero_fd, (long)buffer, sizeof(buffer), 0);
}

int main(int argc, char **argv)
{
	uint64_t user_ns = (uint64_t)truth__arg(argc, argv, 1, 700) * 1000;
	uint64_t system_ns = (uint64_t)truth__arg(argc, argv, 2, 300) * 1000;
	uint64_t spent[2] = {0}, start;

	zero_fd = open("/dev/zero", O_RDONLY);
	memset(buffer, 1, sizeof(buffer));
	truth__init();
	truth__ready();
	while (!truth__stop) {
		/* A random length: no tick can fall into step with the turns. */
		start = truth__cpu();
		in_user(user_ns / 2 + (uint64_t)rand() % user_ns);
		spent[0] += truth__cpu() - start;
		start = truth__cpu();
		in_system(system_ns / 2 + (uint64_t)rand() % system_ns);
		spent[1] += truth__cpu() - start;
	}
	printf("{\"user_ns\": %llu, \"system_ns\": %llu}\n", (unsigned long long)spent[0],
	       (unsigned long long)spent[1]);
	return 0;
}
