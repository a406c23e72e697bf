// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Folded stacks: one line "process;frame;...;leaf N" per stack, N in µs, as flamegraph.pl and its
 * kin read them. The marks at the end of names are theirs too: _[k] kernel, _[i] inlined, _[j] JIT.
 *
 * Lines are never built in memory (100,000 stacks make 100 MB of them). Every distinct name gets a
 * number, its rank among all names in the order of bytes, and a line is an array of ranks until it
 * is printed: sorting compares small integers.
 */
#include "write_impl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "idtable.h"
#include "profile.h"
#include "util/text.h"
#include "util/xalloc.h"

struct name {
	char *text;
	uint32_t len, rank;
};

struct line {
	uint32_t *path; /* names, root first; ranks once all are known */
	uint32_t depth;
	uint64_t ns, us;
};

struct folded {
	const struct profile *p;
	bool per_thread;

	struct idtable name_table;
	struct name *names; /* in order of arrival */
	size_t n_names, cap_names;
	struct name **ranked; /* by rank */

	uint32_t *frame_name; /* by frame id; IDTABLE_NONE: not yet */
	uint32_t run_queue;   /* name of the leaf */

	struct line *lines;
	size_t n_lines, cap_lines;
	uint32_t *paths; /* all lines' paths, one after the other */
	size_t n_paths, cap_paths;
};

static bool name_equal(const void *owner, uint32_t id, const void *key)
{
	return strcmp(((const struct folded *)owner)->names[id].text, key) == 0;
}

/* Makes text harmless and adds a mark. The result is to be freed. */
static char *clean(const char *text, const char *mark)
{
	size_t size = strlen(text) + 1;
	char *copy = xmalloc(strlen("?") + size + strlen(mark)), *c;

	text__printable(copy, size, text);
	for (c = copy; (c = strchr(c, ';')); c++)
		*c = ':';
	if (!*copy)
		strcpy(copy, "?");
	return strcat(copy, mark);
}

/* Number of a name; takes the text over. */
static uint32_t add_name(struct folded *f, char *text)
{
	uint64_t hash = hash__bytes(text, strlen(text));
	uint32_t id = idtable__find(&f->name_table, hash, name_equal, f, text);

	if (id != IDTABLE_NONE) {
		free(text);
		return id;
	}
	f->names = xgrow(f->names, f->n_names, &f->cap_names, sizeof(*f->names));
	idtable__add(&f->name_table, hash, f->n_names);
	f->names[f->n_names] = (struct name){.text = text, .len = strlen(text)};
	return f->n_names++;
}

static const char *frame_mark(const struct frame *frame)
{
	switch (frame->kind) {
	case FRAME_KERNEL:
		return "_[k]";
	case FRAME_JIT:
		return "_[j]";
	case FRAME_USER:
		return frame->inlined ? "_[i]" : "";
	case FRAME_MARK:
		break;
	}
	return "";
}

static uint32_t frame_name(struct folded *f, const struct frame *frame)
{
	uint32_t *name = &f->frame_name[profile__frame_id(frame)];

	if (*name == IDTABLE_NONE)
		*name = add_name(f, clean(frame->func, frame_mark(frame)));
	return *name;
}

static uint32_t thread_name(struct folded *f, const struct profile_thread *thread)
{
	char *comm = clean(thread->comm, "");
	char *text = xasprintf("%s/%u", comm, thread->tid);

	free(comm);
	return add_name(f, text);
}

static void push(struct folded *f, uint32_t name)
{
	f->paths = xgrow(f->paths, f->n_paths, &f->cap_paths, sizeof(*f->paths));
	f->paths[f->n_paths++] = name;
}

