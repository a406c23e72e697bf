// SPDX-License-Identifier: GPL-2.0-or-later
#include "capture.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "kernel.h"
#include "offcpu.skel.h"
#include "profile.h"
#include "recording.h"
#include "util/log.h"
#include "util/xalloc.h"

#define DRAIN_NS   500000000ULL
#define MARGIN_NS  2000000ULL /* how far ahead the window's edges are set */
#define CLOSING_US 20000
#define BATCH	   256
#define MIN_STACKS 8192
#define MAX_STACKS 65536

struct capture {
	struct capture_opts opts;
	struct recording *recording;
	struct offcpu_bpf *skel;
	struct ring_buffer *exits;
	struct bpf_link **samplers; /* one per CPU */
	int nsamplers;
	int stats_fd;
	uint64_t drained_ns, load_ns, attach_ns;
	uint64_t bpf_ns, bpf_runs;
	uint64_t kernel_bytes;
	void *batch_keys, *batch_values;
};

uint64_t clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

/* libbpf's own words go with -v only; the layer above says what failed. */
static int print_libbpf(enum libbpf_print_level level, const char *fmt, va_list args)
{
	if (log__level() < LOG_VERBOSE || level == LIBBPF_DEBUG)
		return 0;
	return vfprintf(stderr, fmt, args);
}

static void set_knobs(struct offcpu_bpf *skel, const struct capture_opts *o)
{
	skel->rodata->target_mode = o->mode;
	if (o->name)
		strncpy((char *)skel->rodata->target_name, o->name, COMM_LEN - 1);
	skel->rodata->target_cgroup = o->cgroup;
	skel->rodata->target_cgroup_subsys = o->cgroup_subsys;
	skel->rodata->follow_threads = o->mode != TARGET_THREADS;
	skel->rodata->follow_children = o->children;
	skel->rodata->fresh_command = o->fresh_command;
	skel->rodata->want_user = o->user;
	skel->rodata->want_kernel = o->kernel;
	skel->rodata->have_state_arg = kernel__switch_has_state();
	skel->rodata->have_direct_read = kernel__has_function("bpf_rdonly_cast");
	skel->rodata->verify_memo = o->verify_memo;
	skel->rodata->max_depth = o->max_depth;
	skel->rodata->filter_blocks =
		o->min_block_ns || o->max_block_ns != UINT64_MAX || o->state_mask != UINT64_MAX;
	skel->rodata->min_block_ns = o->min_block_ns;
	skel->rodata->max_block_ns = o->max_block_ns;
	skel->rodata->state_mask = o->state_mask;
}

/*
 * The maps are drained when they are a quarter full, so their size has to cover what all CPUs can
 * add until then: it goes with the number of CPUs.
 */
static void size_maps(struct offcpu_bpf *skel, const struct capture_opts *o)
{
	uint32_t stacks = 4096 * libbpf_num_possible_cpus(), rows;

	stacks = stacks < MIN_STACKS ? MIN_STACKS : stacks > MAX_STACKS ? MAX_STACKS : stacks;
	stacks = o->map_entries ? o->map_entries : stacks;
	rows = o->map_entries ? o->map_entries : 4 * stacks;
	bpf_map__set_max_entries(skel->maps.stacks_a, stacks);
	bpf_map__set_max_entries(skel->maps.stacks_b, stacks);
	bpf_map__set_max_entries(skel->maps.rows_a, rows);
	bpf_map__set_max_entries(skel->maps.rows_b, rows);
	if ((uint32_t)o->nids > bpf_map__max_entries(skel->maps.targets))
		bpf_map__set_max_entries(skel->maps.targets, o->nids);
}

static int add_targets(struct capture *c)
{
	uint8_t yes = 1;

	for (int i = 0; i < c->opts.nids; i++) {
		uint32_t id = c->opts.ids[i];

		if (bpf_map_update_elem(bpf_map__fd(c->skel->maps.targets), &id, &yes, BPF_ANY))
			return -errno;
	}
	return 0;
}

/* Which number of a pid is the one that the user sees depends on our PID namespace's depth. */
static int learn_pid_namespace(struct capture *c)
{
	LIBBPF_OPTS(bpf_test_run_opts, run);

	return bpf_prog_test_run_opts(bpf_program__fd(c->skel->progs.learn_pid_namespace), &run);
}

