// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * When two mappings are of one file.
 *
 * A held descriptor keeps its inode in existence, so the (device, inode) that stat() gives names
 * one file among all held ones, for as long as they are held: this is the first key. A mapping's
 * device and inode as the kernel reports them are looked up under the same key. They differ from
 * stat()'s on overlayfs and btrfs, but then they match no held file (no regular file there has the
 * device that maps shows), and the file is opened again and recognised by its stat() data.
 *
 * Second key: the build ID. Records of exec and mmap carry it instead of the inode. With the same
 * path it is enough, and nothing needs opening, so a storm of short processes costs no system call
 * but one fstat() per mapping. Under another path (each container has its own copy of libc) the
 * file is opened, and is the same module if size and program headers are equal too: a stripped copy
 * has the same build ID but fewer symbols.
 *
 * Files that could not be opened are keyed by all that is known of them, path included: nothing
 * guarantees that an inode number still means the same file.
 */
#include "module.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "elf_head.h"
#include "mapped_file.h"
#include "maps_line.h"
#include "util/log.h"
#include "util/xalloc.h"

#define uthash_malloc(size)    xmalloc(size)
#define uthash_free(ptr, size) free(ptr)
#include <uthash.h>

/* Descriptors left to the rest of the program. */
#define SPARE_FDS 256

struct file_key {
	uint64_t inode;
	uint32_t dev_major, dev_minor;
};

struct build_key {
	uint8_t len;
	uint8_t bytes[20];
};

struct module {
	int fd;
	pid_t pid;
	char *path;
	const char *name;
	char build_id[41];
	struct elf_head head;
	struct stat st; /* when it was opened */
	struct file_key file_key;
	struct file_key seen_as; /* what maps shows where that is not file_key; 0: none known */
	struct build_key build_key;
	char *unopened_key;
	void *image;
	size_t image_size;
	void *symbols;
	void (*free_symbols)(void *symbols);
	struct module *next;	   /* all */
	struct module *same_build; /* next one of the same build ID */
	UT_hash_handle by_file, by_build, by_unopened;
};

struct modules {
	struct module *all;
	struct module *files;	 /* by stat()'s device and inode; held ones */
	struct module *builds;	 /* by build ID; held ones; heads of same_build lists */
	struct module *unopened; /* by all that is known */
	struct module *vdso;
	size_t fds, max_fds;
	bool warned;
};

static void raise_fd_limit(struct modules *mods)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim))
		return;
	if (lim.rlim_cur < lim.rlim_max) {
		rlim_t old = lim.rlim_cur;

		lim.rlim_cur = lim.rlim_max;
		if (setrlimit(RLIMIT_NOFILE, &lim))
			lim.rlim_cur = old;
	}
	mods->max_fds = lim.rlim_cur > 2 * SPARE_FDS ? lim.rlim_cur - SPARE_FDS : lim.rlim_cur / 2;
}

struct modules *modules__new(void)
{
	struct modules *mods = xcalloc(1, sizeof(*mods));

	raise_fd_limit(mods);
	return mods;
}

static void module__free(struct module *mod)
{
	if (mod->free_symbols)
		mod->free_symbols(mod->symbols);
	if (mod->fd >= 0)
		close(mod->fd);
	elf_head__clear(&mod->head);
	free(mod->unopened_key);
	free(mod->image);
	free(mod->path);
	free(mod);
}

void modules__free(struct modules *mods)
{
	struct module *mod;

	if (!mods)
		return;
	HASH_CLEAR(by_file, mods->files);
	HASH_CLEAR(by_build, mods->builds);
	HASH_CLEAR(by_unopened, mods->unopened);
	while ((mod = mods->all)) {
		mods->all = mod->next;
		module__free(mod);
	}
	free(mods);
}

static struct module *add(struct modules *mods, char *path, int fd, pid_t pid)
{
	struct module *mod = xcalloc(1, sizeof(*mod));
	const char *slash = strrchr(path, '/');

