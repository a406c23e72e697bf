// SPDX-License-Identifier: GPL-2.0-or-later
#include "build_fixture.h"

#include <lzma.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include "usyms.h"

/* Labels in the code say where an address with known inlining and line lies. */
static const char inline_source[] =
	"#line 100 \"inner.h\"\n"
	"static inline __attribute__((always_inline)) int inner(int x)\n"
	"{\n"
	"\tasm volatile(\"in_inner: nop\" : \"+r\"(x));\n"
	"\treturn x * 3;\n"
	"}\n"
	"#line 200 \"middle.h\"\n"
	"static inline __attribute__((always_inline)) int middle(int x)\n"
	"{\n"
	"\tasm volatile(\"in_middle: nop\" : \"+r\"(x));\n"
	"\tx += inner(x);\n"
	"\treturn x;\n"
	"}\n"
	"#line 300 \"main.c\"\n"
	"__attribute__((noinline)) int outer(int x)\n"
	"{\n"
	"\tasm volatile(\"in_outer: nop\" : \"+r\"(x));\n"
	"\tx ^= middle(x);\n"
	"\treturn x;\n"
	"}\n"
	"int main(int argc, char **argv)\n"
	"{\n"
	"\t(void)argv;\n"
	"\treturn outer(argc);\n"
	"}\n";

static const char asm_source[] =
	".text\n"
	".globl sized\n.type sized,@function\n"
	"sized: nop; nop\nlabel_inside: nop; nop\n.size sized, .-sized\n"
	".skip 4, 0xcc\n"
	".globl gap\n.type gap,@function\ngap: nop\n.size gap, 1\n"
	/* no size: up to the next symbol */
	".globl bare\nbare: nop; nop; nop\n"
	".globl bare_next\n.type bare_next,@function\nbare_next: nop\n"
	/* no size, and then a function whose symbol is missing but that has unwind information */
	".globl bare_last\nbare_last: nop\n"
	".Lhidden: .cfi_startproc\nnop; nop\n.cfi_endproc\n"
	/* one address, many names */
	".globl __many\n.globl many_long_name\n.globl many_b\n.globl many_a\n.weak a\n"
	".type __many,@function\n.type many_long_name,@function\n.type many_a,@function\n"
	".type many_b,@function\n.type a,@function\n.type b,@function\n"
	"__many: many_long_name: many_b: many_a: a: b: nop; nop; nop; nop\n"
	".size __many,4\n.size many_long_name,4\n.size many_a,4\n.size many_b,4\n.size a,4\n"
	".size b,4\n"
	/* a function inside another */
	".globl big\n.type big,@function\n.globl small\n.type small,@function\n"
	"big: nop; nop\nsmall: nop; nop\n.size small, 2\nnop; nop\n.size big, .-big\n"
	/* a constant and data that look like addresses */
	".globl constant\n.set constant, 0x1000\n"
	".data\n.globl data\n.type data,@object\ndata: .quad 0\n.size data,8\n"
	".section .note.GNU-stack,\"\",@progbits\n";

struct table {
	struct usyms *us;
	int fd;
};

static struct table open_table_as(const char *name, const char *path, pid_t pid)
{
	struct table t = {.fd = fixture__open(name)};
	struct usyms_source source = {.fd = t.fd, .path = path, .pid = pid};

	t.us = usyms__new(&source);
	return t;
}

static struct table open_table(const char *name)
{
	return open_table_as(name, fixture__path(name), getpid());
}

static void close_table(struct table *t)
{
	usyms__free(t->us);
	close(t->fd);
}

static void check_frame(const struct source_frame *frame, const char *name, const char *file,
			unsigned line, bool inlined)
{
	const char *base;

	assert_non_null(frame->name);
	assert_string_equal(frame->name, name);
	assert_int_equal(frame->inlined, inlined);
	assert_int_equal(frame->line, line);
	if (!file) {
		assert_null(frame->file);
		return;
	}
	assert_non_null(frame->file);
	base = strrchr(frame->file, '/');
	assert_string_equal(base ? base + 1 : frame->file, file);
}

