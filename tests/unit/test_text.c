// SPDX-License-Identifier: GPL-2.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "util/text.h"

static void check(const char *in, const char *want)
{
	char out[256];
	size_t len = text__printable(out, sizeof(out), in);

	assert_string_equal(out, want);
	assert_int_equal(len, strlen(want));
}

static void test_plain(void **state)
{
	(void)state;
	check("", "");
	check("worker-1 ~", "worker-1 ~");
	check("h\u00e9llo \u20ac \U0001f600", "h\u00e9llo \u20ac \U0001f600");
}

static void test_controls(void **state)
{
	(void)state;
	check("a\nb\tc\033[31md\177e", "a?b?c?[31md?e");
	/* C1: U+0080, U+009B (CSI), U+009F; U+00A0 is a character */
	check("\xc2\x80|\xc2\x9b|\xc2\x9f|\xc2\xa0", "?|?|?|\xc2\xa0");
}

static void test_malformed(void **state)
{
	(void)state;
	check("\xff\xfe", "??");
	check("a\x80z", "a?z");
	check("\xc3", "?");
	check("\xc3(", "?(");
	check("\xe2\x82", "??");
	check("\xe2\x82z", "??z");
	check("\xf0\x9f\x98", "???");
	/* overlong '/', overlong 3 and 4 bytes, surrogate, beyond U+10FFFF */
	check("\xc0\xaf", "??");
	check("\xe0\x9f\xbf", "???");
	check("\xf0\x8f\xbf\xbf", "????");
	check("\xed\xa0\x80", "???");
	check("\xf4\x90\x80\x80", "????");
	check("\xf5\x80\x80\x80", "????");
	/* the limits on the good side */
	check("\xe0\xa0\x80\xed\x9f\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf",
	      "\xe0\xa0\x80\xed\x9f\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf");
}

static void test_no_character_is_cut(void **state)
{
	char out[8];
	size_t size;

	(void)state;
	assert_int_equal(text__printable(out, 4, "ab\xe2\x82\xac"), 2);
	assert_string_equal(out, "ab");
	assert_int_equal(text__printable(out, 6, "ab\xe2\x82\xac"), 5);
	assert_int_equal(text__printable(out, 1, "abc"), 0);
	assert_string_equal(out, "");
	out[0] = 'x';
	assert_int_equal(text__printable(out, 0, "abc"), 0);
	assert_int_equal(out[0], 'x');
	for (size = 1; size <= sizeof(out); size++)
		assert_in_range(text__printable(out, size, "\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
				0, size - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain),
		cmocka_unit_test(test_controls),
		cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_no_character_is_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
