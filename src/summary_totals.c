// SPDX-License-Identifier: GPL-2.0-or-later
#include "summary_impl.h"

#include <inttypes.h>
#include <string.h>

#include "units.h"
#include "where.h"

#define RED   "\033[31m"
#define RESET "\033[0m"

/* From here on the line of on-CPU time is one line. */
#define WIDE 104
/* As far as time_line() goes, and the three blanks behind it. */
#define MARGIN 35

/* Right-aligned; printf counts bytes and not columns. */
static void print_right(const struct summary *s, const char *text, size_t width)
{
	size_t have = text__width(text);

	fprintf(s->out, "%*s%s", (int)(have < width ? width - have : 0), "", text);
}

/* "  blocked     204.4 s   97.34 %" of all threads' time; the caller ends the line. */
static void time_line(const struct summary *s, const char *label, uint64_t ns)
{
	struct unit_text buf;

	fprintf(s->out, "  %-11s", label);
	print_right(s, units__duration(&buf, ns), 9);
	print_right(s, units__percent(&buf, ns, s->total.window_ns), 10);
}

static void print_title(const struct summary *s)
{
	struct summary_name title;

	summary__name(&title, s->meta->title, sizeof(title.s) - 1);
	if (s->opts.color)
		fputs("\033[1m", s->out);
	fprintf(s->out, "%s  %" PRIu64 ".%02" PRIu64 " s  ", title.s, s->window_ns / 1000000000,
		s->window_ns / 10000000 % 100);
	fprintf(s->out, "%u thread%s", s->n_threads, s->n_threads == 1 ? "" : "s");
	if (s->n_processes > 1 && !strstr(s->meta->title, " processes"))
		fprintf(s->out, " in %u processes", s->n_processes);
	fputs(s->opts.color ? RESET "\n" : "\n", s->out);
}

static void print_split(const struct summary *s)
{
	const struct profile_process *t = &s->total;
	struct unit_text user, system;

	if (t->user_ns + t->system_ns)
		fprintf(s->out, "user %s, system %s", units__duration(&user, t->user_ns),
			units__duration(&system, t->system_ns));
}

static void print_on(const struct summary *s)
{
	const struct profile_process *t = &s->total;
	struct unit_text cpu, machine;

	time_line(s, "on-CPU", t->on_ns);
	fprintf(s->out, "   %s of one CPU", units__percent(&cpu, t->on_ns, s->window_ns));
	if (s->meta->cpus)
		fprintf(s->out, ", %s of the machine",
			units__percent(&machine, t->on_ns, s->window_ns * s->meta->cpus));
	if (t->user_ns + t->system_ns)
		fprintf(s->out, s->opts.width < WIDE ? "\n%*s" : "; %*s",
			s->opts.width < WIDE ? MARGIN : 0, "");
	print_split(s);
	fputc('\n', s->out);
}

static void print_filtered(const struct summary *s)
{
	struct summary_name filter;

	if (!s->meta->filter)
		return;
	summary__name(&filter, s->meta->filter, sizeof(filter.s) - 1);
	time_line(s, "filtered", s->total.filtered_ns);
	fprintf(s->out, "   part of blocked; stacks left out by: %s\n", filter.s);
}

static void print_loss(const struct summary *s, const struct profile_loss *loss)
{
	struct unit_text count, ns;
	struct summary_name text;

	summary__name(&text, loss->text, sizeof(text.s) - 1);
	fprintf(s->out, "  %sloss%s       ", s->opts.color ? RED : "", s->opts.color ? RESET : "");
	print_right(s, loss->ns ? units__duration(&ns, loss->ns) : "", 9);
	print_right(s, loss->ns ? units__percent(&ns, loss->ns, s->total.window_ns) : "", 10);
	fputs("   ", s->out);
	if (loss->count)
		fprintf(s->out, "%s %s ", units__count(&count, loss->count), signs()->times);
	fprintf(s->out, "%s\n", text.s);
}

static void print_accounted(const struct summary *s)
{
	const struct profile_loss *losses;
	uint32_t i, n = profile__losses(s->p, &losses);

	time_line(s, "accounted", s->total.window_ns - s->total.lost_ns);
	fprintf(s->out, "   of all threads' time%s\n",
		n || s->total.lost_ns ? "" : "; nothing lost");
	if (s->total.lost_ns) {
		time_line(s, "lost", s->total.lost_ns);
		fputs("   could not be placed\n", s->out);
	}
	for (i = 0; i < n; i++)
		print_loss(s, &losses[i]);
}

