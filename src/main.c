// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The phases of a recording: parse, find the target, capture, resolve, write.
 */
#include <errno.h>
#include <locale.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "capture.h"
#include "cli.h"
#include "kernel.h"
#include "module.h"
#include "procmap.h"
#include "profile.h"
#include "recording.h"
#include "sideband.h"
#include "status.h"
#include "summary.h"
#include "symbolize.h"
#include "target.h"
#include "util/log.h"
#include "util/xalloc.h"
#include "write.h"

#define POLL_MS	    20
#define MAX_WRITERS 16

/* Everything a run owns. */
struct session {
	struct options opts;
	struct target target;
	struct recording *recording;
	struct capture *capture;
	struct modules *modules;
	struct procmaps *procmaps;
	struct sideband *sideband;
	struct symbolizer *symbolizer;
	struct profile *profile;
	const struct writer *writers[MAX_WRITERS];
	int nwriters;
	bool to_stdout;
	char *prefix;
	uint64_t start_unix_ns;
	uint64_t capture_cpu_ns; /* CPU time of this process while capturing */
};

static volatile sig_atomic_t interrupted;

static void on_signal(int sig)
{
	interrupted = sig;
}

static void catch_signals(void)
{
	struct sigaction end = {.sa_handler = on_signal}, ignore = {.sa_handler = SIG_IGN};

	sigaction(SIGINT, &end, NULL);
	sigaction(SIGTERM, &end, NULL);
	sigaction(SIGHUP, &end, NULL);
	sigaction(SIGPIPE, &ignore, NULL);
}

static uint64_t own_cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

static int prepare_output(struct session *s)
{
	const struct options *o = &s->opts;

	s->nwriters = writers__parse(o->formats, s->writers, MAX_WRITERS);
	if (s->nwriters < 0)
		return -EINVAL;
	s->to_stdout = o->prefix && !strcmp(o->prefix, "-");
	if (!s->to_stdout)
		return 0;
	if (s->nwriters == 1)
		return 0;
	log__error("-o - writes one format; choose it with -f on, -f off or -f json");
	return -EINVAL;
}

static int find_target(struct session *s)
{
	const struct options *o = &s->opts;

	if (o->pids)
		return target__processes(&s->target, o->pids);
	if (o->tids)
		return target__threads(&s->target, o->tids);
	if (o->name)
		return target__name(&s->target, o->name);
	if (o->cgroup)
		return target__cgroup(&s->target, o->cgroup);
	if (o->command)
		return target__command(&s->target, o->command);
	target__system(&s->target);
	return 0;
}

static int check_output(struct session *s)
{
	if (s->to_stdout)
		return 0;
	s->prefix =
		s->opts.prefix ? xstrdup(s->opts.prefix) : xasprintf("offcpu-%s", s->target.slug);
	return write__check(s->prefix);
}

static int load(struct session *s)
{
	const struct options *o = &s->opts;
	struct capture_opts c = {
		.mode = s->target.mode,
		.ids = s->target.ids,
		.nids = s->target.nids,
		.name = s->target.name,
		.cgroup = s->target.cgroup,
		.cgroup_subsys = -1,
		.children = o->children,
		.fresh_command = o->command != NULL,
		.user = o->user,
		.kernel = o->kernel,
		.max_depth = o->max_depth,
		.sample_hz = o->sample_hz,
		.min_block_ns = o->min_block_ns,
		.max_block_ns = o->max_block_ns,
		.state_mask = o->state_mask,
		.verify_memo = o->verify_memo,
		.measure = o->verbose,
		.map_entries = o->map_entries,
	};

	if (s->target.controller) {
		c.cgroup_subsys = kernel__cgroup_subsys(s->target.controller);
		if (c.cgroup_subsys < 0) {
			log__error("this kernel has no cgroup controller '%s'",
				   s->target.controller);
			return -EINVAL;
		}
	}
	return capture__load(&s->capture, &c, s->recording);
}

