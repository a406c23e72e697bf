// SPDX-License-Identifier: GPL-2.0-or-later
#include "mapped_fixture.h"

#include <elf.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include "elf_head.h"

static struct modules *mods;

static int setup(void **state)
{
	mods = modules__new();
	return fixture__setup(state);
}

static int teardown(void **state)
{
	modules__free(mods);
	return fixture__teardown(state);
}

/* Opens what a subject maps at 'addr', by device and inode. */
static struct module *open_mapped(const struct subject *s, uint64_t addr, struct maps_line *map)
{
	static char line[8192];
	struct module_id id;

	fixture__maps_of(s->pid, addr, map, line);
	id = fixture__inode_id(map);
	return modules__open(mods, &id, s->pid, map->start, map->end, map->path);
}

static bool same_file(const struct module *mod, uint64_t inode)
{
	struct stat st;

	return module__fd(mod) >= 0 && !fstat(module__fd(mod), &st) && st.st_ino == inode;
}

static void test_open_and_dedup(void **state)
{
	const char *path = fixture__compile("prog", fixture_subject, BUILD_A, "");
	struct module_id build = fixture__build_id(BUILD_A);
	struct subject s = subject__start(path, NULL);
	uint64_t addr = subject__ask(&s, "where", NULL);
	struct maps_line map;
	struct module *mod = open_mapped(&s, addr, &map);

	(void)state;
	assert_true(same_file(mod, map.inode));
	assert_string_equal(module__path(mod), path);
	assert_string_equal(module__name(mod), "prog");
	assert_string_equal(module__build_id(mod), BUILD_A);
	assert_int_equal(module__pid(mod), s.pid);
	assert_ptr_equal(open_mapped(&s, addr, &map), mod);
	assert_ptr_equal(modules__open(mods, &build, s.pid, map.start, map.end, path), mod);
	/* Gone, and under a path that never was: the build ID still tells. */
	subject__end(&s);
	assert_ptr_equal(modules__open(mods, &build, s.pid, 0x1000, 0x2000, "/no/such"), mod);
	build.build_id[0] ^= 1;
	assert_true(module__fd(modules__open(mods, &build, s.pid, 0x1000, 0x2000, path)) < 0);
}

static void test_vaddr(void **state)
{
	const char *flags[] = {"-no-pie", "-pie -fPIE", "-no-pie -Wl,-z,noseparate-code",
			       "-no-pie -Wl,-Ttext-segment=0x7000000"};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		const char *path = fixture__compile("prog", fixture_subject, NULL, flags[i]);
		struct subject s = subject__start(path, NULL);
		uint64_t addr = subject__ask(&s, "where", NULL);
		struct maps_line map;
		struct module *mod = open_mapped(&s, addr, &map);

		assert_int_equal(module__vaddr(mod, addr - map.start + map.offset),
				 fixture__nm(path, "probe"));
		assert_null(module__build_id(mod));
		subject__end(&s);
		unlink(path);
	}
}

/* Two segments of different bias share the page at 0x1000 of the file. */
static void test_vaddr_shared_page(void **state)
{
	struct elf_load loads[] = {
		{.offset = 0, .file_size = 0x1600, .vaddr = 0x10000},
		{.offset = 0x1600, .file_size = 0x800, .vaddr = 0x22600, .executable = true},
		{.offset = 0x1e00, .file_size = 0x100, .vaddr = 0x34e00},
		{.offset = UINT64_MAX - 8,
		 .file_size = 0x100,
		 .vaddr = 0x50000,
		 .executable = true},
	};
	struct elf_head head = {.valid = true, .loads_n = 4, .loads = loads};

	(void)state;
	assert_int_equal(elf_head__vaddr(&head, 0x1700), 0x22700);
	assert_int_equal(elf_head__vaddr(&head, 0x1000), 0x22000);
	assert_int_equal(elf_head__vaddr(&head, 0x1e10), 0x22e10);
	assert_int_equal(elf_head__vaddr(&head, 0x800), 0x10800);
	assert_int_equal(elf_head__vaddr(&head, 0x9000), 0x9000);
	assert_int_equal(elf_head__vaddr(&head, UINT64_MAX - 4), UINT64_MAX - 4);
}