	mod->fd = fd;
	mod->pid = pid;
	mod->path = path;
	mod->name = slash && slash[1] ? slash + 1 : path;
	mod->next = mods->all;
	mods->all = mod;
	return mod;
}

static void set_head(struct module *mod, const struct elf_head *head)
{
	uint8_t i;

	mod->head = *head;
	mod->build_key.len = head->build_id_len;
	memcpy(mod->build_key.bytes, head->build_id, head->build_id_len);
	for (i = 0; i < head->build_id_len; i++)
		sprintf(mod->build_id + 2 * i, "%02x", head->build_id[i]);
}

static struct file_key stat_key(const struct stat *st)
{
	return (struct file_key){
		.inode = st->st_ino,
		.dev_major = major(st->st_dev),
		.dev_minor = minor(st->st_dev),
	};
}

static struct file_key id_key(const struct module_id *id)
{
	return (struct file_key){
		.inode = id->inode,
		.dev_major = id->dev_major,
		.dev_minor = id->dev_minor,
	};
}

static struct module *first_of_build(struct modules *mods, const uint8_t *bytes, uint8_t len)
{
	struct build_key key = {.len = len};
	struct module *mod;

	memcpy(key.bytes, bytes, len);
	HASH_FIND(by_build, mods->builds, &key, sizeof(key), mod);
	return mod;
}

static void add_to_build(struct modules *mods, struct module *mod)
{
	struct module *first;

	if (!mod->head.build_id_len)
		return;
	first = first_of_build(mods, mod->head.build_id, mod->head.build_id_len);
	if (first) {
		mod->same_build = first->same_build;
		first->same_build = mod;
	} else {
		HASH_ADD(by_build, mods->builds, build_key, sizeof(mod->build_key), mod);
	}
}

static void remove_from_build(struct modules *mods, struct module *mod)
{
	struct module *first, *rest = mod->same_build;

	if (!mod->head.build_id_len)
		return;
	first = first_of_build(mods, mod->head.build_id, mod->head.build_id_len);
	mod->same_build = NULL;
	if (first != mod) {
		while (first->same_build != mod)
			first = first->same_build;
		first->same_build = rest;
		return;
	}
	HASH_DELETE(by_build, mods->builds, mod);
	if (rest)
		HASH_ADD(by_build, mods->builds, build_key, sizeof(rest->build_key), rest);
}

/*
 * A file that was overwritten in place is another one from now on; the module stays for the
 * mappings that refer to it, but is found no more.
 */
static bool current(struct modules *mods, struct module *mod)
{
	struct stat st;

	if (!fstat(mod->fd, &st) && st.st_size == mod->st.st_size &&
	    st.st_mtim.tv_sec == mod->st.st_mtim.tv_sec &&
	    st.st_mtim.tv_nsec == mod->st.st_mtim.tv_nsec)
		return true;
	HASH_DELETE(by_file, mods->files, mod);
	remove_from_build(mods, mod);
	return false;
}

static struct module *find_file(struct modules *mods, const struct file_key *key)
{
	struct module *mod;

	HASH_FIND(by_file, mods->files, key, sizeof(*key), mod);
	return mod && current(mods, mod) ? mod : NULL;
}

/* The held modules of a build ID, as a list; without those whose files were overwritten since. */
static struct module *find_builds(struct modules *mods, const uint8_t *bytes, uint8_t len)
{
	struct module *mod, *next;

	for (mod = first_of_build(mods, bytes, len); mod; mod = next) {
		next = mod->same_build;
		current(mods, mod);
	}
	return first_of_build(mods, bytes, len);
}

static struct module *find_build_at(struct modules *mods, const struct module_id *id,
				    const char *path)
{
	size_t bare = mapped_file__bare_length(path);
	struct module *mod = find_builds(mods, id->build_id, id->build_id_len);

	for (; mod; mod = mod->same_build)
		if (!strcmp(mod->path, path) ||
		    (strlen(mod->path) == bare && !strncmp(mod->path, path, bare)))
			return mod;
	return NULL;
}