static void follow_maps(void *data, pid_t pid)
{
	struct session *s = data;

	procmaps__scan(s->procmaps, pid, clock_ns());
	symbolizer__read_perf_map(s->symbolizer, pid);
}

/* Is there anything left to record? */
static bool finished(struct session *s)
{
	if (interrupted)
		return true;
	if (clock_ns() >= capture__end_ns(s->capture))
		return true;
	if (s->target.child)
		return target__ended(&s->target);
	return (s->target.mode == TARGET_PROCESSES || s->target.mode == TARGET_THREADS) &&
	       !capture__live_threads(s->capture);
}

/* The same instant on the wall clock. */
static uint64_t start_unix_ns(uint64_t monotonic_ns)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + ts.tv_nsec - clock_ns() + monotonic_ns;
}

/*
 * The maps must be drained on time even when the target keeps all CPUs busy. While recording the tool
 * needs so little that the lowest real-time priority does no harm; without the right to it (or on
 * failure) it goes on as it is.
 */
static void set_realtime(bool on)
{
	struct sched_param param = {.sched_priority = on ? 1 : 0};

	sched_setscheduler(0, (on ? SCHED_RR : SCHED_OTHER) | SCHED_RESET_ON_FORK, &param);
}

static int record(struct session *s)
{
	const struct options *o = &s->opts;
	uint64_t cpu, last_end;
	struct status status;
	int err;

	set_realtime(true);
	s->sideband = sideband__open(s->procmaps);
	err = capture__attach(s->capture, follow_maps, s);
	if (err)
		return err;
	if (!s->target.child && s->target.mode != TARGET_NAME &&
	    !capture__live_threads(s->capture)) {
		log__error("nothing to record: %s has no threads (any more)", s->target.title);
		return -ESRCH;
	}
	cpu = own_cpu_ns();
	capture__start(s->capture, o->duration_ns);
	s->start_unix_ns = start_unix_ns(capture__start_ns(s->capture));
	err = target__go(&s->target);
	if (err)
		return err;

	status__init(&status, !o->quiet);
	while (!finished(s)) {
		struct pollfd fd = {.fd = sideband__fd(s->sideband), .events = POLLIN};
		uint64_t now = clock_ns(), start = capture__start_ns(s->capture);

		poll(&fd, fd.fd >= 0, POLL_MS);
		sideband__poll(s->sideband);
		err = capture__poll(s->capture);
		if (err)
			return err;
		status__show(&status, now, now > start ? now - start : 0, o->duration_ns,
			     capture__live_threads(s->capture), recording__stacks(s->recording));
	}
	status__clear(&status);
	/* a target that has gone ends the window when it went, not when that was noticed */
	last_end = capture__live_threads(s->capture) ? 0 : capture__last_end_ns(s->capture);
	err = capture__stop(s->capture, last_end);
	s->capture_cpu_ns = own_cpu_ns() - cpu;
	sideband__poll(s->sideband);
	set_realtime(false);
	return err;
}

static void read_perf_map(void *data, pid_t pid)
{
	struct session *s = data;

	symbolizer__read_perf_map(s->symbolizer, pid);
}