static int on_exit_record(void *data, void *record, size_t size)
{
	struct capture *c = data;

	if (size >= sizeof(struct thread_rec))
		recording__add_thread(c->recording, record);
	return 0;
}

int capture__load(struct capture **out, const struct capture_opts *opts, struct recording *rec)
{
	uint64_t begin = clock_ns();
	struct capture *c;
	int err;

	libbpf_set_print(print_libbpf);
	err = kernel__check();
	if (err)
		return err;
	c = xcalloc(1, sizeof(*c));
	c->opts = *opts;
	c->recording = rec;
	c->stats_fd = -1;
	*out = c;
	c->skel = offcpu_bpf__open();
	if (!c->skel) {
		err = -errno;
		log__error("cannot open the BPF object: %s", strerror(-err));
		return err;
	}
	set_knobs(c->skel, opts);
	size_maps(c->skel, opts);
	bpf_program__set_autoload(c->skel->progs.on_cgroup_attach_task,
				  opts->mode == TARGET_CGROUP);
	bpf_program__set_autoload(c->skel->progs.on_sample, opts->sample_hz != 0);
	err = offcpu_bpf__load(c->skel);
	if (err) {
		log__error("cannot load the BPF programs: %s; -v shows the kernel's reason",
			   strerror(-err));
		return err;
	}
	err = learn_pid_namespace(c);
	if (!err)
		err = add_targets(c);
	if (err) {
		log__error("cannot set up the BPF maps: %s", strerror(-err));
		return err;
	}
	c->exits = ring_buffer__new(bpf_map__fd(c->skel->maps.exits), on_exit_record, c, NULL);
	if (!c->exits) {
		err = -errno;
		log__error("cannot map the BPF ring buffer: %s", strerror(-err));
		return err;
	}
	c->load_ns = clock_ns() - begin;
	return 0;
}

/* --- attaching --- */

static int open_sampler(const struct capture *c, int cpu)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_HARDWARE,
		.config = PERF_COUNT_HW_CPU_CYCLES,
		.sample_freq = c->opts.sample_hz,
		.freq = 1,
		.sample_type = PERF_SAMPLE_IP,
	};
	int fd = syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd >= 0)
		return fd;
	/* no PMU, as in most virtual machines */
	attr.type = PERF_TYPE_SOFTWARE;
	attr.config = PERF_COUNT_SW_CPU_CLOCK;
	fd = syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	return fd >= 0 ? fd : -errno;
}

static int attach_samplers(struct capture *c)
{
	int cpus = libbpf_num_possible_cpus(), opened = 0, err = 0;

	if (!c->opts.sample_hz)
		return 0;
	c->samplers = xcalloc(cpus, sizeof(*c->samplers));
	c->nsamplers = cpus;
	for (int cpu = 0; cpu < cpus; cpu++) {
		int fd = open_sampler(c, cpu);

		if (fd < 0) {
			if (fd != -ENODEV) /* not online */
				err = fd;
			continue;
		}
		c->samplers[cpu] = bpf_program__attach_perf_event(c->skel->progs.on_sample, fd);
		if (!c->samplers[cpu]) {
			err = -errno;
			close(fd);
			continue;
		}
		opened++;
	}
	if (opened)
		return 0;
	log__error("cannot sample running threads: %s (perf_event_open); -F 0 records without",
		   strerror(-err));
	return err ? err : -ENODEV;
}

typedef void (*record_fn)(void *data, const struct thread_rec *rec);

/* Runs a task iterator to its end, handing its output on in whole records. */
static int run_iterator(struct bpf_program *prog, record_fn deliver, void *data)
{
	struct thread_rec recs[32];
	struct bpf_link *link = bpf_program__attach_iter(prog, NULL);
	size_t have = 0;
	ssize_t got;
	int fd;

	if (!link)
		return -errno;
	fd = bpf_iter_create(bpf_link__fd(link));
	if (fd < 0) {
		bpf_link__destroy(link);
		return -errno;
	}
	while ((got = read(fd, (char *)recs + have, sizeof(recs) - have)) != 0) {
		size_t whole;

		if (got < 0) {
			if (errno == EINTR || errno == EAGAIN)
				continue;
			got = -errno;
			break;
		}
		have += got;
		whole = have / sizeof(*recs);
		for (size_t i = 0; i < whole; i++)
			deliver(data, &recs[i]);
		have -= whole * sizeof(*recs);
		memmove(recs, recs + whole, have);
	}
	close(fd);
	bpf_link__destroy(link);
	return got < 0 ? got : 0;
}

