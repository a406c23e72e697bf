/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * account: what each followed thread is doing, and since when. Every instant of a thread's life in
 * the window is in exactly one of three states, and each event closes one interval and opens the
 * next at the same instant, so that the parts add up to the whole by construction:
 *
 *              fork                       sched_switch (in)
 *                │                 ┌───────────────────────────┐
 *                ▼                 │                           ▼
 *           ┌─────────┐            │                      ┌─────────┐
 *           │ RUNQ    ├────────────┘                      │ ON      │
 *           │         │◄──────────────────────────────────┤         ├──► sched_switch (out),
 *           └─────────┘  sched_switch (out), preempted or └────┬────┘    dead: final record
 *                ▲       still runnable                        │
 *                │                 ┌─────────┐                 │
 *                └─────────────────┤ BLOCKED │◄────────────────┘
 *                  sched_wakeup    └─────────┘  sched_switch (out), state != running
 *
 * An off-CPU segment is one BLOCKED interval (possibly none) and the RUNQ interval after it; its
 * stack is the one taken at switch-out, and it is added to the row of that stack at the next
 * switch-out, where the thread's memos are at hand.
 *
 * Threads older than the recording start as NEW. The seeding iterator leaves in 'seed' what it saw;
 * the first event, if it comes, knows better, since its kind tells what the thread was doing until
 * then. Only events write 'state', and the scheduler's locks order the events of one thread; so
 * iterator and events need no lock between them.
 *
 * An event may go missing (a kernel may switch without tracing, for one). The kernel's own count of
 * the thread's CPU time then tells since when it has been running.
 *
 * Intervals are clipped to the window when they are closed. The window opens after seeding.
 */
#ifndef OFFCPU_ACCOUNT_BPF_H
#define OFFCPU_ACCOUNT_BPF_H

#include "filter.bpf.h"
#include "memo.bpf.h"

enum thread_state { STATE_NEW, STATE_ON, STATE_RUNQ, STATE_BLOCKED, STATE_DEAD };

/* Who closes a thread that lives through the end of the window. */
enum closer { CLOSER_NONE, CLOSER_DEATH, CLOSER_ITERATOR };

struct seed {
	__u32 state; /* STATE_NEW until the iterator has been here */
	__u32 pad;
	__u64 ustack, kstack;
};

/* One followed thread. */
struct thread {
	__u32 state; /* enum thread_state */
	__u32 epoch; /* last drain noticed */
	__u64 since_ns;
	__u64 runtime_ns;	  /* the kernel's count of its CPU time, at the last switch-out */
	__u64 ustack, kstack;	  /* of the current off-CPU segment */
	__u64 segment_blocked_ns; /* its blocked part, clipped */
	__u64 segment_runq_ns;	  /* its run queue part, clipped, once it is over */
	__u64 block_ns;		  /* its blocked part, not clipped, for -m/-M */
	__u32 segment_state;	  /* task state at switch-out; 0: preempted */
	bool blocked;		  /* the segment began with a block */
	bool fresh;		  /* our own child before its first exec: not part of the target */
	__u16 walks;		  /* memo misses while there are no memos */
	__u32 claimed;		  /* enum closer, once the window is over */
	struct seed seed;
	struct thread_rec rec;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} exits SEC(".maps");

__u32 next_thread_id = 1;

static __always_inline struct thread *thread__find(struct task_struct *task)
{
	/* most tasks have no storage at all: one load tells */
	if (!task->bpf_storage)
		return NULL;
	return bpf_task_storage_get(&threads, task, NULL, 0);
}

/* Length of [from, to] inside the window. */
static __always_inline __u64 clip(__u64 from, __u64 to)
{
	__u64 start = window_start, end = window_end;

	if (!start)
		return 0;
	if (from > to && to < end)
		count(COUNTER_clock_back);
	if (from < start)
		from = start;
	if (to > end)
		to = end;
	return to > from ? to - from : 0;
}

static __always_inline bool in_window(__u64 now)
{
	return window_start && now >= window_start && now < window_end;
}

static __always_inline void read_cpu_times(struct cpu_times *times, struct task_struct *task)
{
	times->user_ns = BPF_CORE_READ(task, utime);
	times->system_ns = BPF_CORE_READ(task, stime);
	times->runtime_ns = BPF_CORE_READ(task, se.sum_exec_runtime);
}

static __always_inline void read_names(struct thread_rec *rec, struct task_struct *task)
{
	BPF_CORE_READ_STR_INTO(&rec->comm, task, comm);
	BPF_CORE_READ_STR_INTO(&rec->process, task, group_leader, comm);
}

/* Fills a record that is all zero. The id comes last: it says that the rest is there. */
static __always_inline void begin_record(struct thread_rec *rec, struct task_struct *task,
					 __u64 birth_ns)
{
	rec->birth_ns = birth_ns;
	rec->tid = task_tid(task);
	rec->tgid = task_tgid(task);
	rec->flags = BPF_CORE_READ(task, flags) & PF_KTHREAD ? THREAD_KERNEL : 0;
	read_cpu_times(&rec->first, task);
	read_names(rec, task);
	rec->id = __sync_fetch_and_add(&next_thread_id, 1);
}

