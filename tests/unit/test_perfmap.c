// SPDX-License-Identifier: GPL-2.0-or-later
#include "build_fixture.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "perfmap.h"

static void read_text(struct perfmap *map, const char *text)
{
	int fd;

	fixture__text("map", text);
	fd = fixture__open("map");
	assert_int_equal(perfmap__read_fd(map, fd), 0);
	close(fd);
}

static void check(const struct perfmap *map, uint64_t addr, const char *want)
{
	const char *name = perfmap__find(map, addr);

	if (want) {
		assert_non_null(name);
		assert_string_equal(name, want);
	} else {
		assert_null(name);
	}
}

static void test_lines(void **state)
{
	struct perfmap *map = perfmap__new();

	(void)state;
	read_text(map, "1000 100 LazyCompile:*run /app/a b.js:1:2\n"
		       "0x2000 0x10 hex\r\n"
		       "3000 0 empty\n"
		       "ffffffffffffffff 10 overflow\n"
		       "-5 10 negative\n4000 -1 negative\n"
		       "nonsense\n\n 5000 10 space\n5000 10\n5000 10 \n"
		       "6000 10 unfinished");
	check(map, 0xfff, NULL);
	check(map, 0x1000, "LazyCompile:*run /app/a b.js:1:2");
	check(map, 0x10ff, "LazyCompile:*run /app/a b.js:1:2");
	check(map, 0x1100, NULL);
	check(map, 0x200f, "hex");
	check(map, 0x3000, NULL);
	check(map, 0x4000, NULL);
	check(map, 0x5000, NULL);
	check(map, 0x6000, NULL);
	check(map, UINT64_MAX, NULL);
	check(map, 0, NULL);
	perfmap__free(map);
}

static void test_later_line_wins(void **state)
{
	struct perfmap *map = perfmap__new();

	(void)state;
	read_text(map, "1000 100 first\n1040 10 patch\n1080 100 second\n1000 40 third\n");
	check(map, 0x1000, "third");
	check(map, 0x103f, "third");
	check(map, 0x1040, "patch");
	check(map, 0x104f, "patch");
	check(map, 0x1050, "first");
	check(map, 0x107f, "first");
	check(map, 0x1080, "second");
	check(map, 0x117f, "second");
	perfmap__free(map);
}

static void test_grows(void **state)
{
	struct perfmap *map = perfmap__new();

	(void)state;
	read_text(map, "1000 100 a\n2000 10");
	check(map, 0x2000, NULL);
	/* the unfinished line is read when it is complete */
	read_text(map, "1000 100 a\n2000 100 b\n1080 10 c\n");
	check(map, 0x1000, "a");
	check(map, 0x2000, "b");
	check(map, 0x1080, "c");
	/* written anew, and longer: not read on from the middle */
	read_text(map, "9000 100 new_first\n1000 100 replaced\n9200 100 new_last_one\n");
	check(map, 0x9000, "new_first");
	check(map, 0x1085, "replaced");
	check(map, 0x9200, "new_last_one");
	/* what nothing replaced is kept */
	check(map, 0x2000, "b");
	perfmap__free(map);
}

static void test_long_line(void **state)
{
	struct perfmap *map = perfmap__new();
	char *text = malloc(200000);

	(void)state;
	memset(text, 'x', 200000);
	memcpy(text, "1000 10 ", 8);
	strcpy(text + 100000, "\n2000 10 next\n");
	read_text(map, text);
	assert_true(strlen(perfmap__find(map, 0x1000)) < 5000);
	check(map, 0x2000, "next");
	free(text);
	perfmap__free(map);
}

/* 100,000 lines that all overlap: a look-up must not walk them. */
static void test_pathological(void **state)
{
	struct perfmap *map = perfmap__new();
	char name[16];
	FILE *file = fopen(fixture__path("map"), "w");
	int fd;

	(void)state;
	for (int i = 0; i < 100000; i++)
		fprintf(file, "%x %x n%d\n", 0x10000 + i, 0x200000 - 2 * i, i);
	fclose(file);
	fd = fixture__open("map");
	assert_int_equal(perfmap__read_fd(map, fd), 0);
	close(fd);
	for (int i = 0; i < 100000; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		check(map, 0x10000 + i, name);
	}
	perfmap__free(map);
}

/* A process that waits, in a root and a pid namespace of its own if 'root' is given. */
static pid_t start_child(const char *root)
{
	int ready[2];
	char c;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = syscall(SYS_clone, SIGCHLD | (root ? CLONE_NEWPID : 0), 0, 0, 0, 0);
	assert_true(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (root && chroot(root))
			_exit(1);
		if (write(ready[1], "x", 1) != 1)
			_exit(1);
		pause();
		_exit(0);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	return pid;
}

static void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* Path of the map of 'pid' under 'root'. */
static const char *map_path(const char *root, pid_t pid)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/tmp/perf-%d.map", root, (int)pid);
	return path;
}

static void write_map(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void test_of_process(void **state)
{
	struct perfmap *map = perfmap__new();
	pid_t pid = start_child(NULL);

	(void)state;
	assert_int_equal(perfmap__read(map, pid), -ENOENT);
	write_map(map_path("", pid), "1000 10 f\n");
	assert_int_equal(perfmap__read(map, pid), 0);
	check(map, 0x1000, "f");
	unlink(map_path("", pid));
	end_child(pid);
	assert_true(perfmap__read(map, pid) < 0);
	check(map, 0x1000, "f");
	perfmap__free(map);
}

static void test_of_other_root(void **state)
{
	struct perfmap *map = perfmap__new();
	pid_t pid;

	(void)state;
	if (geteuid())
		skip();
	fixture__run("mkdir -p root/tmp");
	pid = start_child(fixture__path("root"));
	/* in its own pid namespace it is process 1 */
	write_map(map_path(fixture__path("root"), 1), "1000 10 inside\n");
	assert_int_equal(perfmap__read(map, pid), 0);
	check(map, 0x1000, "inside");
	end_child(pid);
	perfmap__free(map);
}

/* What somebody may have planted there instead is refused, at once. */
static void test_surprises(void **state)
{
	struct perfmap *map = perfmap__new();
	pid_t pid = start_child(NULL);
	const char *path = map_path("", pid);

	(void)state;
	fixture__text("secret", "1000 10 secret\n");
	assert_int_equal(symlink(fixture__path("secret"), path), 0);
	assert_true(perfmap__read(map, pid) < 0);
	unlink(path);
	assert_int_equal(mkfifo(path, 0666), 0);
	alarm(5); /* a FIFO would block for ever */
	assert_int_equal(perfmap__read(map, pid), -EINVAL);
	alarm(0);
	unlink(path);
	assert_int_equal(mkdir(path, 0777), 0);
	assert_int_equal(perfmap__read(map, pid), -EINVAL);
	rmdir(path);
	if (!geteuid()) {
		write_map(path, "1000 10 foreign\n");
		assert_int_equal(chown(path, 12345, 12345), 0);
		assert_int_equal(perfmap__read(map, pid), -EPERM);
		unlink(path);
	}
	check(map, 0x1000, NULL);
	end_child(pid);
	perfmap__free(map);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),	      cmocka_unit_test(test_later_line_wins),
		cmocka_unit_test(test_grows),	      cmocka_unit_test(test_long_line),
		cmocka_unit_test(test_pathological),  cmocka_unit_test(test_of_process),
		cmocka_unit_test(test_of_other_root), cmocka_unit_test(test_surprises),
	};

	return cmocka_run_group_tests(tests, fixture__setup_dir, fixture__teardown_dir);
}
