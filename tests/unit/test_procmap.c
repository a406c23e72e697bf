// SPDX-License-Identifier: GPL-2.0-or-later
#include "mapped_fixture.h"

#include <malloc.h>
#include <sys/mman.h>

#include "image.h"

#define PAGE 4096ull

static struct modules *mods;
static struct procmaps *pm;
static struct module_id no_id = {.build_id = {7}, .build_id_len = 20};

static int setup(void **state)
{
	mods = modules__new();
	pm = procmaps__new(mods);
	return fixture__setup(state);
}

static int teardown(void **state)
{
	procmaps__free(pm);
	modules__free(mods);
	return fixture__teardown(state);
}

/* A mapping of a file that cannot be opened; its module's name tells it apart. */
static void map(uint64_t time_ns, pid_t pid, uint64_t start, uint64_t len, const char *path)
{
	procmaps__on_mmap(pm, time_ns, pid, start, len, 0x1000, &no_id, path);
}

/* Name of what is mapped, or "-". */
static const char *at(pid_t pid, uint64_t time_ns, uint64_t addr)
{
	const struct mapping *m = procmaps__find(pm, pid, time_ns, addr);

	if (!m)
		return "-";
	assert_true(m->start <= addr && addr < m->end);
	return m->module ? module__name(m->module) : m->kind == MAPPING_ANON ? "anon" : "other";
}

#define PID				    0x3ffffff0 /* above the highest pid there can be */
#define ASSERT_AT(pid, time_ns, addr, name) assert_string_equal(at(pid, time_ns, addr), name)

static void test_exec(void **state)
{
	(void)state;
	procmaps__follow(pm, PID);
	map(100, PID, 0x400000, 0x1000, "/a");
	procmaps__on_exec(pm, 200, PID);
	map(201, PID, 0x400000, 0x1000, "/b");
	ASSERT_AT(PID, 50, 0x400000, "a");
	ASSERT_AT(PID, 199, 0x400fff, "a");
	ASSERT_AT(PID, 199, 0x401000, "-");
	ASSERT_AT(PID, 200, 0x400000, "b");
	ASSERT_AT(PID, 999, 0x400000, "b");
	ASSERT_AT(PID, 999, 0x3fffff, "-");
	procmaps__on_exec(pm, 300, PID);
	ASSERT_AT(PID, 999, 0x400000, "-");
	ASSERT_AT(PID, 250, 0x400000, "b");
}

static void test_fork_inherits(void **state)
{
	(void)state;
	procmaps__follow(pm, PID);
	map(100, PID, 0x1000, 0x1000, "/a");
	procmaps__on_fork(pm, 200, PID + 1, PID);
	map(300, PID, 0x3000, 0x1000, "/parents");
	map(300, PID + 1, 0x5000, 0x1000, "/childs");
	ASSERT_AT(PID + 1, 400, 0x1000, "a");
	ASSERT_AT(PID + 1, 400, 0x3000, "-");
	ASSERT_AT(PID + 1, 400, 0x5000, "childs");
	ASSERT_AT(PID, 400, 0x3000, "parents");
	ASSERT_AT(PID, 400, 0x5000, "-");
	/* From the image that the parent had then, though it exec'ed since. */
	procmaps__on_exec(pm, 500, PID);
	procmaps__on_fork(pm, 450, PID + 2, PID);
	ASSERT_AT(PID + 2, 600, 0x3000, "parents");
	procmaps__on_fork(pm, 510, PID + 3, PID);
	ASSERT_AT(PID + 3, 600, 0x3000, "-");
}

static void test_threads_and_strangers(void **state)
{
	(void)state;
	procmaps__follow(pm, PID);
	map(100, PID, 0x1000, 0x1000, "/a");
	procmaps__on_fork(pm, 200, PID, PID);
	ASSERT_AT(PID, 300, 0x1000, "a");
	procmaps__on_fork(pm, 200, PID + 2, PID + 1);
	map(210, PID + 2, 0x1000, 0x1000, "/stranger");
	map(210, PID + 1, 0x1000, 0x1000, "/stranger");
	procmaps__on_exec(pm, 210, PID + 1);
	procmaps__on_exit(pm, 220, PID + 1);
	ASSERT_AT(PID + 1, 300, 0x1000, "-");
	ASSERT_AT(PID + 2, 300, 0x1000, "-");
	map(210, -1, 0x1000, 0x1000, "[kernel.kallsyms]_text");
	map(210, 0, 0x1000, 0x1000, "/a");
	map(210, PID, UINT64_MAX - 10, 0x1000, "/overflows");
	map(210, PID, 0x9000, 0, "/empty");
	ASSERT_AT(PID, 300, UINT64_MAX - 5, "-");
	ASSERT_AT(PID, 300, 0x9000, "-");
}

