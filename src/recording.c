// SPDX-License-Identifier: GPL-2.0-or-later
#include "recording.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "profile.h"
#include "symbolize.h"
#include "util/xalloc.h"

#define MAX_INLINED 32 /* frames that one address may stand for */

struct stack {
	uint64_t id;
	uint16_t n, end;
	UT_hash_handle hh;
	uint64_t frames[]; /* leaf first */
};

struct row {
	struct row_key key;
	struct row_value value;
	UT_hash_handle hh;
};

struct recording {
	struct stack *stacks;
	struct row *rows;
	struct thread_rec *threads;
	size_t nthreads, threads_cap;
	uint64_t conflicts;
};

struct recording *recording__new(void)
{
	return xcalloc(1, sizeof(struct recording));
}

void recording__free(struct recording *r)
{
	struct stack *s, *next_stack;
	struct row *row, *next_row;

	if (!r)
		return;
	HASH_ITER (hh, r->stacks, s, next_stack) {
		HASH_DEL(r->stacks, s);
		free(s);
	}
	HASH_ITER (hh, r->rows, row, next_row) {
		HASH_DEL(r->rows, row);
		free(row);
	}
	free(r->threads);
	free(r);
}

void recording__add_stack(struct recording *r, uint64_t id, const struct stack_value *stack)
{
	size_t n = stack->n <= MAX_FRAMES ? stack->n : MAX_FRAMES;
	struct stack *s;

	HASH_FIND(hh, r->stacks, &id, sizeof(id), s);
	if (s) {
		if (s->n != n || s->end != stack->end ||
		    memcmp(s->frames, stack->frames, n * sizeof(*s->frames)))
			r->conflicts++;
		return;
	}
	s = xmalloc(sizeof(*s) + n * sizeof(*s->frames));
	s->id = id;
	s->n = n;
	s->end = stack->end;
	memcpy(s->frames, stack->frames, n * sizeof(*s->frames));
	HASH_ADD(hh, r->stacks, id, sizeof(s->id), s);
}

void recording__add_row(struct recording *r, const struct row_key *key,
			const struct row_value *value)
{
	struct row *row;

	HASH_FIND(hh, r->rows, key, sizeof(*key), row);
	if (!row) {
		row = xcalloc(1, sizeof(*row));
		row->key = *key;
		HASH_ADD(hh, r->rows, key, sizeof(row->key), row);
	}
	row->value.samples += value->samples;
	row->value.runq_ns += value->runq_ns;
	row->value.blocked_ns += value->blocked_ns;
	row->value.blocks += value->blocks;
	if (value->max_ns > row->value.max_ns)
		row->value.max_ns = value->max_ns;
}

void recording__add_thread(struct recording *r, const struct thread_rec *rec)
{
	r->threads = xgrow(r->threads, r->nthreads, &r->threads_cap, sizeof(*r->threads));
	r->threads[r->nthreads++] = *rec;
}

uint64_t recording__stacks(const struct recording *r)
{
	return HASH_COUNT(r->stacks);
}

uint64_t recording__threads(const struct recording *r)
{
	return r->nthreads;
}

uint64_t recording__conflicts(const struct recording *r)
{
	return r->conflicts;
}

struct thread_rec recording__totals(const struct recording *r)
{
	struct thread_rec sum = {0};

	for (size_t i = 0; i < r->nthreads; i++) {
		const struct thread_rec *t = &r->threads[i];

		sum.switches += t->switches;
		sum.voluntary += t->voluntary;
		sum.samples += t->samples;
		sum.user_hits += t->user_hits;
		sum.user_misses += t->user_misses;
		sum.kernel_hits += t->kernel_hits;
		sum.kernel_misses += t->kernel_misses;
	}
	return sum;
}

uint64_t recording__lost_stack_ns(const struct recording *r)
{
	struct row *row, *next;
	uint64_t ns = 0;

	HASH_ITER (hh, r->rows, row, next)
		if (row->key.ustack == STACK_LOST || row->key.kstack == STACK_LOST)
			ns += row->value.runq_ns + row->value.blocked_ns;
	return ns;
}