void summary__accounting(const struct summary *s)
{
	print_title(s);
	if (!s->n_threads) {
		fputs("  no thread was seen\n", s->out);
		return;
	}
	print_on(s);
	time_line(s, "run queue", s->total.runq_ns);
	fputc('\n', s->out);
	time_line(s, "blocked", s->total.blocked_ns);
	fputc('\n', s->out);
	print_filtered(s);
	print_accounted(s);
}

/* Times by what is wrong with their stacks. */
struct quality {
	uint64_t truncated_ns, unnamed_ns, none_ns;
};

/* Time of stacks that are one mark has no stack; [filtered] was left out on purpose. */
static bool has_stack(const struct frame **frames, uint32_t n)
{
	return n > 1 || (n == 1 && frames[0]->kind != FRAME_MARK);
}

static void add_quality(struct quality *q, const struct frame **frames, uint32_t n, uint64_t ns)
{
	uint32_t i;

	if (!has_stack(frames, n)) {
		if (!n || strcmp(frames[0]->func, "[filtered]") != 0)
			q->none_ns += ns;
		return;
	}
	if (frames[0]->kind == FRAME_MARK)
		q->truncated_ns += ns;
	for (i = n; i-- > 0;) {
		if (frames[i]->kind != FRAME_USER && frames[i]->kind != FRAME_JIT)
			continue;
		if (where__is_unnamed(frames[i]))
			q->unnamed_ns += ns;
		return;
	}
}

static struct quality measure_quality(const struct summary *s)
{
	const struct profile_sample *samples;
	uint32_t i, n = profile__samples(s->p, &samples), depth;
	const struct frame **frames;
	struct quality q = {0};

	for (i = 0; i < n; i++) {
		depth = profile__stack(s->p, samples[i].stack, &frames);
		add_quality(&q, frames, depth,
			    samples[i].on_ns + samples[i].runq_ns + samples[i].blocked_ns);
	}
	return q;
}

static void quality_line(const struct summary *s, const char *label, uint64_t ns, const char *text)
{
	time_line(s, label, ns);
	fprintf(s->out, "   %s\n", text);
}

static void print_switch_cost(const struct summary *s, const struct profile_cost *c)
{
	struct unit_text a, b, d;

	if (!c->bpf_ns) {
		fputs("  BPF         run time not known (kernel.bpf_stats_enabled)\n", s->out);
		return;
	}
	fprintf(s->out, "  BPF         %s in %s runs", units__duration(&a, c->bpf_ns),
		units__count(&d, c->bpf_runs));
	if (c->bpf_runs)
		fprintf(s->out, " of %s", units__duration(&b, c->bpf_ns / c->bpf_runs));
	/* runs for threads that are not traced are in it, too */
	if (c->switches)
		fprintf(s->out, "; all in all %s for each of the target's %s switches",
			units__duration(&b, c->bpf_ns / c->switches),
			units__count(&d, c->switches));
	fputc('\n', s->out);
}

static void print_memo(const struct summary *s, const char *label, uint64_t hits, uint64_t misses)
{
	struct unit_text percent, count;

	if (hits + misses)
		fprintf(s->out, "  %-11s %s of %s stacks were known\n", label,
			units__percent(&percent, hits, hits + misses),
			units__count(&count, hits + misses));
}

static void print_cost(const struct summary *s)
{
	const struct profile_cost *c = profile__cost(s->p);
	struct unit_text a, b;

	summary__heading(s, "COST");
	print_switch_cost(s, c);
	fprintf(s->out, "  own CPU     %s, %s of one CPU\n", units__duration(&a, c->user_cpu_ns),
		units__percent(&b, c->user_cpu_ns, s->window_ns));
	fprintf(s->out, "  memory      %s of its own at most, %s in the kernel\n",
		units__bytes(&a, c->rss_bytes), units__bytes(&b, c->kernel_bytes));
	fprintf(s->out, "  start       %s to load, %s to attach\n", units__duration(&a, c->load_ns),
		units__duration(&b, c->attach_ns));
	print_memo(s, "user memo", c->user_memo_hits, c->user_memo_misses);
	print_memo(s, "kernel memo", c->kernel_memo_hits, c->kernel_memo_misses);
}

void summary__quality(const struct summary *s)
{
	struct quality q = measure_quality(s);

	summary__heading(s, "STACKS");
	quality_line(s, "truncated", q.truncated_ns, "has a stack without its beginning");
	quality_line(s, "unnamed", q.unnamed_ns, "has an innermost user function without a name");
	quality_line(s, "none", q.none_ns, "has no stack ([lost], [unsampled])");
	print_cost(s);
}
