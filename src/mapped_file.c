// SPDX-License-Identifier: GPL-2.0-or-later
#include "mapped_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "maps_line.h"
#include "util/xalloc.h"

#define DELETED	     " (deleted)"
#define LOOKUP_TRIES 4

size_t mapped_file__bare_length(const char *path)
{
	size_t len = strlen(path), mark = strlen(DELETED);

	return len > mark && !strcmp(path + len - mark, DELETED) ? len - mark : len;
}

/*
 * Finds 'path' (of 'len' bytes) below 'root' as O_PATH, which has no effect on FIFOs and devices.
 * RESOLVE_IN_ROOT keeps absolute symlinks that the target may have planted inside its own root.
 */
static int find_below(const char *root, const char *path, size_t len)
{
	struct open_how how = {
		.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	int root_fd, fd, tries = LOOKUP_TRIES;
	char *name;

	if (path[0] != '/')
		return -ENOENT;
	root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root_fd < 0)
		return -errno;
	name = xasprintf("%.*s", (int)len, path);
	do /* EAGAIN: something was renamed or mounted meanwhile */
		fd = syscall(SYS_openat2, root_fd, name, &how, sizeof(how));
	while (fd < 0 && errno == EAGAIN && --tries);
	fd = fd < 0 ? -errno : fd;
	free(name);
	close(root_fd);
	return fd;
}

static int find_in_root(const struct mapped_where *where, size_t len)
{
	char root[32];

	snprintf(root, sizeof(root), "/proc/%d/root", where->pid);
	return find_below(root, where->path, len);
}