static void test_pid_reuse(void **state)
{
	(void)state;
	procmaps__follow(pm, PID);
	map(100, PID, 0x1000, 0x1000, "/shell");
	procmaps__on_fork(pm, 200, PID + 1, PID);
	procmaps__on_exec(pm, 210, PID + 1);
	map(220, PID + 1, 0x1000, 0x1000, "/first");
	procmaps__on_exit(pm, 300, PID + 1);
	ASSERT_AT(PID + 1, 999, 0x1000, "first");
	procmaps__on_fork(pm, 400, PID + 1, PID);
	ASSERT_AT(PID + 1, 350, 0x1000, "first");
	ASSERT_AT(PID + 1, 205, 0x1000, "shell");
	ASSERT_AT(PID + 1, 400, 0x1000, "shell");
	procmaps__on_exec(pm, 410, PID + 1);
	map(420, PID + 1, 0x1000, 0x1000, "/second");
	ASSERT_AT(PID + 1, 430, 0x1000, "second");
	ASSERT_AT(PID + 1, 250, 0x1000, "first");
	ASSERT_AT(PID + 1, 1, 0x1000, "shell");
	/* Reused by a stranger's child: what that maps is nobody's here. */
	procmaps__on_exit(pm, 500, PID + 1);
	procmaps__on_fork(pm, 600, PID + 1, PID + 9);
	map(610, PID + 1, 0x1000, 0x1000, "/stranger");
	procmaps__on_exec(pm, 620, PID + 1);
	map(630, PID + 1, 0x1000, 0x1000, "/stranger");
	ASSERT_AT(PID + 1, 999, 0x1000, "second");
	/* The same with the exit record lost. */
	procmaps__on_fork(pm, 700, PID, PID + 9);
	map(710, PID, 0x1000, 0x1000, "/stranger");
	ASSERT_AT(PID, 999, 0x1000, "shell");
}

/* exec by a thread that is not the first: the first one's exit comes just before. */
static void test_exec_by_other_thread(void **state)
{
	(void)state;
	procmaps__follow(pm, PID);
	map(100, PID, 0x1000, 0x1000, "/a");
	procmaps__on_exit(pm, 200, PID);
	procmaps__on_exec(pm, 210, PID);
	map(220, PID, 0x1000, 0x1000, "/b");
	ASSERT_AT(PID, 150, 0x1000, "a");
	ASSERT_AT(PID, 300, 0x1000, "b");
}

static void test_newest_wins(void **state)
{
	(void)state;
	procmaps__follow(pm, PID);
	map(100, PID, 0x10000, 0x8000, "/old");
	map(200, PID, 0x12000, 0x2000, "/new");
	ASSERT_AT(PID, 300, 0x11fff, "old");
	ASSERT_AT(PID, 300, 0x12000, "new");
	ASSERT_AT(PID, 300, 0x13fff, "new");
	ASSERT_AT(PID, 300, 0x14000, "old");
	assert_int_equal(procmaps__find(pm, PID, 300, 0x14000)->offset, 0x1000 + 0x4000);
	assert_int_equal(procmaps__find(pm, PID, 300, 0x13000)->offset, 0x1000);
	/* Read late: lies below what is newer. */
	map(150, PID, 0x11000, 0x10000, "/late");
	ASSERT_AT(PID, 300, 0x10fff, "old");
	ASSERT_AT(PID, 300, 0x11000, "late");
	ASSERT_AT(PID, 300, 0x12000, "new");
	ASSERT_AT(PID, 300, 0x14000, "late");
	ASSERT_AT(PID, 300, 0x20fff, "late");
}

static struct {
	struct module *module;
	uint64_t since, offset;
} model[512];

static void add_to_model(const struct mapping *m, uint64_t since)
{
	uint64_t addr;

	for (addr = m->start; addr < m->end; addr += PAGE) {
		if (model[addr / PAGE].since > since)
			continue;
		model[addr / PAGE].module = m->module;
		model[addr / PAGE].since = since;
		model[addr / PAGE].offset = m->offset + addr - m->start;
	}
}

