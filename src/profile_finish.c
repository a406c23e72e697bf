// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Balancing a profile: what the scheduler's events say of a thread is exact, what its stacks say
 * may fall short (a full map, a filter, a thread that ran between two samples). Here each thread's
 * stacks are made to sum to the thread's exact times, with marks for what has no stack.
 */
#include "profile_impl.h"

#include <assert.h>
#include <stdlib.h>

#include "util/xalloc.h"

/* What had to be cut, or has no stack, over all threads. */
struct imbalance {
	uint64_t over_ns, over_threads;
	uint64_t no_stack_ns;
};

/* One thread at work, and the indices of its samples. */
struct balance {
	struct profile *p;
	struct profile_thread *thread;
	uint32_t index; /* of the thread */
	uint32_t *list; /* has room for one more */
	uint32_t n;
	struct imbalance *sum;
};

struct share {
	uint64_t remainder;
	uint32_t sample;
};

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static struct profile_sample *sample_at(const struct balance *b, uint32_t i)
{
	return &b->p->samples[b->list[i]];
}

/* The sample of this thread under a stack that is one mark; valid until the next call. */
static struct profile_sample *mark_sample(const struct balance *b, const char *name)
{
	struct frame mark = {.kind = FRAME_MARK, .func = name};
	uint32_t stack = intern__stack(b->p->intern, &mark, 1);
	uint32_t id = profile__sample(b->p, b->index, stack);

	return &b->p->samples[id]; /* only now: the array may have moved */
}

/* Takes at most 'room' of '*ns', and leaves it there; returns how much did not fit. */
static uint64_t clip(uint64_t *ns, uint64_t *room)
{
	uint64_t fits = min_u64(*ns, *room), over = *ns - fits;

	*ns = fits;
	*room -= fits;
	return over;
}

/*
 * Makes on + runq + blocked + lost = window. More than the window cannot happen; if it does, on-CPU
 * time (which the kernel's own accounting confirms) is kept first, then the run queue.
 */
static uint64_t balance_window(struct profile_thread *t)
{
	uint64_t room = t->end_ns > t->start_ns ? t->end_ns - t->start_ns : 0;
	uint64_t over = 0;

	over += clip(&t->on_ns, &room);
	over += clip(&t->runq_ns, &room);
	over += clip(&t->blocked_ns, &room);
	t->lost_ns = room;
	t->filtered_ns = min_u64(t->filtered_ns, t->blocked_ns);
	return over;
}

/* user + system = on. Both 0 with on-CPU time: the split is not known and stays so. */
static void balance_split(struct profile_thread *t)
{
	unsigned __int128 sum = (unsigned __int128)t->user_ns + t->system_ns;

	if (!sum || sum == t->on_ns)
		return;
	t->user_ns = (unsigned __int128)t->on_ns * t->user_ns / sum;
	t->system_ns = t->on_ns - t->user_ns;
}

static int compare_shares(const void *pa, const void *pb)
{
	const struct share *a = pa, *b = pb;

	if (a->remainder != b->remainder)
		return a->remainder < b->remainder ? 1 : -1;
	return a->sample < b->sample ? -1 : 1;
}

/* Spreads on_ns in proportion to sample counts that sum to 'weight': floors first, then one ns each
 * to the largest remainders. */
static void spread_on(const struct balance *b, uint64_t weight)
{
	struct share *shares = xcalloc(b->n, sizeof(*shares));
	uint64_t on_ns = b->thread->on_ns, left = on_ns;
	uint32_t i;

	for (i = 0; i < b->n; i++) {
		struct profile_sample *s = sample_at(b, i);
		unsigned __int128 product = (unsigned __int128)on_ns * s->samples;

		s->on_ns = product / weight;
		left -= s->on_ns;
		shares[i] = (struct share){product % weight, b->list[i]};
	}
	assert(left < b->n);
	qsort(shares, b->n, sizeof(*shares), compare_shares);
	for (i = 0; i < left; i++)
		b->p->samples[shares[i].sample].on_ns++;
	free(shares);
}