static void test_deleted(void **state)
{
	const char *path = fixture__compile("prog", fixture_subject, BUILD_A, "");
	struct subject s = subject__start(path, NULL);
	uint64_t addr = subject__ask(&s, "where", NULL);
	struct maps_line map;
	struct module *mod;
	char magic[4];

	(void)state;
	SKIP_UNLESS_ROOT();
	assert_int_equal(unlink(path), 0);
	mod = open_mapped(&s, addr, &map);
	assert_non_null(strstr(map.path, " (deleted)"));
	subject__end(&s);
	assert_string_equal(module__build_id(mod), BUILD_A);
	assert_string_equal(module__path(mod), path);
	assert_int_equal(pread(module__fd(mod), magic, 4, 0), 4);
	assert_memory_equal(magic, ELFMAG, 4);
}

/* A file whose name does end in " (deleted)", present and then deleted itself. */
static void test_named_deleted(void **state)
{
	const char *path = fixture__compile("prog (deleted)", fixture_subject, BUILD_A, "");
	struct subject s = subject__start(path, NULL);
	uint64_t addr = subject__ask(&s, "where", NULL);
	struct maps_line map;

	(void)state;
	SKIP_UNLESS_ROOT();
	assert_string_equal(module__path(open_mapped(&s, addr, &map)), path);
	modules__free(mods);
	mods = modules__new();
	unlink(path);
	assert_string_equal(module__path(open_mapped(&s, addr, &map)), path);
	assert_string_equal(map.path + strlen(path), " (deleted)");
	subject__end(&s);
}

static void test_newline_in_name(void **state)
{
	const char *path = fixture__compile("a\nb  c", fixture_subject, BUILD_A, "");
	struct subject s = subject__start(path, NULL);
	uint64_t addr = subject__ask(&s, "where", NULL);
	struct maps_line map;
	struct module *mod = open_mapped(&s, addr, &map);
	struct module_id id = fixture__inode_id(&map);

	(void)state;
	assert_string_equal(module__path(mod), path);
	assert_true(same_file(mod, map.inode));
	modules__free(mods);
	mods = modules__new();
	/* No such range in map_files: by the path below the root. */
	mod = modules__open(mods, &id, s.pid, 0x1000, 0x2000, path);
	assert_true(same_file(mod, map.inode));
	subject__end(&s);
}

static void test_replaced(void **state)
{
	const char *path = fixture__compile("prog", fixture_subject, BUILD_A, "");
	const char *other = fixture__compile("other", fixture_subject, BUILD_B, "");
	struct module_id build = fixture__build_id(BUILD_A), id;
	struct subject s = subject__start(path, NULL);
	uint64_t addr = subject__ask(&s, "where", NULL);
	struct modules *late = modules__new();
	struct maps_line map;
	struct module *mod;

	(void)state;
	SKIP_UNLESS_ROOT();
	assert_int_equal(rename(other, path), 0);
	mod = open_mapped(&s, addr, &map);
	id = fixture__inode_id(&map);
	assert_string_equal(module__build_id(mod), BUILD_A);
	assert_true(same_file(mod, map.inode));
	subject__end(&s);
	/* Too late to pin: the new file under the old name must not be taken for it. */
	mod = modules__open(late, &build, s.pid, map.start, map.end, path);
	assert_true(module__fd(mod) < 0);
	assert_string_equal(module__build_id(mod), BUILD_A);
	assert_ptr_equal(modules__open(late, &build, s.pid, map.start, map.end, path), mod);
	mod = modules__open(late, &id, s.pid, map.start, map.end, path);
	assert_true(module__fd(mod) < 0);
	assert_string_equal(module__path(mod), path);
	/* The new file itself is found, although the process is gone. */
	build = fixture__build_id(BUILD_B);
	mod = modules__open(late, &build, s.pid, map.start, map.end, path);
	assert_string_equal(module__build_id(mod), BUILD_B);
	assert_true(module__fd(mod) >= 0);
	modules__free(late);
}

