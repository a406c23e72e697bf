// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A pid names several processes over time: each is a life. A life runs one or more images, each
 * from a time on. Events are put where their time says, not where they arrive: a scan of
 * /proc/PID/maps often comes before side-band records of things that happened earlier.
 *
 *   pid 812:  life 1                              life 2 (pid reused)
 *             |fork: parent's image |exec: new    |fork ...
 *             +---------------------+-------------+-----------------> time
 *
 * Dead lives are kept for as long as a budget of memory allows, oldest dropped first: records of
 * the dead are looked up soon after.
 */
#include "procmap.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image.h"
#include "maps_line.h"
#include "util/log.h"
#include "util/xalloc.h"

#define uthash_malloc(size)    xmalloc(size)
#define uthash_free(ptr, size) free(ptr)
#include <uthash.h>
#include <utlist.h>

/* About 80,000 dead processes that shared an image, or 15,000 that ran one of their own. */
#define BUDGET_BYTES (12u << 20)
#define MIN_DEAD     4096
/* Images of one life; of a process that keeps calling exec the oldest are dropped. */
#define MAX_SPANS 512

struct span {
	uint64_t since_ns;
	struct image *image;
};

struct life {
	pid_t pid;
	bool exited; /* in the list of the dead; an exec by another thread may revive it */
	bool closed; /* the pid is known to be another process's since */
	uint16_t spans_n, spans_cap;
	struct span *spans;	  /* by time */
	struct life *older;	  /* previous owner of the pid */
	struct life *prev, *next; /* among the dead, oldest first */
	UT_hash_handle hh;	  /* the pid's newest life only */
};

struct procmaps {
	struct modules *mods;
	struct life *lives; /* by pid */
	struct life *dead;
	size_t dead_n;
	size_t life_bytes, image_bytes;
	bool warned;
};

struct procmaps *procmaps__new(struct modules *mods)
{
	struct procmaps *pm = xcalloc(1, sizeof(*pm));

	pm->mods = mods;
	return pm;
}

static size_t life_bytes(const struct life *life)
{
	return sizeof(*life) + life->spans_cap * sizeof(*life->spans);
}

static void free_life(struct procmaps *pm, struct life *life)
{
	uint16_t i;

	for (i = 0; i < life->spans_n; i++)
		image__put(life->spans[i].image);
	pm->life_bytes -= life_bytes(life);
	free(life->spans);
	free(life);
}

void procmaps__free(struct procmaps *pm)
{
	struct life *life, *next, *older;

	if (!pm)
		return;
	HASH_ITER (hh, pm->lives, life, next) {
		HASH_DEL(pm->lives, life);
		for (; life; life = older) {
			older = life->older;
			free_life(pm, life);
		}
	}
	free(pm);
}

static struct life *newest_life(struct procmaps *pm, pid_t pid)
{
	struct life *life;

	HASH_FIND_INT(pm->lives, &pid, life);
	return life;
}

/* Takes a dead life out of its pid's chain and out of the list of the dead. */
static void drop_life(struct procmaps *pm, struct life *life)
{
	struct life *newest = newest_life(pm, life->pid), *younger;

	DL_DELETE(pm->dead, life);
	pm->dead_n--;
	if (newest == life) {
		HASH_DEL(pm->lives, life);
		if (life->older)
			HASH_ADD_INT(pm->lives, pid, life->older);
	} else {
		for (younger = newest; younger->older != life; younger = younger->older)
			;
		younger->older = life->older;
	}
	free_life(pm, life);
}

static void keep_budget(struct procmaps *pm)
{
	while (pm->dead_n > MIN_DEAD && pm->life_bytes + pm->image_bytes > BUDGET_BYTES)
		drop_life(pm, pm->dead);
}

static void bury(struct procmaps *pm, struct life *life)
{
	if (life->exited)
		return;
	life->exited = true;
	DL_APPEND(pm->dead, life);
	pm->dead_n++;
}

static void revive(struct procmaps *pm, struct life *life)
{
	if (!life->exited)
		return;
	life->exited = false;
	DL_DELETE(pm->dead, life);
	pm->dead_n--;
}

static struct life *new_life(struct procmaps *pm, pid_t pid)
{
	struct life *life = xcalloc(1, sizeof(*life)), *older = newest_life(pm, pid);

	if (older) {
		bury(pm, older);
		older->closed = true;
		HASH_DEL(pm->lives, older);
	}
	life->pid = pid;
	life->older = older;
	HASH_ADD_INT(pm->lives, pid, life);
	pm->life_bytes += life_bytes(life);
	keep_budget(pm);
	return life;
}

