// SPDX-License-Identifier: GPL-2.0-or-later
#include "write.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/log.h"
#include "util/xalloc.h"
#include "write_impl.h"

/* Longest temporary name: ".offcpu-" and 16 hex digits. */
#define TEMP_SIZE     32
#define STREAM_BUFFER (256 * 1024)

const struct writer writers[] = {
	{"on", ".on.folded", "folded stacks of on-CPU time", write_folded__on},
	{"off", ".off.folded", "folded stacks of blocked and run-queue time", write_folded__off},
	{"json", ".json", "everything, for programs (docs/json.md)", write_json},
	{0},
};

/* A file on its way: written under a temporary name in the directory of its final one. */
struct output {
	char *path;	  /* final, as the user gave it */
	const char *name; /* last element of path */
	int dir;
	char temp[TEMP_SIZE]; /* empty: there is none */
	FILE *stream;
};

const struct writer *writer__find(const char *name)
{
	const struct writer *w;

	for (w = writers; w->name; w++)
		if (strcmp(w->name, name) == 0)
			return w;
	return NULL;
}

static int unknown_format(const char *name)
{
	char known[256] = "folded";
	const struct writer *w;
	size_t len = strlen(known);

	for (w = writers; w->name && len < sizeof(known); w++)
		len += snprintf(known + len, sizeof(known) - len, ", %s", w->name);
	log__error("cannot write format '%s': no such format; known are %s", log__safe(name),
		   known);
	return -EINVAL;
}

static int add_writer(const struct writer *w, const struct writer **list, int n, int max)
{
	int i;

	for (i = 0; i < n; i++)
		if (list[i] == w)
			return n;
	if (n == max) {
		log__error("cannot write more than %d formats at once", max);
		return -EINVAL;
	}
	list[n] = w;
	return n + 1;
}

static int add_format(const char *name, const struct writer **list, int n, int max)
{
	const struct writer *w = writer__find(name);

	if (strcmp(name, "folded") == 0) {
		n = add_writer(writer__find("on"), list, n, max);
		return n < 0 ? n : add_writer(writer__find("off"), list, n, max);
	}
	return w ? add_writer(w, list, n, max) : unknown_format(name);
}

int writers__parse(const char *text, const struct writer **list, int max)
{
	char *copy = xstrdup(text), *rest = copy, *name;
	int n = 0;

	while (n >= 0 && (name = strsep(&rest, ",")))
		n = add_format(name, list, n, max);
	free(copy);
	return n;
}

/* Splits a path into its directory (to be freed) and its last element. */
static char *split_path(const char *path, const char **name)
{
	const char *slash = strrchr(path, '/');

	*name = slash ? slash + 1 : path;
	if (!slash)
		return xstrdup(".");
	return slash == path ? xstrdup("/") : xasprintf("%.*s", (int)(slash - path), path);
}

static const char *hint(int err)
{
	switch (err) {
	case ENOENT:
		return "; create the directory first, or choose another with -o";
	case ENOSPC:
	case EDQUOT:
		return "; make room, or choose another place with -o";
	case EACCES:
	case EPERM:
	case EROFS:
	case ENOTDIR:
	case ENAMETOOLONG:
		return "; choose another place with -o";
	}
	return "";
}

static int cannot_write(const char *path, int err)
{
	log__error("cannot write '%s': %s%s", log__safe(path), strerror(-err), hint(-err));
	return err;
}

static size_t longest_suffix(void)
{
	const struct writer *w;
	size_t longest = 0;

	for (w = writers; w->name; w++)
		if (strlen(w->suffix) > longest)
			longest = strlen(w->suffix);
	return longest;
}

