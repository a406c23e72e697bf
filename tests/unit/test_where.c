// SPDX-License-Identifier: GPL-2.0-or-later
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "profile.h"
#include "units.h"
#include "where.h"

static void check_short(const char *func, const char *want)
{
	struct frame frame = {.kind = FRAME_USER, .func = func};
	char name[512];

	where__short_name(name, sizeof(name), &frame);
	assert_string_equal(name, want);
}

static void test_short_names(void **state)
{
	(void)state;
	check_short("main", "main");
	check_short("libc.so.6+0x9d2a1", "libc.so.6+0x9d2a1");
	check_short("srv::Worker::run(int, char const*) const", "srv::Worker::run");
	check_short("std::vector<int, std::allocator<int> >::push_back(int&&)",
		    "std::vector<…>::push_back");
	check_short("void srv::hash<unsigned long>(srv::Entry&)", "srv::hash<…>");
	check_short("std::pair<int, int> f<int>()", "f<…>");
	check_short("(anonymous namespace)::helper(int)", "(anonymous namespace)::helper");
	check_short("operator new(unsigned long)", "operator new");
	check_short("std::ostream& operator<< <char>(std::ostream&, char)", "operator<< <…>");
	check_short("A::operator()(int) const", "A::operator()");
	check_short("A::operator->() const", "A::operator->");
	check_short("main::{lambda(int)#1}::operator()(int) const", "main::{lambda#1}::operator()");
	check_short("f(int) [clone .isra.0]", "f");
	check_short("f[abi:cxx11](int)", "f");
	check_short("f<(a)1>(void (*)(int))", "f<…>");
	/* Rust, Go */
	check_short("<alloc::vec::Vec<T> as core::ops::Drop>::drop",
		    "<alloc::vec::Vec<T> as core::ops::Drop>::drop");
	check_short("core::ptr::drop_in_place<alloc::string::String>",
		    "core::ptr::drop_in_place<…>");
	check_short("main.(*Server).Serve", "main.(*Server).Serve");
	/* never closed, and nothing left */
	check_short("f<int", "f<…>");
	check_short("(x", "(x");
	check_short("\033[31m", "?[31m");
	check_short("", "?");
}

static void test_short_name_of_any_length(void **state)
{
	struct frame frame = {.kind = FRAME_USER};
	char *func = malloc(100001), name[64];
	const char alphabet[] = "<>(){}[]: -operator~a\xc3";
	int i, j;

	(void)state;
	assert_non_null(func);
	srandom(1);
	for (i = 0; i < 3000; i++) {
		int len = i ? random() % 200 : 100000;

		for (j = 0; j < len; j++)
			func[j] = alphabet[random() % (sizeof(alphabet) - 1)];
		func[len] = 0;
		frame.func = func;
		where__short_name(name, sizeof(name), &frame);
		assert_in_range(strlen(name), 0, sizeof(name) - 1);
	}
	free(func);
}

#define U(name)                                                                                    \
	{                                                                                          \
		.kind = FRAME_USER, .func = name, .module = "/bin/srv"                             \
	}
#define C(name)                                                                                    \
	{                                                                                          \
		.kind = FRAME_USER, .func = name, .module = "/lib/libc.so.6"                       \
	}
#define K(name)                                                                                    \
	{                                                                                          \
		.kind = FRAME_KERNEL, .func = name                                                 \
	}
#define M(name)                                                                                    \
	{                                                                                          \
		.kind = FRAME_MARK, .func = name                                                   \
	}
#define SYSCALL	 K("entry_SYSCALL_64_after_hwframe"), K("do_syscall_64")
#define SLEEPING K("schedule"), K("__schedule")

