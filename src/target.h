/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * target: who is recorded: resolves what the user named (pids, threads, a name, a cgroup, a
 * command) against /proc, and starts the command. Every failure is one line that says what is wrong
 * with the target.
 *
 * Owns: the list of pids, and the command's process until target__wait() has reaped it.
 */
#ifndef OFFCPU_TARGET_H
#define OFFCPU_TARGET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "abi.h"

struct target {
	enum target_mode mode;
	pid_t *ids; /* pids; or tids for TARGET_THREADS */
	int nids;
	char name[COMM_LEN]; /* TARGET_NAME */
	uint64_t cgroup;     /* TARGET_CGROUP: inode of the directory */
	char *controller;    /* TARGET_CGROUP: v1 controller; NULL for v2 */
	char *title;	     /* for headings: "postgres (pid 4242)" */
	char *slug;	     /* for file names: "postgres-4242" */

	pid_t child;	     /* the command, 0 if there is none */
	const char *command; /* its name as given */
	int go_fd;	     /* writing here lets it call exec */
	int exec_fd;	     /* tells whether exec worked */
	int status;	     /* as from waitpid(), once reaped */
	bool reaped;
};

/* All return 0, or -errno after saying why (-EINVAL: what was given makes no sense). 'list' is the
 * option's argument: "12,345". */
int target__processes(struct target *t, const char *list);
int target__threads(struct target *t, const char *list);
int target__name(struct target *t, const char *name);
int target__cgroup(struct target *t, const char *path);
void target__system(struct target *t);
/* Forks the command, which waits in front of exec until target__go(). */
int target__command(struct target *t, char **argv);

/* Lets the command run. Returns 0, or -errno of its exec after saying so. */
int target__go(struct target *t);
/* Has the command ended? Reaps it without waiting. */
bool target__ended(struct target *t);
/* Waits for the command; returns its status as a shell shows it (128 + n for signal n). */
int target__wait(struct target *t);

void target__free(struct target *t);

#endif
