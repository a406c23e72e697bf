/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * store: the aggregated data that the loader drains: stacks by id, and rows of time by (thread,
 * user stack, kernel stack). Both are hash maps behind a one-element array of maps: the loader
 * replaces the inner map, whereupon the kernel waits for programs that still use the old one, and
 * then reads and empties the old one at leisure. Both are allocated beforehand: entries are made in
 * the scheduler's switch path.
 */
#ifndef OFFCPU_STORE_BPF_H
#define OFFCPU_STORE_BPF_H

#include "stats.bpf.h"

#define EEXIST 17

struct stack_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, struct stack_value);
} stacks_a SEC(".maps"), stacks_b SEC(".maps");

struct row_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct row_key);
	__type(value, struct row_value);
} rows_a SEC(".maps"), rows_b SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct stack_map);
} stacks SEC(".maps") = {.values = {&stacks_a}};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct row_map);
} rows SEC(".maps") = {.values = {&rows_a}};

struct compare {
	const struct stack_value *a, *b;
	bool differ;
};

static long compare_frame(__u32 i, void *data)
{
	struct compare *c = data;

	if (i < MAX_FRAMES && c->a->frames[i] != c->b->frames[i]) {
		c->differ = true;
		return 1;
	}
	return 0;
}

static __always_inline bool stack__equal(const struct stack_value *a, const struct stack_value *b)
{
	struct compare c = {.a = a, .b = b};

	if (a->n != b->n || a->end != b->end)
		return false;
	bpf_loop(a->n, compare_frame, &c, 0);
	return !c.differ;
}

/*
 * Stores a stack under its hash and returns its id. A different stack that is already there under
 * the same hash is told apart by comparison; the newcomer moves to the next free id.
 */
static __noinline __u64 store__stack(__u64 hash, const struct stack_value *stack)
{
	__u32 zero = 0, probe;
	void *map = bpf_map_lookup_elem(&stacks, &zero);

	if (!map)
		return STACK_LOST;
	for (probe = 0; probe < 3; probe++) {
		__u64 id = hash + probe;
		struct stack_value *found = bpf_map_lookup_elem(map, &id);
		long err;

		if (!found) {
			err = bpf_map_update_elem(map, &id, stack, BPF_NOEXIST);
			if (!err) {
				__sync_fetch_and_add(&stored, 1);
				return id;
			}
			if (err != -EEXIST)
				break;
			found = bpf_map_lookup_elem(map, &id);
			if (!found)
				break;
		}
		if (stack__equal(found, stack))
			return id;
		count(COUNTER_stack_collision);
	}
	count(COUNTER_stack_full);
	return STACK_LOST;
}

/*
 * Adds to a row. 'lost' is what to count when there is no room. (A global function: the verifier looks
 * at it once and not at every call. Older ones, as of 6.1, want keys and values on the stack.)
 */
__noinline int store__row(const struct row_key *to, const struct row_value *add, enum counter lost)
{
	__u32 zero = 0;
	void *map = bpf_map_lookup_elem(&rows, &zero);
	struct row_value first;
	struct row_value *row;
	struct row_key key;

	if (!map || !to || !add)
		return 0;
	key = *to;
	row = bpf_map_lookup_elem(map, &key);
	if (!row) {
		first = *add;
		if (!bpf_map_update_elem(map, &key, &first, BPF_NOEXIST))
			return 0;
		row = bpf_map_lookup_elem(map, &key);
		if (!row) {
			count(lost < COUNTER_MAX ? lost : COUNTER_row_full);
			return 0;
		}
	}
	/* Only this thread's own events write its rows, one at a time; a sample may interrupt one,
	 * but touches only 'samples'. */
	row->samples += add->samples;
	row->runq_ns += add->runq_ns;
	row->blocked_ns += add->blocked_ns;
	row->blocks += add->blocks;
	if (add->max_ns > row->max_ns)
		row->max_ns = add->max_ns;
	return 0;
}

#endif
