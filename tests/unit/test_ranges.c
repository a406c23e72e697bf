// SPDX-License-Identifier: GPL-2.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs the above */
#include <cmocka.h>

#include <stdlib.h>

#include "ranges.h"

static void test_later_id_wins(void **state)
{
	struct ranges r = {0};

	(void)state;
	ranges__add(&r, 10, 100, 1);
	ranges__add(&r, 20, 30, 2);
	ranges__add(&r, 25, 40, 0);
	ranges__add(&r, 50, 50, 9); /* empty */
	ranges__flatten(&r);
	assert_null(ranges__find(&r, 9));
	assert_int_equal(ranges__find(&r, 10)->id, 1);
	assert_int_equal(ranges__find(&r, 20)->id, 2);
	assert_int_equal(ranges__find(&r, 29)->id, 2);
	assert_int_equal(ranges__find(&r, 30)->id, 1);
	assert_int_equal(ranges__find(&r, 50)->id, 1);
	assert_int_equal(ranges__find(&r, 99)->id, 1);
	assert_null(ranges__find(&r, 100));
	assert_int_equal(r.n, 3);
	ranges__clear(&r);
}

static void test_empty(void **state)
{
	struct ranges r = {0};

	(void)state;
	ranges__flatten(&r);
	assert_null(ranges__find(&r, 0));
	ranges__clear(&r);
}

static void test_ends_of_the_address_space(void **state)
{
	struct ranges r = {0};

	(void)state;
	ranges__add(&r, 0, 1, 1);
	ranges__add(&r, UINT64_MAX - 1, UINT64_MAX, 2);
	ranges__flatten(&r);
	assert_int_equal(ranges__find(&r, 0)->id, 1);
	assert_null(ranges__find(&r, 1));
	assert_int_equal(ranges__find(&r, UINT64_MAX - 1)->id, 2);
	assert_null(ranges__find(&r, UINT64_MAX));
	ranges__clear(&r);
}

#define SPACE 200

/* Against painting every address; flattened in two goes, as perf maps are. */
static void test_against_painting(void **state)
{
	(void)state;
	srand(1);
	for (int round = 0; round < 300; round++) {
		int paint[SPACE], n = rand() % 40;
		struct ranges r = {0};

		for (int i = 0; i < SPACE; i++)
			paint[i] = -1;
		for (int id = 0; id < n; id++) {
			int start = rand() % SPACE, end = start + rand() % (SPACE - start);

			ranges__add(&r, start, end, id);
			for (int i = start; i < end; i++)
				paint[i] = id;
			if (id == n / 2)
				ranges__flatten(&r);
		}
		ranges__flatten(&r);
		for (int i = 0; i < SPACE; i++) {
			const struct range *found = ranges__find(&r, i);

			assert_int_equal(found ? (int)found->id : -1, paint[i]);
		}
		ranges__clear(&r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_later_id_wins),
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_ends_of_the_address_space),
		cmocka_unit_test(test_against_painting),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
