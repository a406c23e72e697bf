/* SPDX-License-Identifier: GPL-2.0-or-later */
/* execer MS CMD ARGS...: sleeps MS milliseconds, then becomes CMD (same pid, same stdout). */
#include "truth.h"

static FRAME void before_exec(uint64_t ns)
{
	truth__sleep_ns(ns);
	AFTER_CALL();
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	truth__init();
	truth__ready();
	before_exec((uint64_t)atol(argv[1]) * 1000000);
	execv(argv[2], argv + 2);
	perror(argv[2]);
	return 1;
}