/* NULL: no name. Only the outermost frame. */
static void check_name(struct usyms *us, uint64_t addr, const char *want)
{
	struct source_frame frame;
	int n = usyms__find(us, addr, &frame, 1);

	if (!want) {
		assert_true(!n || !frame.name);
		return;
	}
	assert_int_equal(n, 1);
	assert_non_null(frame.name);
	assert_string_equal(frame.name, want);
}

static void check_inlining(const char *name)
{
	struct source_frame frames[8];
	struct table t = open_table(name);

	assert_int_equal(usyms__find(t.us, fixture__address(name, "in_inner"), frames, 8), 3);
	check_frame(&frames[0], "inner", "inner.h", 102, true);
	check_frame(&frames[1], "middle", "middle.h", 203, true);
	check_frame(&frames[2], "outer", "main.c", 303, false);

	assert_int_equal(usyms__find(t.us, fixture__address(name, "in_middle"), frames, 8), 2);
	check_frame(&frames[0], "middle", "middle.h", 202, true);
	check_frame(&frames[1], "outer", "main.c", 303, false);

	assert_int_equal(usyms__find(t.us, fixture__address(name, "in_outer"), frames, 8), 1);
	check_frame(&frames[0], "outer", "main.c", 302, false);

	/* too little room: the innermost and the function itself */
	assert_int_equal(usyms__find(t.us, fixture__address(name, "in_inner"), frames, 2), 2);
	check_frame(&frames[0], "inner", "inner.h", 102, true);
	check_frame(&frames[1], "outer", "main.c", 303, false);
	assert_int_equal(usyms__find(t.us, fixture__address(name, "in_inner"), frames, 1), 1);
	check_frame(&frames[0], "outer", "main.c", 303, false);
	close_table(&t);
}

static void test_inlining(void **state)
{
	static const char *const variants[] = {
		"-gdwarf-4",
		"-gdwarf-5",
		"-gdwarf-5 -gz",
		"-gdwarf-4 -static",
		"-g -no-pie",
		"-g -flto",
		"-g -ffunction-sections -Wl,--gc-sections",
		"-gdwarf-5 -Wl,-Ttext-segment=0x10000000 -no-pie",
		"-g -gno-as-loc-support -fno-asynchronous-unwind-tables",
	};

	(void)state;
	fixture__text("inline.c", inline_source);
	for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++) {
		fixture__run("gcc -O2 %s -o inline inline.c", variants[i]);
		check_inlining("inline");
	}
}

/* Without .debug_aranges, as clang has it. */
static void test_no_aranges(void **state)
{
	(void)state;
	fixture__text("inline.c", inline_source);
	fixture__run("gcc -O2 -g -o with inline.c && "
		     "objcopy --remove-section .debug_aranges with without");
	check_inlining("without");
}

static void test_no_dwarf(void **state)
{
	struct source_frame frames[4];
	struct table t;

	(void)state;
	fixture__text("inline.c", inline_source);
	fixture__run("gcc -O2 -o plain inline.c");
	t = open_table("plain");
	assert_int_equal(usyms__find(t.us, fixture__address("plain", "in_inner"), frames, 4), 1);
	check_frame(&frames[0], "outer", NULL, 0, false);
	close_table(&t);
}

/* The .dwo file is not read: names from symbols, lines from the skeleton. */
static void test_split_dwarf(void **state)
{
	struct source_frame frames[4];
	struct table t;

	(void)state;
	fixture__text("inline.c", inline_source);
	fixture__run("gcc -O2 -g -gsplit-dwarf -o split inline.c");
	t = open_table("split");
	assert_int_equal(usyms__find(t.us, fixture__address("split", "in_outer"), frames, 4), 1);
	check_frame(&frames[0], "outer", "main.c", 302, false);
	close_table(&t);
}

