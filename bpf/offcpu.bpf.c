// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The programs: scheduler events (account.bpf.h says what they mean), on-CPU samples, and the
 * iterators that seed and flush threads that are not running. Each is thin: find the thread, act.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "abi.h"
#include "account.bpf.h"
#include "compat.bpf.h"
#include "config.bpf.h"
#include "filter.bpf.h"
#include "memo.bpf.h"
#include "store.bpf.h"
#include "unwind.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/* Misses after which a thread is worth memos. */
#define WALKS_BEFORE_MEMOS 8

static __always_inline struct scratch *scratch(enum scratch_context context)
{
	__u32 key = context;

	return bpf_map_lookup_elem(&scratches, &key);
}

/* Registers with which the task entered the kernel, or NULL if it has no user stack to walk. */
static __always_inline struct pt_regs *entry_regs(struct task_struct *task)
{
	if (task->flags & PF_KTHREAD || !task->mm)
		return NULL;
	return (struct pt_regs *)bpf_task_pt_regs(task);
}

static __always_inline bool user_regs(struct user_regs *regs, struct pt_regs *pt)
{
	if (!pt || !REGS_IS_64BIT_USER(pt))
		return false;
	regs->ip = REGS_IP(pt);
	regs->sp = REGS_SP(pt);
	regs->fp = REGS_FP(pt);
	return true;
}

static __always_inline __u64 user_stack(struct thread *t, struct memos *m, struct scratch *s,
					struct pt_regs *pt)
{
	__u64 id = 0;

	if (!want_user || !user_regs(&s->regs, pt))
		return STACK_NONE;
	if (m)
		id = memo__find_user(m, s);
	if (id) {
		t->rec.user_hits++;
		if (!verify_memo)
			return id;
		unwind__user(&s->walk, &s->regs);
		count(COUNTER_memo_checked);
		if (s->walk.hash != id)
			count(COUNTER_memo_wrong);
		return id;
	}
	t->rec.user_misses++;
	unwind__user(&s->walk, &s->regs);
	id = store__stack(s->walk.hash, &s->walk.stack);
	if (m && id >= STACK_RESERVED)
		memo__add_user(m, &s->walk, id);
	return id;
}

struct frame_copy {
	struct scratch *s;
	__u64 hash;
};

static long copy_kernel_frame(__u32 i, void *data)
{
	struct frame_copy *c = data;
	__u64 ip;

	if (i >= MAX_FRAMES)
		return 1;
	ip = c->s->raw[i];
	c->s->kernel.frames[i] = ip;
	c->hash = hash_step(c->hash, ip);
	return 0;
}

/* Takes the kernel stack in s->raw, of 'bytes', into s->kernel; returns its id. */
static __always_inline __u64 store_kernel_stack(struct scratch *s, long bytes)
{
	struct frame_copy copy = {.s = s};
	__u32 n = (__u64)bytes / 8;

	if (bytes <= 0)
		return STACK_NONE;
	if (n > max_depth) {
		n = max_depth;
		s->kernel.end = WALK_DEPTH;
	} else {
		s->kernel.end = WALK_COMPLETE;
	}
	s->kernel.n = n;
	s->kernel.pad = 0;
	bpf_loop(n, copy_kernel_frame, &copy, 0);
	/* kernel addresses differ from user addresses, so the ids do */
	return store__stack(hash_finish(hash_step(copy.hash, s->kernel.end)), &s->kernel);
}

/* The return address that the system call entry left below the user registers. */
static __always_inline __u64 entry_word(struct pt_regs *pt)
{
	__u64 addr = (__u64)pt - sizeof(__u64), word = 0;

	if (!pt)
		return 0;
	if (have_direct_read)
		return read_word(addr);
	bpf_probe_read_kernel(&word, sizeof(word), (void *)addr);
	return word;
}

/* The first two entries are this program and the tracepoint's runner, below ctx. */
#define OWN_FRAMES 2

static __always_inline __u64 kernel_stack(struct thread *t, struct memos *m, struct scratch *s,
					  struct pt_regs *pt, void *ctx, __u64 hint, bool voluntary)
{
	__u64 id = 0;
	long bytes;