static void check_line(const struct frame *frames, uint32_t n, bool on_cpu, size_t width,
		       const char *want)
{
	struct profile *p = profile__new();
	const struct frame **stack, **picked;
	uint32_t id = profile__add_stack(p, frames, n);
	uint8_t *roles = calloc(profile__frames(p) + 1, 1);
	char line[1024];

	profile__stack(p, id, &stack);
	picked = calloc(n + 1, sizeof(*picked));
	n = where__pick(stack, n, on_cpu, roles, picked);
	where__format(line, sizeof(line), picked, n, width);
	assert_string_equal(line, want);
	assert_true(text__width(line) <= width);
	free(picked);
	free(roles);
	profile__free(p);
}

#define CHECK(on_cpu, width, want, ...)                                                            \
	check_line((struct frame[]){__VA_ARGS__},                                                  \
		   sizeof((struct frame[]){__VA_ARGS__}) / sizeof(struct frame), on_cpu, width,    \
		   want)

static void test_off_cpu(void **state)
{
	(void)state;
	CHECK(false, 100, "do_nanosleep ← clock_nanosleep ← work ← main", U("_start"),
	      C("__libc_start_main"), U("main"), U("work"), C("clock_nanosleep"), SYSCALL,
	      K("__x64_sys_clock_nanosleep"), K("hrtimer_nanosleep"), K("do_nanosleep"), SLEEPING);
	/* a kernel lock, and who takes it */
	CHECK(false, 100, "rwsem_down_write_slowpath ← vm_mmap_pgoff ← mmap ← f", U("f"), C("mmap"),
	      SYSCALL, K("ksys_mmap_pgoff"), K("vm_mmap_pgoff"), K("down_write_killable"),
	      K("rwsem_down_write_slowpath"), SLEEPING);
	/* preempted: what it was doing */
	CHECK(false, 100, "spin ← main", U("main"), U("spin"), K("asm_sysvec_apic_timer_interrupt"),
	      K("irqentry_exit_to_user_mode"), K("exit_to_user_mode_loop"), SLEEPING);
	/* suffixes that compilers add */
	CHECK(false, 100, "do_select ← select", C("select"), SYSCALL, K("do_select"),
	      K("poll_schedule_timeout.constprop.0"), K("schedule_hrtimeout_range_clock"),
	      SLEEPING);
	/* nameless helpers of a named function of the same file only */
	CHECK(false, 100, "futex_wait_queue ← pthread_cond_wait ← f", U("f"),
	      C("pthread_cond_wait"), C("libc.so.6+0x85ecf"), SYSCALL, K("futex_wait_queue"),
	      SLEEPING);
	CHECK(false, 100, "futex_wait_queue ← libc.so.6+0x85ecf ← f", U("f"),
	      C("libc.so.6+0x85ecf"), SYSCALL, K("futex_wait_queue"), SLEEPING);
	/* no user frames: all of the kernel's that tell something */
	CHECK(false, 100, "worker_thread ← kthread", K("ret_from_fork"), K("kthread"),
	      K("worker_thread"), SLEEPING);
	CHECK(false, 100, "__schedule ← schedule", SLEEPING);
	CHECK(false, 100, "[lost]", M("[lost]"));
	CHECK(false, 100, "f ← [truncated]", M("[truncated]"), U("f"), SLEEPING);
}

static void test_on_cpu(void **state)
{
	(void)state;
	CHECK(true, 100, "entry_SYSCALL_64_after_hwframe ← read ← f", U("f"), C("read"),
	      K("entry_SYSCALL_64_after_hwframe"));
	CHECK(true, 100, "copy_user_generic ← read ← f", U("f"), C("read"), SYSCALL, K("vfs_read"),
	      K("copy_user_generic"));
	CHECK(true, 100, "libc.so.6+0x1 ← memcpy", C("memcpy"), C("libc.so.6+0x1"));
}

