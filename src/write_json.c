// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The profile as json, for programs: docs/json.md is the schema and a promise. Each element of the
 * long arrays is printed on a line of its own as soon as it is built, so that the whole never lies
 * in memory and two files can be compared with diff.
 */
#include "write_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "profile.h"
#include "util/text.h"
#include "util/xalloc.h"

#define SCHEMA_VERSION 1

/* ASCII only: no control character of any kind reaches a terminal. */
#define DUMP_FLAGS (JSON_COMPACT | JSON_ENSURE_ASCII | JSON_ENCODE_ANY | JSON_REAL_PRECISION(6))

struct json_out {
	const struct profile *p;
	FILE *out;
	int err;
};

/* Takes a value over; out of memory becomes a NULL here and an error in print_value(). */
static void set(json_t *object, const char *key, json_t *value)
{
	json_object_set_new_nocheck(object, key, value);
}

static json_t *number(uint64_t value)
{
	return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

/* A name that is not UTF-8, or holds the one control character that json lets through, is shown
 * with
 * '?' for what is wrong with it. */
static json_t *string(const char *text)
{
	size_t size;
	char *clean;
	json_t *value;

	if (!text)
		return json_null();
	value = strchr(text, 0x7f) ? NULL : json_string(text);
	if (value)
		return value;
	size = strlen(text) + 1;
	clean = xmalloc(size);
	text__printable(clean, size, text);
	value = json_string(clean);
	free(clean);
	return value;
}

static json_t *hex(uint64_t value)
{
	return json_sprintf("0x%llx", (unsigned long long)value);
}

static json_t *percent(uint64_t part, uint64_t whole)
{
	return json_real(whole ? 100.0 * (double)part / (double)whole : 0.0);
}

static void print_value(struct json_out *o, json_t *value)
{
	if (!value || json_dumpf(value, o->out, DUMP_FLAGS) < 0)
		o->err = o->err ?: -EIO;
	json_decref(value);
}

static void print_member(struct json_out *o, const char *key, json_t *value)
{
	fprintf(o->out, ",\n\"%s\":", key);
	print_value(o, value);
}

/* An array with one element per line. */
static void print_array(struct json_out *o, const char *key, uint32_t n,
			json_t *(*element)(const struct profile *p, uint32_t i))
{
	uint32_t i;

	fprintf(o->out, ",\n\"%s\":[", key);
	for (i = 0; i < n; i++) {
		fputs(i ? ",\n" : "\n", o->out);
		print_value(o, element(o->p, i));
	}
	fputs(n ? "\n]" : "]", o->out);
}

static uint64_t window_ns(const struct profile *p)
{
	const struct profile_meta *meta = profile__meta(p);

	return meta->end_ns > meta->start_ns ? meta->end_ns - meta->start_ns : 0;
}

/* What threads, processes and the total have in common; 'cpu_ns' is the wall time that 100 % of one
 * CPU stands for. */
static void set_times(json_t *o, const struct profile *p, const struct profile_process *t,
		      uint64_t cpu_ns)
{
	set(o, "window_ns", number(t->window_ns));
	set(o, "on_ns", number(t->on_ns));
	set(o, "user_ns", number(t->user_ns));
	set(o, "system_ns", number(t->system_ns));
	set(o, "runq_ns", number(t->runq_ns));
	set(o, "blocked_ns", number(t->blocked_ns));
	set(o, "filtered_ns", number(t->filtered_ns));
	set(o, "lost_ns", number(t->lost_ns));
	set(o, "switches", number(t->switches));
	set(o, "voluntary", number(t->voluntary));
	set(o, "samples", number(t->samples));
	set(o, "cpu_percent", percent(t->on_ns, cpu_ns));
	set(o, "machine_percent", percent(t->on_ns, window_ns(p) * profile__meta(p)->cpus));
}

static json_t *process(const struct profile *p, uint32_t i)
{
	const struct profile_process *processes;
	json_t *o = json_object();

	profile__processes(p, &processes);
	set(o, "pid", number(processes[i].pid));
	set(o, "comm", string(processes[i].comm));
	set(o, "threads", number(processes[i].threads));
	set(o, "wall_ns", number(processes[i].wall_ns));
	set_times(o, p, &processes[i], processes[i].wall_ns);
	return o;
}

static json_t *thread(const struct profile *p, uint32_t i)
{
	const struct profile_process *processes;
	const struct profile_thread *threads, *t;
	json_t *o = json_object();
	struct profile_process times;

	profile__processes(p, &processes);
	profile__threads(p, &threads);
	t = &threads[i];
	times = (struct profile_process){
		.window_ns = t->on_ns + t->runq_ns + t->blocked_ns + t->lost_ns,
		.on_ns = t->on_ns,
		.user_ns = t->user_ns,
		.system_ns = t->system_ns,
		.runq_ns = t->runq_ns,
		.blocked_ns = t->blocked_ns,
		.filtered_ns = t->filtered_ns,
		.lost_ns = t->lost_ns,
		.switches = t->switches,
		.voluntary = t->voluntary,
		.samples = t->samples,
	};
	set(o, "process", number(t->process));
	set(o, "pid", number(processes[t->process].pid));
	set(o, "tid", number(t->tid));
	set(o, "comm", string(t->comm));
	set(o, "start_ns", number(t->start_ns));
	set(o, "end_ns", number(t->end_ns));
	set_times(o, p, &times, times.window_ns);
	set(o, "blocked_at_start", json_boolean(t->blocked_at_start));
	set(o, "blocked_at_end", json_boolean(t->blocked_at_end));
	return o;
}

static const char *kind_name(enum frame_kind kind)
{
	switch (kind) {
	case FRAME_USER:
		return "user";
	case FRAME_KERNEL:
		return "kernel";
	case FRAME_JIT:
		return "jit";
	case FRAME_MARK:
		break;
	}
	return "mark";
}

static json_t *frame(const struct profile *p, uint32_t i)
{
	const struct frame *f = profile__frame(p, i);
	json_t *o = json_object();

	set(o, "func", string(f->func));
	set(o, "kind", string(kind_name(f->kind)));
	set(o, "module", string(f->module));
	if (f->build_id)
		set(o, "build_id", string(f->build_id));
	if (f->file)
		set(o, "file", string(f->file));
	if (f->line)
		set(o, "line", number(f->line));
	set(o, "inlined", json_boolean(f->inlined));
	set(o, "addr", hex(f->addr));
	return o;
}

static void print_id(FILE *out, uint32_t id)
{
	char digits[10];
	int n = sizeof(digits);

	do
		digits[--n] = '0' + id % 10;
	while (id /= 10);
	fwrite_unlocked(digits + n, 1, sizeof(digits) - n, out);
}

static void print_frame_ids(struct json_out *o, uint32_t stack)
{
	const struct frame **frames;
	uint32_t i, n = profile__stack(o->p, stack, &frames);

	for (i = 0; i < n; i++) {
		if (i)
			putc_unlocked(',', o->out);
		print_id(o->out, profile__frame_id(frames[i]));
	}
}

/* By hand: there are millions of these numbers, and jansson would allocate each. */
static void print_stack(struct json_out *o, const struct profile_sample *s)
{
	const struct profile_process *processes;
	const struct profile_thread *threads, *t;

	profile__processes(o->p, &processes);
	profile__threads(o->p, &threads);
	t = &threads[s->thread];
	fprintf(o->out, "{\"process\":%u,\"pid\":%u,\"comm\":", t->process,
		processes[t->process].pid);
	print_value(o, string(t->comm));
	fprintf(o->out, ",\"thread\":%u,\"tid\":%u,\"frames\":[", s->thread, t->tid);
	print_frame_ids(o, s->stack);
	fprintf(o->out, "],\"on_ns\":%" PRIu64 ",\"runq_ns\":%" PRIu64, s->on_ns, s->runq_ns);
	fprintf(o->out, ",\"blocked_ns\":%" PRIu64 ",\"samples\":%" PRIu64, s->blocked_ns,
		s->samples);
	fprintf(o->out, ",\"blocks\":%" PRIu64 ",\"max_ns\":%" PRIu64 "}", s->blocks, s->max_ns);
}

static void print_stacks(struct json_out *o)
{
	const struct profile_sample *samples;
	uint32_t i, n = profile__samples(o->p, &samples);

	fputs(",\n\"stacks\":[", o->out);
	for (i = 0; i < n; i++) {
		fputs(i ? ",\n" : "\n", o->out);
		print_stack(o, &samples[i]);
	}
	fputs(n ? "\n]" : "]", o->out);
}

static json_t *loss(const struct profile *p, uint32_t i)
{
	const struct profile_loss *losses;
	json_t *o = json_object();

	profile__losses(p, &losses);
	set(o, "kind", string(losses[i].kind));
	set(o, "text", string(losses[i].text));
	set(o, "count", number(losses[i].count));
	set(o, "ns", number(losses[i].ns));
	return o;
}

static json_t *totals(const struct profile *p)
{
	struct profile_process total = profile__total(p);
	json_t *o = json_object();

	set(o, "threads", number(total.threads));
	set(o, "wall_ns", number(total.wall_ns));
	set_times(o, p, &total, window_ns(p));
	return o;
}

static json_t *cost(const struct profile *p)
{
	const struct profile_cost *c = profile__cost(p);
	json_t *o = json_object();

	set(o, "bpf_ns", number(c->bpf_ns));
	set(o, "bpf_runs", number(c->bpf_runs));
	set(o, "switches", number(c->switches));
	set(o, "user_cpu_ns", number(c->user_cpu_ns));
	set(o, "rss_bytes", number(c->rss_bytes));
	set(o, "kernel_bytes", number(c->kernel_bytes));
	set(o, "load_ns", number(c->load_ns));
	set(o, "attach_ns", number(c->attach_ns));
	set(o, "user_memo_hits", number(c->user_memo_hits));
	set(o, "user_memo_misses", number(c->user_memo_misses));
	set(o, "kernel_memo_hits", number(c->kernel_memo_hits));
	set(o, "kernel_memo_misses", number(c->kernel_memo_misses));
	return o;
}

static void print_meta(struct json_out *o)
{
	const struct profile_meta *meta = profile__meta(o->p);

	fprintf(o->out, "\"version\":%d", SCHEMA_VERSION);
	print_member(o, "command", string(meta->command));
	print_member(o, "title", string(meta->title));
	print_member(o, "filter", string(meta->filter));
	print_member(o, "start_unix_ns", number(meta->start_unix_ns));
	print_member(o, "window_ns", number(window_ns(o->p)));
	print_member(o, "cpus", number(meta->cpus));
	print_member(o, "sample_hz", number(meta->sample_hz));
}

int write_json(const struct profile *p, const struct write_opts *opts, FILE *out)
{
	const struct profile_process *processes;
	const struct profile_thread *threads;
	const struct profile_loss *losses;
	struct json_out o = {.p = p, .out = out};

	(void)opts; /* threads are always kept apart here */
	fputs("{\n", out);
	print_meta(&o);
	print_member(&o, "totals", totals(p));
	print_array(&o, "processes", profile__processes(p, &processes), process);
	print_array(&o, "threads", profile__threads(p, &threads), thread);
	print_array(&o, "frames", profile__frames(p), frame);
	print_stacks(&o);
	print_array(&o, "losses", profile__losses(p, &losses), loss);
	print_member(&o, "cost", cost(p));
	fputs("\n}\n", out);
	/* after a full disk the stream tells why, better than this */
	return ferror(out) ? 0 : o.err;
}