static int check_directory(const char *dir)
{
	struct stat st;

	if (stat(dir, &st) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	/* asks the kernel, which also knows of read-only mounts */
	return faccessat(AT_FDCWD, dir, W_OK | X_OK, AT_EACCESS) < 0 ? -errno : 0;
}

int write__check(const char *prefix)
{
	const char *name;
	char *dir = split_path(prefix, &name);
	int err;

	if (!*name) {
		log__error("cannot write '%s': it names no file; add the beginning of a file name",
			   log__safe(prefix));
		free(dir);
		return -EINVAL;
	}
	err = check_directory(dir);
	if (!err && strlen(name) + longest_suffix() > NAME_MAX)
		err = -ENAMETOOLONG;
	free(dir);
	return err ? cannot_write(prefix, err) : 0;
}

/* Reads an id from the environment. */
static bool env_id(const char *variable, uint32_t *id)
{
	const char *text = getenv(variable);
	char *end;
	unsigned long value;

	if (!text || *text < '0' || *text > '9')
		return false;
	errno = 0;
	value = strtoul(text, &end, 10);
	/* the last one is chown's "leave as it is" */
	if (errno || *end || value >= UINT32_MAX)
		return false;
	*id = value;
	return true;
}

static void give_to_invoker(int fd)
{
	uint32_t uid, gid;

	if (geteuid() != 0 || !env_id("SUDO_UID", &uid) || !env_id("SUDO_GID", &gid))
		return;
	if (fchown(fd, uid, gid) < 0)
		log__info("cannot give the output to user %u: %s", uid, strerror(errno));
}

static int random_name(char *name)
{
	uint64_t random;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return -errno;
	snprintf(name, TEMP_SIZE, ".offcpu-%016" PRIx64, random);
	return 0;
}

/* Creates a file that did not exist, never through a link. */
static int create_temp(struct output *o)
{
	int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	int fd, err, tries;

	for (tries = 0; tries < 16; tries++) {
		err = random_name(o->temp);
		if (err)
			break;
		fd = openat(o->dir, o->temp, flags, 0644);
		if (fd >= 0)
			return fd;
		err = -errno;
		if (err != -EEXIST)
			break;
	}
	o->temp[0] = 0;
	return err;
}

/* What stands under the final name may be replaced only if it is a plain file. */
static int check_target(const struct output *o)
{
	struct stat st;

	if (fstatat(o->dir, o->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : cannot_write(o->path, -errno);
	if (S_ISREG(st.st_mode))
		return 0;
	log__error("cannot write '%s': a %s of this name exists; remove it, or choose another "
		   "place with -o",
		   log__safe(o->path),
		   S_ISDIR(st.st_mode)	 ? "directory"
		   : S_ISLNK(st.st_mode) ? "symbolic link"
					 : "special file");
	return -EEXIST;
}

static int open_directory(struct output *o)
{
	char *dir = split_path(o->path, &o->name);

	o->dir = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	free(dir);
	return o->dir < 0 ? -errno : 0;
}

static int output__open(struct output *o)
{
	int err = open_directory(o), fd;

	if (err)
		return cannot_write(o->path, err);
	err = check_target(o);
	if (err)
		return err;
	fd = create_temp(o);
	if (fd < 0)
		return cannot_write(o->path, fd);
	give_to_invoker(fd);
	o->stream = fdopen(fd, "w");
	if (!o->stream) {
		close(fd);
		return cannot_write(o->path, -ENOMEM);
	}
	setvbuf(o->stream, NULL, _IOFBF, STREAM_BUFFER);
	return 0;
}

/* Flushes; tells any error of the stream's whole life. */
static int flush(FILE *stream)
{
	if (fflush(stream) != 0)
		return -errno;
	return ferror(stream) ? -EIO : 0;
}

static int output__commit(struct output *o)
{
	int err = flush(o->stream);
	FILE *stream = o->stream;

	o->stream = NULL;
	if (fclose(stream) != 0 && !err)
		err = -errno;
	if (!err && renameat(o->dir, o->temp, o->dir, o->name) < 0)
		err = -errno;
	if (err)
		return cannot_write(o->path, err);
	o->temp[0] = 0;
	return 0;
}

static void output__close(struct output *o)
{
	if (o->stream)
		fclose(o->stream);
	if (o->temp[0])
		unlinkat(o->dir, o->temp, 0);
	if (o->dir >= 0)
		close(o->dir);
	free(o->path);
}

int write__file(const struct writer *w, const struct profile *p, const struct write_opts *opts,
		const char *prefix)
{
	struct output o = {.dir = -1, .path = xasprintf("%s%s", prefix, w->suffix)};
	int err = output__open(&o);

	if (!err) {
		err = w->write(p, opts, o.stream);
		err = err ? cannot_write(o.path, err) : output__commit(&o);
	}
	output__close(&o);
	return err;
}

int write__stdout(const struct writer *w, const struct profile *p, const struct write_opts *opts)
{
	int err = w->write(p, opts, stdout), flush_err = flush(stdout);

	if (!err)
		err = flush_err;
	if (err && err != -EPIPE)
		log__error("cannot write to standard output: %s", strerror(-err));
	return err;
}
