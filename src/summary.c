// SPDX-License-Identifier: GPL-2.0-or-later
#include "summary.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "profile.h"
#include "ranking.h"
#include "summary_impl.h"
#include "table.h"
#include "units.h"
#include "util/xalloc.h"
#include "where.h"

#define DEFAULT_WIDTH 120
#define DEFAULT_TOP   10
/* A narrower terminal gets fewer and narrower columns, so that stacks remain readable. */
#define NARROW 100
/* In fewer columns than this a blocked stack begins with the program's own functions. */
#define NARROW_WHERE 40
/* No thread's or process's name takes more columns than this. */
#define WHO_WIDTH  24
#define WHO_NARROW 14
#define WHERE_SIZE 2048

void summary__heading(const struct summary *s, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	fputs(s->opts.color ? "\n\033[1m" : "\n", s->out);
	vfprintf(s->out, fmt, args);
	fputs(s->opts.color ? "\033[0m\n" : "\n", s->out);
	va_end(args);
}

void summary__name(struct summary_name *name, const char *text, size_t width)
{
	text__show(name->s, sizeof(name->s), text);
	text__fit(name->s, sizeof(name->s), width);
}

static void duration_cell(struct table *t, uint64_t ns)
{
	struct unit_text buf;

	table__cell(t, ns ? units__duration(&buf, ns) : "-");
}

static void count_cell(struct table *t, uint64_t count)
{
	struct unit_text buf;

	table__cell(t, count ? units__count(&buf, count) : "-");
}

static void percent_cell(struct table *t, uint64_t part, uint64_t whole)
{
	struct unit_text buf;

	table__cell(t, units__tenths(&buf, part, whole));
}

static bool is_narrow(const struct summary *s)
{
	return s->opts.width < NARROW;
}

/* Whose time a row is: "worker/4711", "worker ×64", "srv: 9 threads"; with several processes in the
 * profile "srv:worker ×64". */
static void who_cell(struct summary *s, struct table *t, const struct rank *row)
{
	const struct profile_thread *thread = &s->threads[row->thread];
	const char *comm = s->processes[row->process].comm;
	size_t width = is_narrow(s) ? WHO_NARROW : WHO_WIDTH, used;
	struct summary_name name;
	char tail[64], *text;

	if (!row->one_name)
		snprintf(tail, sizeof(tail), ": %u threads", row->threads);
	else if (row->threads > 1)
		snprintf(tail, sizeof(tail), " %s%u", signs()->times, row->threads);
	else
		snprintf(tail, sizeof(tail), "/%u", thread->tid);
	if (!row->one_name)
		text = xstrdup(comm);
	else if (s->n_processes < 2 || strcmp(comm, thread->comm) == 0)
		text = xstrdup(thread->comm);
	else
		text = xasprintf("%s:%s", comm, thread->comm);
	used = text__width(tail);
	summary__name(&name, text, used + 4 < width ? width - used : 4);
	free(text);
	text = xasprintf("%s%s", name.s, tail);
	table__cell(t, text);
	free(text);
}

static void off_row(struct summary *s, struct table *t, const struct rank *row)
{
	uint64_t total = s->total.blocked_ns + s->total.runq_ns;

	table__row(t);
	duration_cell(t, row->ns);
	percent_cell(t, row->ns, total);
	count_cell(t, row->count);
	if (!is_narrow(s))
		duration_cell(t, row->count ? row->ns / row->count : 0);
	duration_cell(t, row->max_ns);
	who_cell(s, t, row);
}

static void on_row(struct summary *s, struct table *t, const struct rank *row)
{
	table__row(t);
	duration_cell(t, row->ns);
	percent_cell(t, row->ns, s->total.on_ns);
	count_cell(t, row->count);
	who_cell(s, t, row);
}

/* Whether there is no room for the kernel's function in front. */
static bool skip_kernel(enum ranking_kind kind, const struct frame **frames, uint32_t n,
			size_t room)
{
	return kind == RANK_OFF_STACKS && room < NARROW_WHERE && n > 1 &&
	       frames[0]->kind == FRAME_KERNEL && frames[1]->kind != FRAME_KERNEL &&
	       frames[1]->kind != FRAME_MARK;
}

/* The stack, and how much of the row it stands for where there are others. */
static void set_where(struct ranking *r, struct table *t, size_t i, const struct rank *row)
{
	size_t room = table__room(t);
	const struct frame **frames;
	uint32_t n = ranking__frames(r, row, &frames);
	char text[WHERE_SIZE], others[64] = "";

	if (skip_kernel(ranking__kind(r), frames, n, room))
		frames++, n--;
	if (!n) {
		table__set_last(t, i, "(no stack)");
		return;
	}
	if (row->stacks > 1)
		snprintf(others, sizeof(others), "  (+%u %s)", row->stacks - 1,
			 row->stacks > 2 ? "other paths" : "other path");
	if (strlen(others) + 20 > room)
		others[0] = 0;
	where__format(text, sizeof(text) - sizeof(others), frames, n, room - strlen(others));
	table__set_last(t, i, strcat(text, others));
}

