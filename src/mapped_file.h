/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mapped_file: opens the file behind another process's mapping, and tells whether what was opened
 * is that very file. Reads the target's file system, which may be hostile: nothing but a regular
 * file is ever opened for reading, and no symlink leads out of the target's root.
 */
#ifndef OFFCPU_MAPPED_FILE_H
#define OFFCPU_MAPPED_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "elf_head.h"
#include "module.h"

/* Where a file may be found, in the order to try. */
enum mapped_place {
	PLACE_LINK,	    /* /proc/PID/map_files/START-END: also deleted and replaced files */
	PLACE_ROOT,	    /* the path below /proc/PID/root */
	PLACE_ROOT_DELETED, /* the same, " (deleted)" taken for the kernel's mark */
	PLACE_NEW_LINK,	    /* map_files, by what holds START now (mprotect splits mappings) */
	PLACE_OWN,	    /* the path in our own namespace: PID is gone, or chroot'ed */
	PLACE_OWN_DELETED,
	PLACES_N,
};

/* One mapping of a process; 'path' as the kernel gives it, possibly with " (deleted)". */
struct mapped_where {
	pid_t pid;
	uint64_t start, end;
	const char *path;
};

struct mapped_file {
	int fd;
	enum mapped_place place;
	char link[64]; /* name in map_files it was opened by, or "" */
	struct stat st;
};

/* Opens a regular file at one place. Returns 0 or -errno; says nothing. */
int mapped_file__open(struct mapped_file *file, const struct mapped_where *where,
		      enum mapped_place place);
void mapped_file__close(struct mapped_file *file);

/* Is this the file that 'id' tells of? */
bool mapped_file__is(const struct mapped_file *file, const struct elf_head *head,
		     const struct mapped_where *where, const struct module_id *id);

/* The file's name as the target sees it, without the kernel's " (deleted)". Caller frees. */
char *mapped_file__name(const struct mapped_file *file, const struct mapped_where *where);

/* Length of 'path' without " (deleted)". */
size_t mapped_file__bare_length(const char *path);

#endif