/* Index of the image in force at a time: the first one for times before it. */
static uint16_t span_at(const struct life *life, uint64_t time_ns)
{
	uint16_t lo = 0, hi = life->spans_n;

	while (hi - lo > 1) {
		uint16_t mid = lo + (hi - lo) / 2;

		if (life->spans[mid].since_ns <= time_ns)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

static void drop_oldest_span(struct life *life)
{
	image__put(life->spans[0].image);
	life->spans_n--;
	memmove(&life->spans[0], &life->spans[1], life->spans_n * sizeof(*life->spans));
}

/* Inserts an image, which is taken over, at its time. Returns its index. */
static uint16_t add_span(struct procmaps *pm, struct life *life, uint64_t time_ns,
			 struct image *image)
{
	uint16_t at;

	if (life->spans_n == MAX_SPANS)
		drop_oldest_span(life);
	if (life->spans_n == life->spans_cap) {
		pm->life_bytes -= life_bytes(life);
		life->spans_cap = life->spans_cap ? life->spans_cap * 2 : 1;
		life->spans = xreallocarray(life->spans, life->spans_cap, sizeof(*life->spans));
		pm->life_bytes += life_bytes(life);
	}
	for (at = life->spans_n; at > 0 && life->spans[at - 1].since_ns > time_ns; at--)
		life->spans[at] = life->spans[at - 1];
	life->spans[at] = (struct span){.since_ns = time_ns, .image = image};
	life->spans_n++;
	return at;
}

/* --- what a mapping is, by its name */

static bool starts(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

static bool ends(const char *text, const char *with)
{
	size_t len = strlen(text), n = strlen(with);

	return len >= n && !strcmp(text + len - n, with);
}

/* Memory without a file that can hold code. Names as in maps and in perf's records. */
static bool is_anon(const char *path)
{
	if (!*path || !strcmp(path, "//anon") || starts(path, "[anon") || starts(path, "[stack") ||
	    !strcmp(path, "[heap]") || !strcmp(path, "/dev/zero"))
		return true;
	return ends(path, " (deleted)") && (starts(path, "/dev/zero (") || starts(path, "/SYSV") ||
					    starts(path, "/anon_hugepage"));
}

/* The vDSO of a 32-bit process is another one; in a 64-bit one it lies near the stack. */
static bool is_vdso64(uint64_t start, const char *path)
{
	return !strcmp(path, "[vdso]") && start > UINT32_MAX;
}

/*
 * A memfd holds a program (runc starts itself so) or the memory of a JIT compiler that maps it
 * twice, writable and executable. Only the former is opened.
 */
static bool is_jit_memfd(const struct module *mod, const char *path)
{
	return starts(path, "/memfd:") && module__fd(mod) < 0;
}

static void identify(struct procmaps *pm, pid_t pid, const struct module_id *id, const char *path,
		     struct mapping *map)
{
	map->kind = MAPPING_OTHER;
	map->module = NULL;
	if (is_anon(path)) {
		map->kind = MAPPING_ANON;
	} else if (is_vdso64(map->start, path)) {
		map->kind = MAPPING_VDSO;
		map->module = modules__vdso(pm->mods);
	} else if (*path == '/') {
		map->module = modules__open(pm->mods, id, pid, map->start, map->end, path);
		map->kind = MAPPING_FILE;
		if (is_jit_memfd(map->module, path)) {
			map->kind = MAPPING_ANON;
			map->module = NULL;
		}
	}
	if (!map->module)
		map->offset = 0;
}

/* --- reading /proc/PID/maps */

static void scan_line(struct procmaps *pm, struct life *life, uint64_t time_ns,
		      const struct maps_line *line)
{
	const struct module_id id = {
		.dev_major = line->dev_major,
		.dev_minor = line->dev_minor,
		.inode = line->inode,
	};
	struct mapping map = {.start = line->start, .end = line->end, .offset = line->offset};

	if (!line->executable)
		return;
	identify(pm, life->pid, &id, line->path, &map);
	image__add(&life->spans[life->spans_n - 1].image, &map, time_ns);
}

/* The life whose latest image a scan describes; made if there is none. */
static struct life *scanned_life(struct procmaps *pm, pid_t pid, uint64_t time_ns)
{
	struct life *life = newest_life(pm, pid);

	if (!life || life->exited)
		life = new_life(pm, pid);
	if (!life->spans_n)
		add_span(pm, life, time_ns, image__new(&pm->image_bytes));
	return life;
}

static FILE *open_maps(struct procmaps *pm, pid_t pid)
{
	char name[32];
	FILE *file;
	int err;

	snprintf(name, sizeof(name), "/proc/%d/maps", pid);
	file = fopen(name, "re");
	if (file)
		return file;
	err = errno == ENOENT ? ESRCH : errno;
	if (err != ESRCH && !pm->warned) {
		log__warn("cannot open '%s': %s; code of such processes stays unnamed%s", name,
			  strerror(err), err == EACCES ? "; it needs CAP_SYS_PTRACE" : "");
		pm->warned = true;
	}
	errno = err;
	return NULL;
}

int procmaps__scan(struct procmaps *pm, pid_t pid, uint64_t time_ns)
{
	FILE *file = open_maps(pm, pid);
	struct life *life = NULL;
	struct maps_line line;
	char *text = NULL;
	size_t size = 0;

	if (!file)
		return -errno;
	while (getline(&text, &size, file) > 0) {
		if (!maps_line__parse(text, &line))
			continue;
		if (!life)
			life = scanned_life(pm, pid, time_ns);
		scan_line(pm, life, time_ns, &line);
	}
	free(text);
	fclose(file);
	keep_budget(pm);
	return life ? 0 : -ESRCH; /* a zombie's maps are empty */
}

/* --- side-band events */

void procmaps__follow(struct procmaps *pm, pid_t pid)
{
	struct life *life = newest_life(pm, pid);

	if (!life || life->exited)
		new_life(pm, pid);
}

/*
 * Is the fork at 'time_ns' the birth of this life? It may be known already: followed or scanned
 * before the record was read. Otherwise it is the birth of the pid's next owner.
 */
static bool is_birth(const struct life *life, uint64_t time_ns)
{
	return !life->exited && (!life->spans_n || life->spans[0].since_ns > time_ns);
}

void procmaps__on_fork(struct procmaps *pm, uint64_t time_ns, pid_t pid, pid_t parent)
{
	struct life *life = newest_life(pm, pid), *from = newest_life(pm, parent);
	struct image *image = NULL;

	if (pid == parent || pid <= 0)
		return; /* a thread */
	if (life && !is_birth(life, time_ns)) {
		bury(pm, life);
		life->closed = true;
		life = NULL;
	}
	if (!from || from->closed)
		return;
	/* Before a new life may push an old one, even the parent's, out of the budget. */
	if (from->spans_n)
		image = image__get(from->spans[span_at(from, time_ns)].image);
	if (!life)
		life = new_life(pm, pid);
	if (image)
		add_span(pm, life, time_ns, image);
}

/* The life that an event of a pid is about. NULL: not followed. */
static struct life *living(struct procmaps *pm, pid_t pid)
{
	struct life *life = newest_life(pm, pid);

	if (!life || life->closed)
		return NULL;
	/* exec by another thread than the first: that one's exit was recorded just before. */
	revive(pm, life);
	return life;
}

void procmaps__on_exec(struct procmaps *pm, uint64_t time_ns, pid_t pid)
{
	struct life *life = living(pm, pid);
	struct image *image;
	uint16_t at;

	if (!life)
		return;
	at = life->spans_n ? span_at(life, time_ns) : 0;
	/* What a scan found after the exec, before this record was read, belongs to the new image.
	 */
	if (life->spans_n && life->spans[at].since_ns <= time_ns)
		image = image__split(&life->spans[at].image, time_ns);
	else
		image = image__new(&pm->image_bytes);
	add_span(pm, life, time_ns, image);
	keep_budget(pm);
}

void procmaps__on_mmap(struct procmaps *pm, uint64_t time_ns, pid_t pid, uint64_t start,
		       uint64_t len, uint64_t offset, const struct module_id *id, const char *path)
{
	struct mapping map = {.start = start, .offset = offset};
	struct life *life;

	if (pid <= 0 || !len || __builtin_add_overflow(start, len, &map.end))
		return;
	life = living(pm, pid);
	if (!life)
		return;
	identify(pm, pid, id, path, &map);
	if (!life->spans_n)
		add_span(pm, life, time_ns, image__new(&pm->image_bytes));
	image__add(&life->spans[span_at(life, time_ns)].image, &map, time_ns);
}

void procmaps__on_exit(struct procmaps *pm, uint64_t time_ns, pid_t pid)
{
	struct life *life = newest_life(pm, pid);

	/* Read late: the exit of the pid's previous owner. */
	if (!life || (life->spans_n && life->spans[0].since_ns > time_ns))
		return;
	bury(pm, life);
	keep_budget(pm);
}

const struct mapping *procmaps__find(struct procmaps *pm, pid_t pid, uint64_t time_ns,
				     uint64_t addr)
{
	struct life *life, *found = NULL;

	for (life = newest_life(pm, pid); life; life = life->older) {
		if (!life->spans_n)
			continue;
		found = life;
		if (life->spans[0].since_ns <= time_ns)
			break;
	}
	return found ? image__find(found->spans[span_at(found, time_ns)].image, addr) : NULL;
}
