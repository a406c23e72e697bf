// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <dirent.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "profile.h"
#include "util/log.h"
#include "write.h"

#define SECOND 1000000000ULL

static char dir[64];

static int make_directory(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/offcpu-write-XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_directory(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	return system(command);
}

static const char *path(const char *name)
{
	static char paths[4][512];
	static unsigned int next;
	char *p = paths[next++ % 4];

	snprintf(p, sizeof(paths[0]), "%s/%s", dir, name);
	return p;
}

static unsigned int count_entries(void)
{
	DIR *d = opendir(dir);
	struct dirent *entry;
	unsigned int n = 0;

	assert_non_null(d);
	while ((entry = readdir(d)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			n++;
	closedir(d);
	return n;
}

static void put_file(const char *name, const char *text)
{
	FILE *f = fopen(name, "w");

	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

static void assert_file(const char *name, const char *text)
{
	char got[256];
	FILE *f = fopen(name, "r");
	size_t n;

	assert_non_null(f);
	n = fread(got, 1, sizeof(got) - 1, f);
	got[n] = 0;
	fclose(f);
	assert_string_equal(got, text);
}

/* Calls that are expected to complain; their lines do not belong into the test's output. */
static FILE *quiet_stderr;

static void begin_errors(void)
{
	quiet_stderr = stderr;
	stderr = tmpfile();
	assert_non_null(stderr);
}

/* Exactly one line, with these words in it. */
static void end_errors(const char *words)
{
	char text[2048];
	size_t n;

	rewind(stderr);
	n = fread(text, 1, sizeof(text) - 1, stderr);
	text[n] = 0;
	fclose(stderr);
	stderr = quiet_stderr;
	assert_non_null(strstr(text, words));
	assert_ptr_equal(strchr(text, '\n'), text + n - 1);
}

static int write_hello(const struct profile *p, const struct write_opts *opts, FILE *out)
{
	(void)p, (void)opts;
	fputs("hello\n", out);
	return 0;
}

static int write_much(const struct profile *p, const struct write_opts *opts, FILE *out)
{
	int i;

	(void)p, (void)opts;
	for (i = 0; i < 4 << 20; i++)
		putc('x', out);
	return 0;
}

static int write_failing(const struct profile *p, const struct write_opts *opts, FILE *out)
{
	(void)p, (void)opts;
	fputs("half", out);
	return -EILSEQ;
}

static const struct writer hello = {"hello", ".hello", "", write_hello};
static const struct writer much = {"much", ".much", "", write_much};
static const struct writer failing = {"failing", ".hello", "", write_failing};

static void test_table(void **state)
{
	const struct writer *list[8];

	(void)state;
	assert_int_equal(writers__parse("json", list, 8), 1);
	assert_string_equal(list[0]->name, "json");
	assert_int_equal(writers__parse("json,folded,on,json", list, 8), 3);
	assert_string_equal(list[0]->name, "json");
	assert_string_equal(list[1]->name, "on");
	assert_string_equal(list[2]->suffix, ".off.folded");
	assert_null(writer__find("folded"));
	assert_null(writer__find(""));

	begin_errors();
	assert_int_equal(writers__parse("on,nonsense", list, 8), -EINVAL);
	end_errors("'nonsense': no such format; known are folded, on, off, json");
	begin_errors();
	assert_int_equal(writers__parse("on,", list, 8), -EINVAL);
	end_errors("''");
	begin_errors();
	assert_int_equal(writers__parse("on,off", list, 1), -EINVAL);
	end_errors("more than 1");
}

static void test_check(void **state)
{
	char name[300];

	(void)state;
	assert_int_equal(write__check(path("p")), 0);
	assert_int_equal(count_entries(), 0);
	begin_errors();
	assert_int_equal(write__check(path("none/p")), -ENOENT);
	end_errors("No such file or directory; create the directory first");
	put_file(path("file"), "");
	begin_errors();
	assert_int_equal(write__check(path("file/p")), -ENOTDIR);
	end_errors("Not a directory");
	begin_errors();
	assert_int_equal(write__check(path("")), -EINVAL);
	end_errors("names no file");
	memset(name, 'n', sizeof(name) - 1);
	name[250] = 0;
	begin_errors();
	assert_int_equal(write__check(path(name)), -ENAMETOOLONG);
	end_errors("name too long");
}

static void test_check_read_only(void **state)
{
	(void)state;
	if (geteuid() != 0 || mount("none", dir, "tmpfs", MS_RDONLY, "") < 0)
		skip();
	begin_errors();
	assert_int_equal(write__check(path("p")), -EROFS);
	end_errors("Read-only file system; choose another place with -o");
	assert_int_equal(umount(dir), 0);
}

static void test_file_is_written_and_replaced(void **state)
{
	struct stat st;
	mode_t mask = umask(022);

	(void)state;
	assert_int_equal(write__file(&hello, NULL, NULL, path("p")), 0);
	assert_file(path("p.hello"), "hello\n");
	assert_int_equal(stat(path("p.hello"), &st), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0644);
	put_file(path("p.hello"), "old and longer than the new one");
	umask(077);
	assert_int_equal(write__file(&hello, NULL, NULL, path("p")), 0);
	assert_file(path("p.hello"), "hello\n");
	assert_int_equal(stat(path("p.hello"), &st), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0600);
	assert_int_equal(count_entries(), 1);
	umask(mask);
}

static void test_relative_prefix(void **state)
{
	char cwd[512];

	(void)state;
	assert_non_null(getcwd(cwd, sizeof(cwd)));
	assert_int_equal(chdir(dir), 0);
	assert_int_equal(write__check("p"), 0);
	assert_int_equal(write__file(&hello, NULL, NULL, "p"), 0);
	assert_int_equal(chdir(cwd), 0);
	assert_file(path("p.hello"), "hello\n");
}

static void test_planted_files_are_refused(void **state)
{
	(void)state;
	put_file(path("victim"), "precious");
	assert_int_equal(symlink(path("victim"), path("p.hello")), 0);
	begin_errors();
	assert_int_equal(write__file(&hello, NULL, NULL, path("p")), -EEXIST);
	end_errors("symbolic link");
	assert_file(path("victim"), "precious");

	assert_int_equal(unlink(path("p.hello")), 0);
	assert_int_equal(mkfifo(path("p.hello"), 0600), 0);
	begin_errors();
	assert_int_equal(write__file(&hello, NULL, NULL, path("p")), -EEXIST);
	end_errors("special file");

	assert_int_equal(unlink(path("p.hello")), 0);
	assert_int_equal(mkdir(path("p.hello"), 0700), 0);
	begin_errors();
	assert_int_equal(write__file(&hello, NULL, NULL, path("p")), -EEXIST);
	end_errors("directory");
	assert_int_equal(count_entries(), 2);
}

static void test_failing_writer_leaves_the_old_file(void **state)
{
	(void)state;
	put_file(path("p.hello"), "old");
	begin_errors();
	assert_int_equal(write__file(&failing, NULL, NULL, path("p")), -EILSEQ);
	end_errors("cannot write");
	assert_file(path("p.hello"), "old");
	assert_int_equal(count_entries(), 1);
}

/* A limit on the size of files stands for a disk that fills up half-way. */
static void test_error_half_way(void **state)
{
	struct rlimit limit = {1 << 20, RLIM_INFINITY}, old;

	(void)state;
	put_file(path("p.much"), "old");
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	signal(SIGXFSZ, SIG_IGN);
	begin_errors();
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_int_equal(write__file(&much, NULL, NULL, path("p")), -EFBIG);
	setrlimit(RLIMIT_FSIZE, &old);
	end_errors("File too large");
	assert_file(path("p.much"), "old");
	assert_int_equal(count_entries(), 1);
}

/* A real full disk. */
static void test_disk_full(void **state)
{
	struct stat st;

	(void)state;
	if (geteuid() != 0 || mount("none", dir, "tmpfs", 0, "size=1m") < 0)
		skip();
	begin_errors();
	assert_int_equal(write__file(&much, NULL, NULL, path("p")), -ENOSPC);
	end_errors("No space left on device; make room");
	assert_int_equal(count_entries(), 0);
	assert_int_equal(write__file(&hello, NULL, NULL, path("p")), 0);
	assert_int_equal(stat(path("p.hello"), &st), 0);
	assert_int_equal(umount(dir), 0);
}

static void test_file_is_given_to_who_called_sudo(void **state)
{
	struct stat st;

	(void)state;
	if (geteuid() != 0)
		skip();
	setenv("SUDO_UID", "1234", 1);
	setenv("SUDO_GID", "5678", 1);
	assert_int_equal(write__file(&hello, NULL, NULL, path("p")), 0);
	assert_int_equal(stat(path("p.hello"), &st), 0);
	assert_int_equal(st.st_uid, 1234);
	assert_int_equal(st.st_gid, 5678);

	setenv("SUDO_UID", "4294967295", 1);
	assert_int_equal(write__file(&hello, NULL, NULL, path("p")), 0);
	assert_int_equal(stat(path("p.hello"), &st), 0);
	assert_int_equal(st.st_uid, 0);
	setenv("SUDO_UID", "12x", 1);
	assert_int_equal(write__file(&hello, NULL, NULL, path("p")), 0);
	assert_int_equal(stat(path("p.hello"), &st), 0);
	assert_int_equal(st.st_gid, 0);
	unsetenv("SUDO_UID");
	unsetenv("SUDO_GID");
}

/* Killed at a random moment, again and again: the final name holds the old or the new, whole. */
static void test_killed_at_any_moment(void **state)
{
	struct stat st;
	int i;

	(void)state;
	srandom(1);
	put_file(path("p.much"), "old");
	for (i = 0; i < 40; i++) {
		pid_t pid = fork();

		assert_true(pid >= 0);
		if (!pid)
			for (;;)
				write__file(&much, NULL, NULL, path("p"));
		usleep(1000 + random() % 20000);
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		assert_int_equal(stat(path("p.much"), &st), 0);
		assert_true(st.st_size == 3 || st.st_size == 4 << 20);
	}
}

static void test_stdout(void **state)
{
	FILE *saved = stdout, *full = fopen("/dev/full", "w");
	int fds[2];

	(void)state;
	assert_non_null(full);
	begin_errors();
	stdout = full;
	assert_int_equal(write__stdout(&hello, NULL, NULL), -ENOSPC);
	stdout = saved;
	end_errors("standard output: No space left");
	fclose(full);

	signal(SIGPIPE, SIG_IGN);
	assert_int_equal(pipe(fds), 0);
	close(fds[0]);
	stdout = fdopen(fds[1], "w");
	assert_int_equal(write__stdout(&hello, NULL, NULL), -EPIPE);
	fclose(stdout);
	stdout = saved;
}

/* --- what is written */

static char *print(const struct profile *p, const char *format, bool per_thread)
{
	struct write_opts opts = {.per_thread = per_thread};
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	assert_non_null(f);
	assert_int_equal(writer__find(format)->write(p, &opts, f), 0);
	assert_int_equal(fclose(f), 0);
	return text;
}

/* Names that are hard on sorting: prefixes of each other, blanks and digits at their end. */
static const char *const names[] = {"a",     "a 1", "a 12",	"a 5;", "a:", "a:b", "ab",
				    "a\x7f", "",    "\xc3\xa9", "\xff", "a!", "1",   "a 5"};

static uint32_t random_stack(struct profile *p)
{
	struct frame frames[4];
	uint32_t i, n = random() % 5;

	for (i = 0; i < n; i++)
		frames[i] = (struct frame){
			.kind = random() % 4,
			.inlined = random() % 2,
			.func = names[random() % (sizeof(names) / sizeof(names[0]))],
		};
	return profile__add_stack(p, frames, n);
}

static struct profile *random_profile(void)
{
	struct profile *p = profile__new();
	int i, j;

	for (i = 0; i < 6; i++) {
		struct profile_thread t = {
			.process = profile__add_process(p, 1 + random() % 2, names[random() % 4]),
			.tid = 100 + i,
			.comm = names[random() % 4],
			.end_ns = 100000,
			.on_ns = random() % 30000,
			.runq_ns = random() % 30000,
			.blocked_ns = random() % 30000,
		};
		uint32_t thread = profile__add_thread(p, &t);

		for (j = 0; j < 30; j++) {
			struct profile_sample s = {
				.thread = thread,
				.stack = random_stack(p),
				.samples = random() % 3,
				.runq_ns = random() % 1500,
				.blocked_ns = random() % 1500,
			};

			profile__add_sample(p, &s);
		}
	}
	profile__finish(p);
	return p;
}

/* Sorted as sort(1) would, each line once, no zero; returns the sum. */
static uint64_t check_folded(const char *text)
{
	char *copy = strdup(text), *rest = copy, *line, *last = "", *blank;
	uint64_t sum = 0;

	while ((line = strsep(&rest, "\n")) && *line) {
		assert_true(strcmp(last, line) < 0);
		last = line;
		blank = strrchr(line, ' ');
		assert_non_null(blank);
		assert_true(strtoull(blank + 1, NULL, 10) > 0);
		sum += strtoull(blank + 1, NULL, 10);
	}
	assert_true(!line || !rest);
	free(copy);
	return sum;
}

static void test_folded_sums_and_order(void **state)
{
	int round;

	(void)state;
	srandom(1);
	for (round = 0; round < 50; round++) {
		struct profile *p = random_profile();
		struct profile_process total = profile__total(p);
		char *on = print(p, "on", round % 2), *off = print(p, "off", round % 2);

		assert_int_equal(check_folded(on), (total.on_ns + 500) / 1000);
		assert_int_equal(check_folded(off),
				 (total.blocked_ns + total.runq_ns + 500) / 1000);
		free(on);
		free(off);
		profile__free(p);
	}
}

static uint32_t add_thread(struct profile *p, const char *comm, uint64_t blocked_ns)
{
	struct profile_thread t = {
		.process = profile__add_process(p, 7, "srv"),
		.tid = 9,
		.comm = comm,
		.end_ns = SECOND,
		.blocked_ns = blocked_ns,
	};

	return profile__add_thread(p, &t);
}

static void add_blocked(struct profile *p, uint32_t thread, const struct frame *frame, uint64_t ns)
{
	struct profile_sample s = {
		.thread = thread,
		.stack = profile__add_stack(p, frame, 1),
		.blocked_ns = ns,
	};

	profile__add_sample(p, &s);
}

/* Small times add up: three lines of 0.4 µs are 1 µs together, not 0 and not 3. */
static void test_folded_rounding(void **state)
{
	struct profile *p = profile__new();
	uint32_t t = add_thread(p, "t", 1200);
	struct frame f = {.kind = FRAME_USER};
	char *text;

	(void)state;
	f.func = "a", add_blocked(p, t, &f, 400);
	f.func = "b", add_blocked(p, t, &f, 400);
	f.func = "c", add_blocked(p, t, &f, 400);
	profile__finish(p);
	text = print(p, "off", false);
	assert_string_equal(text, "srv;b 1\n");
	free(text);
	profile__free(p);
}

static void test_folded_merges_what_looks_alike(void **state)
{
	struct profile *p = profile__new();
	uint32_t a = add_thread(p, "t;1\n", 3000), b = add_thread(p, "u", 4000);
	struct frame f = {.kind = FRAME_USER, .func = "f;g", .line = 1};
	char *text;

	(void)state;
	add_blocked(p, a, &f, 1000);
	f.line = 2, add_blocked(p, a, &f, 2000);
	f.func = "f:g", add_blocked(p, b, &f, 4000);
	profile__finish(p);
	text = print(p, "off", false);
	assert_string_equal(text, "srv;f:g 7\n");
	free(text);
	text = print(p, "off", true);
	assert_string_equal(text, "srv;t:1?/9;f:g 3\nsrv;u/9;f:g 4\n");
	free(text);
	profile__free(p);
}

static uint64_t field(json_t *object, const char *key)
{
	json_t *value = json_object_get(object, key);

	assert_true(json_is_integer(value));
	return json_integer_value(value);
}

static void check_balance(json_t *object)
{
	assert_int_equal(field(object, "on_ns") + field(object, "runq_ns") +
				 field(object, "blocked_ns") + field(object, "lost_ns"),
			 field(object, "window_ns"));
}

/* Read back: balanced, every index in range, stacks sum to threads. */
static void check_json(json_t *root)
{
	json_t *threads = json_object_get(root, "threads"),
	       *stacks = json_object_get(root, "stacks");
	json_t *frames = json_object_get(root, "frames"), *element, *frame;
	uint64_t on[8] = {0}, off[8] = {0};
	size_t i, j;

	check_balance(json_object_get(root, "totals"));
	json_array_foreach(json_object_get(root, "processes"), i, element) check_balance(element);
	json_array_foreach(stacks, i, element)
	{
		uint64_t t = field(element, "thread");

		assert_in_range(t, 0, json_array_size(threads) - 1);
		on[t] += field(element, "on_ns");
		off[t] += field(element, "runq_ns") + field(element, "blocked_ns");
		json_array_foreach(json_object_get(element, "frames"), j, frame)
			assert_true((size_t)json_integer_value(frame) < json_array_size(frames));
	}
	json_array_foreach(threads, i, element)
	{
		check_balance(element);
		assert_int_equal(on[i], field(element, "on_ns"));
		assert_int_equal(off[i], field(element, "runq_ns") + field(element, "blocked_ns"));
	}
}

static void test_json_is_valid(void **state)
{
	int round;

	(void)state;
	srandom(2);
	for (round = 0; round < 20; round++) {
		struct profile *p = random_profile();
		char *text = print(p, "json", false), *c;
		json_error_t error;
		json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);

		assert_non_null(root);
		for (c = text; *c; c++)
			assert_true(*c == '\n' || (*c >= ' ' && *c < 0x7f));
		check_json(root);
		json_decref(root);
		free(text);
		profile__free(p);
	}
}

int main(void)
{
#define IN_DIRECTORY(test) cmocka_unit_test_setup_teardown(test, make_directory, remove_directory)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		IN_DIRECTORY(test_check),
		IN_DIRECTORY(test_check_read_only),
		IN_DIRECTORY(test_file_is_written_and_replaced),
		IN_DIRECTORY(test_relative_prefix),
		IN_DIRECTORY(test_planted_files_are_refused),
		IN_DIRECTORY(test_failing_writer_leaves_the_old_file),
		IN_DIRECTORY(test_error_half_way),
		IN_DIRECTORY(test_disk_full),
		IN_DIRECTORY(test_file_is_given_to_who_called_sudo),
		IN_DIRECTORY(test_killed_at_any_moment),
		cmocka_unit_test(test_stdout),
		cmocka_unit_test(test_folded_sums_and_order),
		cmocka_unit_test(test_folded_rounding),
		cmocka_unit_test(test_folded_merges_what_looks_alike),
		cmocka_unit_test(test_json_is_valid),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
