// SPDX-License-Identifier: GPL-2.0-or-later
#include "ranking.h"

#include <stdlib.h>
#include <string.h>

#include "idtable.h"
#include "profile.h"
#include "util/xalloc.h"
#include "where.h"

struct picked {
	const struct frame **frames; /* leaf first */
	uint32_t n;
	size_t cap;
};

struct ranking {
	const struct profile *p;
	enum ranking_kind kind;
	const struct profile_process *processes;
	const struct profile_thread *threads;
	const struct profile_sample *samples;
	uint32_t n_samples;
	bool by_leaf;	/* rows are being told apart by their innermost function alone */
	uint8_t *roles; /* by frame, see where__pick() */

	struct idtable table;
	struct rank *rows;
	size_t n_rows, cap_rows;
	uint32_t *row_of; /* by sample; IDTABLE_NONE: in none */
	struct picked key, other, shown;
};

/* Row and thread in one number, for sorting. */
#define PAIR(row, thread) ((uint64_t)(row) << 32 | (thread))

static bool is_on(const struct ranking *r)
{
	return r->kind == RANK_ON_FUNCTIONS;
}

static void pick(const struct ranking *r, uint32_t stack, struct picked *out)
{
	const struct frame **frames;
	uint32_t n = profile__stack(r->p, stack, &frames);

	if (n > out->cap) {
		out->frames = xreallocarray(out->frames, n, sizeof(*out->frames));
		out->cap = n;
	}
	out->n = where__pick(frames, n, is_on(r), r->roles, out->frames);
}

/* Number of frames that tell rows apart. */
static uint32_t key_length(const struct ranking *r, const struct picked *picked)
{
	return r->by_leaf && picked->n > 1 ? 1 : picked->n;
}

static bool same_function(const struct frame *a, const struct frame *b)
{
	return a->func == b->func && a->module == b->module && a->kind == b->kind;
}

static const char *comm_of(const struct ranking *r, uint32_t process)
{
	return r->processes[process].comm;
}

static bool row_equal(const void *owner, uint32_t id, const void *key)
{
	struct ranking *r = (struct ranking *)owner; /* for its scratch memory */
	const struct rank *row = &r->rows[id], *wanted = key;
	uint32_t i, n = key_length(r, &r->key);

	if (comm_of(r, row->process) != comm_of(r, wanted->process))
		return false;
	pick(r, row->stack, &r->other);
	if (key_length(r, &r->other) != n)
		return false;
	for (i = 0; i < n; i++)
		if (!same_function(r->key.frames[i], r->other.frames[i]))
			return false;
	return true;
}

static uint64_t row_hash(const struct ranking *r, uint32_t process)
{
	uint64_t hash = (uintptr_t)comm_of(r, process);
	uint32_t i, n = key_length(r, &r->key);

	for (i = 0; i < n; i++)
		hash = hash__mix(hash, (uintptr_t)r->key.frames[i]->func);
	return hash__mix(hash, n);
}

/* The row for a stack, made if there is none. Lines within functions make no difference. */
static uint32_t find_row(struct ranking *r, uint32_t process, uint32_t stack)
{
	struct rank wanted = {.process = process, .stack = stack};
	uint64_t hash;
	uint32_t id;

	pick(r, stack, &r->key);
	hash = row_hash(r, process);
	id = idtable__find(&r->table, hash, row_equal, r, &wanted);
	if (id != IDTABLE_NONE)
		return id;
	r->rows = xgrow(r->rows, r->n_rows, &r->cap_rows, sizeof(*r->rows));
	r->rows[r->n_rows] = wanted;
	idtable__add(&r->table, hash, r->n_rows);
	return r->n_rows++;
}

static uint64_t sample_ns(const struct ranking *r, const struct profile_sample *s)
{
	return is_on(r) ? s->on_ns : s->blocked_ns + s->runq_ns;
}

static void add_sample(struct ranking *r, uint32_t i)
{
	const struct profile_sample *s = &r->samples[i];
	uint64_t ns = sample_ns(r, s);
	struct rank *row;

	r->row_of[i] = IDTABLE_NONE;
	if (!ns)
		return;
	r->row_of[i] = find_row(r, r->threads[s->thread].process, s->stack);
	row = &r->rows[r->row_of[i]];
	row->stacks = 1;
	row->ns += ns;
	row->stack_ns += ns;
	row->count += is_on(r) ? s->samples : s->blocks;
	if (s->max_ns > row->max_ns)
		row->max_ns = s->max_ns;
}

