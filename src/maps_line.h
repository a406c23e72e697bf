/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * maps_line: one line of /proc/PID/maps. Format: proc(5), and show_map_vma() in the kernel's
 * fs/proc/task_mmu.c.
 */
#ifndef OFFCPU_MAPS_LINE_H
#define OFFCPU_MAPS_LINE_H

#include <stdbool.h>
#include <stdint.h>

struct maps_line {
	uint64_t start, end, offset, inode;
	uint32_t dev_major, dev_minor;
	bool executable;
	char *path; /* inside the parsed line; "" if the mapping has no name */
};

/*
 * Parses 'line' in place. Of the path only newlines are escaped by the kernel (as \012); they are
 * restored. Returns false if it is not such a line.
 */
bool maps_line__parse(char *line, struct maps_line *out);

/* Reads the mapping of process 'pid' (0: this one) that holds 'addr'; 'out->path' is "". */
bool maps_line__find(int pid, uint64_t addr, struct maps_line *out);

#endif
