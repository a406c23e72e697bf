// SPDX-License-Identifier: GPL-2.0-or-later
#include "status.h"

#include <stdio.h>
#include <unistd.h>

#define INTERVAL_NS 250000000ULL

void status__init(struct status *s, bool wanted)
{
	s->active = wanted && isatty(STDERR_FILENO);
	s->shown_ns = 0;
}

void status__show(struct status *s, uint64_t now_ns, uint64_t elapsed_ns, uint64_t duration_ns,
		  uint64_t threads, uint64_t stacks)
{
	if (!s->active || now_ns < s->shown_ns + INTERVAL_NS)
		return;
	s->shown_ns = now_ns;
	fprintf(stderr, "\r\033[Krecording %.1f s", elapsed_ns / 1e9);
	if (duration_ns)
		fprintf(stderr, " of %.1f s", duration_ns / 1e9);
	fprintf(stderr, "  %llu thread%s  %llu stacks  (Ctrl-C ends)", (unsigned long long)threads,
		threads == 1 ? "" : "s", (unsigned long long)stacks);
	fflush(stderr);
}

void status__clear(struct status *s)
{
	if (s->active && s->shown_ns) {
		fputs("\r\033[K", stderr);
		fflush(stderr);
	}
}
