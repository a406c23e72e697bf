// SPDX-License-Identifier: GPL-2.0-or-later
#include "perfmap.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ranges.h"
#include "util/log.h"
#include "util/rootfs.h"
#include "util/xalloc.h"

#define MAX_FILE_BYTES (256LL << 20)
#define MAX_LINE       4096 /* longer names are cut */

struct perfmap {
	struct ranges lines; /* id: index of the name, in order of the lines */
	char **names;
	size_t n, cap;
	/* how far which file was read; its first bytes tell whether it was written anew since */
	dev_t dev;
	ino_t ino;
	off_t offset;
	char head[256];
	size_t head_len;
};

struct perfmap *perfmap__new(void)
{
	return xcalloc(1, sizeof(struct perfmap));
}

void perfmap__free(struct perfmap *map)
{
	if (!map)
		return;
	for (size_t i = 0; i < map->n; i++)
		free(map->names[i]);
	free(map->names);
	ranges__clear(&map->lines);
	free(map);
}

/* strtoull() without its signs and leading spaces. */
static bool parse_hex(const char **text, uint64_t *value)
{
	char *end;

	if (!isxdigit((unsigned char)**text))
		return false;
	errno = 0;
	*value = strtoull(*text, &end, 16);
	if (errno || *end != ' ')
		return false;
	*text = end + strspn(end, " ");
	return true;
}

static void parse_line(struct perfmap *map, char *line)
{
	const char *p = line;
	uint64_t start, size;

	line[strcspn(line, "\r\n")] = 0;
	if (!parse_hex(&p, &start) || !parse_hex(&p, &size) || !*p)
		return;
	if (!size || size > UINT64_MAX - start || map->n == UINT32_MAX)
		return;
	map->names = xgrow(map->names, map->n, &map->cap, sizeof(*map->names));
	map->names[map->n] = xstrdup(p);
	ranges__add(&map->lines, start, start + size, map->n++);
}

/* Reads a line of any length, of which it keeps the beginning. Returns its length in the file, or
 * 0 at the end of the file or of what is complete: the last line may still be being written. */
static size_t read_line(FILE *file, char *line, size_t size)
{
	size_t len = 0;
	int c;

	while ((c = getc_unlocked(file)) != EOF) {
		if (len < size - 1)
			line[len] = c;
		len++;
		if (c == '\n') {
			line[len < size ? len : size - 1] = 0;
			return len;
		}
	}
	return 0;
}

static void read_lines(struct perfmap *map, FILE *file)
{
	char line[MAX_LINE];
	size_t len;

	while (map->offset < MAX_FILE_BYTES && (len = read_line(file, line, sizeof(line)))) {
		map->offset += len;
		parse_line(map, line);
	}
}

static bool same_file(const struct perfmap *map, int fd, const struct stat *st)
{
	char head[sizeof(map->head)];

	return st->st_dev == map->dev && st->st_ino == map->ino && st->st_size >= map->offset &&
	       pread(fd, head, map->head_len, 0) == (ssize_t)map->head_len &&
	       !memcmp(head, map->head, map->head_len);
}

/* Sets the position from which to read: where the last reading ended, if it is the same file. */
static int find_position(struct perfmap *map, int fd)
{
	struct stat st;
	ssize_t len;

	if (fstat(fd, &st))
		return -errno;
	if (!same_file(map, fd, &st))
		map->offset = 0;
	len = pread(fd, map->head, sizeof(map->head), 0);
	map->head_len = len < 0 ? 0 : len;
	map->dev = st.st_dev;
	map->ino = st.st_ino;
	return 0;
}

int perfmap__read_fd(struct perfmap *map, int fd)
{
	FILE *file;
	int err = find_position(map, fd);

	if (err)
		return err;
	fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	file = fd < 0 ? NULL : fdopen(fd, "r");
	if (!file || fseeko(file, map->offset, SEEK_SET)) {
		err = -errno;
		if (file)
			fclose(file);
		else if (fd >= 0)
			close(fd);
		return err;
	}
	read_lines(map, file);
	fclose(file);
	ranges__flatten(&map->lines);
	return 0;
}

struct owner {
	unsigned uid, euid;
	int nspid; /* pid in the process's own pid namespace */
};

static int read_owner(int proc, struct owner *owner)
{
	int fd = openat(proc, "status", O_RDONLY | O_CLOEXEC);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
	char line[512], *last;
	int found = 0;

	if (!file)
		return -errno;
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "Uid: %u %u", &owner->uid, &owner->euid) == 2)
			found |= 1;
		if (strncmp(line, "NSpid:", 6))
			continue;
		last = strrchr(line, '\t');
		if (last && sscanf(last, "%d", &owner->nspid) == 1)
			found |= 2;
	}
	fclose(file);
	return found == 3 ? 0 : -EPROTO;
}

static int check(const struct stat *st, const struct owner *owner, const char *path, pid_t pid)
{
	if (st->st_uid && st->st_uid != owner->uid && st->st_uid != owner->euid) {
		log__warn("cannot use '/%s': it belongs to user %u, not to that of process %d",
			  path, (unsigned)st->st_uid, (int)pid);
		return -EPERM;
	}
	if (st->st_size > MAX_FILE_BYTES)
		log__warn("'/%s' of process %d is too large: only the first %lld MiB are read",
			  path, (int)pid, MAX_FILE_BYTES >> 20);
	return 0;
}

static int open_map(int proc, pid_t pid)
{
	struct owner owner;
	char path[64];
	struct stat st;
	int root, fd, err;

	err = read_owner(proc, &owner);
	if (err)
		return err;
	root = openat(proc, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return -errno;
	snprintf(path, sizeof(path), "tmp/perf-%d.map", owner.nspid);
	fd = rootfs__open_file(root, path, false, &st);
	close(root);
	if (fd == -EINVAL)
		log__warn("cannot use '/%s' of process %d: it is not a regular file", path,
			  (int)pid);
	if (fd < 0)
		return fd;
	err = check(&st, &owner, path, pid);
	if (!err)
		return fd;
	close(fd);
	return err;
}

/* All is opened from one descriptor of /proc/PID, so that it is one process even if the pid is
 * reused meanwhile. */
int perfmap__read(struct perfmap *map, pid_t pid)
{
	char path[32];
	int proc, fd, err;

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	proc = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (proc < 0)
		return -errno;
	fd = open_map(proc, pid);
	close(proc);
	if (fd < 0)
		return fd;
	err = perfmap__read_fd(map, fd);
	close(fd);
	return err;
}

const char *perfmap__find(const struct perfmap *map, uint64_t addr)
{
	const struct range *line = ranges__find(&map->lines, addr);

	return line ? map->names[line->id] : NULL;
}
