// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli.h"

#include <argp.h>
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi.h"
#include "util/log.h"
#include "util/xalloc.h"
#include "write.h"

#ifndef OFFCPU_VERSION
#define OFFCPU_VERSION "unknown"
#endif

const char *argp_program_version = "offcpu " OFFCPU_VERSION;

enum {
	KEY_CHILDREN = 256,
	KEY_STATE,
	KEY_STACKS,
	KEY_MAX_DEPTH,
	KEY_NO_INLINE,
	KEY_DEBUGINFOD,
	KEY_VERIFY_MEMO,
	KEY_MAP_ENTRIES,
};

static const struct argp_option options[] = {
	{0, 0, 0, 0, "Target (one of):", 1},
	{"pid", 'p', "LIST", 0, "Processes: 812,977", 0},
	{"tid", 't', "LIST", 0, "Threads", 0},
	{"name", 'n', "NAME", 0, "Processes with this command name", 0},
	{"cgroup", 'g', "PATH", 0, "All in the cgroup (a directory) and below it", 0},
	{"all", 'a', 0, 0, "The whole system", 0},
	{"children", KEY_CHILDREN, 0, 0, "With -p, -t, -n: follow forked processes too", 0},

	{0, 0, 0, 0, "Recording:", 2},
	{"duration", 'd', "SEC", 0, "Seconds (default: until Ctrl-C or the target's end)", 0},
	{"frequency", 'F', "HZ", 0, "On-CPU samples per second and CPU (99; 0: none)", 0},
	{"min-block", 'm', "TIME", 0,
	 "Leave out stacks of waits shorter than TIME (us; or 5ms, 1s)", 0},
	{"max-block", 'M', "TIME", 0, "Leave out stacks of waits longer than TIME", 0},
	{"state", KEY_STATE, "MASK", 0, "Only stacks of waits in these task states (1: S, 2: D)",
	 0},
	{"user-stacks-only", 'u', 0, 0, "User stacks only", 0},
	{"kernel-stacks-only", 'k', 0, 0, "Kernel stacks only", 0},
	{"stacks", KEY_STACKS, "HOW", 0, "fp: by frame pointers (default); none: no stacks", 0},
	{"max-depth", KEY_MAX_DEPTH, "N", 0, "Frames per stack (127)", 0},

	{0, 0, 0, 0, "Output:", 3},
	{"output", 'o', "PREFIX", 0, "Files PREFIX.* (offcpu-NAME-PID); -: stdout", 0},
	{"format", 'f', "LIST", 0, "Formats: folded (= on,off), json (default: folded)", 0},
	{"per-thread", 'T', 0, 0, "Split stacks by thread", 0},
	{"no-inline", KEY_NO_INLINE, 0, 0, "Leave inlined functions out", 0},
	{"debuginfod", KEY_DEBUGINFOD, 0, 0, "Ask $DEBUGINFOD_URLS for debug information", 0},
	{"quiet", 'q', 0, 0, "No summary, no status line, no warnings", 0},
	{"verbose", 'v', 0, 0, "Also own cost, causes of broken stacks", 0},

	{"verify-memo", KEY_VERIFY_MEMO, 0, OPTION_HIDDEN, 0, 0},
	{"map-entries", KEY_MAP_ENTRIES, "N", OPTION_HIDDEN, 0, 0},
	{0},
};

static const char doc[] =
	"Tells where every microsecond of a program went: running, waiting for a CPU, or blocked.\v"
	"Example: offcpu -p 4242 -d 30       one process, 30 seconds\n"
	"         offcpu -- make -j2         a command and its children, to its end\n"
	"         offcpu -p 4242 -d 10 -f off -o - | flamegraph.pl > off.svg";

static void __attribute__((noreturn, format(printf, 1, 2))) usage_error(const char *fmt, ...)
{
	char line[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	log__error("%s", line);
	exit(2);
}

static uint64_t parse_number(const char *text, const char *what, uint64_t min, uint64_t max)
{
	unsigned long long value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 0);
	if (!isdigit((unsigned char)*text) || *end || errno || value < min || value > max)
		usage_error("%s: '%s' is not a number from %llu to %llu", what, log__safe(text),
			    (unsigned long long)min, (unsigned long long)max);
	return value;
}

static uint64_t parse_seconds(const char *text)
{
	char *end;
	double value = strtod(text, &end);

	if (!(isdigit((unsigned char)*text) || *text == '.') || (*end && strcmp(end, "s")) ||
	    !isfinite(value) || value < 0.001 || value > 1e9)
		usage_error("-d: '%s' is not a number of seconds above 0", log__safe(text));
	return value * 1e9;
}

