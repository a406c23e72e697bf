// SPDX-License-Identifier: GPL-2.0-or-later
#include "build_fixture.h"

#include <inttypes.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include "module.h"
#include "procmap.h"
#include "symbolize.h"

/*
 * The subject prints addresses of its own and waits. 'noreturn_caller' ends with its call, so the
 * return address is the first byte of 'next_function'.
 */
static const char source[] =
	"#include <stdio.h>\n"
	"#include <sys/mman.h>\n"
	"#include <unistd.h>\n"
	"extern \"C\" void noreturn_caller();\n"
	"extern \"C\" void next_function();\n"
	"asm(\".text\\n.globl noreturn_caller\\n.type noreturn_caller,@function\\n\"\n"
	"    \"noreturn_caller: call abort@plt\\n.size noreturn_caller, .-noreturn_caller\\n\"\n"
	"    \".globl next_function\\n.type next_function,@function\\n\"\n"
	"    \"next_function: nop; nop\\n.size next_function, 2\\n.skip 6, 0xcc\\n\");\n"
	"extern \"C\" void after_call();\n"
	"namespace app {\n"
	"static inline __attribute__((always_inline)) int twice(int x)\n"
	"{\n"
	"	asm volatile(\"after_call: nop\" : \"+r\"(x));\n"
	"	return 2 * x;\n"
	"}\n"
	"struct worker {\n"
	"	__attribute__((noipa)) int run(int x) { return twice(x) + 1; }\n"
	"};\n"
	"}\n"
	"int main(int argc, char **)\n"
	"{\n"
	"	app::worker w;\n"
	"	void *jit = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,\n"
	"			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);\n"
	"	if (argc > 100)\n"
	"		return w.run(argc);\n"
	"	printf(\"%p %p %p %p\\n\", (void *)&noreturn_caller, (void *)&next_function,\n"
	"	       (void *)&after_call, jit);\n"
	"	fflush(stdout);\n"
	"	pause();\n"
	"}\n";

struct subject {
	pid_t pid;
	uint64_t noreturn_caller, next_function, after_call, jit;
	struct modules *mods;
	struct procmaps *pm;
	struct symbolizer *sym;
};

static void build(const char *flags)
{
	fixture__text("subject.cc", source);
	fixture__run("g++ -O2 %s -o subject subject.cc", flags);
}

static void start(struct subject *s, const char *program)
{
	int out[2];
	FILE *file;

	assert_int_equal(pipe(out), 0);
	s->pid = fork();
	if (!s->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(out[1], 1);
		close(out[0]);
		close(out[1]);
		execl(fixture__path(program), program, NULL);
		_exit(127);
	}
	close(out[1]);
	file = fdopen(out[0], "r");
	assert_int_equal(fscanf(file, "%" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64,
				&s->noreturn_caller, &s->next_function, &s->after_call, &s->jit),
			 4);
	fclose(file);
}

static void begin(struct subject *s, const char *program, const struct symbolizer_opts *opts)
{
	start(s, program);
	s->mods = modules__new();
	s->pm = procmaps__new(s->mods);
	assert_int_equal(procmaps__scan(s->pm, s->pid, 1), 0);
	s->sym = symbolizer__new(opts, s->pm);
}

static void kill_subject(struct subject *s)
{
	if (s->pid) {
		kill(s->pid, SIGKILL);
		waitpid(s->pid, NULL, 0);
	}
	s->pid = 0;
}

static void end(struct subject *s)
{
	kill_subject(s);
	symbolizer__free(s->sym);
	procmaps__free(s->pm);
	modules__free(s->mods);
}

static int find(struct subject *s, uint64_t addr, bool return_address, struct frame *frames)
{
	return symbolizer__user(s->sym, s->pid, 2, addr, return_address, frames, 8);
}

static void check_func(struct subject *s, uint64_t addr, bool return_address, const char *want)
{
	struct frame frames[8];

	assert_int_equal(find(s, addr, return_address, frames), 1);
	assert_string_equal(frames[0].func, want);
}

