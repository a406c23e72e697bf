// SPDX-License-Identifier: GPL-2.0-or-later
#include "maps_line.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One number that must be followed by 'stop', which is skipped. */
static bool number(char **pos, int base, char stop, uint64_t *out)
{
	char *end;

	if (!isxdigit((unsigned char)**pos))
		return false;
	errno = 0;
	*out = strtoull(*pos, &end, base);
	if (errno || end == *pos || *end != stop)
		return false;
	*pos = end + 1;
	return true;
}

static void unescape_newlines(char *path)
{
	char *out = path;

	while (*path) {
		if (!strncmp(path, "\\012", 4)) {
			*out++ = '\n';
			path += 4;
		} else {
			*out++ = *path++;
		}
	}
	*out = '\0';
}

/* The inode ends the line if the mapping has no name; the kernel then prints one space or none. */
static bool inode_and_path(char *pos, struct maps_line *out)
{
	char *end;

	if (!isdigit((unsigned char)*pos))
		return false;
	errno = 0;
	out->inode = strtoull(pos, &end, 10);
	if (errno || (*end && *end != ' '))
		return false;
	out->path = end + strspn(end, " ");
	unescape_newlines(out->path);
	return true;
}

bool maps_line__parse(char *line, struct maps_line *out)
{
	uint64_t dev_major, dev_minor;
	char *pos = line;

	line[strcspn(line, "\n")] = '\0';
	if (!number(&pos, 16, '-', &out->start) || !number(&pos, 16, ' ', &out->end))
		return false;
	if (strnlen(pos, 5) < 5 || pos[4] != ' ' || out->start >= out->end)
		return false;
	out->executable = pos[2] == 'x';
	pos += 5;
	if (!number(&pos, 16, ' ', &out->offset) || !number(&pos, 16, ':', &dev_major) ||
	    !number(&pos, 16, ' ', &dev_minor))
		return false;
	out->dev_major = dev_major;
	out->dev_minor = dev_minor;
	return inode_and_path(pos, out);
}

bool maps_line__find(int pid, uint64_t addr, struct maps_line *out)
{
	char name[32], *line = NULL;
	bool found = false;
	size_t size = 0;
	FILE *file;

	if (pid)
		snprintf(name, sizeof(name), "/proc/%d/maps", pid);
	else
		strcpy(name, "/proc/self/maps");
	file = fopen(name, "re");
	if (!file)
		return false;
	while (!found && getline(&line, &size, file) > 0)
		found = maps_line__parse(line, out) && out->start <= addr && addr < out->end;
	out->path = "";
	free(line);
	fclose(file);
	return found;
}
