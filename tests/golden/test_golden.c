// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A made-up recording in which every number is known, through every writer and the summary, against
 * the files beside this one. After a wanted change: UPDATE_GOLDEN=1, run again, and read the diff.
 */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "profile.h"
#include "summary.h"
#include "write.h"

#define MS     1000000ULL
#define SECOND 1000000000ULL
#define START  (100 * SECOND)

#define U(name)                                                                                    \
	{                                                                                          \
		.kind = FRAME_USER, .func = name, .module = "/usr/bin/srv"                         \
	}
#define AT(name, l)                                                                                \
	{                                                                                          \
		.kind = FRAME_USER, .func = name, .module = "/usr/bin/srv", .file = "srv.cc",      \
		.line = l                                                                          \
	}
#define INLINED(name)                                                                              \
	{                                                                                          \
		.kind = FRAME_USER, .func = name, .module = "/usr/bin/srv", .inlined = true        \
	}
#define C(name)                                                                                    \
	{                                                                                          \
		.kind = FRAME_USER, .func = name, .module = "/lib/libc.so.6", .build_id = "00ff"   \
	}
#define K(name)                                                                                    \
	{                                                                                          \
		.kind = FRAME_KERNEL, .func = name, .module = "[kernel]"                           \
	}
#define J(name)                                                                                    \
	{                                                                                          \
		.kind = FRAME_JIT, .func = name, .module = "[jit]"                                 \
	}
#define MARK(name)                                                                                 \
	{                                                                                          \
		.kind = FRAME_MARK, .func = name                                                   \
	}
#define STACK(p, ...)                                                                              \
	profile__add_stack(p, (struct frame[]){__VA_ARGS__},                                       \
			   sizeof((struct frame[]){__VA_ARGS__}) / sizeof(struct frame))

#define SYSCALL	 K("entry_SYSCALL_64_after_hwframe"), K("do_syscall_64")
#define SLEEPING K("schedule"), K("__schedule")
#define THREAD	 U("_start"), C("clone3"), C("start_thread")

static void add(struct profile *p, uint32_t thread, uint32_t stack, uint64_t samples,
		uint64_t blocked_ns, uint64_t runq_ns, uint64_t blocks, uint64_t max_ns)
{
	struct profile_sample s = {
		.thread = thread,
		.stack = stack,
		.samples = samples,
		.blocked_ns = blocked_ns,
		.runq_ns = runq_ns,
		.blocks = blocks,
		.max_ns = max_ns,
	};

	profile__add_sample(p, &s);
}

/* A thread that is blocked whenever it does not run or wait for a CPU. */
static uint32_t thread(struct profile *p, uint32_t process, uint32_t tid, const char *comm,
		       uint64_t on_ns, uint64_t runq_ns, uint64_t switches, uint64_t filtered_ns)
{
	struct profile_thread t = {
		.process = process,
		.tid = tid,
		.comm = comm,
		.start_ns = START,
		.end_ns = START + 30 * SECOND,
		.on_ns = on_ns,
		.user_ns = on_ns / 4 * 3,
		.system_ns = on_ns - on_ns / 4 * 3,
		.runq_ns = runq_ns,
		.blocked_ns = 30 * SECOND - on_ns - runq_ns,
		.filtered_ns = filtered_ns,
		.switches = switches,
		.voluntary = switches / 2,
		.blocked_at_end = !on_ns,
		.blocked_at_start = !on_ns,
	};

	return profile__add_thread(p, &t);
}

static void add_meta(struct profile *p, const char *title, const char *filter)
{
	struct profile_meta meta = {
		.title = title,
		.command = "offcpu -p 4242 -d 30",
		.filter = filter,
		.start_ns = START,
		.end_ns = START + 30 * SECOND,
		.start_unix_ns = 1700000000 * SECOND,
		.cpus = 2,
		.sample_hz = 99,
	};
	struct profile_cost cost = {
		.bpf_ns = 380 * MS,
		.bpf_runs = 2400000,
		.switches = 1200000,
		.user_cpu_ns = 210 * MS,
		.rss_bytes = 32715571,
		.kernel_bytes = 12 << 20,
		.load_ns = 120 * MS,
		.attach_ns = 31 * MS,
		.user_memo_hits = 998,
		.user_memo_misses = 2,
		.kernel_memo_hits = 10000,
	};

	profile__set_meta(p, &meta);
	profile__set_cost(p, &cost);
}