/* Gives the task storage, if it has none. Not in the switch path. */
static __always_inline struct thread *thread__create(struct task_struct *task, __u64 birth_ns)
{
	struct thread *t =
		bpf_task_storage_get(&threads, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!t) {
		count(COUNTER_no_storage);
		return NULL;
	}
	if (t->rec.id)
		return t;
	begin_record(&t->rec, task, birth_ns);
	__sync_fetch_and_add(&live_threads, 1);
	return t;
}

/* --- off-CPU segments --- */

static __always_inline bool filtered(const struct thread *t)
{
	__u32 state = t->segment_state;

	if (!filter_blocks || !t->blocked)
		return false;
	return t->block_ns < min_block_ns || t->block_ns > max_block_ns ||
	       (state && !(state & state_mask));
}

static __always_inline void flush_accumulator(struct thread *t, struct accumulator *a)
{
	struct row_key key = {
		.ustack = a->ustack,
		.kstack = a->kstack,
		.thread = t->rec.id,
	};

	if (!a->sum.blocks)
		return;
	store__row(&key, &a->sum, COUNTER_row_full);
	a->sum.blocks = 0;
}

struct flush {
	struct thread *thread;
	struct memos *memos;
};

static long flush_one(__u32 i, void *data)
{
	struct flush *f = data;

	flush_accumulator(f->thread, &f->memos->accumulators[i & (ACCUMULATORS - 1)]);
	return 0;
}

static __always_inline void flush_accumulators(struct thread *t, struct memos *m)
{
	struct flush f = {.thread = t, .memos = m};

	bpf_loop(ACCUMULATORS, flush_one, &f, 0);
}

/* Adds the off-CPU segment that is over to the row of its stack. */
static __always_inline void add_segment(struct thread *t, struct memos *m)
{
	__u64 blocked_ns = t->segment_blocked_ns, runq_ns = t->segment_runq_ns;
	__u64 ustack = t->ustack, kstack = t->kstack, wait_ns = blocked_ns + runq_ns;
	struct accumulator *a;

	if (!wait_ns)
		return;
	t->segment_blocked_ns = 0;
	t->segment_runq_ns = 0;
	if (filtered(t)) {
		t->rec.filtered_ns += blocked_ns;
		ustack = STACK_FILTERED;
		kstack = STACK_NONE;
	}
	if (!m) {
		struct row_key key = {.ustack = ustack, .kstack = kstack, .thread = t->rec.id};
		struct row_value add = {
			.runq_ns = runq_ns,
			.blocked_ns = blocked_ns,
			.blocks = 1,
			.max_ns = wait_ns,
		};

		store__row(&key, &add, COUNTER_row_full);
		return;
	}
	a = &m->accumulators[(ustack ^ kstack) & (ACCUMULATORS - 1)];
	if (!a->sum.blocks || a->ustack != ustack || a->kstack != kstack) {
		flush_accumulator(t, a);
		a->ustack = ustack;
		a->kstack = kstack;
		a->sum.runq_ns = 0;
		a->sum.blocked_ns = 0;
		a->sum.max_ns = 0;
	}
	a->sum.runq_ns += runq_ns;
	a->sum.blocked_ns += blocked_ns;
	a->sum.blocks++;
	if (wait_ns > a->sum.max_ns)
		a->sum.max_ns = wait_ns;
}

/* Makes what the iterator saw the state, if no event has come yet. */
static __always_inline void take_seed(struct thread *t)
{
	t->ustack = t->seed.ustack;
	t->kstack = t->seed.kstack;
	t->blocked = t->seed.state == STATE_BLOCKED;
}

/* The thread became runnable. */
static __always_inline void account__wakeup(struct thread *t, struct task_struct *task, __u64 now)
{
	if (t->state == STATE_NEW) {
		/* a wakeup may come to a thread that is running */
		if (task_on_cpu(task))
			return;
		take_seed(t);
		t->blocked = true;
	} else if (t->state != STATE_BLOCKED) {
		return;
	}
	t->segment_blocked_ns = clip(t->since_ns, now);
	t->block_ns = now - t->since_ns;
	t->rec.blocked_ns += t->segment_blocked_ns;
	t->state = STATE_RUNQ;
	t->since_ns = now;
}

/*
 * Does a thread that is switched out begin to wait? Not if it was preempted or is still runnable;
 * and not if it has been woken again already: between the decision to block and the switch the run
 * queue's lock may be dropped, and a task whose dequeueing is delayed (6.12) can be woken then.
 * That wakeup has come while the thread was on the CPU, and has left its state at running.
 */
static __always_inline bool begins_to_wait(struct task_struct *task, bool preempt, __u64 state)
{
	return !preempt && state != TASK_RUNNING && task->__state != TASK_RUNNING;
}

