// SPDX-License-Identifier: GPL-2.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "profile.h"

#define SECOND 1000000000ULL

static const struct frame frame_main = {.kind = FRAME_USER, .func = "main", .module = "/bin/a"};
static const struct frame frame_work = {.kind = FRAME_USER, .func = "work", .module = "/bin/a"};

static uint32_t add_thread(struct profile *p, uint64_t window, uint64_t on, uint64_t runq,
			   uint64_t blocked)
{
	struct profile_thread t = {
		.process = profile__add_process(p, 1, "a"),
		.tid = 1,
		.comm = "t",
		.start_ns = 5,
		.end_ns = 5 + window,
		.on_ns = on,
		.runq_ns = runq,
		.blocked_ns = blocked,
	};

	return profile__add_thread(p, &t);
}

static uint32_t add_named_stack(struct profile *p, unsigned int n)
{
	char name[32];
	struct frame f = {.kind = FRAME_USER, .func = name};

	snprintf(name, sizeof(name), "f%u", n);
	return profile__add_stack(p, &f, 1);
}

static void add_sample(struct profile *p, uint32_t thread, uint32_t stack, uint64_t samples,
		       uint64_t runq, uint64_t blocked)
{
	struct profile_sample s = {
		.thread = thread,
		.stack = stack,
		.samples = samples,
		.runq_ns = runq,
		.blocked_ns = blocked,
		.blocks = 1,
		.max_ns = runq + blocked,
	};

	profile__add_sample(p, &s);
}

/* The sample of a thread whose stack is one frame of this name. */
static const struct profile_sample *find(const struct profile *p, uint32_t thread, const char *name)
{
	const struct profile_sample *samples;
	const struct frame **frames;
	uint32_t i, n = profile__samples(p, &samples);

	for (i = 0; i < n; i++)
		if (samples[i].thread == thread &&
		    profile__stack(p, samples[i].stack, &frames) == 1 &&
		    strcmp(frames[0]->func, name) == 0)
			return &samples[i];
	return NULL;
}

static const struct profile_thread *get_thread(const struct profile *p, uint32_t i)
{
	const struct profile_thread *threads;

	assert_in_range(i, 0, profile__threads(p, &threads) - 1);
	return &threads[i];
}

static const struct profile_loss *get_loss(const struct profile *p, const char *kind)
{
	const struct profile_loss *losses;
	uint32_t i, n = profile__losses(p, &losses);

	for (i = 0; i < n; i++)
		if (strcmp(losses[i].kind, kind) == 0)
			return &losses[i];
	return NULL;
}

static void test_stacks_are_interned(void **state)
{
	struct profile *p = profile__new();
	char func[] = "main", module[] = "/bin/a";
	struct frame same = {.kind = FRAME_USER, .func = func, .module = module, .addr = 7};
	struct frame both[] = {frame_main, frame_work}, swapped[] = {frame_work, frame_main};
	struct frame other;
	const struct frame **frames;
	uint32_t id = profile__add_stack(p, &frame_main, 1);

	(void)state;
	assert_int_equal(profile__add_stack(p, &same, 1), id);
	memset(func, 'x', 4);
	memset(module, 'x', 6);
	assert_int_equal(profile__stack(p, id, &frames), 1);
	assert_string_equal(frames[0]->func, "main");
	assert_string_equal(frames[0]->module, "/bin/a");

	other = frame_main, other.line = 3;
	assert_int_not_equal(profile__add_stack(p, &other, 1), id);
	other = frame_main, other.inlined = true;
	assert_int_not_equal(profile__add_stack(p, &other, 1), id);
	other = frame_main, other.kind = FRAME_JIT;
	assert_int_not_equal(profile__add_stack(p, &other, 1), id);
	other = frame_main, other.module = NULL;
	assert_int_not_equal(profile__add_stack(p, &other, 1), id);
	other = frame_main, other.module = "/bin/b";
	assert_int_not_equal(profile__add_stack(p, &other, 1), id);
	assert_int_not_equal(profile__add_stack(p, both, 2), profile__add_stack(p, swapped, 2));
	assert_int_equal(profile__add_stack(p, NULL, 0), profile__add_stack(p, NULL, 0));
	assert_int_equal(profile__frames(p), 7);
	profile__free(p);
}

