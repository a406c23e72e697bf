// SPDX-License-Identifier: GPL-2.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs the above */
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "demangle.h"
#include "util/xalloc.h"

static void check(const char *name, const char *want)
{
	char *text = demangle__name(name);

	if (want)
		assert_non_null(text);
	else
		assert_null(text);
	if (want)
		assert_string_equal(text, want);
	free(text);
}

static void test_cplusplus(void **state)
{
	(void)state;
	check("_ZN3app6workerEi", "app::worker(int)");
	check("_ZNSt6vectorIiSaIiEE9push_backEOi",
	      "std::vector<int, std::allocator<int> >::push_back(int&&)");
	check("_ZN3app6workerEi.part.0", "app::worker(int) [clone .part.0]");
	check("_ZN3app6workerEi.cold", "app::worker(int) [clone .cold]");
	check("_GLOBAL__I_foo", "global constructors keyed to foo");
}

static void test_rust(void **state)
{
	(void)state;
	/* legacy: the hash is left out */
	check("_ZN4core3fmt9Formatter3pad17h5e1c2a3b4d5f6a7bE", "core::fmt::Formatter::pad");
	check("_ZN55_$LT$r..S$LT$T$GT$$u20$as$u20$core..ops..drop..Drop$GT$"
	      "4drop17hfc2bd014ec4d21a5E",
	      "<r::S<T> as core::ops::drop::Drop>::drop");
	check("_ZN3app4main17h5e1c2a3b4d5f6a7bE.llvm.1234567890", "app::main");
	/* v0, from RFC 2603 */
	check("_RNvC6_123foo3bar", "123foo::bar");
	check("_RNCNvCsgStHSCytQ6I_7mycrate4main0B3_", "mycrate::main::{closure#0}");
}

static void test_d(void **state)
{
	(void)state;
	check("_D8demangle4testFZv", "demangle.test()");
	check("_Dmain", "D main");
}

static void test_not_mangled(void **state)
{
	(void)state;
	check("main", NULL);
	check("", NULL);
	check("_", NULL);
	check("_Z", NULL);
	check("_R", NULL);
	check("_D", NULL);
	check("_init", NULL);
	check("_Zzzzz", NULL);
	check("__libc_start_main", NULL);
	check("i", NULL); /* a type, to some demanglers */
}

/* Each parameter a template of twice the one before: 2^n names from 10 n bytes. */
static char *bomb_cplusplus(int n)
{
	char *name = xstrdup("_Z1f1AIiE"), *next;

	for (int i = 0; i < n; i++) {
		/* substitutions are numbered in base 36; S_ is A, S0_ the first parameter */
		char digit = i < 10 ? '0' + i : 'A' + i - 10;

		next = xasprintf("%sS_IS%c_S%c_E", name, digit, digit);
		free(name);
		name = next;
	}
	return name;
}

/* D: each parameter an associative array of two references to the one before. */
static char *bomb_d(int n)
{
	char *name = xstrdup("_D1fFHii"), *next;

	for (int i = 0; i <= n; i++) {
		next = xasprintf("%s%s", name, i == n ? "Zv" : i ? "HQgQi" : "HQeQg");
		free(name);
		name = next;
	}
	return name;
}

static size_t demangled_length(char *(*bomb)(int), int n)
{
	char *name = bomb(n), *text = demangle__name(name);
	size_t len = text ? strlen(text) : 0;

	free(text);
	free(name);
	return len;
}

/* Small ones are expanded, which shows that the large ones would explode. */
static void test_bombs(void **state)
{
	clock_t start = clock();

	(void)state;
	assert_true(demangled_length(bomb_cplusplus, 6) > 500);
	assert_true(demangled_length(bomb_d, 6) > 500);
	assert_int_equal(demangled_length(bomb_cplusplus, 34), 0);
	assert_int_equal(demangled_length(bomb_d, 12), 0);
	assert_int_equal(demangled_length(bomb_d, 100), 0);
	assert_true(clock() - start < CLOCKS_PER_SEC);
}

static void test_long_input(void **state)
{
	char *deep = xmalloc(1 << 20);

	(void)state;
	memset(deep, 'P', 1 << 20);
	memcpy(deep, "_Z1f", 4);
	deep[(1 << 20) - 1] = 0;
	check(deep, NULL);
	deep[4000] = 0;
	check(deep, NULL);
	free(deep);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cplusplus), cmocka_unit_test(test_rust),
		cmocka_unit_test(test_d),	  cmocka_unit_test(test_not_mangled),
		cmocka_unit_test(test_bombs),	  cmocka_unit_test(test_long_input),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
