// SPDX-License-Identifier: GPL-2.0-or-later
/* All against real processes and the kernel's own records; needs root. */
#include "mapped_fixture.h"

#include <elf.h>
#include <poll.h>
#include <sched.h>

#include "sideband.h"

#define CHILDREN 200
#define CHILD_US 30000

static struct modules *mods;
static struct procmaps *pm;
static struct sideband *sb;

static int setup(void **state)
{
	mods = modules__new();
	pm = procmaps__new(mods);
	sb = geteuid() ? NULL : sideband__open(pm);
	return fixture__setup(state);
}

static int teardown(void **state)
{
	sideband__close(sb);
	procmaps__free(pm);
	modules__free(mods);
	return fixture__teardown(state);
}

#define REQUIRE_SIDEBAND()                                                                         \
	do {                                                                                       \
		SKIP_UNLESS_ROOT();                                                                \
		assert_non_null(sb);                                                               \
	} while (0)

/* Waits and reads for 'ms', and once at the end. Returns the number of wakeups. */
static int serve(int ms)
{
	uint64_t end = fixture__now_ns() + ms * 1000000ull, now;
	struct pollfd pfd = {.fd = sideband__fd(sb), .events = POLLIN};
	int wakeups = 0;

	while ((now = fixture__now_ns()) < end) {
		if (poll(&pfd, 1, (end - now) / 1000000 + 1) > 0) {
			sideband__poll(sb);
			wakeups++;
		}
	}
	sideband__poll(sb); /* a few records do not wake */
	return wakeups;
}

static const struct mapping *find(pid_t pid, uint64_t time_ns, uint64_t addr)
{
	return procmaps__find(pm, pid, time_ns, addr);
}

static const char *name_at(pid_t pid, uint64_t time_ns, uint64_t addr)
{
	const struct mapping *m = find(pid, time_ns, addr);

	return m && m->module ? module__name(m->module) : "-";
}

/* exec, dlopen, dlclose, dlopen again, exec: each address under the file of its time. */
static void test_life_of_a_process(void **state)
{
	const char *a, *b, *lib, *lib2;
	uint64_t in_a, in_b, in_lib, in_lib2, t_a, t_b;
	const struct mapping *m;
	struct subject s;
	struct module *mod;

	(void)state;
	REQUIRE_SIDEBAND();
	a = fixture__compile("a", fixture_subject, BUILD_A, "-no-pie");
	b = fixture__compile("b", fixture_subject, BUILD_B, "-no-pie");
	lib = fixture__compile("lib.so", fixture_library, "01020304050607", "-shared -fPIC");
	lib2 = fixture__compile("lib2.so", fixture_library, NULL, "-shared -fPIC");
	assert_int_equal(procmaps__scan(pm, getpid(), fixture__now_ns()), 0);
	s = subject__start(a, NULL);
	in_a = subject__ask(&s, "where", NULL);
	t_a = fixture__now_ns();
	in_lib = subject__ask(&s, "open", lib);
	serve(20);
	mod = find(s.pid, t_a, in_a)->module;
	assert_string_equal(module__build_id(mod), BUILD_A);
	assert_string_equal(name_at(s.pid, t_a, in_lib), "lib.so");
	subject__ask(&s, "close", NULL);
	in_lib2 = subject__ask(&s, "open", lib2);
	serve(20);
	m = find(s.pid, fixture__now_ns(), in_lib2);
	assert_string_equal(module__name(m->module), "lib2.so");
	assert_true(module__fd(m->module) >= 0);
	assert_int_equal(module__vaddr(m->module, in_lib2 - m->start + m->offset),
			 fixture__nm(lib2, "probe"));
	in_b = subject__ask(&s, "exec", b);
	t_b = fixture__now_ns();
	serve(20);
	assert_int_equal(in_a, in_b); /* same address, another program */
	assert_string_equal(name_at(s.pid, t_a, in_a), "a");
	assert_string_equal(name_at(s.pid, t_b, in_b), "b");
	assert_string_equal(name_at(s.pid, t_b, in_lib2), "-");
	assert_string_equal(name_at(s.pid, t_a, in_lib2), "lib2.so");
	/* A scan finds nothing new, and no thread makes a new image. */
	m = find(s.pid, t_b, in_b);
	assert_int_equal(procmaps__scan(pm, s.pid, fixture__now_ns()), 0);
	assert_ptr_equal(find(s.pid, t_b, in_b)->module, m->module);
	assert_int_equal(subject__ask(&s, "thread", NULL), 0);
	subject__end(&s);
	serve(20);
	assert_string_equal(name_at(s.pid, fixture__now_ns(), in_b), "b");
	assert_int_equal(sideband__lost(sb), 0);
}