static void test_many_stacks_stay_apart(void **state)
{
	struct profile *p = profile__new();
	const struct frame **frames;
	char name[32];
	unsigned int i, n = 20000;

	(void)state;
	for (i = 0; i < n; i++)
		assert_int_equal(add_named_stack(p, i), i);
	for (i = 0; i < n; i++)
		assert_int_equal(add_named_stack(p, i), i);
	for (i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		assert_int_equal(profile__stack(p, i, &frames), 1);
		assert_string_equal(frames[0]->func, name);
		assert_int_equal(profile__frame_id(frames[0]), i);
	}
	assert_int_equal(profile__stacks(p), n);
	profile__free(p);
}

static void test_processes_by_pid_and_name(void **state)
{
	struct profile *p = profile__new();
	uint32_t a = profile__add_process(p, 1, "a");

	(void)state;
	assert_int_equal(profile__add_process(p, 1, "a"), a);
	assert_int_not_equal(profile__add_process(p, 1, "b"), a);
	assert_int_not_equal(profile__add_process(p, 2, "a"), a);
	profile__free(p);
}

static void test_samples_add_up(void **state)
{
	struct profile *p = profile__new();
	uint32_t t = add_thread(p, 100, 0, 10, 90), s = add_named_stack(p, 0);

	(void)state;
	add_sample(p, t, s, 0, 4, 30);
	add_sample(p, t, s, 0, 6, 60);
	profile__finish(p);
	assert_int_equal(find(p, t, "f0")->runq_ns, 10);
	assert_int_equal(find(p, t, "f0")->blocked_ns, 90);
	assert_int_equal(find(p, t, "f0")->blocks, 2);
	assert_int_equal(find(p, t, "f0")->max_ns, 66);
	assert_null(find(p, t, "[lost]"));
	profile__free(p);
}

/* 100 ns over 1 : 1 : 1 leaves 1 ns, to the first; over 3 : 2 : 1 it is 50, 33.3, 16.7. */
static void test_spread_is_exact(void **state)
{
	struct profile *p = profile__new();
	uint32_t a = add_thread(p, 100, 100, 0, 0), b = add_thread(p, 100, 100, 0, 0);
	int i;

	(void)state;
	for (i = 0; i < 3; i++) {
		add_sample(p, a, add_named_stack(p, i), 1, 0, 0);
		add_sample(p, b, add_named_stack(p, i), 3 - i, 0, 0);
	}
	profile__finish(p);
	assert_int_equal(find(p, a, "f0")->on_ns, 34);
	assert_int_equal(find(p, a, "f1")->on_ns, 33);
	assert_int_equal(find(p, a, "f2")->on_ns, 33);
	assert_int_equal(find(p, b, "f0")->on_ns, 50);
	assert_int_equal(find(p, b, "f1")->on_ns, 33);
	assert_int_equal(find(p, b, "f2")->on_ns, 17);
	profile__free(p);
}

/* A product beyond 64 bits: a year of CPU time, 2^40 samples. */
static void test_spread_of_large_numbers(void **state)
{
	struct profile *p = profile__new();
	uint64_t year = 365 * 86400 * SECOND;
	uint32_t t = add_thread(p, year, year, 0, 0);

	(void)state;
	add_sample(p, t, add_named_stack(p, 0), 1ULL << 40, 0, 0);
	add_sample(p, t, add_named_stack(p, 1), 3ULL << 40, 0, 0);
	profile__finish(p);
	assert_true(find(p, t, "f0")->on_ns == year / 4);
	assert_true(find(p, t, "f1")->on_ns == year / 4 * 3);
	profile__free(p);
}

static void test_unsampled(void **state)
{
	struct profile *p = profile__new();
	uint32_t t = add_thread(p, 100, 60, 0, 40), idle = add_thread(p, 100, 0, 0, 100);

	(void)state;
	add_sample(p, t, add_named_stack(p, 0), 0, 0, 40);
	add_sample(p, idle, add_named_stack(p, 0), 0, 0, 100);
	profile__finish(p);
	assert_int_equal(find(p, t, "[unsampled]")->on_ns, 60);
	assert_null(find(p, idle, "[unsampled]"));
	assert_null(get_loss(p, "no_stack"));
	profile__free(p);
}