static void test_width(void **state)
{
	(void)state;
	CHECK(false, 21, "c ← bbbbbbbbbb ← aaaa", U("aaaa"), U("bbbbbbbbbb"), U("c"));
	CHECK(false, 20, "c ← bbbbbbbbbb ← …", U("aaaa"), U("bbbbbbbbbb"), U("c"));
	CHECK(false, 17, "c ← …", U("aaaa"), U("bbbbbbbbbb"), U("c"));
	/* the end of a name says most */
	CHECK(false, 12, "…space::work", U("very::long::name::space::work"));
	CHECK(false, 12, "…e::work ← …", U("main"), U("very::long::name::space::work"));
}

static void test_fit(void **state)
{
	char text[32] = "h\u00e9llo w\u00f6rld";

	(void)state;
	assert_int_equal(text__width(text), 11);
	text__fit(text, sizeof(text), 11);
	assert_string_equal(text, "h\u00e9llo w\u00f6rld");
	text__fit(text, sizeof(text), 5);
	assert_string_equal(text, "…\u00f6rld");
	/* two columns each */
	strcpy(text, "\u65e5\u672c\u8a9e");
	assert_int_equal(text__width(text), 6);
	text__fit(text, sizeof(text), 4);
	assert_string_equal(text, "…\u8a9e");
}

static void check_duration(uint64_t ns, const char *want)
{
	struct unit_text buf;

	assert_string_equal(units__duration(&buf, ns), want);
}

static void test_durations(void **state)
{
	(void)state;
	check_duration(0, "0 ns");
	check_duration(999, "999 ns");
	check_duration(1000, "1.0 µs");
	check_duration(9949, "9.9 µs");
	check_duration(9950, "10 µs");
	check_duration(999499, "999 µs");
	check_duration(999500, "1.0 ms");
	check_duration(31000000, "31 ms");
	check_duration(999500000, "1.00 s");
	check_duration(9994999999, "9.99 s");
	check_duration(9995000000, "10.0 s");
	check_duration(204420000000, "204.4 s");
	check_duration(UINT64_MAX, "18446744073.7 s");
}

static void test_percentages(void **state)
{
	struct unit_text buf;

	(void)state;
	assert_string_equal(units__percent(&buf, 0, 0), "0.00 %");
	assert_string_equal(units__percent(&buf, 0, 9), "0.00 %");
	assert_string_equal(units__percent(&buf, 1, 3), "33.33 %");
	assert_string_equal(units__percent(&buf, 1, 1000000), "<0.01 %");
	assert_string_equal(units__percent(&buf, 999999, 1000000), "99.99 %");
	assert_string_equal(units__percent(&buf, 7, 7), "100.00 %");
	assert_string_equal(units__percent(&buf, 14, 7), "200.00 %");
	assert_string_equal(units__percent(&buf, UINT64_MAX, UINT64_MAX), "100.00 %");
	assert_string_equal(units__tenths(&buf, 999999, 1000000), "99.9");
	assert_string_equal(units__tenths(&buf, 1, 10000), "<0.1");
	assert_string_equal(units__tenths(&buf, 1, 3), "33.3");
}

static void test_counts_and_bytes(void **state)
{
	struct unit_text buf;

	(void)state;
	assert_string_equal(units__count(&buf, 999999), "999999");
	assert_string_equal(units__count(&buf, 1000000), "1.0 M");
	assert_string_equal(units__count(&buf, 1200000), "1.2 M");
	assert_string_equal(units__count(&buf, 2500000000), "2.5 G");
	assert_string_equal(units__bytes(&buf, 2048), "2 KiB");
	assert_string_equal(units__bytes(&buf, 32715571), "31.2 MiB");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_short_names),
		cmocka_unit_test(test_short_name_of_any_length),
		cmocka_unit_test(test_off_cpu),
		cmocka_unit_test(test_on_cpu),
		cmocka_unit_test(test_width),
		cmocka_unit_test(test_fit),
		cmocka_unit_test(test_durations),
		cmocka_unit_test(test_percentages),
		cmocka_unit_test(test_counts_and_bytes),
	};

	setlocale(LC_ALL, "C.UTF-8");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