/* With events read only at the end, and a scan before them, the result is the same. */
static void test_scan_first(void **state)
{
	const char *a, *b;
	uint64_t in_a, in_b, t_a, t_b;
	struct subject s;

	(void)state;
	REQUIRE_SIDEBAND();
	a = fixture__compile("a", fixture_subject, BUILD_A, "-no-pie");
	b = fixture__compile("b", fixture_subject, BUILD_B, "-no-pie");
	assert_int_equal(procmaps__scan(pm, getpid(), fixture__now_ns()), 0);
	s = subject__start(a, NULL);
	in_a = subject__ask(&s, "where", NULL);
	t_a = fixture__now_ns();
	in_b = subject__ask(&s, "exec", b);
	t_b = fixture__now_ns();
	assert_int_equal(procmaps__scan(pm, s.pid, t_b), 0);
	assert_string_equal(name_at(s.pid, t_b, in_b), "b");
	serve(20);
	assert_string_equal(name_at(s.pid, t_a, in_a), "a");
	assert_string_equal(name_at(s.pid, t_b, in_b), "b");
	/* Before its exec it was a copy of this process. */
	assert_string_equal(name_at(s.pid, 0, (uintptr_t)serve), "test_sideband");
	subject__end(&s);
}

/* The file on disk is another one by the time the record is read. */
static void test_replaced(void **state)
{
	const char *path, *other;
	const struct mapping *m;
	struct subject s;
	uint64_t addr;

	(void)state;
	REQUIRE_SIDEBAND();
	path = fixture__compile("prog", fixture_subject, BUILD_A, "");
	other = fixture__compile("other", fixture_subject, BUILD_B, "");
	procmaps__follow(pm, getpid());
	s = subject__start(path, NULL);
	addr = subject__ask(&s, "where", NULL);
	assert_int_equal(rename(other, path), 0);
	sideband__poll(sb);
	m = find(s.pid, fixture__now_ns(), addr);
	assert_string_equal(module__build_id(m->module), BUILD_A);
	assert_true(module__fd(m->module) >= 0);
	subject__end(&s);
}

/* A child that says where its code is, and lives for 30 ms. */
static const char short_lived[] = "#include <stdio.h>\n#include <unistd.h>\n"
				  "int main(void) {\n"
				  "	long a = (long)main;\n"
				  "	if (write(1, &a, sizeof(a)) < 0) return 1;\n"
				  "	usleep(30000);\n"
				  "	return 0;\n"
				  "}\n";

struct child {
	pid_t pid;
	uint64_t start_ns;
	long addr;
	char build_id[41];
};

/* Writes the program with its build ID changed to one of its own. */
static void write_variant(const char *path, const char *bytes, size_t size, struct child *child,
			  int number)
{
	struct module_id id = fixture__build_id(BUILD_A);
	char *copy = malloc(size), *note;
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0755), i;

	memcpy(copy, bytes, size);
	note = memmem(copy, size, id.build_id, id.build_id_len);
	assert_non_null(note);
	memcpy(note, &number, sizeof(number));
	for (i = 0; i < id.build_id_len; i++)
		sprintf(child->build_id + 2 * i, "%02x", (unsigned char)note[i]);
	assert_int_equal(write(fd, copy, size), size);
	close(fd);
	free(copy);
}