static int resolve(struct session *s)
{
	struct profile_meta meta = {
		.title = s->target.title,
		.command = s->opts.command_line,
		.filter = s->opts.filter,
		.start_ns = capture__start_ns(s->capture),
		.end_ns = capture__end_ns(s->capture),
		.start_unix_ns = s->start_unix_ns,
		.cpus = sysconf(_SC_NPROCESSORS_ONLN),
		.sample_hz = s->opts.sample_hz,
	};
	struct profile_cost cost = {.user_cpu_ns = s->capture_cpu_ns};
	struct rusage usage;

	recording__each_process(s->recording, read_perf_map, s);
	profile__set_meta(s->profile, &meta);
	recording__resolve(s->recording, s->symbolizer, s->profile, meta.start_ns, meta.end_ns);
	if (sideband__lost(s->sideband))
		profile__add_loss(s->profile, "sideband_lost", "records of new mappings lost",
				  sideband__lost(s->sideband), 0);
	capture__report(s->capture, s->profile, &cost);
	getrusage(RUSAGE_SELF, &usage);
	cost.rss_bytes = (uint64_t)usage.ru_maxrss * 1024;
	profile__set_cost(s->profile, &cost);
	profile__finish(s->profile);
	if (recording__threads(s->recording))
		return 0;
	log__error("nothing was recorded: no thread of %s was seen", s->target.title);
	return -ENODATA;
}

static void print_summary(const struct session *s)
{
	struct summary_opts opts = {.verbose = s->opts.verbose, .top = 10};
	struct winsize size;

	if (isatty(STDOUT_FILENO)) {
		opts.width = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) ? 80 : size.ws_col;
		opts.color = !getenv("NO_COLOR");
	}
	summary__print(s->profile, &opts, stdout);
}

static int write_output(struct session *s)
{
	struct write_opts opts = {.per_thread = s->opts.per_thread};
	int err = 0;

	if (s->to_stdout)
		return write__stdout(s->writers[0], s->profile, &opts);
	if (!s->opts.quiet)
		print_summary(s);
	for (int i = 0; i < s->nwriters && !err; i++)
		err = write__file(s->writers[i], s->profile, &opts, s->prefix);
	if (err || s->opts.quiet)
		return err;
	printf("wrote");
	for (int i = 0; i < s->nwriters; i++)
		printf(" %s%s", s->prefix, s->writers[i]->suffix);
	printf("\n");
	if (fflush(stdout) && errno != EPIPE) {
		err = -errno;
		log__error("cannot write to stdout: %s", strerror(-err));
	}
	return err;
}

static int run(struct session *s)
{
	int err;

	err = check_output(s);
	if (!err)
		err = load(s);
	if (!err)
		err = record(s);
	if (!err)
		err = resolve(s);
	if (!err)
		err = write_output(s);
	return err;
}

/*
 * The command's status. A command that outlives the recording is told to end, with the signal that
 * ended the recording, or with SIGTERM when -d did; that is no failure.
 */
static int end_command(struct target *t)
{
	int sig = interrupted ? interrupted : SIGTERM, status;

	if (target__ended(t))
		return target__wait(t);
	kill(t->child, sig);
	status = target__wait(t);
	return status == 128 + sig ? 0 : status;
}

int main(int argc, char **argv)
{
	struct session s = {0};
	struct symbolizer_opts sym = {0};
	int err, status;

	setlocale(LC_CTYPE, "");
	cli__parse(&s.opts, argc, argv);
	log__set_level(s.opts.quiet ? LOG_QUIET : s.opts.verbose ? LOG_VERBOSE : LOG_NORMAL);
	if (prepare_output(&s))
		return 2;
	catch_signals();
	sym.no_inline = s.opts.no_inline;
	sym.debuginfod = s.opts.debuginfod;
	s.recording = recording__new();
	s.modules = modules__new();
	s.procmaps = procmaps__new(s.modules);
	s.symbolizer = symbolizer__new(&sym, s.procmaps);
	s.profile = profile__new();

	err = find_target(&s);
	if (err == -EINVAL)
		exit(2);
	if (!err)
		err = run(&s);
	status = err ? 1 : 0;
	capture__free(s.capture);
	if (s.target.child && !err)
		status = end_command(&s.target);
	sideband__close(s.sideband);
	symbolizer__free(s.symbolizer);
	procmaps__free(s.procmaps);
	modules__free(s.modules);
	profile__free(s.profile);
	recording__free(s.recording);
	target__free(&s.target);
	free(s.prefix);
	cli__free(&s.opts);
	return status;
}
