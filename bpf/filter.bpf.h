/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * filter: which tasks are followed. A task is followed if it has task storage ('threads'); all
 * events ask only that. It is given storage where allocation is harmless, never in the scheduler's
 * switch path: by the seeding iterator, at fork, at exec and when it is moved into the cgroup.
 */
#ifndef OFFCPU_FILTER_BPF_H
#define OFFCPU_FILTER_BPF_H

#include "compat.bpf.h"
#include "config.bpf.h"

/* Pids (as the user sees them) given by -p or -t. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u8);
} targets SEC(".maps");

/* A pid number in the user's PID namespace; 0 if it is not visible there. */
static __always_inline __u32 pid_in_ns(struct pid *pid)
{
	struct upid upid;

	if (!pid || BPF_CORE_READ(pid, level) < pidns_level)
		return 0;
	if (bpf_core_read(&upid, sizeof(upid), &pid->numbers[pidns_level & (MAX_PID_LEVEL - 1)]))
		return 0;
	return upid.nr;
}

static __always_inline __u32 task_tid(struct task_struct *task)
{
	if (!pidns_level)
		return BPF_CORE_READ(task, pid);
	return pid_in_ns(BPF_CORE_READ(task, thread_pid));
}

static __always_inline __u32 task_tgid(struct task_struct *task)
{
	if (!pidns_level)
		return BPF_CORE_READ(task, tgid);
	return pid_in_ns(BPF_CORE_READ(task, signal, pids[PIDTYPE_TGID]));
}

static __always_inline bool name_matches(struct task_struct *task)
{
	char comm[COMM_LEN] = {};
	int i;

	BPF_CORE_READ_STR_INTO(&comm, task, group_leader, comm);
	for (i = 0; i < COMM_LEN; i++) {
		if (comm[i] != target_name[i])
			return false;
		if (!comm[i])
			return true;
	}
	return true;
}

struct ancestry {
	struct cgroup *cgroup;
	bool found;
};

static long check_ancestor(__u32 i, void *data)
{
	struct ancestry *a = data;
	struct cgroup *cgroup = a->cgroup;

	if (!cgroup)
		return 1;
	if (BPF_CORE_READ(cgroup, kn, id) == target_cgroup) {
		a->found = true;
		return 1;
	}
	/* the parent: self.parent is a css, the first member of its cgroup */
	a->cgroup = (struct cgroup *)BPF_CORE_READ(cgroup, self.parent);
	return 0;
}

static __always_inline bool in_cgroup(struct task_struct *task)
{
	struct ancestry a = {};

	if (target_cgroup_subsys < 0)
		a.cgroup = BPF_CORE_READ(task, cgroups, dfl_cgrp);
	else
		a.cgroup = BPF_CORE_READ(task, cgroups, subsys[target_cgroup_subsys & 15], cgroup);
	bpf_loop(64, check_ancestor, &a, 0);
	return a.found;
}

/* Is the task a target by itself (not by descent)? */
static __always_inline bool task_selected(struct task_struct *task)
{
	__u32 id;

	switch (target_mode) {
	case TARGET_ALL:
		return BPF_CORE_READ(task, pid) != 0;
	case TARGET_NAME:
		return name_matches(task);
	case TARGET_CGROUP:
		return in_cgroup(task);
	case TARGET_THREADS:
		id = task_tid(task);
		return bpf_map_lookup_elem(&targets, &id) != NULL;
	default:
		id = task_tgid(task);
		return bpf_map_lookup_elem(&targets, &id) != NULL;
	}
}

/* Does a new task belong, given that its parent does or does not? */
static __always_inline bool child_selected(struct task_struct *child, bool parent_followed,
					   bool same_process)
{
	if (target_mode == TARGET_ALL)
		return true;
	if (target_mode == TARGET_CGROUP)
		return in_cgroup(child);
	if (!parent_followed)
		return false;
	if (same_process)
		return follow_threads;
	return follow_children || (target_mode == TARGET_NAME && name_matches(child));
}

#endif