/* On-CPU samples that were taken but did not arrive weigh as [lost]. */
static uint64_t add_lost_samples(struct balance *b, uint64_t arrived)
{
	uint64_t lost = b->thread->samples - arrived;
	size_t known = b->p->n_samples;
	struct profile_sample *sample = mark_sample(b, "[lost]");

	sample->samples += lost;
	if (b->p->n_samples > known)
		b->list[b->n++] = known;
	return b->thread->samples;
}

static void balance_on(struct balance *b)
{
	struct profile_thread *t = b->thread;
	uint64_t weight = 0;
	uint32_t i;

	for (i = 0; i < b->n; i++)
		weight += sample_at(b, i)->samples;
	if (t->samples > weight) {
		uint64_t lost = t->samples - weight;

		weight = add_lost_samples(b, weight);
		b->sum->no_stack_ns += (unsigned __int128)t->on_ns * lost / weight;
	}
	t->samples = weight;
	if (weight)
		spread_on(b, weight);
	else if (t->on_ns)
		mark_sample(b, "[unsampled]")->on_ns = t->on_ns;
}

/* Cuts the stacks' waits down to the thread's. Returns the time that was cut; '*runq' and
 * '*blocked' are left with the time that no stack covers. */
static uint64_t clip_waits(const struct balance *b, uint64_t *runq, uint64_t *blocked)
{
	uint64_t over = 0;
	uint32_t i;

	for (i = 0; i < b->n; i++) {
		struct profile_sample *s = sample_at(b, i);

		over += clip(&s->blocked_ns, blocked);
		over += clip(&s->runq_ns, runq);
		s->max_ns = min_u64(s->max_ns, s->blocked_ns + s->runq_ns);
	}
	return over;
}

static void add_wait(const struct balance *b, const char *mark, uint64_t runq, uint64_t blocked)
{
	struct profile_sample *s;

	if (!runq && !blocked)
		return;
	s = mark_sample(b, mark);
	s->runq_ns += runq;
	s->blocked_ns += blocked;
}

/* Returns the time by which the stacks exceeded the thread. */
static uint64_t balance_waits(const struct balance *b)
{
	const struct profile_thread *t = b->thread;
	uint64_t runq = t->runq_ns, blocked = t->blocked_ns - t->filtered_ns;
	uint64_t over = clip_waits(b, &runq, &blocked);

	/* a wait that is filtered out takes its time on the run queue with it */
	if (b->p->meta.filter) {
		add_wait(b, "[filtered]", runq, t->filtered_ns);
		runq = 0;
	} else {
		add_wait(b, "[filtered]", 0, t->filtered_ns);
	}
	add_wait(b, "[lost]", runq, blocked);
	b->sum->no_stack_ns += runq + blocked;
	return over;
}

static void balance_thread(struct balance *b)
{
	uint64_t over_window = balance_window(b->thread), over_stacks;

	balance_split(b->thread);
	balance_on(b);
	over_stacks = balance_waits(b);
	/* what was cut from the thread is cut from its stacks too: the same time */
	if (over_window || over_stacks) {
		b->sum->over_threads++;
		b->sum->over_ns += over_window > over_stacks ? over_window : over_stacks;
	}
}

/* Sorts sample indices by thread: 'first[i]' is where thread i's begin. */
static uint32_t *group_samples(const struct profile *p, size_t *first)
{
	uint32_t *grouped = xcalloc(p->n_samples + 1, sizeof(*grouped));
	size_t i, sum = 0;

	for (i = 0; i < p->n_samples; i++)
		first[p->samples[i].thread + 1]++;
	for (i = 0; i <= p->n_threads; i++)
		first[i] = sum += first[i];
	for (i = 0; i < p->n_samples; i++)
		grouped[first[p->samples[i].thread]++] = i;
	for (i = p->n_threads; i > 0; i--)
		first[i] = first[i - 1];
	first[0] = 0;
	return grouped;
}