static void check_subject(const char *flags)
{
	struct symbolizer_opts opts = {0};
	struct subject s;
	struct frame frames[8];

	build(flags);
	begin(&s, "subject", &opts);
	check_func(&s, s.next_function, true, "noreturn_caller");
	check_func(&s, s.next_function, false, "next_function");
	check_func(&s, s.noreturn_caller, false, "noreturn_caller");
	assert_int_equal(find(&s, s.after_call, false, frames), 2);
	assert_string_equal(frames[0].func, "twice");
	assert_true(frames[0].inlined);
	assert_int_equal(frames[0].line, 14);
	assert_string_equal(frames[1].func, "app::worker::run(int)");
	assert_false(frames[1].inlined);
	assert_int_equal(frames[1].line, 18);
	assert_string_equal(frames[1].module, fixture__path("subject"));
	assert_int_equal(frames[1].kind, FRAME_USER);
	assert_int_equal(frames[1].addr, fixture__address("subject", "after_call"));
	assert_non_null(frames[1].build_id);
	assert_int_equal(strlen(frames[1].build_id), 40);
	assert_non_null(strstr(frames[1].file, "subject.cc"));
	end(&s);
}

static void test_program(void **state)
{
	(void)state;
	check_subject("-g");
	/* addresses that differ from offsets in the file, by more than the load address */
	check_subject("-g -no-pie");
	check_subject("-g -no-pie -Wl,-Ttext=0x7654000");
	check_subject("-g -Wl,-Ttext=0x123000");
	check_subject("-g -Wl,-z,separate-code -Wl,-z,max-page-size=0x200000");
	check_subject("-g -Wl,-z,noseparate-code");
	check_subject("-g -static -Wl,--build-id");
	check_subject("-g -static-pie");
}

static void test_no_inline(void **state)
{
	struct symbolizer_opts opts = {.no_inline = true};
	struct subject s;
	struct frame frames[8];

	(void)state;
	build("-g");
	begin(&s, "subject", &opts);
	assert_int_equal(find(&s, s.after_call, false, frames), 1);
	assert_string_equal(frames[0].func, "app::worker::run(int)");
	assert_int_equal(frames[0].line, 18);
	end(&s);
}

/* Not the nearest name, but the module and the address in it. */
static void test_unnamed(void **state)
{
	struct symbolizer_opts opts = {0};
	char want[64];
	struct subject s;
	struct frame frame;

	(void)state;
	build("-g");
	begin(&s, "subject", &opts);
	snprintf(want, sizeof(want), "subject+0x%" PRIx64,
		 fixture__address("subject", "next_function") + 4);
	check_func(&s, s.next_function + 4, false, want);
	/* the address shown is that of the stack, not the one looked up */
	check_func(&s, s.next_function + 4, true, want);
	check_func(&s, 0, false, "[unknown]");
	check_func(&s, 0, true, "[unknown]");
	check_func(&s, UINT64_MAX, true, "[unknown]");
	assert_int_equal(symbolizer__user(s.sym, s.pid, 2, 0x10, false, &frame, 1), 1);
	assert_int_equal(frame.addr, 0x10);
	assert_null(frame.module);
	end(&s);

	fixture__run("strip subject");
	begin(&s, "subject", &opts);
	check_func(&s, s.next_function + 4, false, want);
	end(&s);
}

/* Symbols are still found when the process is gone and its file replaced. */
static void test_gone(void **state)
{
	struct symbolizer_opts opts = {0};
	struct subject s;
	pid_t pid;

	(void)state;
	build("-g");
	begin(&s, "subject", &opts);
	pid = s.pid;
	kill_subject(&s);
	fixture__run("rm subject && echo other > subject");
	s.pid = pid;
	check_func(&s, s.next_function, false, "next_function");
	s.pid = 0;
	end(&s);
}

static void write_map(pid_t pid, const char *fmt, uint64_t addr)
{
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)pid);
	file = fopen(path, "w");
	assert_non_null(file);
	fprintf(file, "%" PRIx64 " 20 %s\n", addr, fmt);
	fclose(file);
}