static void add_workers(struct profile *p, uint32_t srv, uint64_t filtered_ns)
{
	uint32_t wait =
		STACK(p, THREAD, AT("srv::Worker::run()", 10),
		      AT("std::unordered_map<std::string, std::vector<srv::Entry>, srv::Hash, "
			 "std::equal_to<void> >::refresh(std::pair<int, char const*> const&) const",
			 88),
		      C("pthread_mutex_lock"), C("libc.so.6+0x85ecf"), SYSCALL,
		      K("__x64_sys_futex"), K("futex_wait"), K("futex_wait_queue"), SLEEPING);
	/* the same to a reader: another kernel path, another line */
	uint32_t same = STACK(
		p, THREAD, AT("srv::Worker::run()", 11),
		AT("std::unordered_map<std::string, std::vector<srv::Entry>, srv::Hash, "
		   "std::equal_to<void> >::refresh(std::pair<int, char const*> const&) const",
		   88),
		C("pthread_mutex_lock"), C("libc.so.6+0x85ecf"), SYSCALL, K("__x64_sys_futex"),
		K("futex_wait"), K("futex_wait_queue"), K("preempt_schedule_common"), SLEEPING);
	uint32_t hash =
		STACK(p, THREAD, AT("srv::Worker::run()", 20), INLINED("srv::mix(unsigned long)"),
		      U("void srv::hash<unsigned long>(srv::Entry&)"));
	uint32_t jit = STACK(p, THREAD, AT("srv::Worker::run()", 20), J("Lsrv/Script;::eval"));
	uint32_t preempted =
		STACK(p, THREAD, AT("srv::Worker::run()", 20),
		      U("void srv::hash<unsigned long>(srv::Entry&)"),
		      K("asm_sysvec_apic_timer_interrupt"), K("irqentry_exit_to_user_mode"),
		      K("exit_to_user_mode_prepare"), SLEEPING);
	int i;

	for (i = 0; i < 12; i++) {
		uint64_t on_ns = (i + 1) * 100 * MS + 1, off_ns = 30 * SECOND - on_ns - 10 * MS;
		uint32_t t = thread(p, srv, 4250 + i, "worker", on_ns, 10 * MS, 3000, filtered_ns);

		add(p, t, wait, 0, 20 * SECOND, MS, 2000, 31 * MS);
		add(p, t, same, 0, off_ns - 20 * SECOND - filtered_ns - 100000, 0, 850, 29 * MS);
		add(p, t, preempted, 0, 0, 9 * MS, 150, 90000);
		add(p, t, hash, 2 * (i + 1), 0, 0, 0, 0);
		add(p, t, jit, i + 1, 0, 0, 0, 0);
	}
}

static struct profile *make_profile(const char *filter)
{
	struct profile *p = profile__new();
	uint32_t srv, helper, t;

	add_meta(p, filter ? "srv (pid 4242)" : "2 processes", filter);
	srv = profile__add_process(p, 4242, "srv");
	t = thread(p, srv, 4242, "srv", 0, 0, 0, 0);
	add(p, t,
	    STACK(p, U("_start"), C("__libc_start_main"), AT("main", 200), C("clock_nanosleep"),
		  SYSCALL, K("__x64_sys_clock_nanosleep"), K("common_nsleep"),
		  K("hrtimer_nanosleep"), K("do_nanosleep"), SLEEPING),
	    0, 30 * SECOND, 0, 1, 30 * SECOND);
	add_workers(p, srv, filter ? SECOND : 0);
	if (filter) {
		profile__finish(p);
		return p;
	}
	helper = profile__add_process(p, 977, "bad;na\nme\033[31m\xff\xc3\xa9");
	t = thread(p, helper, 977, "a b;c\t", 1234567, 999, 7, 0);
	add(p, t,
	    STACK(p, MARK("[truncated]"), J("with space; and\nline"), K("anon_pipe_read"),
		  SLEEPING),
	    0, 29998764433 - 501, 498, 3, 12 * SECOND);
	add(p, t, STACK(p, U("main"), K("vfs_read")), 1, 0, 0, 0, 0);
	add(p, t, profile__add_stack(p, NULL, 0), 0, 501, 1, 1, 502);
	profile__add_loss(p, "stack_map_full", "stacks not stored, the map was full", 12, 1200000);
	profile__add_loss(p, "clock_step", "steps of the clock between CPUs", 3, 0);
	profile__finish(p);
	return p;
}