static void add_line(struct folded *f, const struct profile_sample *s, uint64_t ns, bool run_queue)
{
	const struct profile_process *processes;
	const struct profile_thread *threads;
	const struct frame **frames;
	size_t start = f->n_paths;
	uint32_t i, n = profile__stack(f->p, s->stack, &frames);

	if (!ns)
		return;
	profile__processes(f->p, &processes);
	profile__threads(f->p, &threads);
	push(f, add_name(f, clean(processes[threads[s->thread].process].comm, "")));
	if (f->per_thread)
		push(f, thread_name(f, &threads[s->thread]));
	for (i = 0; i < n; i++)
		push(f, frame_name(f, frames[i]));
	if (run_queue)
		push(f, f->run_queue);

	f->lines = xgrow(f->lines, f->n_lines, &f->cap_lines, sizeof(*f->lines));
	f->lines[f->n_lines++] = (struct line){.depth = f->n_paths - start, .ns = ns};
}

/* Compares the texts a + a_end and b + b_end in the order of bytes. */
static int compare_texts(const char *a, const char *a_end, const char *b, const char *b_end)
{
	for (;; a++, b++) {
		if (!*a && a_end) {
			a = a_end;
			a_end = NULL;
		}
		if (!*b && b_end) {
			b = b_end;
			b_end = NULL;
		}
		if (*a != *b || !*a)
			return (int)(unsigned char)*a - (int)(unsigned char)*b;
	}
}

/* Within a line a name is followed by ';'. No name holds one, so this order of names is the order
 * of lines wherever neither of the names is the last of its line. */
static int compare_names(const void *pa, const void *pb)
{
	return compare_texts((*(struct name *const *)pa)->text, ";",
			     (*(struct name *const *)pb)->text, ";");
}

static void rank_names(struct folded *f)
{
	size_t i;

	f->ranked = xcalloc(f->n_names, sizeof(*f->ranked));
	for (i = 0; i < f->n_names; i++)
		f->ranked[i] = &f->names[i];
	qsort(f->ranked, f->n_names, sizeof(*f->ranked), compare_names);
	for (i = 0; i < f->n_names; i++)
		f->ranked[i]->rank = i;
}

static void rank_lines(struct folded *f)
{
	uint32_t *path = f->paths;
	size_t i;

	for (i = 0; i < f->n_paths; i++)
		f->paths[i] = f->names[f->paths[i]].rank;
	for (i = 0; i < f->n_lines; i++) {
		f->lines[i].path = path;
		path += f->lines[i].depth;
	}
}

/* Index of the first name in which two lines differ. */
static uint32_t fork_of(const struct line *a, const struct line *b)
{
	uint32_t i = 0;

	while (i < a->depth && i < b->depth && a->path[i] == b->path[i])
		i++;
	return i;
}

static int compare_numbers(uint32_t a, uint32_t b)
{
	return a < b ? -1 : a > b;
}

/* Any order that brings equal paths together and does not depend on the order of arrival. */
static int compare_paths(const void *pa, const void *pb)
{
	const struct line *a = pa, *b = pb;
	uint32_t i = fork_of(a, b);

	if (i == a->depth || i == b->depth)
		return compare_numbers(a->depth, b->depth);
	return compare_numbers(a->path[i], b->path[i]);
}

static void line_end(const struct line *l, uint32_t i, char end[32])
{
	if (i + 1 < l->depth)
		strcpy(end, ";");
	else
		snprintf(end, 32, " %" PRIu64 "\n", l->us);
}

/* The order of bytes of the finished lines. */
static int compare_lines(const void *pa, const void *pb, void *ranked)
{
	const struct line *a = pa, *b = pb;
	struct name *const *names = ranked;
	uint32_t i = fork_of(a, b);
	char a_end[32], b_end[32];

	if (i == a->depth || i == b->depth)
		/* the shorter goes on with ' ', the longer with ';' */
		return compare_numbers(a->depth, b->depth);
	if (i + 1 < a->depth && i + 1 < b->depth)
		return compare_numbers(a->path[i], b->path[i]);
	line_end(a, i, a_end);
	line_end(b, i, b_end);
	return compare_texts(names[a->path[i]]->text, a_end, names[b->path[i]]->text, b_end);
}