static void test_jit(void **state)
{
	struct symbolizer_opts opts = {0};
	struct frame frames[8];
	char path[64];
	struct subject s;

	(void)state;
	build("");
	begin(&s, "subject", &opts);
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)s.pid);
	check_func(&s, s.jit, false, "[unknown]");
	symbolizer__read_perf_map(s.sym, s.pid); /* none yet */
	write_map(s.pid, "LazyCompile:*handle \x1b[31m/app.js:1", s.jit);
	symbolizer__read_perf_map(s.sym, s.pid);
	assert_int_equal(find(&s, s.jit + 0x20, true, frames), 1);
	assert_int_equal(frames[0].kind, FRAME_JIT);
	assert_int_equal(frames[0].addr, s.jit + 0x20);
	/* no escape sequence gets through */
	assert_string_equal(frames[0].func, "LazyCompile:*handle ?[31m/app.js:1");
	check_func(&s, s.jit + 0x20, false, "[unknown]");
	write_map(s.pid, "later", s.jit + 0x20);
	symbolizer__read_perf_map(s.sym, s.pid);
	check_func(&s, s.jit + 0x20, false, "later");
	assert_int_equal(find(&s, s.jit, false, frames), 1);
	assert_int_equal(frames[0].kind, FRAME_JIT);
	unlink(path);
	end(&s);
}

static void test_vdso(void **state)
{
	struct symbolizer_opts opts = {0};
	struct modules *mods = modules__new();
	struct procmaps *pm = procmaps__new(mods);
	struct symbolizer *sym = symbolizer__new(&opts, pm);
	uint64_t base = getauxval(AT_SYSINFO_EHDR);
	struct frame frame;
	bool found = false;

	(void)state;
	if (!base)
		skip();
	assert_int_equal(procmaps__scan(pm, getpid(), 1), 0);
	for (uint64_t addr = base; addr < base + 4096; addr++) {
		assert_int_equal(symbolizer__user(sym, getpid(), 2, addr, false, &frame, 1), 1);
		assert_non_null(frame.module);
		assert_string_equal(frame.module, "[vdso]");
		found |= !!strstr(frame.func, "clock_gettime");
	}
	assert_true(found);
	symbolizer__free(sym);
	procmaps__free(pm);
	modules__free(mods);
}

static void test_kernel(void **state)
{
	struct symbolizer_opts opts = {0};
	struct symbolizer *sym = symbolizer__new(&opts, NULL);
	struct frame frame;

	(void)state;
	assert_int_equal(symbolizer__kernel(sym, 0x10, false, &frame), 1);
	assert_string_equal(frame.func, "[unknown]");
	assert_int_equal(frame.kind, FRAME_KERNEL);
	assert_string_equal(frame.module, "[kernel]");
	assert_int_equal(frame.addr, 0x10);
	symbolizer__free(sym);
}

/* Tables outlive the symbolizer that made them, and serve the next one. */
static void test_two_symbolizers(void **state)
{
	struct symbolizer_opts opts = {0};
	struct subject s;

	(void)state;
	build("-g");
	begin(&s, "subject", &opts);
	check_func(&s, s.next_function, false, "next_function");
	symbolizer__free(s.sym);
	s.sym = symbolizer__new(&opts, s.pm);
	check_func(&s, s.next_function, false, "next_function");
	end(&s);
}

/* 100,000 different addresses of libc. */
static void test_speed(void **state)
{
	struct symbolizer_opts opts = {0};
	struct frame frames[8];
	struct subject s;
	clock_t before;
	uint64_t libc = 0;
	char line[512];
	FILE *file;

	(void)state;
	build("");
	begin(&s, "subject", &opts);
	snprintf(line, sizeof(line), "/proc/%d/maps", (int)s.pid);
	file = fopen(line, "r");
	while (fgets(line, sizeof(line), file) && !libc)
		if (strstr(line, "r-xp") && strstr(line, "/libc.so"))
			libc = strtoull(line, NULL, 16);
	fclose(file);
	if (!libc)
		skip();
	before = clock();
	for (int i = 0; i < 100000; i++)
		assert_true(find(&s, libc + 5 * i, false, frames) >= 1);
	assert_true(clock() - before < 3 * CLOCKS_PER_SEC);
	/* again: from the cache */
	before = clock();
	for (int i = 0; i < 100000; i++)
		assert_true(find(&s, libc + 5 * i, false, frames) >= 1);
	assert_true(clock() - before < CLOCKS_PER_SEC);
	end(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_program), cmocka_unit_test(test_no_inline),
		cmocka_unit_test(test_unnamed), cmocka_unit_test(test_gone),
		cmocka_unit_test(test_jit),	cmocka_unit_test(test_vdso),
		cmocka_unit_test(test_kernel),	cmocka_unit_test(test_two_symbolizers),
		cmocka_unit_test(test_speed),
	};

	return cmocka_run_group_tests(tests, fixture__setup_dir, fixture__teardown_dir);
}
