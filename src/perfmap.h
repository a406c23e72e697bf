/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * perfmap: names of JIT-compiled code, as runtimes write them to /tmp/perf-PID.map, one line
 * "START SIZE NAME" each (numbers in hex). The format is described in the kernel's source, at
 * tools/perf/Documentation/jit-interface.txt. A runtime appends a line whenever it compiles; code
 * that is moved or replaced gets another line: the later one wins.
 */
#ifndef OFFCPU_PERFMAP_H
#define OFFCPU_PERFMAP_H

#include <stdint.h>
#include <sys/types.h>

struct perfmap;

struct perfmap *perfmap__new(void);
void perfmap__free(struct perfmap *map);

/*
 * Reads the map of 'pid' in that process's root, under the pid that it has in its own pid
 * namespace. The file must be a regular one and belong to the process's user or root. May be called
 * again: a file that grew is read on, one that was replaced is read whole; what was known before
 * stays where nothing replaces it. Returns 0, -ENOENT (none), or -errno.
 */
int perfmap__read(struct perfmap *map, pid_t pid);

/* Reads lines from an open file; the part of perfmap__read() behind the checks. */
int perfmap__read_fd(struct perfmap *map, int fd);

/* Name of the code at 'addr', or NULL. Valid until the map is freed. */
const char *perfmap__find(const struct perfmap *map, uint64_t addr);

#endif