static void build_asm(void)
{
	fixture__text("asm.S", asm_source);
	fixture__run("gcc -nostdlib -static -Wl,-e,sized -o asm asm.S");
}

static void test_sizes(void **state)
{
	uint64_t sized, gap, bare;
	struct table t;

	(void)state;
	build_asm();
	t = open_table("asm");
	sized = fixture__address("asm", "sized");
	gap = fixture__address("asm", "gap");
	bare = fixture__address("asm", "bare");
	check_name(t.us, sized - 1, NULL);
	check_name(t.us, sized, "sized");
	/* a label in a function is not a function */
	check_name(t.us, sized + 2, "sized");
	check_name(t.us, sized + 3, "sized");
	check_name(t.us, sized + 4, NULL);
	check_name(t.us, gap - 1, NULL);
	check_name(t.us, gap, "gap");
	check_name(t.us, bare, "bare");
	check_name(t.us, bare + 2, "bare");
	check_name(t.us, fixture__address("asm", "bare_next"), "bare_next");
	check_name(t.us, fixture__address("asm", "bare_last"), "bare_last");
	check_name(t.us, fixture__address("asm", "bare_last") + 1, NULL);
	check_name(t.us, fixture__address("asm", "big"), "big");
	check_name(t.us, fixture__address("asm", "small") + 1, "small");
	check_name(t.us, fixture__address("asm", "small") + 2, "big");
	check_name(t.us, fixture__address("asm", "small") + 3, "big");
	check_name(t.us, fixture__address("asm", "small") + 4, NULL);
	check_name(t.us, fixture__address("asm", "data"), NULL);
	check_name(t.us, 0x1000, NULL);
	check_name(t.us, 0, NULL);
	check_name(t.us, UINT64_MAX, NULL);
	close_table(&t);
}

static void test_aliases(void **state)
{
	uint64_t addr;
	struct table t;

	(void)state;
	build_asm();
	addr = fixture__address("asm", "__many");
	t = open_table("asm");
	check_name(t.us, addr + 3, "many_a");
	close_table(&t);
	/* without the better ones the next comes up */
	fixture__run("objcopy -N many_a -N many_b -N many_long_name asm asm1 && "
		     "objcopy -N __many asm1 asm2 && objcopy -N a asm2 asm3");
	t = open_table("asm1");
	check_name(t.us, addr + 3, "__many");
	close_table(&t);
	t = open_table("asm2");
	check_name(t.us, addr + 3, "a");
	close_table(&t);
	t = open_table("asm3");
	check_name(t.us, addr + 3, "b");
	close_table(&t);
}

/* In .dynsym there are only some of the symbols: one without size says nothing of what follows. */
static void test_stripped_asm(void **state)
{
	struct table t;
	uint64_t bare;

	(void)state;
	fixture__text("asm.S", asm_source);
	fixture__run("gcc -nostdlib -shared -o lib.so asm.S && strip -o stripped.so lib.so");
	bare = fixture__address("lib.so", "bare");
	t = open_table("lib.so");
	check_name(t.us, bare + 1, "bare");
	close_table(&t);
	t = open_table("stripped.so");
	check_name(t.us, bare, "bare");
	check_name(t.us, bare + 1, NULL);
	check_name(t.us, fixture__address("lib.so", "sized") + 3, "sized");
	check_name(t.us, fixture__address("lib.so", "sized") + 4, NULL);
	close_table(&t);
}

static const char plt_source[] =
	"#include <stdlib.h>\n"
	"#include <stdio.h>\n"
	"int main(int c, char **v) { (void)v; return rand() + puts(\"\") + c; }\n";

