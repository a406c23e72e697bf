/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cli: the command line, parsed once into a struct that does not change afterwards.
 */
#ifndef OFFCPU_CLI_H
#define OFFCPU_CLI_H

#include <stdbool.h>
#include <stdint.h>

struct options {
	/* the target: exactly one of these */
	const char *pids, *tids, *name, *cgroup;
	bool all;
	char **command; /* NULL-terminated, or NULL */

	bool children;
	uint64_t duration_ns; /* 0: until interrupted or the target's end */
	uint32_t sample_hz;
	uint64_t min_block_ns, max_block_ns; /* 0, UINT64_MAX: no limit */
	uint64_t state_mask;		     /* UINT64_MAX: all */
	bool user, kernel;		     /* which stacks */
	bool stacks;			     /* false with --stacks none */
	uint32_t max_depth;
	bool verify_memo;
	uint32_t map_entries; /* 0: default */

	bool no_inline, debuginfod;
	const char *prefix;  /* NULL: made from the target; "-": stdout */
	const char *formats; /* as given */
	bool per_thread;
	bool quiet, verbose;
	char *command_line; /* of offcpu itself, for the record */
	char *filter;	    /* the filter in words, or NULL */
};

/*
 * Parses argv. Prints --help and --version, and ends the program with status 0 after those and with
 * status 2 after one line about a usage error.
 */
void cli__parse(struct options *opts, int argc, char **argv);
void cli__free(struct options *opts);

#endif