/* A time with its unit; microseconds without, as in bcc. */
static uint64_t parse_time(const char *text, const char *option)
{
	static const struct {
		const char *name;
		double ns;
	} units[] = {{"", 1e3}, {"us", 1e3}, {"µs", 1e3}, {"ns", 1}, {"ms", 1e6}, {"s", 1e9}};
	char *end;
	double value = strtod(text, &end);

	if ((isdigit((unsigned char)*text) || *text == '.') && isfinite(value) && value >= 0)
		for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
			if (!strcmp(end, units[i].name) && value * units[i].ns < 1e18)
				return value * units[i].ns;
	usage_error("%s: '%s' is not a time; write 500us, 5ms or 1s (no unit: microseconds)",
		    option, log__safe(text));
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case 'p':
		o->pids = arg;
		break;
	case 't':
		o->tids = arg;
		break;
	case 'n':
		o->name = arg;
		break;
	case 'g':
		o->cgroup = arg;
		break;
	case 'a':
		o->all = true;
		break;
	case KEY_CHILDREN:
		o->children = true;
		break;
	case 'd':
		o->duration_ns = parse_seconds(arg);
		break;
	case 'F':
		o->sample_hz = parse_number(arg, "-F", 0, 10000);
		break;
	case 'm':
		o->min_block_ns = parse_time(arg, "-m");
		break;
	case 'M':
		o->max_block_ns = parse_time(arg, "-M");
		break;
	case KEY_STATE:
		o->state_mask = parse_number(arg, "--state", 1, UINT32_MAX);
		break;
	case 'u':
		o->kernel = false;
		break;
	case 'k':
		o->user = false;
		break;
	case KEY_STACKS:
		if (!strcmp(arg, "none"))
			o->stacks = false;
		else if (strcmp(arg, "fp"))
			usage_error("--stacks: '%s' is not one of: fp, none", log__safe(arg));
		break;
	case KEY_MAX_DEPTH:
		o->max_depth = parse_number(arg, "--max-depth", 1, MAX_FRAMES);
		break;
	case 'o':
		o->prefix = arg;
		break;
	case 'f':
		o->formats = arg;
		break;
	case 'T':
		o->per_thread = true;
		break;
	case KEY_NO_INLINE:
		o->no_inline = true;
		break;
	case KEY_DEBUGINFOD:
		o->debuginfod = true;
		break;
	case 'q':
		o->quiet = true;
		break;
	case 'v':
		o->verbose = true;
		break;
	case KEY_VERIFY_MEMO:
		o->verify_memo = true;
		break;
	case KEY_MAP_ENTRIES:
		o->map_entries = parse_number(arg, "--map-entries", 1, 1 << 24);
		break;
	case ARGP_KEY_ARGS:
		o->command = state->argv + state->next;
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

/* "5 ms", from ns. */
static void print_time(char *text, size_t size, uint64_t ns)
{
	if (ns % 1000000000 == 0)
		snprintf(text, size, "%llu s", (unsigned long long)ns / 1000000000);
	else if (ns % 1000000 == 0)
		snprintf(text, size, "%llu ms", (unsigned long long)ns / 1000000);
	else
		snprintf(text, size, "%g us", ns / 1e3);
}

static char *describe_filter(const struct options *o)
{
	char min[32], max[32], *text = NULL, *more;

	print_time(min, sizeof(min), o->min_block_ns);
	print_time(max, sizeof(max), o->max_block_ns);
	if (o->min_block_ns && o->max_block_ns != UINT64_MAX)
		text = xasprintf("waits shorter than %s or longer than %s", min, max);
	else if (o->min_block_ns)
		text = xasprintf("waits shorter than %s", min);
	else if (o->max_block_ns != UINT64_MAX)
		text = xasprintf("waits longer than %s", max);
	if (o->state_mask == UINT64_MAX)
		return text;
	more = xasprintf("%s%swaits in task states other than 0x%llx", text ? text : "",
			 text ? ", " : "", (unsigned long long)o->state_mask);
	free(text);
	return more;
}

static char *join(int argc, char **argv)
{
	size_t size = 1, n = 0;
	char *text;

	for (int i = 0; i < argc; i++)
		size += strlen(argv[i]) + 1;
	text = xmalloc(size);
	for (int i = 0; i < argc; i++)
		n += sprintf(text + n, "%s%s", i ? " " : "", argv[i]);
	return text;
}

static void check(struct options *o)
{
	int targets = !!o->pids + !!o->tids + !!o->name + !!o->cgroup + o->all + !!o->command;

	if (!targets)
		usage_error(
			"nothing to record; name a target with -p, -t, -n, -g, -a or -- COMMAND "
			"(--help shows all options)");
	if (targets > 1)
		usage_error(
			"more than one target; give only one of -p, -t, -n, -g, -a, -- COMMAND");
	if (o->children && (o->cgroup || o->all))
		usage_error("--children goes with -p, -t or -n; -g and -a include children anyway");
	if (!o->user && !o->kernel)
		usage_error("-u and -k exclude each other; --stacks none records without stacks");
	if (o->min_block_ns > o->max_block_ns)
		usage_error("-m is above -M: that leaves out everything");
	if (o->quiet && o->verbose)
		usage_error("-q and -v exclude each other");
}

void cli__parse(struct options *opts, int argc, char **argv)
{
	static const struct argp argp = {options, parse_option, "-- COMMAND [ARG...]", doc, 0, 0,
					 0};

	*opts = (struct options){
		.sample_hz = 99,
		.max_block_ns = UINT64_MAX,
		.state_mask = UINT64_MAX,
		.user = true,
		.kernel = true,
		.stacks = true,
		.max_depth = MAX_FRAMES,
		.formats = "folded",
	};
	argp_err_exit_status = 2;
	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, opts);
	check(opts);
	if (opts->command)
		opts->children = true;
	if (!opts->stacks)
		opts->user = opts->kernel = false;
	opts->command_line = join(argc, argv);
	opts->filter = describe_filter(opts);
}

void cli__free(struct options *opts)
{
	free(opts->command_line);
	free(opts->filter);
}
