// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernel.h"

#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <string.h>
#include <sys/capability.h>
#include <unistd.h>

#include "util/log.h"

static const struct btf *vmlinux_btf(void)
{
	static struct btf *btf;
	static bool tried;

	if (!tried) {
		tried = true;
		btf = btf__load_vmlinux_btf();
	}
	return btf;
}

static bool has_cap(cap_value_t cap)
{
	cap_flag_value_t value = CAP_CLEAR;
	cap_t caps = cap_get_proc();

	if (caps) {
		cap_get_flag(caps, cap, CAP_EFFECTIVE, &value);
		cap_free(caps);
	}
	return value == CAP_SET;
}

static int check_privilege(void)
{
	bool bpf = has_cap(CAP_BPF), perfmon = has_cap(CAP_PERFMON);

	if (has_cap(CAP_SYS_ADMIN) || (bpf && perfmon))
		return 0;
	log__error("cannot record: missing %s%s%s; run it as root (sudo), or with CAP_BPF, "
		   "CAP_PERFMON and CAP_SYS_PTRACE",
		   bpf ? "" : "CAP_BPF", !bpf && !perfmon ? " and " : "",
		   perfmon ? "" : "CAP_PERFMON");
	return -EPERM;
}

/* A feature that can be probed one by one, and the kernel option or version that brings it. */
static int check_features(void)
{
	static const struct {
		enum bpf_func_id helper;
		enum bpf_prog_type prog;
		const char *name;
	} helpers[] = {
		{BPF_FUNC_loop, BPF_PROG_TYPE_RAW_TRACEPOINT, "bpf_loop (Linux 5.17)"},
		{BPF_FUNC_get_stack, BPF_PROG_TYPE_PERF_EVENT,
		 "bpf_get_stack (CONFIG_PERF_EVENTS)"},
	};
	static const struct {
		enum bpf_map_type type;
		const char *name;
	} maps[] = {
		{BPF_MAP_TYPE_TASK_STORAGE, "BPF task storage (Linux 5.11, CONFIG_BPF_SYSCALL)"},
		{BPF_MAP_TYPE_RINGBUF, "BPF ring buffer (Linux 5.8)"},
	};

	for (size_t i = 0; i < sizeof(helpers) / sizeof(helpers[0]); i++) {
		if (libbpf_probe_bpf_helper(helpers[i].prog, helpers[i].helper, NULL) != 0)
			continue;
		log__error("cannot record: this kernel lacks %s", helpers[i].name);
		return -EOPNOTSUPP;
	}
	for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++) {
		if (libbpf_probe_bpf_map_type(maps[i].type, NULL) != 0)
			continue;
		log__error("cannot record: this kernel lacks %s", maps[i].name);
		return -EOPNOTSUPP;
	}
	return 0;
}

int kernel__check(void)
{
	int err = check_privilege();

	if (err)
		return err;
	if (access("/sys/kernel/btf/vmlinux", R_OK) || !vmlinux_btf()) {
		log__error("cannot record: no kernel type information in /sys/kernel/btf/vmlinux; "
			   "it needs a kernel with CONFIG_DEBUG_INFO_BTF=y (and /sys mounted)");
		return -EOPNOTSUPP;
	}
	return check_features();
}

bool kernel__switch_has_state(void)
{
	const struct btf *btf = vmlinux_btf();
	const struct btf_type *type;
	int id;

	id = btf ? btf__find_by_name_kind(btf, "btf_trace_sched_switch", BTF_KIND_TYPEDEF) : -1;
	if (id < 0)
		return true;
	/* typedef void (*btf_trace_sched_switch)(void *, bool, prev, next[, prev_state]) */
	type = btf__type_by_id(btf, btf__type_by_id(btf, id)->type);
	if (type && btf_is_ptr(type))
		type = btf__type_by_id(btf, type->type);
	return type && btf_is_func_proto(type) && btf_vlen(type) >= 5;
}

bool kernel__has_function(const char *name)
{
	return vmlinux_btf() && btf__find_by_name_kind(vmlinux_btf(), name, BTF_KIND_FUNC) > 0;
}

int kernel__cgroup_subsys(const char *controller)
{
	const struct btf *btf = vmlinux_btf();
	const struct btf_type *type;
	char wanted[64];
	int id;

	if (!strcmp(controller, "blkio"))
		controller = "io";
	snprintf(wanted, sizeof(wanted), "%s_cgrp_id", controller);
	id = btf ? btf__find_by_name_kind(btf, "cgroup_subsys_id", BTF_KIND_ENUM) : -1;
	if (id < 0)
		return -1;
	type = btf__type_by_id(btf, id);
	for (int i = 0; i < btf_vlen(type); i++)
		if (!strcmp(btf__name_by_offset(btf, btf_enum(type)[i].name_off), wanted))
			return btf_enum(type)[i].val;
	return -1;
}
