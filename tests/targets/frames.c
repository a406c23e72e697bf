/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * frames: stacks with traps for symbolizers. last_call() ends in a call that does not return, so
 * the return address is the first byte of what follows; inlined_part() is inlined into holder(),
 * which is called through a static function.
 */
#include "truth.h"

static __attribute__((noipa, noinline, noreturn)) void never_returns(void)
{
	for (;;) {
		if (truth__stop) {
			printf("{}\n");
			fflush(stdout);
			_exit(0);
		}
		truth__burn_ns(300000);
		truth__sleep_ns(1000000);
	}
}

/* Kept in this order and next to each other. */
FRAME void last_call(void);
FRAME void next_function(void);

__attribute__((no_reorder)) FRAME void last_call(void)
{
	never_returns();
}

__attribute__((no_reorder, aligned(1))) FRAME void next_function(void)
{
	asm volatile("nop");
}

static inline __attribute__((always_inline)) void inlined_part(void)
{
	last_call();
	AFTER_CALL();
}

static FRAME void holder(void)
{
	AFTER_CALL();
	inlined_part();
	AFTER_CALL();
}

int main(int argc, char **argv)
{
	(void)argv;
	truth__init();
	truth__ready();
	if (argc > 100)
		next_function();
	holder();
	return 0;
}