/* In any order the same pages are covered; in order of time also by the same files. */
static void check_model(const struct image *img, bool in_order)
{
	uint64_t page;

	for (page = 0; page < 512; page++) {
		const struct mapping *m = image__find(img, page * PAGE + 5);

		assert_int_equal(m != NULL, model[page].module != NULL);
		if (!m || !in_order)
			continue;
		assert_ptr_equal(m->module, model[page].module);
		assert_int_equal(m->offset + page * PAGE - m->start, model[page].offset);
	}
}

/* Against a model that keeps, for each page, the newest mapping. */
static void test_against_model(void **state)
{
	unsigned int seed = 42;
	struct module *files[6];
	size_t account = 0;
	int round, i;

	(void)state;
	for (i = 0; i < 6; i++)
		files[i] = modules__open(mods, &no_id, PID, 1, 2, (char[]){'/', 'a' + i, 0});
	for (round = 0; round < 200; round++) {
		struct image *img = image__new(&account), *shared = NULL;

		memset(model, 0, sizeof(model));
		for (i = 0; i < 60; i++) {
			uint64_t start = rand_r(&seed) % 480 * PAGE;
			uint64_t since = 1 + (round & 1 ? i : rand_r(&seed) % 50);
			struct mapping m = {.start = start,
					    .end = start + (1 + rand_r(&seed) % 31) * PAGE,
					    .offset = rand_r(&seed) % 2 ? start : 0,
					    .kind = MAPPING_FILE,
					    .module = files[rand_r(&seed) % 6]};

			if (i % 16 == 8)
				shared = image__get(img);
			image__add(&img, &m, since);
			image__put(shared);
			shared = NULL;
			add_to_model(&m, since);
			check_model(img, round & 1);
		}
		image__put(img);
	}
	assert_int_equal(account, 0);
}

static void test_merges_jit_pages(void **state)
{
	uint64_t i;

	(void)state;
	procmaps__follow(pm, PID);
	for (i = 0; i < 100000; i++)
		map(i, PID, 0x7f0000000000 + (i * 7919 % 4096) * PAGE, PAGE, "//anon");
	for (i = 0; i < 4096; i++)
		ASSERT_AT(PID, 1, 0x7f0000000000 + i * PAGE, "anon");
	ASSERT_AT(PID, 1, 0x7f0000000000 + 4096 * PAGE, "-");
	assert_int_equal(procmaps__find(pm, PID, 1, 0x7f0000000000)->end,
			 0x7f0000000000 + 4096 * PAGE);
}

static void test_names(void **state)
{
	static const struct {
		const char *path, *is;
	} cases[] = {
		{"", "anon"},
		{"//anon", "anon"},
		{"[heap]", "anon"},
		{"[stack]", "anon"},
		{"[stack:123]", "anon"},
		{"[anon:v8]", "anon"},
		{"[anon_shmem:x]", "anon"},
		{"/dev/zero", "anon"},
		{"/dev/zero (deleted)", "anon"},
		{"/SYSV00000000 (deleted)", "anon"},
		{"/anon_hugepage (deleted)", "anon"},
		{"/memfd:doublemapper (deleted)", "anon"},
		{"[vsyscall]", "other"},
		{"[uprobes]", "other"},
		{"anon_inode:[x]", "other"},
		{"/SYSVinit", "SYSVinit"},
		{"/x/y (deleted)", "y"},
		{"/x/\033[31m;", "\033[31m;"},
		{"//toolong", "toolong"},
		{"/", "/"},
	};
	size_t i;

	(void)state;
	procmaps__follow(pm, PID);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		map(i, PID, 0x10000 * (i + 1), 0x1000, cases[i].path);
		ASSERT_AT(PID, 99, 0x10000 * (i + 1), cases[i].is);
	}
	/* Only a 64-bit process's vDSO is ours. */
	map(100, PID, 0xf7fc0000, 0x1000, "[vdso]");
	map(100, PID, 0x7ffff7fc0000, 0x1000, "[vdso]");
	ASSERT_AT(PID, 100, 0xf7fc0000, "other");
	ASSERT_AT(PID, 100, 0x7ffff7fc0000, "[vdso]");
	assert_int_equal(procmaps__find(pm, PID, 100, 0x7ffff7fc0000)->kind, MAPPING_VDSO);
}