/* What can be told without opening anything. */
static struct module *find_known(struct modules *mods, const struct module_id *id, const char *path)
{
	struct file_key key = id_key(id);

	if (id->build_id_len)
		return find_build_at(mods, id, path);
	/* With a generation the inode may be that of a predecessor: look at the file. */
	if (!id->inode || id->inode_gen)
		return NULL;
	return find_file(mods, &key);
}

/* Is an open file, which is also that of module 'mod', the one that is mapped? */
static bool is_known(const struct module *mod, const struct module_id *id)
{
	struct file_key key = id_key(id);

	return mod && !id->build_id_len && !id->inode_gen && id->inode &&
	       !memcmp(&mod->seen_as, &key, sizeof(key));
}

static struct module *same_content(struct modules *mods, const struct stat *st,
				   const struct elf_head *head)
{
	struct module *mod;

	if (!head->build_id_len)
		return NULL;
	mod = find_builds(mods, head->build_id, head->build_id_len);
	for (; mod; mod = mod->same_build)
		if (mod->st.st_size == st->st_size && elf_head__equal(&mod->head, head))
			return mod;
	return NULL;
}

static bool is_memfd(const char *path)
{
	return !strncmp(path, "/memfd:", strlen("/memfd:"));
}

static bool too_many(struct modules *mods)
{
	if (mods->fds < mods->max_fds)
		return false;
	if (!mods->warned)
		log__warn("cannot keep more than %zu mapped files open: further ones stay "
			  "unnamed; raise the limit with 'ulimit -n'",
			  mods->fds);
	mods->warned = true;
	return true;
}

/* Makes the module of an open file; takes over 'file' and 'head'. */
static struct module *pin(struct modules *mods, struct mapped_file *file, struct elf_head *head,
			  const struct mapped_where *where)
{
	struct module *mod;

	mod = add(mods, mapped_file__name(file, where), file->fd, where->pid);
	mod->st = file->st;
	mod->file_key = stat_key(&file->st);
	set_head(mod, head);
	HASH_ADD(by_file, mods->files, file_key, sizeof(mod->file_key), mod);
	add_to_build(mods, mod);
	mods->fds++;
	file->fd = -1;
	memset(head, 0, sizeof(*head));
	return mod;
}

/* The module of a file that was found to be the mapped one. NULL: not to be held. */
static struct module *adopt(struct modules *mods, struct mapped_file *file, struct elf_head *head,
			    const struct mapped_where *where)
{
	struct file_key key = stat_key(&file->st);
	struct module *mod = find_file(mods, &key);

	if (!mod)
		mod = same_content(mods, &file->st, head);
	if (mod)
		return mod;
	/* A JIT compiler's memory: of no use here, and a descriptor would keep it allocated. */
	if (is_memfd(where->path) && !head->valid)
		return NULL;
	return too_many(mods) ? NULL : pin(mods, file, head, where);
}

static struct module *open_at(struct modules *mods, const struct mapped_where *where,
			      const struct module_id *id, enum mapped_place place)
{
	struct module *mod = NULL, *held;
	struct mapped_file file;
	struct elf_head head;
	struct file_key key;

	if (mapped_file__open(&file, where, place))
		return NULL;
	key = stat_key(&file.st);
	held = find_file(mods, &key);
	if (is_known(held, id)) {
		mapped_file__close(&file);
		return held;
	}
	elf_head__read(file.fd, &head);
	if (mapped_file__is(&file, &head, where, id)) {
		mod = adopt(mods, &file, &head, where);
		if (mod && !memcmp(&mod->file_key, &key, sizeof(key)) && id->inode)
			mod->seen_as = id_key(id);
	}
	elf_head__clear(&head);
	mapped_file__close(&file);
	return mod;
}