/* Tells the processes of the target, once each: threads of one process come one after another. */
struct finder {
	void (*found)(void *data, pid_t pid);
	void *data;
	pid_t last;
};

static void find_process(void *data, const struct thread_rec *rec)
{
	struct finder *f = data;

	if ((pid_t)rec->tgid == f->last || rec->flags & THREAD_KERNEL)
		return;
	f->last = rec->tgid;
	f->found(f->data, rec->tgid);
}

int capture__attach(struct capture *c, void (*found)(void *data, pid_t pid), void *data)
{
	struct finder finder = {.found = found, .data = data};
	uint64_t begin = clock_ns();
	struct bpf_link **links[] = {
		&c->skel->links.on_sched_process_fork, &c->skel->links.on_sched_process_exec,
		&c->skel->links.on_sched_wakeup,       &c->skel->links.on_sched_switch,
		&c->skel->links.on_cgroup_attach_task,
	};
	struct bpf_program *progs[] = {
		c->skel->progs.on_sched_process_fork, c->skel->progs.on_sched_process_exec,
		c->skel->progs.on_sched_wakeup,	      c->skel->progs.on_sched_switch,
		c->skel->progs.on_cgroup_attach_task,
	};
	int err;

	if (c->opts.measure)
		c->stats_fd = bpf_enable_stats(BPF_STATS_RUN_TIME);
	for (size_t i = 0; i < sizeof(progs) / sizeof(progs[0]); i++) {
		if (!bpf_program__autoload(progs[i]))
			continue;
		*links[i] = bpf_program__attach(progs[i]);
		if (!*links[i]) {
			err = -errno;
			log__error("cannot attach '%s': %s", bpf_program__name(progs[i]),
				   strerror(-err));
			return err;
		}
	}
	err = attach_samplers(c);
	if (err)
		return err;
	err = run_iterator(c->skel->progs.seed_tasks, find_process, &finder);
	if (!err)
		err = run_iterator(c->skel->progs.seed_tasks, find_process, &finder);
	if (err) {
		log__error("cannot read the list of tasks through BPF: %s", strerror(-err));
		return err;
	}
	c->attach_ns = clock_ns() - begin;
	return 0;
}

/* --- the window --- */

void capture__start(struct capture *c, uint64_t duration_ns)
{
	uint64_t margin = MARGIN_NS, start;

	/* All CPUs must see the start before it comes. */
	do {
		start = clock_ns() + margin;
		if (duration_ns)
			c->skel->data->window_end = start + duration_ns;
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		c->skel->bss->window_start = start;
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		margin *= 2;
	} while (clock_ns() >= start);
	c->drained_ns = start;
}

uint64_t capture__start_ns(const struct capture *c)
{
	return c->skel->bss->window_start;
}

uint64_t capture__end_ns(const struct capture *c)
{
	return c->skel->data->window_end;
}

uint64_t capture__live_threads(const struct capture *c)
{
	return c->skel->bss->live_threads;
}

uint64_t capture__last_end_ns(const struct capture *c)
{
	return c->skel->bss->last_end_ns;
}

/* --- draining --- */

typedef void (*deliver_fn)(struct recording *r, const void *key, const void *value);

static void deliver_stack(struct recording *r, const void *key, const void *value)
{
	recording__add_stack(r, *(const uint64_t *)key, value);
}

static void deliver_row(struct recording *r, const void *key, const void *value)
{
	recording__add_row(r, key, value);
}

/* Buffers for a batch of either kind of map. */
static void alloc_batch(struct capture *c, uint32_t entries)
{
	c->batch_keys = xreallocarray(c->batch_keys, entries, sizeof(struct row_key));
	c->batch_values = xreallocarray(c->batch_values, entries, sizeof(struct stack_value));
}