static void write_text(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

/* Compares with tests/golden/NAME. */
static void compare(const char *name, const char *text)
{
	char golden[256], got[] = "/tmp/offcpu-golden-XXXXXX", command[600];
	int fd, status;

	snprintf(golden, sizeof(golden), "tests/golden/%s", name);
	if (getenv("UPDATE_GOLDEN"))
		write_text(golden, text);
	fd = mkstemp(got);
	assert_true(fd >= 0);
	close(fd);
	write_text(got, text);
	snprintf(command, sizeof(command), "diff -u %s %s", golden, got);
	status = system(command);
	unlink(got);
	assert_int_equal(status, 0);
}

static void compare_writer(const struct profile *p, const char *format, bool per_thread,
			   const char *name)
{
	struct write_opts opts = {.per_thread = per_thread};
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	assert_non_null(f);
	assert_int_equal(writer__find(format)->write(p, &opts, f), 0);
	assert_int_equal(fclose(f), 0);
	compare(name, text);
	free(text);
}

static void compare_summary(const struct profile *p, int width, bool verbose, const char *name)
{
	struct summary_opts opts = {.width = width, .verbose = verbose, .top = 10};
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	assert_non_null(f);
	summary__print(p, &opts, f);
	assert_int_equal(fclose(f), 0);
	compare(name, text);
	free(text);
}

static void test_writers(void **state)
{
	struct profile *p = make_profile(NULL);

	(void)state;
	compare_writer(p, "on", false, "on.folded");
	compare_writer(p, "off", false, "off.folded");
	compare_writer(p, "off", true, "off.threads.folded");
	compare_writer(p, "json", false, "profile.json");
	profile__free(p);
}

static void test_summary(void **state)
{
	struct profile *p = make_profile(NULL);

	(void)state;
	compare_summary(p, 80, false, "summary.80.txt");
	compare_summary(p, 160, true, "summary.160.txt");
	profile__free(p);
	p = make_profile("-m 1ms");
	compare_summary(p, 0, false, "summary.filter.txt");
	profile__free(p);
}

static void test_summary_in_ascii(void **state)
{
	struct profile *p = make_profile(NULL);

	(void)state;
	setlocale(LC_ALL, "C");
	compare_summary(p, 100, true, "summary.ascii.txt");
	setlocale(LC_ALL, "C.UTF-8");
	profile__free(p);
}

static void test_empty(void **state)
{
	struct profile *p = profile__new();

	(void)state;
	add_meta(p, "nothing", NULL);
	profile__finish(p);
	compare_writer(p, "on", false, "empty.folded");
	compare_writer(p, "json", false, "empty.json");
	compare_summary(p, 80, true, "summary.empty.txt");
	profile__free(p);
}

/* Not sampled, never blocked, with time that could not be placed, names that attack the terminal;
 * in colour. */
static void test_sparse(void **state)
{
	struct profile *p = profile__new();
	struct profile_meta meta = {.title = "a\033[2Jb", .end_ns = SECOND, .cpus = 2};
	struct profile_thread t = {.process = profile__add_process(p, 1, "x"),
				   .comm = "\033]0;evil\007",
				   .tid = 5,
				   .end_ns = SECOND,
				   .on_ns = 999995000};
	struct summary_opts opts = {.width = 100, .color = true};
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	(void)state;
	profile__set_meta(p, &meta);
	profile__add_thread(p, &t);
	profile__finish(p);
	summary__print(p, &opts, f);
	assert_int_equal(fclose(f), 0);
	compare("summary.sparse.txt", text);
	free(text);
	profile__free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_writers),		 cmocka_unit_test(test_summary),
		cmocka_unit_test(test_summary_in_ascii), cmocka_unit_test(test_empty),
		cmocka_unit_test(test_sparse),
	};

	setlocale(LC_ALL, "C.UTF-8");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