static void print_ranking(struct summary *s, struct ranking *r, const char *headings,
			  void (*add_row)(struct summary *, struct table *, const struct rank *))
{
	struct table *t = table__new(headings, s->opts.width, s->opts.color);
	const struct rank *rows;
	size_t i, n = ranking__rows(r, &rows);

	if (n > (size_t)s->opts.top)
		n = s->opts.top;
	for (i = 0; i < n; i++)
		add_row(s, t, &rows[i]);
	for (i = 0; i < n; i++)
		set_where(r, t, i, &rows[i]);
	table__print(t, s->out);
	table__free(t);
}

/* "top 10 of 57 stacks" */
static void ranking_heading(struct summary *s, const char *what, uint64_t ns, size_t rows,
			    const char *noun)
{
	struct unit_text buf;
	char which[64];

	if (rows > (size_t)s->opts.top)
		snprintf(which, sizeof(which), "top %d of %zu %ss", s->opts.top, rows, noun);
	else
		snprintf(which, sizeof(which), "%zu %s%s", rows, noun, rows == 1 ? "" : "s");
	summary__heading(s, "%s  %s, %s", what, units__duration(&buf, ns), which);
}

static void print_off(struct summary *s)
{
	uint64_t ns = s->total.blocked_ns + s->total.runq_ns;
	struct ranking *r;
	const struct rank *rows;

	if (!ns) {
		summary__heading(s, "BLOCKED OR WAITING FOR A CPU  never");
		return;
	}
	r = ranking__new(s->p, RANK_OFF_STACKS);
	ranking_heading(s, "BLOCKED OR WAITING FOR A CPU", ns, ranking__rows(r, &rows), "stack");
	print_ranking(s, r,
		      is_narrow(s) ? ">TIME|>%|>COUNT|>MAX|THREAD|WHERE"
				   : ">TIME|>%|>COUNT|>AVG|>MAX|THREAD|WHERE",
		      off_row);
	ranking__free(r);
}

static void print_on(struct summary *s)
{
	struct ranking *r;
	const struct rank *rows;
	struct unit_text buf;

	if (!s->total.on_ns) {
		summary__heading(s, "HOTTEST ON-CPU  never ran");
		return;
	}
	if (!s->total.samples) {
		summary__heading(s, "HOTTEST ON-CPU  %s, %s", units__duration(&buf, s->total.on_ns),
				 s->meta->sample_hz ? "too short for a sample" : "not sampled");
		return;
	}
	r = ranking__new(s->p, RANK_ON_FUNCTIONS);
	ranking_heading(s, "HOTTEST ON-CPU", s->total.on_ns, ranking__rows(r, &rows), "function");
	print_ranking(s, r, ">TIME|>%|>SAMPLES|THREAD|WHERE", on_row);
	ranking__free(r);
}

/* Times and switches that threads, processes and rests have in common. */
static void time_cells(struct table *t, const struct profile_process *sum, uint64_t cpu_ns)
{
	duration_cell(t, sum->on_ns);
	duration_cell(t, sum->runq_ns);
	duration_cell(t, sum->blocked_ns);
	percent_cell(t, sum->on_ns, cpu_ns);
	count_cell(t, sum->switches);
}

static void add_sum(struct profile_process *sum, const struct profile_process *part)
{
	sum->window_ns += part->window_ns;
	sum->on_ns += part->on_ns;
	sum->runq_ns += part->runq_ns;
	sum->blocked_ns += part->blocked_ns;
	sum->switches += part->switches;
	sum->threads += part->threads;
}

static struct profile_process thread_sum(const struct profile_thread *t)
{
	return (struct profile_process){
		.window_ns = t->on_ns + t->runq_ns + t->blocked_ns + t->lost_ns,
		.on_ns = t->on_ns,
		.runq_ns = t->runq_ns,
		.blocked_ns = t->blocked_ns,
		.switches = t->switches,
		.threads = 1,
	};
}

/* More on-CPU time first, then more activity, then by id. */
static int compare_threads(const void *pa, const void *pb)
{
	const struct profile_thread *a = *(const struct profile_thread *const *)pa;
	const struct profile_thread *b = *(const struct profile_thread *const *)pb;

	if (a->on_ns != b->on_ns)
		return a->on_ns < b->on_ns ? 1 : -1;
	if (a->switches != b->switches)
		return a->switches < b->switches ? 1 : -1;
	if (a->tid != b->tid)
		return a->tid < b->tid ? -1 : 1;
	return a < b ? -1 : a > b;
}

static int compare_processes(const void *pa, const void *pb)
{
	const struct profile_process *a = *(const struct profile_process *const *)pa;
	const struct profile_process *b = *(const struct profile_process *const *)pb;

	if (a->on_ns != b->on_ns)
		return a->on_ns < b->on_ns ? 1 : -1;
	if (a->pid != b->pid)
		return a->pid < b->pid ? -1 : 1;
	return a < b ? -1 : a > b;
}

static const char *thread_note(const struct profile_thread *t)
{
	if (t->blocked_at_start && t->blocked_at_end && !t->switches)
		return "blocked throughout";
	if (t->blocked_at_end)
		return "still blocked at the end";
	return "";
}

