/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * store: the aggregated data that the loader drains: stacks by id, and rows of time by (thread,
 * user stack, kernel stack). There are two sets of maps: one is filled while the loader reads and
 * empties the other. To be sure that nobody still fills the one it is going to read, it changes
 * 'active' and waits until every store that had begun by then has ended ('stores', per CPU). It
 * does not wait for an RCU grace period: those may take long on a machine whose CPUs do nothing but
 * switch.
 *
 * The maps are allocated beforehand: entries are made in the scheduler's switch path.
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
	__uint(max_entries, 2);
	__type(key, __u32);
	__array(values, struct stack_map);
} stacks SEC(".maps") = {.values = {&stacks_a, &stacks_b}};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 2);
	__type(key, __u32);
	__array(values, struct row_map);
} rows SEC(".maps") = {.values = {&rows_a, &rows_b}};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct store_count);
} stores SEC(".maps");

/* The atomic addition orders 'begun' before the reading of 'active'. */
static __always_inline __u32 store__begin(void)
{
	__u32 zero = 0;
	struct store_count *c = bpf_map_lookup_elem(&stores, &zero);

	if (c)
		__sync_fetch_and_add(&c->begun, 1);
	return active & 1;
}

static __always_inline void store__end(void)
{
	__u32 zero = 0;
	struct store_count *c = bpf_map_lookup_elem(&stores, &zero);

	if (c)
		__sync_fetch_and_add(&c->ended, 1);
}

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
static __always_inline __u64 put_stack(__u32 set, __u64 hash, const struct stack_value *stack)
{
	void *map = bpf_map_lookup_elem(&stacks, &set);
	__u32 probe;

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

static __noinline __u64 store__stack(__u64 hash, const struct stack_value *stack)
{
	__u64 id = put_stack(store__begin(), hash, stack);

	store__end();
	return id;
}

/*
 * Adds to a row. 'lost' is what to count when there is no room. (A global function: the verifier
 * looks at it once and not at every call. Older ones, as of 6.1, want keys and values on the
 * stack.)
 */
static __always_inline void put_row(__u32 set, const struct row_key *to,
				    const struct row_value *add, enum counter lost)
{
	void *map = bpf_map_lookup_elem(&rows, &set);
	struct row_value first;
	struct row_value *row;
	struct row_key key;

	if (!map)
		return;
	key = *to;
	row = bpf_map_lookup_elem(map, &key);
	if (!row) {
		first = *add;
		if (!bpf_map_update_elem(map, &key, &first, BPF_NOEXIST))
			return;
		row = bpf_map_lookup_elem(map, &key);
		if (!row) {
			count(lost < COUNTER_MAX ? lost : COUNTER_row_full);
			return;
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
}

__noinline int store__row(const struct row_key *key, const struct row_value *add, enum counter lost)
{
	if (!key || !add)
		return 0;
	put_row(store__begin(), key, add, lost);
	store__end();
	return 0;
}

#endif