void recording__each_process(const struct recording *r, void (*fn)(void *data, pid_t pid),
			     void *data)
{
	pid_t last = -1;

	for (size_t i = 0; i < r->nthreads; i++) {
		if ((pid_t)r->threads[i].tgid == last)
			continue;
		last = r->threads[i].tgid;
		fn(data, last);
	}
}

/*
 * User and system time as /proc shows them: the precise run time split in the proportion of the
 * ticks seen in user and in kernel mode (cputime_adjust() in kernel/sched/cputime.c), at both ends
 * of the window, so that the differences agree with differences of /proc/PID/stat.
 */
static uint64_t adjusted_user(const struct cpu_times *t)
{
	uint64_t ticks = t->user_ns + t->system_ns;

	if (!t->system_ns)
		return t->runtime_ns;
	if (!t->user_ns)
		return 0;
	return (unsigned __int128)t->runtime_ns * t->user_ns / ticks;
}

static uint64_t user_part(const struct thread_rec *rec)
{
	uint64_t runtime = rec->last.runtime_ns - rec->first.runtime_ns;
	uint64_t before = adjusted_user(&rec->first), after = adjusted_user(&rec->last);
	uint64_t user = after > before ? after - before : 0;

	if (!runtime || rec->last.runtime_ns <= rec->first.runtime_ns)
		return 0;
	if (user > runtime)
		user = runtime;
	/* on_ns is wall time on the CPU; runtime leaves out interrupts and steal */
	return (unsigned __int128)rec->on_ns * user / runtime;
}

static void add_threads(const struct recording *r, struct profile *p, uint64_t start_ns,
			uint64_t end_ns, uint32_t *index)
{
	for (size_t i = 0; i < r->nthreads; i++) {
		const struct thread_rec *rec = &r->threads[i];
		uint64_t begin = rec->birth_ns > start_ns ? rec->birth_ns : start_ns;
		uint64_t end = rec->end_ns && rec->end_ns < end_ns ? rec->end_ns : end_ns;
		struct profile_thread t = {
			.process = profile__add_process(p, rec->tgid, rec->process),
			.tid = rec->tid,
			.comm = rec->comm,
			.start_ns = begin,
			.end_ns = end > begin ? end : begin,
			.on_ns = rec->on_ns,
			.user_ns = user_part(rec),
			.runq_ns = rec->runq_ns,
			.blocked_ns = rec->blocked_ns,
			.filtered_ns = rec->filtered_ns,
			.switches = rec->switches,
			.voluntary = rec->voluntary,
			.samples = rec->samples,
			.blocked_at_start = rec->flags & THREAD_BLOCKED_AT_START && !rec->birth_ns,
			.blocked_at_end = rec->flags & THREAD_BLOCKED_AT_END,
		};

		t.system_ns = t.on_ns - t.user_ns;
		index[i] = profile__add_thread(p, &t);
	}
}

/* A stack under construction, root first. */
struct builder {
	struct symbolizer *sym;
	struct frame *frames;
	size_t n, cap;
};

static void push(struct builder *b, const struct frame *frame)
{
	b->frames = xgrow(b->frames, b->n, &b->cap, sizeof(*b->frames));
	b->frames[b->n++] = *frame;
}

static void push_mark(struct builder *b, const char *text)
{
	push(b, &(struct frame){.kind = FRAME_MARK, .func = text});
}

static const struct stack *find_stack(const struct recording *r, uint64_t id)
{
	struct stack *s;

	HASH_FIND(hh, r->stacks, &id, sizeof(id), s);
	return s;
}

/* Functions in which threads begin. Their callers, if any, keep no frame pointer. */
static bool is_entry(const char *func)
{
	static const char *const entries[] = {
		"_start",
		"__libc_start_call_main",
		"__libc_start_main",
		"start_thread",
		"clone",
		"clone3",
		"__clone",
		"__clone3",
	};

	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++)
		if (!strcmp(func, entries[i]))
			return true;
	return false;
}