static void balance_threads(struct profile *p, struct imbalance *sum)
{
	size_t *first = xcalloc(p->n_threads + 2, sizeof(*first));
	uint32_t *grouped = group_samples(p, first), *list = NULL;
	size_t i, j;

	for (i = 0; i < p->n_threads; i++) {
		struct balance b = {.p = p, .thread = &p->threads[i], .index = i, .sum = sum};

		b.n = first[i + 1] - first[i];
		list = xreallocarray(list, b.n + 1, sizeof(*list));
		for (j = 0; j < b.n; j++)
			list[j] = grouped[first[i] + j];
		b.list = list;
		balance_thread(&b);
	}
	free(list);
	free(grouped);
	free(first);
}

static void add_to_process(struct profile_process *sum, const struct profile_thread *t)
{
	sum->threads++;
	sum->window_ns += t->on_ns + t->runq_ns + t->blocked_ns + t->lost_ns;
	sum->on_ns += t->on_ns;
	sum->user_ns += t->user_ns;
	sum->system_ns += t->system_ns;
	sum->runq_ns += t->runq_ns;
	sum->blocked_ns += t->blocked_ns;
	sum->filtered_ns += t->filtered_ns;
	sum->lost_ns += t->lost_ns;
	sum->switches += t->switches;
	sum->voluntary += t->voluntary;
	sum->samples += t->samples;
}

struct span {
	uint64_t start, end;
};

static void widen(struct span *span, const struct profile_thread *t)
{
	if (t->end_ns <= t->start_ns)
		return;
	if (span->start == span->end) {
		*span = (struct span){t->start_ns, t->end_ns};
		return;
	}
	span->start = min_u64(span->start, t->start_ns);
	if (t->end_ns > span->end)
		span->end = t->end_ns;
}

static void sum_processes(struct profile *p)
{
	struct span *spans = xcalloc(p->n_processes, sizeof(*spans));
	size_t i;

	for (i = 0; i < p->n_threads; i++) {
		add_to_process(&p->processes[p->threads[i].process], &p->threads[i]);
		widen(&spans[p->threads[i].process], &p->threads[i]);
	}
	for (i = 0; i < p->n_processes; i++)
		p->processes[i].wall_ns = spans[i].end - spans[i].start;
	free(spans);
}

struct profile_process profile__total(const struct profile *p)
{
	struct profile_process total = {0};
	struct span span = {0};
	size_t i;

	for (i = 0; i < p->n_threads; i++) {
		add_to_process(&total, &p->threads[i]);
		widen(&span, &p->threads[i]);
	}
	total.wall_ns = span.end - span.start;
	return total;
}

/* The promise of profile.h, per thread. */
static void check(const struct profile *p)
{
	struct profile_sample *sums = xcalloc(p->n_threads, sizeof(*sums));
	size_t i;

	for (i = 0; i < p->n_samples; i++) {
		struct profile_sample *sum = &sums[p->samples[i].thread];

		sum->on_ns += p->samples[i].on_ns;
		sum->runq_ns += p->samples[i].runq_ns;
		sum->blocked_ns += p->samples[i].blocked_ns;
	}
	for (i = 0; i < p->n_threads; i++) {
		const struct profile_thread *t = &p->threads[i];
		uint64_t window = t->end_ns > t->start_ns ? t->end_ns - t->start_ns : 0;

		assert(t->on_ns + t->runq_ns + t->blocked_ns + t->lost_ns == window);
		assert(sums[i].on_ns == t->on_ns);
		assert(sums[i].runq_ns == t->runq_ns);
		assert(sums[i].blocked_ns == t->blocked_ns);
	}
	free(sums);
}

void profile__finish(struct profile *p)
{
	struct imbalance sum = {0};

	assert(!p->finished);
	balance_threads(p, &sum);
	sum_processes(p);
	profile__add_loss(p, "no_stack", "time whose stack was lost, shown as [lost]", 0,
			  sum.no_stack_ns);
	profile__add_loss(p, "overcounted", "threads with more time than their window, cut off",
			  sum.over_threads, sum.over_ns);
	check(p);
	p->finished = true;
}
