/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kernel: what the running kernel can do, asked of its BTF and by probing, never guessed from its
 * version; and in words what is missing.
 */
#ifndef OFFCPU_KERNEL_H
#define OFFCPU_KERNEL_H

#include <stdbool.h>

/*
 * Checks privilege, BTF and the features that recording needs. Returns 0, or -errno after one line
 * that names the missing capability, feature or kernel option.
 */
int kernel__check(void);

/* Does the sched_switch tracepoint pass the previous task's state (5.18)? */
bool kernel__switch_has_state(void);

/* Does the kernel have this function in its type information (for kfuncs)? */
bool kernel__has_function(const char *name);

/* Id of a v1 cgroup controller ("cpu", "memory", ...) in this kernel, or -1. */
int kernel__cgroup_subsys(const char *controller);

#endif