/* Fork records, then a scan, then the records of what the scan saw: each mapping is there once. */
static void test_scan_and_events(void **state)
{
	const char *path = fixture__compile("prog", fixture_subject, BUILD_A, "");
	struct module_id id = fixture__build_id(BUILD_A);
	struct subject s = subject__start(path, NULL);
	uint64_t addr = subject__ask(&s, "where", NULL);
	const struct mapping *m;
	struct maps_line line;
	struct module *mod;
	char text[8192];

	(void)state;
	fixture__maps_of(s.pid, addr, &line, text);
	procmaps__follow(pm, PID);
	map(50, PID, 0x1000, 0x1000, "/shell");
	assert_int_equal(procmaps__scan(pm, s.pid, 1000), 0);
	mod = procmaps__find(pm, s.pid, 1000, addr)->module;
	assert_string_equal(module__build_id(mod), BUILD_A);
	procmaps__on_fork(pm, 100, s.pid, PID);
	procmaps__on_exec(pm, 200, s.pid);
	procmaps__on_mmap(pm, 210, s.pid, line.start, line.end - line.start, line.offset, &id,
			  line.path);
	ASSERT_AT(s.pid, 150, 0x1000, "shell");
	ASSERT_AT(s.pid, 150, addr, "-");
	ASSERT_AT(s.pid, 250, 0x1000, "-");
	assert_ptr_equal(procmaps__find(pm, s.pid, 250, addr)->module, mod);
	assert_ptr_equal(procmaps__find(pm, s.pid, 1500, addr)->module, mod);
	m = procmaps__find(pm, s.pid, 1500, addr);
	assert_int_equal(m->start, line.start);
	assert_int_equal(m->end, line.end);
	assert_int_equal(m->offset, line.offset);
	/* Scanning again changes nothing. */
	assert_int_equal(procmaps__scan(pm, s.pid, 2000), 0);
	assert_ptr_equal(procmaps__find(pm, s.pid, 3000, addr), m);
	subject__end(&s);
	assert_int_equal(procmaps__scan(pm, s.pid, 3000), -ESRCH);
	assert_ptr_equal(procmaps__find(pm, s.pid, 3000, addr)->module, mod);
}

/* A followed process exec's and is scanned before the exec's record is read. */
static void test_scan_before_exec_record(void **state)
{
	const char *path = fixture__compile("prog", fixture_subject, BUILD_A, "-no-pie");
	struct subject s = subject__start(path, NULL);
	uint64_t addr = subject__ask(&s, "where", NULL);

	(void)state;
	procmaps__follow(pm, s.pid);
	map(50, s.pid, addr & -PAGE, PAGE, "/before");
	map(50, s.pid, 0x1000, 0x1000, "/before");
	assert_int_equal(procmaps__scan(pm, s.pid, 1000), 0);
	procmaps__on_exec(pm, 500, s.pid);
	ASSERT_AT(s.pid, 400, 0x1000, "before");
	ASSERT_AT(s.pid, 600, addr, "prog");
	ASSERT_AT(s.pid, 600, 0x1000, "-");
	subject__end(&s);
}