static void merge_lines(struct folded *f)
{
	size_t i, n = 0;

	qsort(f->lines, f->n_lines, sizeof(*f->lines), compare_paths);
	for (i = 0; i < f->n_lines; i++) {
		if (n && compare_paths(&f->lines[n - 1], &f->lines[i]) == 0)
			f->lines[n - 1].ns += f->lines[i].ns;
		else
			f->lines[n++] = f->lines[i];
	}
	f->n_lines = n;
}

/* Rounds the running sum and not each line: every line is right to 1 µs and so is their sum. */
static void round_lines(struct folded *f)
{
	uint64_t sum_ns = 0, sum_us = 0;
	size_t i;

	for (i = 0; i < f->n_lines; i++) {
		sum_ns += f->lines[i].ns;
		f->lines[i].us = sum_ns / 1000 + (sum_ns % 1000 >= 500) - sum_us;
		sum_us += f->lines[i].us;
	}
}

static void print_name(const struct name *name, FILE *out)
{
	fwrite_unlocked(name->text, 1, name->len, out);
}

static void print_lines(const struct folded *f, FILE *out)
{
	const struct line *l;
	uint32_t i;

	for (l = f->lines; l < f->lines + f->n_lines; l++) {
		if (!l->us)
			continue;
		for (i = 0; i < l->depth; i++) {
			if (i)
				putc_unlocked(';', out);
			print_name(f->ranked[l->path[i]], out);
		}
		fprintf(out, " %" PRIu64 "\n", l->us);
	}
}

/* The order of paths is that of lines already, but for names that end in blanks and digits. */
static void sort_lines(struct folded *f)
{
	size_t i;

	for (i = 1; i < f->n_lines; i++)
		if (compare_lines(&f->lines[i - 1], &f->lines[i], f->ranked) > 0)
			break;
	if (i < f->n_lines)
		qsort_r(f->lines, f->n_lines, sizeof(*f->lines), compare_lines, f->ranked);
}

static void folded__init(struct folded *f, const struct profile *p, const struct write_opts *opts)
{
	size_t size = profile__frames(p) * sizeof(*f->frame_name);

	*f = (struct folded){.p = p, .per_thread = opts && opts->per_thread};
	f->frame_name = xmalloc(size);
	memset(f->frame_name, 0xff, size);
	f->run_queue = add_name(f, xstrdup("[run queue]"));
}

static void folded__print(struct folded *f, FILE *out)
{
	rank_names(f);
	rank_lines(f);
	if (f->n_lines) {
		merge_lines(f);
		round_lines(f);
		sort_lines(f);
	}
	print_lines(f, out);
}

static void folded__free(struct folded *f)
{
	size_t i;

	for (i = 0; i < f->n_names; i++)
		free(f->names[i].text);
	idtable__free(&f->name_table);
	free(f->names);
	free(f->ranked);
	free(f->frame_name);
	free(f->lines);
	free(f->paths);
}

int write_folded__on(const struct profile *p, const struct write_opts *opts, FILE *out)
{
	const struct profile_sample *samples;
	uint32_t i, n = profile__samples(p, &samples);
	struct folded f;

	folded__init(&f, p, opts);
	for (i = 0; i < n; i++)
		add_line(&f, &samples[i], samples[i].on_ns, false);
	folded__print(&f, out);
	folded__free(&f);
	return 0;
}

int write_folded__off(const struct profile *p, const struct write_opts *opts, FILE *out)
{
	const struct profile_sample *samples;
	uint32_t i, n = profile__samples(p, &samples);
	struct folded f;

	folded__init(&f, p, opts);
	for (i = 0; i < n; i++) {
		add_line(&f, &samples[i], samples[i].blocked_ns, false);
		add_line(&f, &samples[i], samples[i].runq_ns, true);
	}
	folded__print(&f, out);
	folded__free(&f);
	return 0;
}