/* CPU time since the last switch-out. */
static __always_inline __u64 ran_ns(const struct thread *t, struct task_struct *task)
{
	return task->se.sum_exec_runtime - t->runtime_ns;
}

/* Until when it ran, if its switch-out was not seen. */
static __always_inline __u64 ran_until(const struct thread *t, struct task_struct *task, __u64 now)
{
	__u64 until = t->since_ns + ran_ns(t, task);

	return until < now ? until : now;
}

/* The thread begins to run. */
static __always_inline void account__switch_in(struct thread *t, struct task_struct *task,
					       __u64 now)
{
	if (t->state == STATE_NEW) {
		take_seed(t);
	} else if (t->state == STATE_BLOCKED) {
		count(COUNTER_missed_wakeup);
		account__wakeup(t, task, now);
	} else if (t->state != STATE_RUNQ) {
		if (t->state == STATE_ON) {
			count(COUNTER_missed_switch_out);
			t->rec.on_ns += clip(t->since_ns, ran_until(t, task, now));
		}
		t->since_ns = now;
		t->runtime_ns = task->se.sum_exec_runtime;
		return;
	}
	t->segment_runq_ns = clip(t->since_ns, now);
	t->rec.runq_ns += t->segment_runq_ns;
	t->state = STATE_ON;
	t->since_ns = now;
}

/* The thread stops running: ends what it was doing until now. */
static __always_inline void account__switch_out(struct thread *t, struct task_struct *task,
						__u64 now)
{
	if (t->state == STATE_RUNQ || t->state == STATE_BLOCKED) {
		__u64 ran = ran_ns(t, task);

		count(COUNTER_missed_switch_in);
		account__switch_in(t, task, now - t->since_ns > ran ? now - ran : t->since_ns);
	}
	if (t->state != STATE_DEAD)
		t->rec.on_ns += clip(t->since_ns, now);
	t->runtime_ns = task->se.sum_exec_runtime;
}

/* Closes what is open at 'now', for the last time. */
static __always_inline void account__close(struct thread *t, struct task_struct *task,
					   struct memos *m, __u64 now)
{
	__u32 state = t->state;

	if (state == STATE_NEW) {
		state = t->seed.state;
		take_seed(t);
	}
	switch (state) {
	case STATE_ON:
		t->rec.on_ns += clip(t->since_ns, now);
		break;
	case STATE_RUNQ:
		t->segment_runq_ns = clip(t->since_ns, now);
		t->rec.runq_ns += t->segment_runq_ns;
		break;
	case STATE_BLOCKED:
		t->segment_blocked_ns = clip(t->since_ns, now);
		t->block_ns = now - t->since_ns;
		t->rec.blocked_ns += t->segment_blocked_ns;
		t->rec.flags |= THREAD_BLOCKED_AT_END;
		break;
	}
	add_segment(t, m);
	t->since_ns = now;
	if (m)
		flush_accumulators(t, m);
	read_cpu_times(&t->rec.last, task);
}

/* Sends the record of a thread, or of its life until an exec, that has been closed. */
static __always_inline void send_record(struct thread *t, __u64 now)
{
	t->rec.end_ns = now;
	if (bpf_ringbuf_output(&exits, &t->rec, sizeof(t->rec), BPF_RB_NO_WAKEUP))
		count(COUNTER_exit_full);
}

/* The thread has died; it is being switched out for the last time. */
static __always_inline void account__exit(struct thread *t, struct task_struct *task,
					  struct memos *m, __u64 now)
{
	t->state = STATE_ON;
	t->since_ns = now;
	account__close(t, task, m, now);
	read_names(&t->rec, task);
	send_record(t, now);
	t->state = STATE_DEAD;
	last_end_ns = now;
	__sync_fetch_and_add(&live_threads, -1);
}

/* After the window: closes a thread that lived through the end of it. False if that has been done.
 */
static __always_inline bool account__survivor(struct thread *t, struct task_struct *task,
					      struct memos *m, enum closer by)
{
	if (t->state == STATE_DEAD || t->fresh ||
	    __sync_val_compare_and_swap(&t->claimed, CLOSER_NONE, by) != CLOSER_NONE)
		return false;
	account__close(t, task, m, window_end);
	read_names(&t->rec, task);
	t->rec.flags |= THREAD_ALIVE;
	return true;
}

/*
 * The process became another program: one record ends, the next begins. The old one keeps the names
 * it was created with, since the task has its new one already.
 */
static __always_inline void account__exec(struct thread *t, struct task_struct *task, __u64 now)
{
	if (!t->fresh) {
		account__close(t, task, bpf_task_storage_get(&memos, task, NULL, 0), now);
		send_record(t, now);
	}
	__builtin_memset(&t->rec, 0, sizeof(t->rec));
	t->segment_blocked_ns = 0;
	t->segment_runq_ns = 0;
	t->fresh = false;
	t->state = STATE_ON;
	t->since_ns = now;
	begin_record(&t->rec, task, now);
}

#endif