static void test_scan_self(void **state)
{
	uint8_t *jit =
		mmap(NULL, 2 * PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = memfd_create("jit", MFD_CLOEXEC);
	uint8_t *twice;
	const struct mapping *m;

	(void)state;
	assert_int_equal(ftruncate(fd, PAGE), 0);
	twice = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
	assert_true(jit != MAP_FAILED && twice != MAP_FAILED);
	assert_int_equal(procmaps__scan(pm, getpid(), 100), 0);
	ASSERT_AT(getpid(), 100, (uintptr_t)jit + PAGE, "anon");
	ASSERT_AT(getpid(), 100, (uintptr_t)twice, "anon");
	ASSERT_AT(getpid(), 100, (uintptr_t)&seteuid, "libc.so.6");
	m = procmaps__find(pm, getpid(), 1, (uintptr_t)test_scan_self);
	assert_int_equal(m->kind, MAPPING_FILE);
	assert_true(module__fd(m->module) >= 0);
	assert_int_equal(procmaps__scan(pm, PID, 100), -ESRCH);
	assert_int_equal(procmaps__scan(pm, 2, 100), -ESRCH); /* a kernel thread */
	munmap(jit, 2 * PAGE);
	munmap(twice, PAGE);
	close(fd);
}

static void test_hostile_lines(void **state)
{
	static const char *bad[] = {
		"",
		"\n",
		"x",
		"1-2",
		"1-2 r-xp",
		"1-2 r-xp 0 0:0",
		"2-1 r-xp 0 0:0 0 /a",
		"1-2 r-x 0 0:0 0",
		"1-2 r-xp 0 0:0 x",
		"-1-2 r-xp 0 0:0 0",
		"1-2 r-xp  0 0:0 0",
		"11111111111111111-2 r-xp 0 0:0 0",
		"1-2 r-xp 0 0:0 99999999999999999999 /a",
		"1-2 r-xp 0 0:0 1/a",
		"+1-2 r-xp 0 0:0 1",
	};
	char good[] = "7f00-8000 r-xp 00001000 fe:1a 123                  /a b\\012c  (deleted) \n";
	char nameless[] = "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0\n";
	char text[128];
	struct maps_line line;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		strcpy(text, bad[i]);
		assert_false(maps_line__parse(text, &line));
	}
	assert_true(maps_line__parse(good, &line));
	assert_int_equal(line.start, 0x7f00);
	assert_int_equal(line.end, 0x8000);
	assert_int_equal(line.offset, 0x1000);
	assert_int_equal(line.dev_major, 0xfe);
	assert_int_equal(line.dev_minor, 0x1a);
	assert_int_equal(line.inode, 123);
	assert_true(line.executable);
	assert_string_equal(line.path, "/a b\nc  (deleted) ");
	assert_true(maps_line__parse(nameless, &line));
	assert_int_equal(line.end, 0xffffffffff601000);
	assert_string_equal(line.path, "");
}

/* 2,000 processes a second for one minute and for six, all children of one with 300 mappings. */
static void test_fork_storm(void **state)
{
	pid_t parent = PID, pid;
	size_t before, minute, longer;
	uint64_t i;

	(void)state;
	procmaps__follow(pm, parent);
	for (i = 0; i < 300; i++)
		map(1, parent, 0x10000 * (i + 1), 0x1000, i & 1 ? "/a" : "/b");
	before = mallinfo2().uordblks + mallinfo2().hblkhd;
	for (i = 0; i < 720000; i++) {
		pid = 1000 + i % 4000000;
		procmaps__on_fork(pm, 10 + i * 3, pid, parent);
		procmaps__on_exit(pm, 12 + i * 3, pid);
		if (i == 119999) {
			minute = mallinfo2().uordblks + mallinfo2().hblkhd - before;
			ASSERT_AT(pid - 60000, UINT64_MAX, 0x10000, "b"); /* half a minute ago */
		}
	}
	longer = mallinfo2().uordblks + mallinfo2().hblkhd - before;
	ASSERT_AT(pid, UINT64_MAX, 0x20000, "a");
	print_message("120,000 dead children: %zu kB; 720,000: %zu kB\n", minute >> 10,
		      longer >> 10);
	assert_true(minute < 20u << 20);
	assert_true(longer < 24u << 20);
}

/* Each child exec's: an image of its own. And one process that does nothing but exec. */
static void test_exec_storm(void **state)
{
	size_t before = mallinfo2().uordblks + mallinfo2().hblkhd, used;
	pid_t pid;
	uint64_t i;
	int j;

	(void)state;
	procmaps__follow(pm, PID);
	for (i = 0; i < 60000; i++) {
		pid = 1000 + i % 32000;
		procmaps__on_fork(pm, 10 + i * 5, pid, PID);
		procmaps__on_exec(pm, 11 + i * 5, pid);
		for (j = 1; j < 5; j++)
			map(12 + i * 5, pid, 0x10000 * j, 0x1000, j & 1 ? "/a" : "/b");
		procmaps__on_exit(pm, 13 + i * 5, pid);
		procmaps__on_exec(pm, 14 + i * 5, PID);
	}
	used = mallinfo2().uordblks + mallinfo2().hblkhd - before;
	print_message("60,000 execs: %zu kB\n", used >> 10);
	ASSERT_AT(pid, UINT64_MAX, 0x20000, "b");
	assert_true(used < 24u << 20);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(exec),
		TEST(fork_inherits),
		TEST(threads_and_strangers),
		TEST(pid_reuse),
		TEST(exec_by_other_thread),
		TEST(newest_wins),
		TEST(against_model),
		TEST(merges_jit_pages),
		TEST(names),
		TEST(scan_and_events),
		TEST(scan_before_exec_record),
		TEST(scan_self),
		TEST(hostile_lines),
		TEST(fork_storm),
		TEST(exec_storm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
