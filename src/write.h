/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * write: the table of output formats, and safe files. A format is one writer: a name, a suffix and
 * a function from profile to stream; none reads anything but the profile.
 */
#ifndef OFFCPU_WRITE_H
#define OFFCPU_WRITE_H

#include <stdbool.h>
#include <stdio.h>

struct profile;

struct write_opts {
	bool per_thread; /* -T: the second element of a folded stack is thread-name/TID */
};

struct writer {
	const char *name;   /* "on", "off", "json" */
	const char *suffix; /* ".on.folded" */
	const char *help;   /* one line for --help */
	/* Returns 0 or -errno. The caller checks the stream for errors. */
	int (*write)(const struct profile *p, const struct write_opts *opts, FILE *out);
};

/* All writers, ended by one without a name. */
extern const struct writer writers[];

/* Finds a writer, or NULL. */
const struct writer *writer__find(const char *name);

/*
 * Parses a list of formats ("folded,json"; "folded" stands for "on,off") into 'list', at most 'max'
 * distinct writers in the order given. Returns their number, or -EINVAL after saying which name is
 * unknown and which are known.
 */
int writers__parse(const char *text, const struct writer **list, int max);

/*
 * Checks, before a recording starts, that 'prefix' can be written: its directory exists and is
 * writable. Returns 0, or -errno after saying why not.
 */
int write__check(const char *prefix);

/*
 * Writes prefix + suffix: to a temporary file in the same directory (O_EXCL, never through a
 * planted link), flushed and renamed; given to SUDO_UID:SUDO_GID when run under sudo. On any error
 * the temporary file is removed and an existing file stays as it was. Returns 0, or -errno after
 * saying why.
 */
int write__file(const struct writer *w, const struct profile *p, const struct write_opts *opts,
		const char *prefix);

/* Writes one format to stdout. Returns 0 or -errno (-EPIPE is silent). */
int write__stdout(const struct writer *w, const struct profile *p, const struct write_opts *opts);

#endif