	if (!want_kernel)
		return STACK_NONE;
	/* ctx as a number: a pointer may not be calculated with, what comes out of a map may */
	*(volatile __u64 *)&s->base = (__u64)ctx;
	s->entry = entry_word(pt);
	if (m && voluntary)
		id = memo__find_kernel(m, s, hint);
	if (id) {
		t->rec.kernel_hits++;
		if (!verify_memo)
			return id;
	} else {
		t->rec.kernel_misses++;
	}
	bytes = bpf_get_stack(ctx, s->raw, sizeof(s->raw), OWN_FRAMES);
	if (id) {
		count(COUNTER_memo_checked);
		if (store_kernel_stack(s, bytes) != id)
			count(COUNTER_memo_wrong);
		return id;
	}
	id = store_kernel_stack(s, bytes);
	if (m && voluntary && id >= STACK_RESERVED)
		memo__add_kernel(m, s, hint, id);
	return id;
}

/*
 * Returns the time.
 *
 * The stacks come first and the accounting after, for the verifier's sake: it looks at what follows
 * a branch once for each way to get there.
 */
static __always_inline __u64 switch_out(void *ctx, struct thread *t, struct task_struct *task,
					bool preempt, __u64 state)
{
	struct memos *m = bpf_task_storage_get(&memos, task, NULL, 0);
	__u64 ustack = STACK_LOST, kstack = STACK_LOST, now;
	struct scratch *s = scratch(SCRATCH_SWITCH);
	bool wait;

	if (closing) {
		if (!preempt && state & TASK_DEAD && account__survivor(t, task, m, CLOSER_DEATH))
			send_record(t, 0);
		return 0;
	}
	if (!preempt && state & TASK_DEAD) {
		now = bpf_ktime_get_ns();
		account__switch_out(t, task, now);
		account__exit(t, task, m, now);
		return now;
	}
	if (s) {
		struct pt_regs *pt = entry_regs(task);

		s->now = bpf_ktime_get_ns();
		ustack = user_stack(t, m, s, pt);
		kstack = kernel_stack(t, m, s, pt, ctx, ustack, !preempt);
		now = s->now;
	} else {
		now = bpf_ktime_get_ns();
	}

	account__switch_out(t, task, now);
	add_segment(t, m);
	wait = begins_to_wait(task, preempt, state);
	if (in_window(now)) {
		t->rec.switches++;
		t->rec.voluntary += wait;
	}
	t->state = wait ? STATE_BLOCKED : STATE_RUNQ;
	t->blocked = wait;
	t->segment_state = wait ? state : 0;
	t->since_ns = now;
	t->ustack = ustack;
	t->kstack = kstack;
	if (m) {
		if (t->epoch != epoch) {
			t->epoch = epoch;
			flush_accumulators(t, m);
		}
	} else if (++t->walks == WALKS_BEFORE_MEMOS) {
		__sync_fetch_and_add(&memo_wanted, 1);
	}
	return now;
}

SEC("tp_btf/sched_switch")
int on_sched_switch(__u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	struct thread *t = thread__find(prev);
	__u64 now = 0;

	if (t)
		now = switch_out(ctx, t, prev, ctx[0] & 1,
				 have_state_arg ? (__u32)ctx[3] : prev->__state);
	t = thread__find(next);
	if (t && !closing)
		account__switch_in(t, next, now ? now : bpf_ktime_get_ns());
	return 0;
}

static __always_inline int wakeup(struct task_struct *task)
{
	struct thread *t = thread__find(task);

	if (t && !closing)
		account__wakeup(t, task, bpf_ktime_get_ns());
	return 0;
}

SEC("tp_btf/sched_wakeup")
int on_sched_wakeup(__u64 *ctx)
{
	return wakeup((void *)ctx[0]);
}

SEC("tp_btf/sched_process_fork")
int on_sched_process_fork(__u64 *ctx)
{
	struct task_struct *parent = (void *)ctx[0], *child = (void *)ctx[1];
	struct thread *p = thread__find(parent), *t;
	__u64 now;

	if (closing || !child_selected(child, p != NULL, parent->tgid == child->tgid))
		return 0;
	now = bpf_ktime_get_ns();
	t = thread__create(child, now);
	if (!t || t->state != STATE_NEW)
		return 0;
	t->state = STATE_RUNQ;
	t->since_ns = now;
	return 0;
}

SEC("tp_btf/sched_process_exec")
int on_sched_process_exec(__u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct thread *t = thread__find(task);
	__u64 now = bpf_ktime_get_ns();

	if (closing)
		return 0;
	if (t) {
		account__exec(t, task, now);
	} else if (target_mode == TARGET_NAME && name_matches(task)) {
		t = thread__create(task, now);
		if (t) {
			t->state = STATE_ON;
			t->since_ns = now;
		}
	}
	return 0;
}

/* A task is moved into the cgroup while recording. */
SEC("tp_btf/cgroup_attach_task")
int on_cgroup_attach_task(__u64 *ctx)
{
	struct task_struct *task = (void *)ctx[2];

	if (target_mode == TARGET_CGROUP && !thread__find(task) && in_cgroup(task))
		thread__create(task, bpf_ktime_get_ns());
	return 0;
}

