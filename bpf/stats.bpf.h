/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * stats: one counter per cause of loss or surprise (abi.h), per CPU.
 */
#ifndef OFFCPU_STATS_BPF_H
#define OFFCPU_STATS_BPF_H

#include "config.bpf.h"
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNTER_MAX);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

static __always_inline void count(enum counter which)
{
	__u32 key = which;
	__u64 *value = bpf_map_lookup_elem(&counters, &key);

	if (value)
		(*value)++;
}

#endif