static void push_user(struct builder *b, const struct stack *s, pid_t pid, uint64_t time_ns)
{
	struct frame frames[MAX_INLINED];

	if (s->end != WALK_COMPLETE) {
		int n = symbolizer__user(b->sym, pid, time_ns, s->frames[s->n - 1], s->n > 1,
					 frames, MAX_INLINED);

		if (!is_entry(frames[n - 1].func))
			push_mark(b, "[truncated]");
	}
	for (int i = s->n - 1; i >= 0; i--) {
		/* the innermost is where the thread is, all others follow a call; a system call's
		 * address follows the instruction as well, but is no call */
		int n = symbolizer__user(b->sym, pid, time_ns, s->frames[i], i > 0, frames,
					 MAX_INLINED);

		while (n-- > 0)
			push(b, &frames[n]);
	}
}

/* Frames below the scheduler's entry are the tracer's own; a wait ends in __schedule(). */
static int first_kernel_frame(struct builder *b, const struct stack *s)
{
	struct frame frame;

	for (int i = 0; i < s->n && i < 4; i++) {
		symbolizer__kernel(b->sym, s->frames[i], true, &frame);
		if (!strcmp(frame.func, "__schedule"))
			return i;
	}
	return 0;
}

static void push_kernel(struct builder *b, const struct stack *s, bool on_cpu)
{
	int first = on_cpu ? 0 : first_kernel_frame(b, s);
	struct frame frame;

	if (s->end != WALK_COMPLETE)
		push_mark(b, "[truncated]");
	for (int i = s->n - 1; i >= first; i--) {
		symbolizer__kernel(b->sym, s->frames[i], i > 0 || !on_cpu, &frame);
		push(b, &frame);
	}
}

static uint32_t build_stack(const struct recording *r, struct builder *b, struct profile *p,
			    const struct row *row, const struct thread_rec *rec, uint64_t time_ns)
{
	const struct stack *user = find_stack(r, row->key.ustack);
	const struct stack *kernel = find_stack(r, row->key.kstack);

	b->n = 0;
	if (row->key.ustack == STACK_FILTERED)
		push_mark(b, "[filtered]");
	else if (user)
		push_user(b, user, rec->tgid, time_ns);
	else if (row->key.ustack != STACK_NONE)
		push_mark(b, "[lost]");
	if (kernel)
		push_kernel(b, kernel, row->value.samples && !row->value.blocks);
	else if (row->key.kstack != STACK_NONE)
		push_mark(b, "[lost]");
	return profile__add_stack(p, b->frames, b->n);
}

void recording__resolve(const struct recording *r, struct symbolizer *sym, struct profile *p,
			uint64_t start_ns, uint64_t end_ns)
{
	uint32_t *index = xcalloc(r->nthreads, sizeof(*index)), highest = 0;
	struct builder b = {.sym = sym};
	struct row *row, *next;
	uint32_t *by_id;

	add_threads(r, p, start_ns, end_ns, index);
	for (size_t i = 0; i < r->nthreads; i++)
		if (r->threads[i].id > highest)
			highest = r->threads[i].id;
	by_id = xcalloc((size_t)highest + 1, sizeof(*by_id));
	for (size_t i = 0; i < r->nthreads; i++)
		by_id[r->threads[i].id] = i + 1;

	HASH_ITER (hh, r->rows, row, next) {
		const struct thread_rec *rec;
		struct profile_sample sample = {
			.samples = row->value.samples,
			.runq_ns = row->value.runq_ns,
			.blocked_ns = row->value.blocked_ns,
			.blocks = row->value.blocks,
			.max_ns = row->value.max_ns,
		};

		if (row->key.thread > highest || !by_id[row->key.thread])
			continue; /* its record was lost, which is counted */
		rec = &r->threads[by_id[row->key.thread] - 1];
		/* what -m, -M and --state leave out is the thread's filtered_ns, and gets its
		 * stack there; only the run queue part is added here */
		if (row->key.ustack == STACK_FILTERED)
			sample.blocked_ns = 0;
		sample.thread = index[by_id[row->key.thread] - 1];
		sample.stack = build_stack(r, &b, p, row, rec,
					   rec->birth_ns > start_ns ? rec->birth_ns : start_ns);
		profile__add_sample(p, &sample);
	}
	free(b.frames);
	free(by_id);
	free(index);
}