static void thread_row(struct summary *s, struct table *t, const struct profile_thread *thread)
{
	struct profile_process sum = thread_sum(thread);
	struct summary_name name;
	size_t width = is_narrow(s) ? WHO_NARROW : WHO_WIDTH;
	char id[32];

	table__row(t);
	summary__name(&name, thread->comm, width);
	table__cell(t, name.s);
	snprintf(id, sizeof(id), "%u", thread->tid);
	table__cell(t, id);
	if (s->n_processes > 1) {
		summary__name(&name, s->processes[thread->process].comm, width - 8);
		snprintf(name.s + strlen(name.s), 16, "/%u", s->processes[thread->process].pid);
		table__cell(t, name.s);
	}
	time_cells(t, &sum, sum.window_ns);
	table__cell(t, thread_note(thread));
}

static void rest_row(struct summary *s, struct table *t, const struct profile_process *rest,
		     const char *noun, uint64_t cpu_ns, bool processes)
{
	char text[64];

	table__row(t);
	snprintf(text, sizeof(text), "%s and %u more %s%s", signs()->ellipsis, rest->threads, noun,
		 rest->threads == 1		 ? ""
		 : noun[strlen(noun) - 1] == 's' ? "es"
						 : "s");
	table__cell(t, text);
	table__cell(t, "");
	if (processes || s->n_processes > 1)
		table__cell(t, "");
	time_cells(t, rest, cpu_ns);
}

static void print_threads(struct summary *s)
{
	const struct profile_thread **order = xcalloc(s->n_threads, sizeof(*order));
	struct profile_process rest = {0}, part;
	uint32_t i, top = s->opts.top;
	struct table *t;

	for (i = 0; i < s->n_threads; i++)
		order[i] = &s->threads[i];
	qsort(order, s->n_threads, sizeof(*order), compare_threads);
	t = table__new(s->n_processes > 1
			       ? "THREAD|>TID|PROCESS|>ON-CPU|>RUN QUEUE|>BLOCKED|>%CPU|>SWITCHES|"
			       : "THREAD|>TID|>ON-CPU|>RUN QUEUE|>BLOCKED|>%CPU|>SWITCHES|",
		       s->opts.width, s->opts.color);
	for (i = 0; i < s->n_threads; i++) {
		if (i < top) {
			thread_row(s, t, order[i]);
			continue;
		}
		part = thread_sum(order[i]);
		add_sum(&rest, &part);
	}
	if (rest.threads)
		rest_row(s, t, &rest, "thread", rest.window_ns, false);
	summary__heading(s, "THREADS");
	table__print(t, s->out);
	table__free(t);
	free(order);
}

static void process_row(struct table *t, const struct profile_process *process)
{
	struct summary_name name;
	char id[32];

	table__row(t);
	summary__name(&name, process->comm, WHO_WIDTH);
	table__cell(t, name.s);
	snprintf(id, sizeof(id), "%u", process->pid);
	table__cell(t, id);
	snprintf(id, sizeof(id), "%u", process->threads);
	table__cell(t, id);
	time_cells(t, process, process->wall_ns);
}

static void print_processes(struct summary *s)
{
	const struct profile_process **order = xcalloc(s->n_processes, sizeof(*order));
	struct profile_process rest = {0};
	uint32_t i, top = s->opts.top;
	struct table *t;

	for (i = 0; i < s->n_processes; i++)
		order[i] = &s->processes[i];
	qsort(order, s->n_processes, sizeof(*order), compare_processes);
	t = table__new("PROCESS|>PID|>THREADS|>ON-CPU|>RUN QUEUE|>BLOCKED|>%CPU|>SWITCHES",
		       s->opts.width, s->opts.color);
	for (i = 0; i < s->n_processes; i++) {
		if (i < top) {
			process_row(t, order[i]);
			continue;
		}
		add_sum(&rest, order[i]);
	}
	if (s->n_processes > top) {
		rest.threads = s->n_processes - top;
		rest_row(s, t, &rest, "process", s->window_ns, true);
	}
	summary__heading(s, "PROCESSES");
	table__print(t, s->out);
	table__free(t);
	free(order);
}

void summary__print(const struct profile *p, const struct summary_opts *opts, FILE *out)
{
	struct summary s = {.p = p, .opts = *opts, .out = out, .meta = profile__meta(p)};

	if (s.opts.width <= 0)
		s.opts.width = DEFAULT_WIDTH, s.opts.color = false;
	if (s.opts.top <= 0)
		s.opts.top = DEFAULT_TOP;
	s.n_processes = profile__processes(p, &s.processes);
	s.n_threads = profile__threads(p, &s.threads);
	s.total = profile__total(p);
	if (s.meta->end_ns > s.meta->start_ns)
		s.window_ns = s.meta->end_ns - s.meta->start_ns;

	summary__accounting(&s);
	if (!s.n_threads)
		return;
	if (s.n_processes > 1)
		print_processes(&s);
	print_off(&s);
	print_on(&s);
	print_threads(&s);
	if (s.opts.verbose)
		summary__quality(&s);
}