/* Starts a child and deletes its program as soon as it runs. */
static void start_child(struct child *child, const char *path)
{
	int out[2];

	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	child->start_ns = fixture__now_ns();
	child->pid = fork();
	if (!child->pid) {
		dup2(out[1], 1);
		execl(path, path, NULL);
		_exit(127);
	}
	close(out[1]);
	assert_int_equal(read(out[0], &child->addr, sizeof(child->addr)), sizeof(child->addr));
	assert_int_equal(unlink(path), 0);
	close(out[0]);
}

static bool is_found(const struct child *child)
{
	const struct mapping *m = find(child->pid, UINT64_MAX, child->addr);
	struct module_id id = fixture__build_id(child->build_id);
	char head[4096];

	return m && m->module && module__fd(m->module) >= 0 &&
	       !strcmp(module__build_id(m->module), child->build_id) &&
	       pread(module__fd(m->module), head, sizeof(head), 0) == sizeof(head) &&
	       memmem(head, sizeof(head), id.build_id, id.build_id_len);
}

static void test_short_lived_children(void **state)
{
	static struct child children[CHILDREN];
	static char bytes[1 << 20];
	const char *path, *copy;
	int i, found = 0, fd;
	size_t size;

	(void)state;
	REQUIRE_SIDEBAND();
	path = fixture__compile("short", short_lived, BUILD_A, "");
	copy = fixture__path("copy");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	size = read(fd, bytes, sizeof(bytes));
	close(fd);
	procmaps__follow(pm, getpid());
	for (i = 0; i < CHILDREN; i++) {
		write_variant(copy, bytes, size, &children[i], i);
		start_child(&children[i], copy);
		serve(i % 8);
	}
	serve(100);
	for (i = 0; i < CHILDREN; i++)
		waitpid(children[i].pid, NULL, 0);
	serve(50);
	for (i = 0; i < CHILDREN; i++)
		found += is_found(&children[i]);
	print_message("%d of %d deleted programs of dead children are readable\n", found, CHILDREN);
	assert_true(found * 100 >= CHILDREN * 98);
	assert_int_equal(sideband__lost(sb), 0);
}

/* In a pid namespace of its own: our pids, not its. */
static void test_pid_namespace(void **state)
{
	char command[512], line[64] = "";
	const char *path;
	const struct mapping *m;
	uint64_t addr;
	pid_t pid = 0, child = 0;
	FILE *out, *ps;

	(void)state;
	REQUIRE_SIDEBAND();
	path = fixture__compile("inner", fixture_subject, BUILD_A, "-no-pie");
	procmaps__follow(pm, getpid());
	snprintf(command, sizeof(command), "(echo where; sleep 1) | exec unshare -pf '%s'", path);
	out = popen(command, "re");
	assert_non_null(out);
	assert_non_null(fgets(line, sizeof(line), out));
	addr = strtoull(line, NULL, 16);
	serve(50);
	ps = popen("pgrep -f offcpu-mapped-.*/inner$", "re");
	while (ps && fscanf(ps, "%d", &child) == 1) {
		snprintf(command, sizeof(command), "/proc/%d/exe", child);
		line[readlink(command, line, sizeof(line) - 1)] = '\0';
		pid = strstr(line, "/inner") ? child : pid;
	}
	pclose(ps);
	assert_true(pid > 1);
	m = find(pid, fixture__now_ns(), addr);
	pclose(out);
	assert_non_null(m);
	assert_string_equal(module__build_id(m->module), BUILD_A);
	assert_string_equal(module__path(m->module), path);
	/* Its pid inside is 1; nothing is known of our 1, which is not followed. */
	assert_null(find(1, fixture__now_ns(), addr));
}

static void storm(const char *path, int threads)
{
	struct subject s = subject__start(path, NULL);

	while (threads--)
		assert_int_equal(subject__ask(&s, "thread", NULL), 0);
	subject__end(&s);
}