/* Reads and empties a map that no program uses any more. */
static int drain_map(struct capture *c, struct bpf_map *map, deliver_fn deliver)
{
	size_t key_size = bpf_map__key_size(map), value_size = bpf_map__value_size(map);
	uint32_t batch = BATCH, position = 0, n;
	void *in = NULL;
	int err;

	do {
		n = batch;
		err = bpf_map_lookup_and_delete_batch(bpf_map__fd(map), in, &position,
						      c->batch_keys, c->batch_values, &n, NULL);
		if (err && errno == ENOSPC && batch < 65536) {
			/* a hash bucket holds more than a batch */
			batch *= 2;
			alloc_batch(c, batch);
			err = 0;
			continue;
		}
		if (err && errno != ENOENT)
			return -errno;
		for (uint32_t i = 0; i < n; i++)
			deliver(c->recording, (char *)c->batch_keys + i * key_size,
				(char *)c->batch_values + i * value_size);
		in = &position;
	} while (!err);
	return 0;
}

/* Sums over the CPUs would not do: each CPU has to catch up with its own. */
static int read_store_counts(const struct capture *c, struct store_count *counts)
{
	uint32_t zero = 0;

	return bpf_map_lookup_elem(bpf_map__fd(c->skel->maps.stores), &zero, counts) ? -errno : 0;
}

/* Waits until every store has ended that had begun when this was called. */
static int await_stores(const struct capture *c)
{
	int cpus = libbpf_num_possible_cpus(), err;
	struct store_count then[cpus > 0 ? cpus : 1], now[cpus > 0 ? cpus : 1];

	err = read_store_counts(c, then);
	for (int cpu = 0; cpu < cpus && !err; cpu++) {
		while (!(err = read_store_counts(c, now)) && now[cpu].ended < then[cpu].begun)
			usleep(50);
	}
	return err;
}

/* Has the other set of maps filled from now on, and drains the one that was. */
static int drain(struct capture *c)
{
	bool second = c->skel->bss->active;
	int err;

	if (!c->batch_keys)
		alloc_batch(c, BATCH);
	c->skel->bss->active = !second;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	c->skel->bss->stored = 0;
	c->skel->data->epoch++;
	c->drained_ns = clock_ns();
	err = await_stores(c);
	if (!err)
		err = drain_map(c, second ? c->skel->maps.stacks_b : c->skel->maps.stacks_a,
				deliver_stack);
	if (!err)
		err = drain_map(c, second ? c->skel->maps.rows_b : c->skel->maps.rows_a,
				deliver_row);
	if (err)
		log__error("cannot drain the BPF maps: %s", strerror(-err));
	return err;
}

int capture__poll(struct capture *c)
{
	uint64_t room = bpf_map__max_entries(c->skel->maps.stacks_a) / 4;
	int err;

	ring_buffer__consume(c->exits);
	if (c->skel->bss->memo_wanted) {
		c->skel->bss->memo_wanted = 0;
		err = run_iterator(c->skel->progs.give_memos, NULL, NULL);
		if (err)
			log__info("cannot give threads their memos: %s", strerror(-err));
	}
	if (clock_ns() < c->drained_ns + DRAIN_NS && c->skel->bss->stored < room)
		return 0;
	return drain(c);
}

/* --- the end --- */

static void detach(struct capture *c)
{
	for (int i = 0; i < c->nsamplers; i++)
		bpf_link__destroy(c->samplers[i]);
	free(c->samplers);
	c->samplers = NULL;
	c->nsamplers = 0;
	offcpu_bpf__detach(c->skel);
}

static void read_run_times(struct capture *c)
{
	struct bpf_program *prog;

	bpf_object__for_each_program(prog, c->skel->obj)
	{
		struct bpf_prog_info info = {0};
		uint32_t size = sizeof(info);

		if (bpf_program__fd(prog) < 0 ||
		    bpf_obj_get_info_by_fd(bpf_program__fd(prog), &info, &size))
			continue;
		c->bpf_ns += info.run_time_ns;
		c->bpf_runs += info.run_cnt;
	}
}

