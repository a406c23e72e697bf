// SPDX-License-Identifier: GPL-2.0-or-later
#include "build_fixture.h"

#include "ksyms.h"

static struct ksyms *read_symbols(const char *kallsyms, const char *modules)
{
	fixture__text("kallsyms", kallsyms);
	fixture__text("modules", modules);
	return ksyms__new(fixture__path("kallsyms"), fixture__path("modules"));
}

static void check(const struct ksyms *ks, uint64_t addr, const char *want, const char *want_module)
{
	const char *module = NULL, *name = ksyms__find(ks, addr, &module);

	if (!want) {
		assert_null(name);
		return;
	}
	assert_non_null(name);
	assert_string_equal(name, want);
	assert_string_equal(module, want_module);
}

static const char kernel[] = "0000000000000000 A fixed_percpu_data\n"
			     "0000000000001000 A cpu_tss_rw\n"
			     "ffffffff81000000 T _stext\n"
			     "ffffffff81000000 T _text\n"
			     "ffffffff81000040 t do_work.isra.0\n"
			     "ffffffff81000100 T __x64_sys_read\n"
			     "ffffffff81000100 T ksys_read\n"
			     "ffffffff81000100 W a_weak_read\n"
			     "ffffffff81000100 t x\n"
			     "ffffffff81000200 D some_data\n"
			     "ffffffff81000300 T last_function\n"
			     "ffffffff81000400 T _etext\n"
			     "ffffffff81800000 T __init_code\n"
			     "ffffffffa0000000 t mod_fn\t[mymod]\n"
			     "ffffffffa0000100 t mod_last\t[mymod]\n"
			     "ffffffffc0000000 t bpf_prog_6deef7357e7b4530_sw\t[bpf]\n"
			     "ffffffffc0100000 t bpf_prog_aaaaaaaaaaaaaaaa\t[bpf]\n";

static const char modules[] = "mymod 512 0 - Live 0xffffffffa0000000 (OE)\n";

static void test_kernel(void **state)
{
	struct ksyms *ks = read_symbols(kernel, modules);

	(void)state;
	check(ks, 0xffffffff81000040, "do_work.isra.0", "[kernel]");
	check(ks, 0xffffffff810000ff, "do_work.isra.0", "[kernel]");
	/* global before weak before local, then fewest underscores */
	check(ks, 0xffffffff81000100, "ksys_read", "[kernel]");
	check(ks, 0xffffffff810001ff, "ksys_read", "[kernel]");
	/* ends at a symbol that is no function */
	check(ks, 0xffffffff81000200, NULL, NULL);
	check(ks, 0xffffffff810003ff, "last_function", "[kernel]");
	/* beyond the text */
	check(ks, 0xffffffff81000400, NULL, NULL);
	check(ks, 0xffffffff81800000, NULL, NULL);
	check(ks, 0xffffffff80ffffff, NULL, NULL);
	check(ks, 0, NULL, NULL);
	check(ks, UINT64_MAX, NULL, NULL);
	ksyms__free(ks);
}

static void test_modules_and_bpf(void **state)
{
	struct ksyms *ks = read_symbols(kernel, modules);

	(void)state;
	check(ks, 0xffffffffa0000000, "mod_fn", "[mymod]");
	check(ks, 0xffffffffa00000ff, "mod_fn", "[mymod]");
	check(ks, 0xffffffffa00001ff, "mod_last", "[mymod]");
	/* beyond the module's 512 bytes */
	check(ks, 0xffffffffa0000200, NULL, NULL);
	check(ks, 0xffffffffc0000010, "bpf_prog_6deef7357e7b4530_sw", "[bpf]");
	/* far from any program's start */
	check(ks, 0xffffffffc0080000, NULL, NULL);
	check(ks, 0xffffffffc0100000, "bpf_prog_aaaaaaaaaaaaaaaa", "[bpf]");
	check(ks, 0xffffffffc0200000, NULL, NULL);
	ksyms__free(ks);
}

/* Runs it with stderr in a file, which it returns. */
static const char *messages_of(const char *kallsyms)
{
	static char text[1024];
	int saved = dup(2), fd = open(fixture__path("stderr"), O_RDWR | O_CREAT | O_TRUNC, 0600);
	struct ksyms *ks;
	ssize_t n;

	dup2(fd, 2);
	ks = read_symbols(kallsyms, "");
	dup2(saved, 2);
	close(saved);
	check(ks, 0, NULL, NULL);
	check(ks, 0xffffffff81000000, NULL, NULL);
	ksyms__free(ks);
	n = pread(fd, text, sizeof(text) - 1, 0);
	close(fd);
	text[n > 0 ? n : 0] = 0;
	return text;
}

static void test_restricted(void **state)
{
	const char *text = messages_of("0000000000000000 T _stext\n"
				       "0000000000000000 t one\n0000000000000000 t two\t[m]\n");

	(void)state;
	assert_non_null(strstr(text, "kernel.kptr_restrict"));
	assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
}

static void test_garbage(void **state)
{
	char big[3000];
	struct ksyms *ks;

	(void)state;
	assert_string_equal(messages_of(""), "");
	memset(big, 'x', sizeof(big));
	memcpy(big, "ffffffff81000000 T ", 19);
	big[sizeof(big) - 1] = 0;
	ks = read_symbols(big, "\n\nx 0x\n 1 2 3\n");
	ksyms__free(ks);
	ks = read_symbols("zz\n\nffffffff81000000\nffffffff81000000 T\nffffffff81000010 T \n"
			  "ffffffff81000020 T ok\n",
			  "");
	check(ks, 0xffffffff81000010, NULL, NULL);
	check(ks, 0xffffffff81000021, "ok", "[kernel]");
	ksyms__free(ks);
}

/* The running kernel: what it says begins somewhere is found there, and in its middle. */
static void test_running_kernel(void **state)
{
	struct ksyms *ks;
	char line[1024], name[600], type;
	unsigned long long addr = 0;
	FILE *file = fopen("/proc/kallsyms", "r");
	const char *module;

	(void)state;
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "%llx %c %599s", &addr, &type, name) == 3 &&
		    !strcmp(name, "vfs_read"))
			break;
	if (file)
		fclose(file);
	if (!addr || strcmp(name, "vfs_read"))
		skip();
	ks = ksyms__new(NULL, NULL);
	check(ks, addr, "vfs_read", "[kernel]");
	check(ks, addr + 4, "vfs_read", "[kernel]");
	module = ksyms__find(ks, addr - 1, &module);
	assert_true(!module || strcmp(module, "vfs_read"));
	ksyms__free(ks);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kernel),	       cmocka_unit_test(test_modules_and_bpf),
		cmocka_unit_test(test_restricted),     cmocka_unit_test(test_garbage),
		cmocka_unit_test(test_running_kernel),
	};

	return cmocka_run_group_tests(tests, fixture__setup_dir, fixture__teardown_dir);
}
