/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * compat: what differs between kernels and architectures, one accessor each.
 */
#ifndef OFFCPU_COMPAT_BPF_H
#define OFFCPU_COMPAT_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#define PF_KTHREAD   0x00200000
#define TASK_RUNNING 0
#define TASK_DEAD    0x80

/* Queued to run? A task that EEVDF keeps queued after it went to sleep (delayed dequeue, 6.12,
 * 152e11f6df29) is not. */
static __always_inline bool task_queued(struct task_struct *task)
{
	if (!BPF_CORE_READ(task, on_rq))
		return false;
	if (bpf_core_field_exists(task->se.sched_delayed) && BPF_CORE_READ(task, se.sched_delayed))
		return false;
	return true;
}

static __always_inline bool task_on_cpu(struct task_struct *task)
{
	return BPF_CORE_READ(task, on_cpu);
}

/*
 * Since 6.2 (a35b9af4ec2c) a number may be read through like a pointer, at the cost of a load that
 * yields 0 on a fault, where bpf_probe_read_kernel() costs 30 ns. 'have_direct_read' says whether
 * this kernel has it.
 */
extern void *bpf_rdonly_cast(const void *obj, __u32 btf_id) __ksym __weak;

/* Any kernel type that begins with a 64-bit number will do. */
static __always_inline __u64 read_word(__u64 addr)
{
	struct timespec64 *p;

	p = bpf_rdonly_cast((void *)addr, bpf_core_type_id_kernel(struct timespec64));
	return p->tv_sec;
}

#if defined(__TARGET_ARCH_x86)
#define REGS_IP(regs) ((regs)->ip)
#define REGS_SP(regs) ((regs)->sp)
#define REGS_FP(regs) ((regs)->bp)
/* 64-bit user code, not compat: selector __USER_CS. */
#define REGS_IS_64BIT_USER(regs) ((regs)->cs == 0x33)
/*
 * Is a sample from user code? The selector is word 17 of the registers (asm/ptrace.h); the verifier
 * takes only whole words of a perf event's, and the field's size differs between kernels (FRED, 6.9).
 */
#define SAMPLE_IS_USER(ctx) ((((const volatile __u64 *)(ctx))[17] & 3) == 3)
/* A word that may be a return address of the kernel or of a module. */
#define LOOKS_LIKE_KERNEL_TEXT(w) ((w) >= 0xffffffff80000000ULL)
/* Kernel stacks are aligned to this (THREAD_SIZE; twice that with KASAN, which only makes the
 * highest frames of deep stacks unmemoisable). */
#define KERNEL_STACK_SIZE 16384
#else
#error "architecture not supported yet"
#endif

#endif
