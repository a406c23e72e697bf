/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * module: the files that are mapped executable in the target, one object per distinct file however
 * many processes map it. A module is opened at first sight, as the target sees it
 * (/proc/PID/map_files, else /proc/PID/root + path), checked to be the very file that is mapped
 * (device + inode, or build ID), and its descriptor is kept, so that it can be read after the
 * process is gone and the file deleted or replaced.
 *
 * Owns: descriptors, program headers, build IDs. Knows nothing of symbols.
 */
#ifndef OFFCPU_MODULE_H
#define OFFCPU_MODULE_H

#include <stdint.h>
#include <sys/types.h>

struct modules; /* the table */
struct module;	/* one file */

/* What is known of a file from a mapping. */
struct module_id {
	uint32_t dev_major, dev_minor;
	uint64_t inode;
	uint64_t inode_gen;	 /* 0: unknown */
	uint8_t build_id[20];
	uint8_t build_id_len;	 /* 0: unknown */
};

struct modules *modules__new(void);
void modules__free(struct modules *mods); /* NULL is allowed, as for every free function here */

/*
 * Finds or opens the file that process 'pid' maps at [start, end) under 'path' (path as in
 * /proc/PID/maps, possibly with " (deleted)"). Never blocks on a FIFO or device, never follows
 * anything but the mapping itself: what is opened must be a regular file. Always returns a module;
 * one that could not be opened has module__fd() < 0 and is shown by its name and file offsets.
 */
struct module *modules__open(struct modules *mods, const struct module_id *id, pid_t pid,
			     uint64_t start, uint64_t end, const char *path);

/* The vDSO, read from our own process's memory (it is the same for all 64-bit processes). */
struct module *modules__vdso(struct modules *mods);

int module__fd(const struct module *mod);		 /* < 0: could not be opened */
const char *module__path(const struct module *mod);	 /* as the target sees it, no " (deleted)" */
const char *module__name(const struct module *mod);	 /* last element of the path */
const char *module__build_id(const struct module *mod); /* hex, or NULL */
/* pid that the file was opened through; for looking up separate debug files in its root. */
pid_t module__pid(const struct module *mod);
/* In-memory ELF image (vDSO), or NULL. */
const void *module__image(const struct module *mod, size_t *size);

/*
 * Turns an offset in the file into the ELF virtual address, through the PT_LOAD headers (segments
 * whose address and offset differ are common). Without headers returns the offset itself.
 */
uint64_t module__vaddr(const struct module *mod, uint64_t file_offset);

/* A slot for the symbolizer to hang its per-file table on; freed by the given function. */
void *module__symbols(const struct module *mod);
void module__set_symbols(struct module *mod, void *symbols, void (*free_fn)(void *));

#endif
