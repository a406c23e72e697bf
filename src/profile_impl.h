/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * profile_impl: the inside of a profile, for profile.c (which fills it) and profile_finish.c (which
 * balances it) only.
 */
#ifndef OFFCPU_PROFILE_IMPL_H
#define OFFCPU_PROFILE_IMPL_H

#include "idtable.h"
#include "intern.h"
#include "profile.h"

struct profile {
	struct intern *intern;
	struct profile_meta meta;
	struct profile_cost cost;

	struct idtable process_table; /* by (pid, comm) */
	struct profile_process *processes;
	size_t n_processes, cap_processes;

	struct profile_thread *threads;
	size_t n_threads, cap_threads;

	struct idtable sample_table; /* by (thread, stack) */
	struct profile_sample *samples;
	size_t n_samples, cap_samples;

	struct profile_loss *losses;
	size_t n_losses, cap_losses;

	bool finished;
};

/* Index of the sample (thread, stack), made empty if there is none. */
uint32_t profile__sample(struct profile *p, uint32_t thread, uint32_t stack);

#endif
