// SPDX-License-Identifier: GPL-2.0-or-later
#include "util/rootfs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

int rootfs__open(pid_t pid)
{
	char path[32] = "/";
	int fd;

	if (pid)
		snprintf(path, sizeof(path), "/proc/%d/root", (int)pid);
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Opens for reading what an O_PATH descriptor, known to be a regular file, stands for. */
static int reopen(int fd)
{
	char path[32];
	int file;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	file = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return file < 0 ? -errno : file;
}

int rootfs__open_file(int root, const char *path, bool follow, struct stat *st)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW),
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	struct stat own;
	int fd, ret;

	if (!st)
		st = &own;
	fd = syscall(SYS_openat2, root, path, &how, sizeof(how));
	if (fd < 0)
		return -errno;
	if (fstat(fd, st))
		ret = -errno;
	else
		ret = S_ISREG(st->st_mode) ? reopen(fd) : -EINVAL;
	close(fd);
	return ret;
}