/* 4 samples were taken, 3 arrived: a quarter of the time has no stack. */
static void test_lost_samples(void **state)
{
	struct profile *p = profile__new();
	struct profile_thread t = {.process = profile__add_process(p, 1, "a"),
				   .comm = "t",
				   .end_ns = 100,
				   .on_ns = 100,
				   .samples = 4};
	uint32_t id = profile__add_thread(p, &t);

	(void)state;
	add_sample(p, id, add_named_stack(p, 0), 3, 0, 0);
	profile__finish(p);
	assert_int_equal(find(p, id, "f0")->on_ns, 75);
	assert_int_equal(find(p, id, "[lost]")->on_ns, 25);
	assert_int_equal(get_loss(p, "no_stack")->ns, 25);
	profile__free(p);
}

static void test_lost_time_and_stacks(void **state)
{
	struct profile *p = profile__new();
	uint32_t t = add_thread(p, 100, 0, 20, 70);

	(void)state;
	add_sample(p, t, add_named_stack(p, 0), 0, 5, 40);
	profile__finish(p);
	assert_int_equal(get_thread(p, t)->lost_ns, 10);
	assert_int_equal(find(p, t, "[lost]")->runq_ns, 15);
	assert_int_equal(find(p, t, "[lost]")->blocked_ns, 30);
	assert_int_equal(get_loss(p, "no_stack")->ns, 45);
	assert_int_equal(profile__total(p).lost_ns, 10);
	profile__free(p);
}

/* What a filter left out is no loss; what it did not leave out and has no stack is. */
static void test_filtered(void **state)
{
	struct profile_meta meta = {.title = "", .filter = "-m 1ms"};
	struct profile_thread t = {
		.comm = "t", .end_ns = 100, .runq_ns = 20, .blocked_ns = 80, .filtered_ns = 50};
	struct profile *p = profile__new();
	uint32_t id;

	(void)state;
	profile__set_meta(p, &meta);
	t.process = profile__add_process(p, 1, "a");
	id = profile__add_thread(p, &t);
	add_sample(p, id, add_named_stack(p, 0), 0, 12, 29);
	profile__finish(p);
	assert_int_equal(find(p, id, "[filtered]")->blocked_ns, 50);
	assert_int_equal(find(p, id, "[filtered]")->runq_ns, 8);
	assert_int_equal(find(p, id, "[lost]")->blocked_ns, 1);
	assert_int_equal(get_loss(p, "no_stack")->ns, 1);
	profile__free(p);
}

static void test_overcounted(void **state)
{
	struct profile *p = profile__new();
	uint32_t window = add_thread(p, 100, 60, 30, 20), stacks = add_thread(p, 100, 0, 50, 50);

	(void)state;
	add_sample(p, window, add_named_stack(p, 0), 0, 30, 20);
	add_sample(p, stacks, add_named_stack(p, 0), 0, 40, 45);
	add_sample(p, stacks, add_named_stack(p, 1), 0, 20, 15);
	profile__finish(p);
	assert_int_equal(get_thread(p, window)->on_ns, 60);
	assert_int_equal(get_thread(p, window)->blocked_ns, 10);
	assert_int_equal(get_thread(p, window)->lost_ns, 0);
	assert_int_equal(find(p, window, "f0")->max_ns, 40);
	assert_int_equal(find(p, stacks, "f0")->blocked_ns, 45);
	assert_int_equal(find(p, stacks, "f1")->blocked_ns, 5);
	assert_int_equal(find(p, stacks, "f1")->runq_ns, 10);
	assert_int_equal(get_loss(p, "overcounted")->count, 2);
	assert_int_equal(get_loss(p, "overcounted")->ns, 10 + 20);
	profile__free(p);
}