/* ext4 gives a new file the inode number of the one deleted just before; the generation differs. */
static void test_generation(void **state)
{
	const char *path = fixture__compile("prog", fixture_subject, NULL, "");
	struct module_id id;
	struct stat st;

	(void)state;
	assert_int_equal(stat(path, &st), 0);
	id = (struct module_id){.dev_major = st.st_dev >> 8 & 0xfff,
				.dev_minor = st.st_dev & 0xff,
				.inode = st.st_ino};
	assert_true(module__fd(modules__open(mods, &id, 0x3fffffff, 1, 2, path)) >= 0);
	id.inode_gen = 0xdeadbeef01;
	if (module__fd(modules__open(mods, &id, 0x3fffffff, 1, 2, path)) >= 0) {
		print_message("skipped: no generation numbers in /tmp\n");
		skip();
	}
}

static void test_not_regular(void **state)
{
	struct module_id id = fixture__build_id(BUILD_A);
	struct module_id none = {0};
	const char *fifo = fixture__path("fifo"), *link = fixture__path("link");

	(void)state;
	assert_int_equal(mkfifo(fifo, 0600) | symlink("/bin/sh", link), 0);
	alarm(10);
	assert_true(module__fd(modules__open(mods, &id, getpid(), 1, 2, fifo)) < 0);
	assert_true(module__fd(modules__open(mods, &id, getpid(), 1, 2, link)) < 0);
	assert_true(module__fd(modules__open(mods, &id, getpid(), 1, 2, "/dev/zero")) < 0);
	assert_true(module__fd(modules__open(mods, &id, getpid(), 1, 2, fixture_dir)) < 0);
	assert_true(module__fd(modules__open(mods, &id, getpid(), 1, 2, "relative")) < 0);
	/* Nothing is known of it, so nothing under that name can be it. */
	assert_true(module__fd(modules__open(mods, &none, getpid(), 1, 2, "/bin/sh")) < 0);
	alarm(0);
}

/* In a chroot, a planted symlink must not lead to a file outside, even to the right one. */
static void test_chroot(void **state)
{
	const char *root = fixture__path("root"), *outside = fixture__path("outside"), *path, *file;
	struct module_id id = fixture__build_id(BUILD_B);
	struct subject s;
	struct module *mod;
	uint64_t addr;
	struct maps_line map;

	(void)state;
	SKIP_UNLESS_ROOT();
	assert_int_equal(mkdir(root, 0755) | mkdir(outside, 0755), 0);
	assert_int_equal(symlink(outside, fixture__path("root/dir")), 0);
	path = fixture__compile("root/prog", fixture_subject, BUILD_A, "-static");
	file = fixture__compile("outside/file", fixture_library, BUILD_B, "-shared -fPIC");
	s = subject__start("/prog", root);
	addr = subject__ask(&s, "where", NULL);
	mod = open_mapped(&s, addr, &map);
	assert_true(same_file(mod, map.inode));
	assert_string_equal(module__path(mod), path);
	mod = modules__open(mods, &id, s.pid, 0x1000, 0x2000, "/dir/file");
	assert_true(module__fd(mod) < 0);
	/* As the target names it, below its root. */
	modules__free(mods);
	mods = modules__new();
	id = fixture__build_id(BUILD_A);
	mod = modules__open(mods, &id, s.pid, 0x1000, 0x2000, "/prog");
	assert_true(same_file(mod, map.inode));
	subject__end(&s);
	unlink(file);
}