static char *unopened_key(const struct module_id *id, const char *path)
{
	char hex[41] = "";
	uint8_t i;

	for (i = 0; i < id->build_id_len; i++)
		sprintf(hex + 2 * i, "%02x", id->build_id[i]);
	return xasprintf("%u:%u:%llu:%llu:%s:%s", id->dev_major, id->dev_minor,
			 (unsigned long long)id->inode, (unsigned long long)id->inode_gen, hex,
			 path);
}

static struct module *open_none(struct modules *mods, const struct module_id *id,
				const struct mapped_where *where)
{
	char *key = unopened_key(id, where->path);
	struct elf_head head = {.build_id_len = id->build_id_len};
	struct module *mod;

	HASH_FIND(by_unopened, mods->unopened, key, strlen(key), mod);
	if (mod) {
		free(key);
		return mod;
	}
	mod = add(mods, xasprintf("%.*s", (int)mapped_file__bare_length(where->path), where->path),
		  -1, where->pid);
	memcpy(head.build_id, id->build_id, id->build_id_len);
	set_head(mod, &head);
	mod->unopened_key = key;
	HASH_ADD_KEYPTR(by_unopened, mods->unopened, key, strlen(key), mod);
	return mod;
}

struct module *modules__open(struct modules *mods, const struct module_id *id, pid_t pid,
			     uint64_t start, uint64_t end, const char *path)
{
	struct mapped_where where = {.pid = pid, .start = start, .end = end, .path = path};
	struct module *mod = find_known(mods, id, path);
	enum mapped_place place;

	for (place = 0; !mod && place < PLACES_N; place++)
		mod = open_at(mods, &where, id, place);
	/* Gone before it was seen, but a file of the same build is at hand. */
	if (!mod && id->build_id_len)
		mod = find_builds(mods, id->build_id, id->build_id_len);
	return mod ? mod : open_none(mods, id, &where);
}

/* Copies [vdso] out of our own memory. */
static void read_vdso(struct module *mod)
{
	char *line = NULL;
	size_t size = 0;
	struct maps_line map;
	FILE *file = fopen("/proc/self/maps", "re");

	while (file && !mod->image && getline(&line, &size, file) > 0) {
		if (!maps_line__parse(line, &map) || strcmp(map.path, "[vdso]"))
			continue;
		mod->image_size = map.end - map.start;
		mod->image = xmalloc(mod->image_size);
		memcpy(mod->image, (void *)(uintptr_t)map.start, mod->image_size);
	}
	free(line);
	if (file)
		fclose(file);
}

struct module *modules__vdso(struct modules *mods)
{
	struct elf_head head;

	if (mods->vdso)
		return mods->vdso;
	mods->vdso = add(mods, xstrdup("[vdso]"), -1, getpid());
	read_vdso(mods->vdso);
	if (mods->vdso->image) {
		elf_head__read_image(mods->vdso->image, mods->vdso->image_size, &head);
		set_head(mods->vdso, &head);
	}
	return mods->vdso;
}

int module__fd(const struct module *mod)
{
	return mod->fd;
}

const char *module__path(const struct module *mod)
{
	return mod->path;
}

const char *module__name(const struct module *mod)
{
	return mod->name;
}

const char *module__build_id(const struct module *mod)
{
	return mod->build_id[0] ? mod->build_id : NULL;
}

pid_t module__pid(const struct module *mod)
{
	return mod->pid;
}

const void *module__image(const struct module *mod, size_t *size)
{
	*size = mod->image_size;
	return mod->image;
}

uint64_t module__vaddr(const struct module *mod, uint64_t file_offset)
{
	return elf_head__vaddr(&mod->head, file_offset);
}

void *module__symbols(const struct module *mod)
{
	return mod->symbols;
}

void module__set_symbols(struct module *mod, void *symbols, void (*free_fn)(void *))
{
	if (mod->free_symbols && mod->symbols != symbols)
		mod->free_symbols(mod->symbols);
	mod->symbols = symbols;
	mod->free_symbols = free_fn;
}