static int find_link(struct mapped_file *file, pid_t pid, uint64_t start, uint64_t end)
{
	int fd;

	snprintf(file->link, sizeof(file->link), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, pid,
		 start, end);
	fd = open(file->link, O_PATH | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int find_new_link(struct mapped_file *file, const struct mapped_where *where)
{
	struct maps_line line;

	if (!maps_line__find(where->pid, where->start, &line) || !line.inode)
		return -ENOENT;
	if (line.start == where->start && line.end == where->end)
		return -ENOENT; /* was tried */
	return find_link(file, where->pid, line.start, line.end);
}

/* Returns an O_PATH descriptor of whatever is there. */
static int find(struct mapped_file *file, const struct mapped_where *where)
{
	size_t len = strlen(where->path), bare = mapped_file__bare_length(where->path);

	switch (file->place) {
	case PLACE_LINK:
		return find_link(file, where->pid, where->start, where->end);
	case PLACE_NEW_LINK:
		return find_new_link(file, where);
	case PLACE_ROOT:
		return find_in_root(where, len);
	case PLACE_ROOT_DELETED:
		return bare == len ? -ENOENT : find_in_root(where, bare);
	case PLACE_OWN:
		return find_below("/", where->path, len);
	case PLACE_OWN_DELETED:
		return bare == len ? -ENOENT : find_below("/", where->path, bare);
	default:
		return -EINVAL;
	}
}

/* Opens for reading what an O_PATH descriptor stands for: the same inode, whatever happens to
 * names. */
static int open_found(int path_fd, struct stat *st)
{
	char name[32];
	int fd;

	if (fstat(path_fd, st))
		return -errno;
	if (!S_ISREG(st->st_mode))
		return -EINVAL;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", path_fd);
	/* O_NONBLOCK: not held up by somebody's lease on the file. */
	fd = open(name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int mapped_file__open(struct mapped_file *file, const struct mapped_where *where,
		      enum mapped_place place)
{
	int path_fd;

	memset(file, 0, sizeof(*file));
	file->place = place;
	file->fd = -1;
	path_fd = find(file, where);
	if (path_fd < 0)
		return path_fd;
	file->fd = open_found(path_fd, &file->st);
	close(path_fd);
	return file->fd < 0 ? file->fd : 0;
}

void mapped_file__close(struct mapped_file *file)
{
	if (file->fd >= 0)
		close(file->fd);
	file->fd = -1;
}

/* Inode numbers are reused at once by some file systems; those have a generation number. */
static bool other_generation(int fd, uint64_t expected)
{
	long gen = 0; /* the kernel stores an int, whatever the request's size says */

	if (!expected || ioctl(fd, FS_IOC_GETVERSION, &gen))
		return false;
	return (uint32_t)gen != (uint32_t)expected;
}

/* Maps the file and reads how the kernel prints that mapping's device and inode. */
static bool mapped_as(int fd, const struct module_id *id)
{
	size_t size = sysconf(_SC_PAGESIZE);
	struct maps_line line;
	bool same;
	void *addr;

	addr = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (addr == MAP_FAILED)
		return false;
	same = maps_line__find(0, (uintptr_t)addr, &line) && line.dev_major == id->dev_major &&
	       line.dev_minor == id->dev_minor && line.inode == id->inode;
	munmap(addr, size);
	return same;
}

/* On overlayfs: does map_files lead to the path of the record? */
static bool overlay_link_is(const struct mapped_file *file, const struct mapped_where *where)
{
	char text[4096];
	struct statfs fs;
	ssize_t len;

	if (file->place != PLACE_LINK || fstatfs(file->fd, &fs) ||
	    fs.f_type != OVERLAYFS_SUPER_MAGIC)
		return false;
	len = readlink(file->link, text, sizeof(text) - 1);
	if (len <= 0)
		return false;
	text[len] = '\0';
	return !strcmp(text, where->path);
}

/*
 * What proves that a file is the mapped one, strongest first:
 *  - the build ID that the kernel read from the mapping itself;
 *  - device, inode and, where known, generation, equal to those of stat();
 *  - overlayfs and btrfs show other devices (and inodes) in maps than in stat(), and the difference
 *    depends on the kernel's version and the mount: so let the kernel print both sides, by mapping
 *    the file here and comparing the two lines of maps. btrfs subvolumes share the device shown in
 *    maps, so a snapshot's file looks the same this way: believed only by map_files, where the
 *    kernel itself leads to the file;
 *  - from Linux 6.7 on maps shows the overlay's inode while perf's records may still show that of
 *    the layer below: there the kernel's own link, for the exact range and with the record's path,
 *    is taken. Files without build ID in containers (Go programs) depend on it.
 */
bool mapped_file__is(const struct mapped_file *file, const struct elf_head *head,
		     const struct mapped_where *where, const struct module_id *id)
{
	bool by_link = file->place == PLACE_LINK || file->place == PLACE_NEW_LINK;
	struct statfs fs;

	if (id->build_id_len)
		return head->build_id_len == id->build_id_len &&
		       !memcmp(head->build_id, id->build_id, id->build_id_len);
	if (!id->inode)
		return file->place == PLACE_LINK;
	if (major(file->st.st_dev) == id->dev_major && minor(file->st.st_dev) == id->dev_minor &&
	    file->st.st_ino == id->inode)
		return !other_generation(file->fd, id->inode_gen);
	if (!by_link && (fstatfs(file->fd, &fs) || fs.f_type == BTRFS_SUPER_MAGIC))
		return false;
	if (mapped_as(file->fd, id))
		return !other_generation(file->fd, id->inode_gen);
	return overlay_link_is(file, where);
}

/* " (deleted)" may be part of a file's name: it is if the file is found under it. */
char *mapped_file__name(const struct mapped_file *file, const struct mapped_where *where)
{
	size_t len = strlen(where->path), bare = mapped_file__bare_length(where->path);
	struct stat st;
	int fd;

	if (bare < len && file->place != PLACE_ROOT && file->place != PLACE_OWN) {
		fd = find_in_root(where, len);
		if (fd < 0 || fstat(fd, &st) || st.st_dev != file->st.st_dev ||
		    st.st_ino != file->st.st_ino)
			len = bare;
		if (fd >= 0)
			close(fd);
	}
	return xasprintf("%.*s", (int)len, where->path);
}