static void test_user_and_system(void **state)
{
	struct profile *p = profile__new();
	struct profile_thread t = {.process = profile__add_process(p, 1, "a"),
				   .comm = "t",
				   .end_ns = 100,
				   .on_ns = 100,
				   .user_ns = 2,
				   .system_ns = 1};
	uint32_t scaled = profile__add_thread(p, &t), unknown = add_thread(p, 100, 100, 0, 0);

	(void)state;
	profile__finish(p);
	assert_int_equal(get_thread(p, scaled)->user_ns, 66);
	assert_int_equal(get_thread(p, scaled)->system_ns, 34);
	assert_int_equal(get_thread(p, unknown)->user_ns, 0);
	assert_int_equal(get_thread(p, unknown)->system_ns, 0);
	profile__free(p);
}

static void test_processes_are_sums(void **state)
{
	struct profile *p = profile__new();
	struct profile_thread t = {.process = profile__add_process(p, 9, "b"),
				   .comm = "t",
				   .start_ns = 1000,
				   .end_ns = 1010,
				   .on_ns = 7,
				   .switches = 5,
				   .voluntary = 3};
	const struct profile_process *processes;
	struct profile_process total;

	(void)state;
	profile__add_thread(p, &t);
	add_thread(p, 100, 60, 30, 10);
	t.start_ns = 1020, t.end_ns = 1030;
	profile__add_thread(p, &t);
	profile__finish(p);
	assert_int_equal(profile__processes(p, &processes), 2);
	assert_int_equal(processes[0].threads, 2);
	assert_int_equal(processes[0].wall_ns, 30);
	assert_int_equal(processes[0].window_ns, 20);
	assert_int_equal(processes[0].on_ns, 14);
	assert_int_equal(processes[0].lost_ns, 6);
	assert_int_equal(processes[0].switches, 10);
	total = profile__total(p);
	assert_int_equal(total.threads, 3);
	assert_int_equal(total.window_ns, 120);
	assert_int_equal(total.wall_ns, 1025);
	profile__free(p);
}

/* Whatever comes in, what goes out is balanced: profile__finish() aborts otherwise. */
static void test_random_input_is_balanced(void **state)
{
	unsigned int round, i, j;

	(void)state;
	srandom(1);
	for (round = 0; round < 300; round++) {
		struct profile *p = profile__new();
		uint64_t sum = 0, total;

		for (i = 0; i < 5; i++) {
			uint32_t t = add_thread(p, random() % 1000, random() % 500, random() % 500,
						random() % 500);

			for (j = 0; j < random() % 8; j++)
				add_sample(p, t, add_named_stack(p, random() % 6), random() % 3,
					   random() % 200, random() % 200);
		}
		profile__finish(p);
		total = profile__total(p).window_ns;
		for (i = 0; i < 5; i++)
			sum += get_thread(p, i)->end_ns - get_thread(p, i)->start_ns;
		assert_int_equal(sum, total);
		profile__free(p);
	}
}

static void test_losses_of_a_kind_add_up(void **state)
{
	struct profile *p = profile__new();
	const struct profile_loss *losses;

	(void)state;
	profile__add_loss(p, "a", "text", 0, 0);
	assert_int_equal(profile__losses(p, &losses), 0);
	profile__add_loss(p, "a", "text", 2, 30);
	profile__add_loss(p, "b", "other", 1, 0);
	profile__add_loss(p, "a", "text", 3, 40);
	assert_int_equal(profile__losses(p, &losses), 2);
	assert_int_equal(get_loss(p, "a")->count, 5);
	assert_int_equal(get_loss(p, "a")->ns, 70);
	profile__free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stacks_are_interned),
		cmocka_unit_test(test_many_stacks_stay_apart),
		cmocka_unit_test(test_processes_by_pid_and_name),
		cmocka_unit_test(test_samples_add_up),
		cmocka_unit_test(test_spread_is_exact),
		cmocka_unit_test(test_spread_of_large_numbers),
		cmocka_unit_test(test_unsampled),
		cmocka_unit_test(test_lost_samples),
		cmocka_unit_test(test_lost_time_and_stacks),
		cmocka_unit_test(test_filtered),
		cmocka_unit_test(test_overcounted),
		cmocka_unit_test(test_user_and_system),
		cmocka_unit_test(test_processes_are_sums),
		cmocka_unit_test(test_random_input_is_balanced),
		cmocka_unit_test(test_losses_of_a_kind_add_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