/* The slot that the stub reads decides, whatever layout the linker chose. */
static void test_plt(void **state)
{
	static const char *const variants[] = {"-fcf-protection=none",
					       "-fcf-protection=full -Wl,-z,ibtplt", "-Wl,-z,now",
					       "-no-pie"};
	struct source_frame frame;

	(void)state;
#ifndef __x86_64__
	skip();
#endif
	fixture__text("plt.c", plt_source);
	for (size_t i = 0; i < 4; i++) {
		unsigned long addr;
		struct table t;
		FILE *file;

		fixture__run("gcc -O1 %s -o plt plt.c && objdump -d plt | "
			     "sed -n 's/^\\([0-9a-f]*\\) <rand@plt>:/\\1/p' > plt.txt",
			     variants[i]);
		file = fopen(fixture__path("plt.txt"), "r");
		assert_int_equal(fscanf(file, "%lx", &addr), 1);
		fclose(file);
		t = open_table("plt");
		assert_int_equal(usyms__find(t.us, addr + 4, &frame, 1), 1);
		assert_true(frame.plt);
		assert_true(!strcmp(frame.name, "rand") || !strncmp(frame.name, "rand@", 5));
		close_table(&t);
	}
}

static void build_linked(const char *id)
{
	fixture__text("inline.c", inline_source);
	fixture__run("gcc -O2 -g -Wl,--build-id=%s -o full inline.c && "
		     "objcopy --only-keep-debug full debug && strip -o stripped full && "
		     "objcopy --add-gnu-debuglink=debug stripped",
		     id);
}

/* Whether the stripped program's names and lines were found. */
static bool found_debug(pid_t pid, const char *path)
{
	struct source_frame frames[4];
	struct table t = open_table_as("stripped", path, pid);
	int n = usyms__find(t.us, fixture__address("full", "in_inner"), frames, 4);
	bool found = n == 3 && !strcmp(frames[2].name, "outer") && frames[0].line == 102;

	assert_true(found || !n || !frames[n - 1].name);
	close_table(&t);
	return found;
}

static void test_debuglink(void **state)
{
	(void)state;
	build_linked("none");
	assert_true(found_debug(getpid(), fixture__path("stripped")));
	fixture__run("mkdir -p .debug && mv debug .debug/");
	assert_true(found_debug(getpid(), fixture__path("stripped")));
	/* checksum */
	fixture__run("printf x >> .debug/debug");
	assert_false(found_debug(getpid(), fixture__path("stripped")));
	/* no FIFO is waited for */
	fixture__run("rm .debug/debug && mkfifo .debug/debug debug");
	alarm(5);
	assert_false(found_debug(getpid(), fixture__path("stripped")));
	alarm(0);
	fixture__run("rm -r .debug debug");
}

static void test_debuglink_build_id(void **state)
{
	(void)state;
	build_linked("0x1234567890abcdef1234567890abcdef12345678");
	assert_true(found_debug(getpid(), fixture__path("stripped")));
	/* the same program with another build ID */
	fixture__run("gcc -O2 -g -Wl,--build-id=0x99 -o other inline.c && "
		     "objcopy --only-keep-debug other debug");
	assert_false(found_debug(getpid(), fixture__path("stripped")));
	fixture__run("rm debug");
}

