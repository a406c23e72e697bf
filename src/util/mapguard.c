// SPDX-License-Identifier: GPL-2.0-or-later
#include "util/mapguard.h"

#include <setjmp.h>
#include <signal.h>
#include <string.h>

static __thread sigjmp_buf escape;
static __thread volatile sig_atomic_t guarded;

static void on_sigbus(int sig)
{
	if (guarded)
		siglongjmp(escape, 1);
	/* Not ours: let it kill us when the instruction is run again. */
	signal(sig, SIG_DFL);
}

bool mapguard__run(void (*fn)(void *), void *arg)
{
	struct sigaction action = {.sa_handler = on_sigbus, .sa_flags = SA_NODEFER}, old;
	volatile bool done = false;

	sigaction(SIGBUS, &action, &old);
	if (!sigsetjmp(escape, 0)) {
		guarded = 1;
		fn(arg);
		done = true;
	}
	guarded = 0;
	sigaction(SIGBUS, &old, NULL);
	return done;
}
