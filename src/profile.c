// SPDX-License-Identifier: GPL-2.0-or-later
#include "profile_impl.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "util/xalloc.h"

struct process_key {
	uint32_t pid;
	const char *comm; /* interned */
};

struct sample_key {
	uint32_t thread, stack;
};

struct profile *profile__new(void)
{
	struct profile *p = xcalloc(1, sizeof(*p));

	p->intern = intern__new();
	p->meta.title = "";
	p->meta.command = "";
	return p;
}

void profile__free(struct profile *p)
{
	if (!p)
		return;
	idtable__free(&p->process_table);
	idtable__free(&p->sample_table);
	free(p->processes);
	free(p->threads);
	free(p->samples);
	free(p->losses);
	intern__free(p->intern);
	free(p);
}

void profile__set_meta(struct profile *p, const struct profile_meta *meta)
{
	p->meta = *meta;
	p->meta.title = intern__string(p->intern, meta->title ? meta->title : "");
	p->meta.command = intern__string(p->intern, meta->command ? meta->command : "");
	p->meta.filter = intern__string(p->intern, meta->filter);
}

void profile__set_cost(struct profile *p, const struct profile_cost *cost)
{
	p->cost = *cost;
}

void profile__add_loss(struct profile *p, const char *kind, const char *text, uint64_t count,
		       uint64_t ns)
{
	size_t i;

	if (!count && !ns)
		return;
	for (i = 0; i < p->n_losses && strcmp(p->losses[i].kind, kind) != 0; i++)
		;
	if (i == p->n_losses) {
		p->losses = xgrow(p->losses, i, &p->cap_losses, sizeof(*p->losses));
		p->losses[p->n_losses++] = (struct profile_loss){
			.kind = intern__string(p->intern, kind),
			.text = intern__string(p->intern, text),
		};
	}
	p->losses[i].count += count;
	p->losses[i].ns += ns;
}

static bool process_equal(const void *owner, uint32_t id, const void *key)
{
	const struct profile_process *process = &((const struct profile *)owner)->processes[id];
	const struct process_key *k = key;

	return process->pid == k->pid && process->comm == k->comm;
}

uint32_t profile__add_process(struct profile *p, uint32_t pid, const char *comm)
{
	struct process_key key = {pid, intern__string(p->intern, comm ? comm : "")};
	uint64_t hash = hash__mix(pid, (uintptr_t)key.comm);
	uint32_t id = idtable__find(&p->process_table, hash, process_equal, p, &key);

	if (id != IDTABLE_NONE)
		return id;
	p->processes =
		xgrow(p->processes, p->n_processes, &p->cap_processes, sizeof(*p->processes));
	p->processes[p->n_processes] = (struct profile_process){.pid = pid, .comm = key.comm};
	idtable__add(&p->process_table, hash, p->n_processes);
	return p->n_processes++;
}

uint32_t profile__add_thread(struct profile *p, const struct profile_thread *thread)
{
	struct profile_thread *t;

	assert(thread->process < p->n_processes);
	p->threads = xgrow(p->threads, p->n_threads, &p->cap_threads, sizeof(*p->threads));
	t = &p->threads[p->n_threads];
	*t = *thread;
	t->comm = intern__string(p->intern, thread->comm ? thread->comm : "");
	return p->n_threads++;
}

uint32_t profile__add_stack(struct profile *p, const struct frame *frames, uint32_t n)
{
	return intern__stack(p->intern, frames, n);
}

static bool sample_equal(const void *owner, uint32_t id, const void *key)
{
	const struct profile_sample *sample = &((const struct profile *)owner)->samples[id];
	const struct sample_key *k = key;

	return sample->thread == k->thread && sample->stack == k->stack;
}

uint32_t profile__sample(struct profile *p, uint32_t thread, uint32_t stack)
{
	struct sample_key key = {thread, stack};
	uint64_t hash = hash__mix(thread, stack);
	uint32_t id = idtable__find(&p->sample_table, hash, sample_equal, p, &key);

	if (id != IDTABLE_NONE)
		return id;
	p->samples = xgrow(p->samples, p->n_samples, &p->cap_samples, sizeof(*p->samples));
	p->samples[p->n_samples] = (struct profile_sample){.thread = thread, .stack = stack};
	idtable__add(&p->sample_table, hash, p->n_samples);
	return p->n_samples++;
}

void profile__add_sample(struct profile *p, const struct profile_sample *sample)
{
	struct profile_sample *s;
	uint32_t id;

	assert(!p->finished);
	assert(sample->thread < p->n_threads && sample->stack < intern__stacks(p->intern));
	id = profile__sample(p, sample->thread, sample->stack); /* may move the array */
	s = &p->samples[id];
	s->samples += sample->samples;
	s->runq_ns += sample->runq_ns;
	s->blocked_ns += sample->blocked_ns;
	s->blocks += sample->blocks;
	if (sample->max_ns > s->max_ns)
		s->max_ns = sample->max_ns;
}

const struct profile_meta *profile__meta(const struct profile *p)
{
	return &p->meta;
}

const struct profile_cost *profile__cost(const struct profile *p)
{
	return &p->cost;
}

uint32_t profile__losses(const struct profile *p, const struct profile_loss **losses)
{
	*losses = p->losses;
	return p->n_losses;
}

uint32_t profile__processes(const struct profile *p, const struct profile_process **processes)
{
	*processes = p->processes;
	return p->n_processes;
}

uint32_t profile__threads(const struct profile *p, const struct profile_thread **threads)
{
	*threads = p->threads;
	return p->n_threads;
}

uint32_t profile__samples(const struct profile *p, const struct profile_sample **samples)
{
	*samples = p->samples;
	return p->n_samples;
}

uint32_t profile__stacks(const struct profile *p)
{
	return intern__stacks(p->intern);
}

uint32_t profile__stack(const struct profile *p, uint32_t stack, const struct frame ***frames)
{
	return intern__stack_frames(p->intern, stack, frames);
}

uint32_t profile__frames(const struct profile *p)
{
	return intern__frames(p->intern);
}

const struct frame *profile__frame(const struct profile *p, uint32_t id)
{
	return intern__frame(p->intern, id);
}

uint32_t profile__frame_id(const struct frame *frame)
{
	return intern__frame_id(frame);
}
