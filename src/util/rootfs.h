/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rootfs: opening files inside another process's root. Whoever runs there may have put anything
 * under the name: symbolic links are followed inside that root only, and nothing but a regular file
 * is ever opened (opening a FIFO blocks, opening a device can act on it).
 */
#ifndef OFFCPU_ROOTFS_H
#define OFFCPU_ROOTFS_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

/* O_PATH descriptor of the root of 'pid', or of our own root if pid is 0; or -errno. */
int rootfs__open(pid_t pid);

/*
 * Opens the regular file 'path', taken from 'root', for reading; 'follow' says whether its last
 * element may be a symbolic link. Fills 'st' unless NULL. Returns a descriptor or -errno; -EINVAL
 * if it is not a regular file.
 */
int rootfs__open_file(int root, const char *path, bool follow, struct stat *st);

#endif