/*
 * Two records of 48 bytes for each thread overflow a ring of 256 KiB that nobody reads. All on one
 * CPU, because a ring reports its loss with the next record that finds room.
 */
static void test_lost(void **state)
{
	cpu_set_t old, one;
	struct subject s;
	const char *path;
	uint64_t addr, lost;

	(void)state;
	REQUIRE_SIDEBAND();
	path = fixture__compile("storm", fixture_subject, BUILD_A, "");
	procmaps__follow(pm, getpid());
	assert_int_equal(sched_getaffinity(0, sizeof(old), &old), 0);
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	storm(path, 10000);
	sideband__poll(sb);
	s = subject__start(path, NULL);
	addr = subject__ask(&s, "where", NULL);
	serve(50);
	sched_setaffinity(0, sizeof(old), &old);
	lost = sideband__lost(sb);
	print_message("%" PRIu64 " records lost\n", lost);
	assert_true(lost >= 20000 - (256 << 10) / 48 && lost < 21000);
	assert_string_equal(name_at(s.pid, fixture__now_ns(), addr), "storm");
	subject__end(&s);
}

/* Under a storm the descriptor wakes at the pace. */
static void test_pace(void **state)
{
	const char *path;
	int wakeups;
	pid_t pid;

	(void)state;
	REQUIRE_SIDEBAND();
	path = fixture__compile("storm", fixture_subject, BUILD_A, "");
	serve(20);
	pid = fork();
	if (!pid) {
		storm(path, 10000);
		_exit(0);
	}
	wakeups = serve(500);
	waitpid(pid, NULL, 0);
	print_message("%d wakeups in 500 ms\n", wakeups);
	assert_true(wakeups >= 5 && wakeups <= 110);
}

/* Many times what a ring holds, but never that much at once: nothing is lost or misread. */
static void test_wraps_around(void **state)
{
	const char *a, *b;
	struct subject s;
	uint64_t in_a, in_b;
	int round, i;

	(void)state;
	REQUIRE_SIDEBAND();
	a = fixture__compile("a", fixture_subject, BUILD_A, "-no-pie");
	b = fixture__compile("b", fixture_subject, BUILD_B, "-no-pie");
	procmaps__follow(pm, getpid());
	s = subject__start(a, NULL);
	for (round = 0; round < 10; round++) {
		for (i = 0; i < 1000; i++)
			subject__ask(&s, "thread", NULL);
		in_b = subject__ask(&s, "exec", b);
		sideband__poll(sb);
		assert_string_equal(name_at(s.pid, fixture__now_ns(), in_b), "b");
		in_a = subject__ask(&s, "exec", a);
		sideband__poll(sb);
		assert_string_equal(name_at(s.pid, fixture__now_ns(), in_a), "a");
	}
	subject__end(&s);
	assert_int_equal(sideband__lost(sb), 0);
}

/* The first records after a rest wake the reader well before any timer would. */
static void test_wakes_at_once(void **state)
{
	struct pollfd pfd;
	const char *path;
	struct subject s;
	int i, woken = 0;

	(void)state;
	REQUIRE_SIDEBAND();
	path = fixture__compile("prog", fixture_subject, BUILD_A, "");
	for (i = 0; i < 20; i++) {
		serve(30);
		pfd = (struct pollfd){.fd = sideband__fd(sb), .events = POLLIN};
		s = subject__start(path, NULL);
		subject__ask(&s, "where", NULL);
		woken += poll(&pfd, 1, 15) > 0;
		subject__end(&s);
	}
	print_message("%d of 20 execs woke the reader\n", woken);
	assert_int_equal(woken, 20);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(life_of_a_process),
		TEST(scan_first),
		TEST(replaced),
		TEST(short_lived_children),
		TEST(pid_namespace),
		TEST(lost),
		TEST(pace),
		TEST(wraps_around),
		TEST(wakes_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