/* The debug file lies in the root of the process, not in ours. */
static void test_build_id_in_other_root(void **state)
{
	int ready[2];
	char c;
	pid_t pid;

	(void)state;
	if (geteuid())
		skip();
	build_linked("0xfedcba9876543210");
	fixture__run(
		"mkdir -p root/usr/lib/debug/.build-id/fe root/real && mv debug root/real/d && "
		"ln -s /real/d root/usr/lib/debug/.build-id/fe/dcba9876543210.debug");
	assert_false(found_debug(getpid(), "/app/stripped"));
	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (chroot(fixture__path("root")) || write(ready[1], "x", 1) != 1)
			_exit(1);
		pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	assert_true(found_debug(pid, "/app/stripped"));
	fixture__run("gcc -O2 -g -Wl,--build-id=0x99 -o other inline.c && "
		     "objcopy --only-keep-debug other root/real/d");
	assert_false(found_debug(pid, "/app/stripped"));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* A "server" in a directory; asked only if allowed to. */
static void test_debuginfod(void **state)
{
	struct usyms_source source = {.path = "/app/stripped", .pid = getpid()};
	struct source_frame frames[4];
	char urls[128];

	(void)state;
	build_linked("0x0123456789abcdef");
	fixture__run("mkdir -p server/buildid/0123456789abcdef cache && "
		     "mv debug server/buildid/0123456789abcdef/debuginfo");
	snprintf(urls, sizeof(urls), "file://%s", fixture__path("server"));
	setenv("DEBUGINFOD_URLS", urls, 1);
	setenv("DEBUGINFOD_CACHE_PATH", fixture__path("cache"), 1);
	source.fd = fixture__open("stripped");
	for (int allowed = 0; allowed < 2; allowed++) {
		struct usyms *us;
		int n;

		source.debuginfod = allowed;
		us = usyms__new(&source);
		n = usyms__find(us, fixture__address("full", "in_inner"), frames, 4);
		assert_int_equal(n == 3 && !strcmp(frames[2].name, "outer"), allowed);
		usyms__free(us);
		if (!allowed)
			fixture__run("test -z \"$(ls cache)\"");
	}
	close(source.fd);
	unsetenv("DEBUGINFOD_URLS");
}

static void pack(const char *from, const char *to)
{
	static uint8_t in[4 << 20], out[4 << 20];
	FILE *file = fopen(fixture__path(from), "r");
	size_t len = fread(in, 1, sizeof(in), file), packed = 0;

	fclose(file);
	assert_int_equal(lzma_easy_buffer_encode(6, LZMA_CHECK_CRC64, NULL, in, len, out, &packed,
						 sizeof(out)),
			 LZMA_OK);
	fixture__write(to, out, packed);
}

static void test_mini_debug_information(void **state)
{
	uint64_t outer;
	struct table t;

	(void)state;
	fixture__text("inline.c", inline_source);
	/* as gdb's manual describes it, "MiniDebugInfo" */
	fixture__run("gcc -O2 -g -o full inline.c && objcopy --only-keep-debug full debug && "
		     "objcopy -S --remove-section .comment --keep-symbol=outer debug mini && "
		     "strip -o stripped full");
	pack("mini", "mini.xz");
	outer = fixture__address("full", "outer");
	t = open_table("stripped");
	check_name(t.us, outer, NULL);
	close_table(&t);
	fixture__run("objcopy --add-section .gnu_debugdata=mini.xz stripped with");
	t = open_table("with");
	check_name(t.us, outer, "outer");
	check_name(t.us, fixture__address("full", "in_inner"), "outer");
	check_name(t.us, fixture__address("full", "main"), NULL);
	close_table(&t);
	/* garbage, and something that unpacks to far too much */
	fixture__run("objcopy --add-section .gnu_debugdata=mini stripped with");
	t = open_table("with");
	check_name(t.us, outer, NULL);
	close_table(&t);
	fixture__run("truncate -s 300M zeros && xz -1 -c zeros > zeros.xz && rm zeros && "
		     "objcopy --add-section .gnu_debugdata=zeros.xz stripped with");
	t = open_table("with");
	check_name(t.us, outer, NULL);
	close_table(&t);
}

/* Cut short after its symbols were read, before its DWARF was: SIGBUS, which must not kill us. */
static void test_truncated(void **state)
{
	struct source_frame frames[4];
	uint64_t addr;
	struct table t;

	(void)state;
	fixture__text("inline.c", inline_source);
	fixture__run("gcc -O2 -g -static -o victim inline.c && cp victim copy");
	addr = fixture__address("copy", "in_inner");
	t = open_table("victim");
	assert_int_equal(usyms__find(t.us, 1, frames, 4), 0);
	assert_int_equal(truncate(fixture__path("victim"), 0), 0);
	assert_int_equal(usyms__find(t.us, addr, frames, 4), 0);
	assert_int_equal(usyms__find(t.us, addr, frames, 4), 0);
	close_table(&t);
	t = open_table("victim");
	assert_int_equal(usyms__find(t.us, addr, frames, 4), 0);
	close_table(&t);
}

/* Damaged files: any answer will do, in finite time. */
static void test_damaged(void **state)
{
	static unsigned char good[1 << 20], bad[1 << 20];
	struct source_frame frames[64];
	struct usyms_source source = {.fd = -1, .image = bad, .path = "damaged"};
	size_t len;
	FILE *file;

	(void)state;
	fixture__text("inline.c", inline_source);
	fixture__run("gcc -O2 -g -o full inline.c");
	file = fopen(fixture__path("full"), "r");
	len = fread(good, 1, sizeof(good), file);
	fclose(file);
	srand(7);
	for (int round = 0; round < 400; round++) {
		struct usyms *us;

		memcpy(bad, good, len);
		for (int i = 0; i < 1 + round / 4; i++)
			bad[rand() % len] = rand();
		source.image_size = round % 5 ? len : (size_t)rand() % len;
		us = usyms__new(&source);
		for (uint64_t addr = 0x1000; addr < 0x1300; addr += 7)
			usyms__find(us, addr, frames, 64);
		usyms__free(us);
	}
}

static void test_no_file(void **state)
{
	struct usyms_source source = {.fd = -1, .path = "/nowhere"};
	struct usyms *us = usyms__new(&source);
	struct source_frame frame;
	struct table t;

	(void)state;
	assert_int_equal(usyms__find(us, 0x1000, &frame, 1), 0);
	usyms__free(us);
	fixture__text("text", "no ELF file\n");
	t = open_table("text");
	assert_int_equal(usyms__find(t.us, 0, &frame, 1), 0);
	close_table(&t);
}

/* 100,000 symbols and addresses, without DWARF. */
static void test_speed(void **state)
{
	struct source_frame frame;
	char name[16];
	struct table t;
	uint64_t base;
	clock_t start;
	FILE *file = fopen(fixture__path("many.S"), "w");

	(void)state;
	fprintf(file, ".text\n");
	for (int i = 0; i < 100000; i++)
		fprintf(file, ".globl f%d\n.type f%d,@function\nf%d: .skip 8, 0x90\n.size f%d,8\n",
			i, i, i, i);
	fprintf(file, ".section .note.GNU-stack,\"\",@progbits\n");
	fclose(file);
	fixture__run("gcc -nostdlib -static -Wl,-e,f0 -o many many.S");
	base = fixture__address("many", "f0");
	t = open_table("many");
	start = clock();
	for (int i = 0; i < 100000; i++) {
		assert_int_equal(usyms__find(t.us, base + 8 * i + 3, &frame, 1), 1);
		snprintf(name, sizeof(name), "f%d", i);
		assert_string_equal(frame.name, name);
	}
	assert_true(clock() - start < 2 * CLOCKS_PER_SEC);
	close_table(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_inlining),
		cmocka_unit_test(test_no_aranges),
		cmocka_unit_test(test_no_dwarf),
		cmocka_unit_test(test_split_dwarf),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_aliases),
		cmocka_unit_test(test_stripped_asm),
		cmocka_unit_test(test_plt),
		cmocka_unit_test(test_debuglink),
		cmocka_unit_test(test_debuglink_build_id),
		cmocka_unit_test(test_build_id_in_other_root),
		cmocka_unit_test(test_debuginfod),
		cmocka_unit_test(test_mini_debug_information),
		cmocka_unit_test(test_truncated),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_no_file),
		cmocka_unit_test(test_speed),
	};

	return cmocka_run_group_tests(tests, fixture__setup_dir, fixture__teardown_dir);
}