SEC("perf_event")
int on_sample(struct bpf_perf_event_data *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *t = thread__find(task);
	struct row_value add = {.samples = 1};
	__u64 now = bpf_ktime_get_ns();
	struct row_key key = {};
	struct user_regs regs;
	struct scratch *s;

	if (!t || !in_window(now))
		return 0;
	s = scratch(SCRATCH_SAMPLE);
	if (!s)
		return 0;
	t->rec.samples++;
	key.thread = t->rec.id;
	if (SAMPLE_IS_USER(ctx)) {
		if (want_user) {
			regs.ip = REGS_IP(&ctx->regs);
			regs.sp = REGS_SP(&ctx->regs);
			regs.fp = REGS_FP(&ctx->regs);
			unwind__user(&s->walk, &regs);
			key.ustack = store__stack(s->walk.hash, &s->walk.stack);
		}
	} else {
		if (want_kernel)
			key.kstack = store_kernel_stack(
				s, bpf_get_stack(ctx, s->raw, sizeof(s->raw), 0));
		if (want_user && user_regs(&regs, entry_regs(task))) {
			unwind__user(&s->walk, &regs);
			key.ustack = store__stack(s->walk.hash, &s->walk.stack);
		}
	}
	store__row(&key, &add, COUNTER_sample_lost);
	return 0;
}

/* Run once by the loader: in how deep a PID namespace is it? */
SEC("syscall")
int learn_pid_namespace(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();

	pidns_level = BPF_CORE_READ(task, thread_pid, level);
	return 0;
}

/* --- iterators --- */

static __always_inline struct scratch *iterator_space(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&iterator_scratch, &zero);
}

/* Finds the targets, and what they are doing. Run it twice: a task that is born behind the
 * iterator's back while its parent is not yet followed is found by the second run. */
SEC("iter.s/task")
int seed_tasks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct user_regs regs;
	struct scratch *s;
	struct thread *t;
	__u32 state;

	if (!task || !task_selected(task))
		return 0;
	/* Storage first, then the look: what happens after is seen by the events. */
	t = thread__create(task, 0);
	s = iterator_space();
	if (!t || !s || t->state != STATE_NEW || t->seed.state != STATE_NEW)
		return 0;
	t->fresh = fresh_command;
	state = task_on_cpu(task) ? STATE_ON : task_queued(task) ? STATE_RUNQ : STATE_BLOCKED;
	if (state != STATE_ON) {
		if (want_kernel)
			t->seed.kstack = store_kernel_stack(
				s, bpf_get_task_stack(task, s->raw, sizeof(s->raw), 0));
		if (want_user && user_regs(&regs, entry_regs(task))) {
			unwind__user_remote(&s->walk, &regs, task);
			t->seed.ustack = store__stack(s->walk.hash, &s->walk.stack);
		}
	}
	if (state == STATE_BLOCKED)
		t->rec.flags |= THREAD_BLOCKED_AT_START;
	t->seed.state = state;
	/* tells the loader which processes there are */
	bpf_seq_write(ctx->meta->seq, &t->rec, sizeof(t->rec));
	return 0;
}

/* Gives memos to threads that switch often. Here the allocation may sleep. */
SEC("iter.s/task")
int give_memos(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct thread *t;

	if (!task)
		return 0;
	t = thread__find(task);
	if (t && t->walks >= WALKS_BEFORE_MEMOS)
		bpf_task_storage_get(&memos, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	return 0;
}

/* Should the task have been followed, although it is not? */
static __always_inline bool task_missed(struct task_struct *task)
{
	return target_mode != TARGET_NAME && task_selected(task) &&
	       BPF_CORE_READ(task, start_time) < window_end;
}

/* After the window: closes every thread that lives. */
SEC("iter.s/task")
int flush_tasks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct thread *t;

	if (!task)
		return 0;
	t = thread__find(task);
	/* one that could not be followed (no_storage) is told with all its time lost */
	if (!t && task_missed(task))
		t = thread__create(task, BPF_CORE_READ(task, start_time));
	if (!t || !t->rec.id)
		return 0;
	/* (the iterator comes again to a task whose output did not fit) */
	if (t->claimed == CLOSER_ITERATOR ||
	    account__survivor(t, task, bpf_task_storage_get(&memos, task, NULL, 0),
			      CLOSER_ITERATOR))
		bpf_seq_write(ctx->meta->seq, &t->rec, sizeof(t->rec));
	return 0;
}