/* Memory of the maps, as the kernel states it in their fdinfo. */
static void read_map_memory(struct capture *c)
{
	struct bpf_map *map;

	bpf_object__for_each_map(map, c->skel->obj)
	{
		char path[64], line[128];
		unsigned long long bytes;
		FILE *f;

		snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", bpf_map__fd(map));
		f = fopen(path, "re");
		while (f && fgets(line, sizeof(line), f))
			if (sscanf(line, "memlock: %llu", &bytes) == 1)
				c->kernel_bytes += bytes;
		if (f)
			fclose(f);
	}
}

static void add_thread(void *data, const struct thread_rec *rec)
{
	recording__add_thread(data, rec);
}

int capture__stop(struct capture *c, uint64_t end_ns)
{
	uint64_t planned = c->skel->data->window_end, now = clock_ns();
	int err;

	if (!end_ns)
		end_ns = now + MARGIN_NS;
	if (end_ns < c->skel->bss->window_start)
		end_ns = c->skel->bss->window_start;
	if (end_ns < planned)
		c->skel->data->window_end = end_ns;
	while ((now = clock_ns()) < c->skel->data->window_end)
		usleep((c->skel->data->window_end - now) / 1000 + 1);

	read_run_times(c);
	read_map_memory(c);
	/* From here on only deaths are recorded. A program takes microseconds; give those that run
	 * now, and had not seen it, ample time. */
	c->skel->bss->closing = true;
	usleep(CLOSING_US);
	err = run_iterator(c->skel->progs.flush_tasks, add_thread, c->recording);
	if (err) {
		log__error("cannot read the final state of the threads: %s", strerror(-err));
		return err;
	}
	detach(c);
	if (c->stats_fd >= 0)
		close(c->stats_fd);
	c->stats_fd = -1;
	err = drain(c);
	ring_buffer__consume(c->exits);
	return err;
}

static uint64_t read_counter(const struct capture *c, enum counter which)
{
	int cpus = libbpf_num_possible_cpus();
	uint64_t values[cpus > 0 ? cpus : 1], sum = 0;
	uint32_t key = which;

	if (bpf_map_lookup_elem(bpf_map__fd(c->skel->maps.counters), &key, values))
		return 0;
	for (int i = 0; i < cpus; i++)
		sum += values[i];
	return sum;
}

void capture__report(struct capture *c, struct profile *p, struct profile_cost *cost)
{
	static const struct {
		const char *name, *words;
		bool loss;
	} counters[] = {
#define X(name, words, loss) {#name, words, loss},
		COUNTERS(X)
#undef X
	};
	struct thread_rec sum = recording__totals(c->recording);

	for (int i = 0; i < COUNTER_MAX; i++) {
		uint64_t n = read_counter(c, i);
		uint64_t ns = 0;

		if (i == COUNTER_stack_full)
			ns = recording__lost_stack_ns(c->recording);
		if (n && !counters[i].loss)
			log__info("%llu x %s", (unsigned long long)n, counters[i].words);
		else if (n)
			profile__add_loss(p, counters[i].name, counters[i].words, n, ns);
	}
	if (recording__conflicts(c->recording))
		profile__add_loss(p, "stack_conflict", "stacks with the hash of an earlier one",
				  recording__conflicts(c->recording), 0);
	cost->bpf_ns = c->bpf_ns;
	cost->bpf_runs = c->bpf_runs;
	cost->switches = sum.switches;
	cost->kernel_bytes = c->kernel_bytes;
	cost->load_ns = c->load_ns;
	cost->attach_ns = c->attach_ns;
	cost->user_memo_hits = sum.user_hits;
	cost->user_memo_misses = sum.user_misses;
	cost->kernel_memo_hits = sum.kernel_hits;
	cost->kernel_memo_misses = sum.kernel_misses;
}

void capture__free(struct capture *c)
{
	if (!c)
		return;
	if (c->skel)
		detach(c);
	if (c->stats_fd >= 0)
		close(c->stats_fd);
	ring_buffer__free(c->exits);
	offcpu_bpf__destroy(c->skel);
	free(c->batch_keys);
	free(c->batch_values);
	free(c);
}