static void test_same_build_other_file(void **state)
{
	const char *path = fixture__compile("prog", fixture_subject, BUILD_A, "-g");
	const char *copy = fixture__path("copy"), *stripped = fixture__path("stripped");
	struct module_id id = fixture__build_id(BUILD_A);
	struct module *mod, *other;
	char command[700];

	(void)state;
	fixture__copy(path, copy);
	snprintf(command, sizeof(command), "strip -o '%s' '%s'", stripped, path);
	assert_int_equal(system(command), 0);
	mod = modules__open(mods, &id, getpid(), 1, 2, path);
	assert_true(module__fd(mod) >= 0);
	assert_ptr_equal(modules__open(mods, &id, getpid(), 1, 2, copy), mod);
	other = modules__open(mods, &id, getpid(), 1, 2, stripped);
	assert_ptr_not_equal(other, mod);
	assert_string_equal(module__name(other), "stripped");
	assert_ptr_equal(modules__open(mods, &id, getpid(), 1, 2, path), mod);
	assert_ptr_equal(modules__open(mods, &id, getpid(), 1, 2, stripped), other);
}

/* Overwritten in place: the same inode, another file. */
static void test_overwritten(void **state)
{
	const char *path = fixture__compile("lib.so", fixture_library, BUILD_A, "-shared -fPIC");
	const char *b = fixture__compile("b.so", fixture_library, BUILD_B, "-shared -fPIC -g");
	struct module_id id_a = fixture__build_id(BUILD_A), id_b = fixture__build_id(BUILD_B);
	struct module *mod = modules__open(mods, &id_a, getpid(), 1, 2, path), *now;

	(void)state;
	assert_true(module__fd(mod) >= 0);
	fixture__copy(b, path);
	now = modules__open(mods, &id_b, getpid(), 1, 2, path);
	assert_ptr_not_equal(now, mod);
	assert_true(module__fd(now) >= 0);
	assert_string_equal(module__build_id(now), BUILD_B);
	assert_true(module__fd(modules__open(mods, &id_a, getpid(), 1, 2, path)) < 0);
}

static void check_overlay(const char *flags, const char *build_id)
{
	const char *path, *lower = fixture__path("l"), *merged = fixture__path("m");
	struct maps_line map;
	struct module *mod;
	struct subject s;
	char opts[512], command[128];
	uint64_t addr;

	snprintf(command, sizeof(command), "cd '%s' && rm -rf l u w m && mkdir l u w m",
		 fixture_dir);
	assert_int_equal(system(command), 0);
	fixture__compile("l/prog", fixture_subject, build_id, flags);
	snprintf(opts, sizeof(opts), "lowerdir=%s,upperdir=%s/u,workdir=%s/w", lower, fixture_dir,
		 fixture_dir);
	if (mount("overlay", merged, "overlay", 0, opts)) {
		print_message("skipped: cannot mount an overlay\n");
		skip();
	}
	path = fixture__path("m/prog");
	s = subject__start(path, NULL);
	addr = subject__ask(&s, "where", NULL);
	mod = open_mapped(&s, addr, &map);
	assert_true(module__fd(mod) >= 0);
	assert_string_equal(module__path(mod), path);
	assert_ptr_equal(open_mapped(&s, addr, &map), mod);
	/* Replaced in the upper layer: the mapping is still of the lower file. */
	fixture__compile("m/new", fixture_subject, BUILD_B, "-g");
	assert_int_equal(rename(fixture__path("m/new"), path), 0);
	modules__free(mods);
	mods = modules__new();
	mod = open_mapped(&s, addr, &map);
	assert_true(module__fd(mod) >= 0);
	assert_int_equal(module__vaddr(mod, addr - map.start + map.offset),
			 fixture__nm(fixture__path("l/prog"), "probe"));
	assert_true(!module__build_id(mod) || strcmp(module__build_id(mod), BUILD_B));
	subject__end(&s);
	modules__free(mods);
	mods = modules__new();
	assert_int_equal(umount(merged), 0);
}

static void test_overlay(void **state)
{
	(void)state;
	SKIP_UNLESS_ROOT();
	check_overlay("-no-pie", BUILD_A);
	check_overlay("-no-pie -Wl,-Ttext-segment=0x7000000", NULL);
}