static int compare_u64(const void *pa, const void *pb)
{
	uint64_t a = *(const uint64_t *)pa, b = *(const uint64_t *)pb;

	return a < b ? -1 : a > b;
}

/* Puts rows (stacks) together into rows by innermost function. */
static void group_by_leaf(struct ranking *r)
{
	struct rank *stacks = r->rows, *group;
	size_t i, n = r->n_rows;
	uint32_t *group_of = xcalloc(n, sizeof(*group_of));

	r->by_leaf = true;
	r->rows = NULL;
	r->n_rows = r->cap_rows = 0;
	idtable__free(&r->table);
	for (i = 0; i < n; i++) {
		group_of[i] = find_row(r, stacks[i].process, stacks[i].stack);
		group = &r->rows[group_of[i]];
		group->stacks++;
		group->ns += stacks[i].ns;
		group->count += stacks[i].count;
		if (stacks[i].ns > group->stack_ns) {
			group->stack_ns = stacks[i].ns;
			group->stack = stacks[i].stack;
		}
	}
	for (i = 0; i < r->n_samples; i++)
		if (r->row_of[i] != IDTABLE_NONE)
			r->row_of[i] = group_of[r->row_of[i]];
	free(group_of);
	free(stacks);
}

/* All (row, thread) pairs in order. */
static uint64_t *sorted_pairs(const struct ranking *r, size_t *n)
{
	uint64_t *pairs = xcalloc(r->n_samples, sizeof(*pairs));
	uint32_t i;

	*n = 0;
	for (i = 0; i < r->n_samples; i++)
		if (r->row_of[i] != IDTABLE_NONE)
			pairs[(*n)++] = PAIR(r->row_of[i], r->samples[i].thread);
	qsort(pairs, *n, sizeof(*pairs), compare_u64);
	return pairs;
}

static void add_thread(struct ranking *r, struct rank *row, uint32_t thread)
{
	if (!row->threads++) {
		row->thread = thread;
		row->one_name = true;
	} else if (r->threads[thread].comm != r->threads[row->thread].comm) {
		row->one_name = false;
	}
}

static void count_threads(struct ranking *r)
{
	size_t i, n;
	uint64_t *pairs = sorted_pairs(r, &n);

	for (i = 0; i < n; i++)
		if (!i || pairs[i] != pairs[i - 1])
			add_thread(r, &r->rows[pairs[i] >> 32], (uint32_t)pairs[i]);
	free(pairs);
}

static int compare_rows(const void *pa, const void *pb)
{
	const struct rank *a = pa, *b = pb;

	if (a->ns != b->ns)
		return a->ns < b->ns ? 1 : -1;
	return a->stack < b->stack ? -1 : a->stack > b->stack;
}

struct ranking *ranking__new(const struct profile *p, enum ranking_kind kind)
{
	struct ranking *r = xcalloc(1, sizeof(*r));
	uint32_t i;

	r->p = p;
	r->kind = kind;
	profile__processes(p, &r->processes);
	profile__threads(p, &r->threads);
	r->n_samples = profile__samples(p, &r->samples);
	r->roles = xcalloc(profile__frames(p), sizeof(*r->roles));
	r->row_of = xcalloc(r->n_samples, sizeof(*r->row_of));
	for (i = 0; i < r->n_samples; i++)
		add_sample(r, i);
	if (is_on(r))
		group_by_leaf(r);
	count_threads(r);
	if (r->n_rows)
		qsort(r->rows, r->n_rows, sizeof(*r->rows), compare_rows);
	return r;
}

void ranking__free(struct ranking *r)
{
	idtable__free(&r->table);
	free(r->roles);
	free(r->rows);
	free(r->row_of);
	free(r->key.frames);
	free(r->other.frames);
	free(r->shown.frames);
	free(r);
}

size_t ranking__rows(const struct ranking *r, const struct rank **rows)
{
	*rows = r->rows;
	return r->n_rows;
}

enum ranking_kind ranking__kind(const struct ranking *r)
{
	return r->kind;
}

uint32_t ranking__frames(struct ranking *r, const struct rank *row, const struct frame ***frames)
{
	pick(r, row->stack, &r->shown);
	*frames = r->shown.frames;
	return r->shown.n;
}