static void test_vdso(void **state)
{
	struct module *mod = modules__vdso(mods);
	size_t size = 0;
	const void *image = module__image(mod, &size);

	(void)state;
	assert_ptr_equal(modules__vdso(mods), mod);
	assert_non_null(image);
	assert_memory_equal(image, ELFMAG, SELFMAG);
	assert_int_equal(size % sysconf(_SC_PAGESIZE), 0);
	assert_non_null(memmem(image, size, "__vdso_clock_gettime", 20));
	assert_string_equal(module__name(mod), "[vdso]");
	assert_true(module__fd(mod) < 0);
	assert_int_equal(module__vaddr(mod, 0x123), 0x123);
}

static void count_free(void *counter)
{
	++*(int *)counter;
}

static void test_symbols_slot(void **state)
{
	struct module_id id = fixture__build_id(BUILD_A);
	struct modules *own = modules__new();
	struct module *mod = modules__open(own, &id, getpid(), 1, 2, "/none");
	int first = 0, second = 0;

	(void)state;
	assert_null(module__symbols(mod));
	module__set_symbols(mod, &first, count_free);
	module__set_symbols(mod, &second, count_free);
	assert_int_equal(first, 1);
	assert_ptr_equal(module__symbols(mod), &second);
	modules__free(own);
	assert_int_equal(second, 1);
}

static void test_descriptor_limit(void **state)
{
	struct rlimit old, low, now;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	low = old;
	low.rlim_cur = 64;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	modules__free(modules__new());
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &now), 0);
	assert_int_equal(now.rlim_cur, old.rlim_max);
	setrlimit(RLIMIT_NOFILE, &old);
}

static int file_of(const void *bytes, size_t size, off_t length)
{
	int fd = memfd_create("elf", MFD_CLOEXEC);

	assert_int_equal(pwrite(fd, bytes, size, 0), size);
	assert_int_equal(ftruncate(fd, length), 0);
	return fd;
}

/* 2^34 sections in a sparse file: libelf would make a descriptor of each. */
static void test_many_sections(void **state)
{
	struct {
		Elf64_Ehdr e;
		Elf64_Shdr s;
	} file = {.e = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
			.e_type = ET_DYN,
			.e_machine = EM_X86_64,
			.e_version = EV_CURRENT,
			.e_ehsize = sizeof(Elf64_Ehdr),
			.e_shentsize = sizeof(Elf64_Shdr),
			.e_shoff = sizeof(Elf64_Ehdr)},
		  .s = {.sh_size = 1ull << 34}};
	int fd = file_of(&file, sizeof(file), 1ll << 41);
	struct elf_head head;

	(void)state;
	alarm(10);
	elf_head__read(fd, &head);
	alarm(0);
	assert_false(head.valid);
	elf_head__clear(&head);
	close(fd);
}

/* Flipped bytes in the headers and notes; nothing may crash, hang or be read out of bounds. */
static void test_mutated(void **state)
{
	const char *path = fixture__compile("prog", fixture_library, BUILD_A, "-shared -fPIC");
	unsigned char good[32768], bad[sizeof(good)];
	int round, i, fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t size = read(fd, good, sizeof(good));
	unsigned int seed = 1;
	struct elf_head head;

	(void)state;
	close(fd);
	assert_true(size > 4096);
	alarm(120);
	for (round = 0; round < 3000; round++) {
		memcpy(bad, good, size);
		for (i = 0; i < 1 + round % 6; i++)
			bad[4 + rand_r(&seed) % 0x2fc] = rand_r(&seed);
		fd = file_of(bad, size, size);
		elf_head__read(fd, &head);
		assert_true(head.loads_n <= ELF_HEAD_MAX_LOADS && head.build_id_len <= 20);
		elf_head__vaddr(&head, rand_r(&seed));
		elf_head__clear(&head);
		close(fd);
	}
	alarm(0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(open_and_dedup),
		TEST(vaddr),
		TEST(vaddr_shared_page),
		TEST(deleted),
		TEST(named_deleted),
		TEST(newline_in_name),
		TEST(replaced),
		TEST(generation),
		TEST(not_regular),
		TEST(chroot),
		TEST(same_build_other_file),
		TEST(overwritten),
		TEST(overlay),
		TEST(vdso),
		TEST(symbols_slot),
		TEST(descriptor_limit),
		TEST(many_sections),
		TEST(mutated),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
