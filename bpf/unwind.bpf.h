/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unwind: user registers to return addresses, by following frame pointers. The only door is
 * unwind__user(); another way of stepping has to fill the same two things: the frames, and the
 * stack slots that the result depends on (for the memo, see memo.bpf.h).
 */
#ifndef OFFCPU_UNWIND_BPF_H
#define OFFCPU_UNWIND_BPF_H

#include "compat.bpf.h"
#include "stats.bpf.h"

#define SLOTS_PER_CHUNK 8
#define USER_CHUNKS	16   /* 128 slots: 64 frames with frame pointers */
#define KERNEL_CHUNKS	4    /* 32 frames */
#define USER_SPAN	4096 /* bytes of stack, from sp, that a memo may depend on */
#define KERNEL_SPAN	2048

/* Stack slots and what they held. The first slot fills the whole chunk until the others come, so
 * that a chunk is compared without counting. */
struct chunk {
	__u64 value[SLOTS_PER_CHUNK];
	__u16 offset[SLOTS_PER_CHUNK]; /* bytes from the base */
};

static __always_inline void chunk__set(struct chunk *c, __u32 index, __u64 value, __u16 offset)
{
	__u32 i;

	if (index) {
		c->value[index % SLOTS_PER_CHUNK] = value;
		c->offset[index % SLOTS_PER_CHUNK] = offset;
		return;
	}
	for (i = 0; i < SLOTS_PER_CHUNK; i++) {
		c->value[i] = value;
		c->offset[i] = offset;
	}
}

#define CHUNKS(slots) (((slots) + SLOTS_PER_CHUNK - 1) / SLOTS_PER_CHUNK)

struct user_regs {
	__u64 ip, sp, fp;
};

/* A walk in progress, and its result. */
struct walk {
	struct user_regs regs;
	__u64 fp; /* frame pointer to follow next */
	__u64 hash;
	__u32 slots; /* slots read, or NOT_MEMOISABLE */
	__u32 span;  /* bytes from sp up to the end of the highest slot */
	struct chunk deps[USER_CHUNKS];
	struct stack_value stack;
};

#define NOT_MEMOISABLE (~0U)

/*
 * Frames are hashed one by one, two rounds of multiply and xor-shift each (the finaliser of
 * splitmix64), so that the id of a stack costs no second pass.
 */
static __always_inline __u64 hash_step(__u64 hash, __u64 value)
{
	hash = (hash ^ value) * 0xbf58476d1ce4e5b9ULL;
	return hash ^ (hash >> 29);
}

static __always_inline __u64 hash_finish(__u64 hash)
{
	hash = (hash ^ (hash >> 32)) * 0x94d049bb133111ebULL;
	hash ^= hash >> 31;
	return hash < STACK_RESERVED ? hash + STACK_RESERVED : hash;
}

static __always_inline void walk__push_frame(struct walk *w, __u64 ip)
{
	__u32 n = w->stack.n;

	if (n >= MAX_FRAMES)
		return;
	w->stack.frames[n] = ip;
	w->stack.n = n + 1;
	w->hash = hash_step(w->hash, ip);
}

/* Notes that the result depends on the 8 bytes at 'addr' being 'value'. */
static __always_inline void walk__depend(struct walk *w, __u64 addr, __u64 value)
{
	__u64 offset = addr - w->regs.sp;
	__u32 slot = w->slots, index;

	if (slot >= USER_CHUNKS * SLOTS_PER_CHUNK || offset > USER_SPAN - 8) {
		w->slots = NOT_MEMOISABLE;
		return;
	}
	index = (slot / SLOTS_PER_CHUNK) & (USER_CHUNKS - 1);
	chunk__set(&w->deps[index], slot % SLOTS_PER_CHUNK, value, offset);
	w->slots = slot + 1;
	if (offset + 8 > w->span)
		w->span = offset + 8;
}

/* Where a walk reads: the current task's memory, or another's (sleepable programs only). */
struct walk_from {
	struct walk *walk;
	struct task_struct *task;
};

static __always_inline int step(struct walk *w, __u64 frame[2], long err)
{
	__u64 fp = w->fp;

	if (err) {
		w->stack.end = WALK_UNREADABLE;
		return 1;
	}
	walk__depend(w, fp, frame[0]);
	walk__depend(w, fp + 8, frame[1]);
	if (!frame[1]) {
		w->stack.end = WALK_COMPLETE;
		return 1;
	}
	walk__push_frame(w, frame[1]);
	w->fp = frame[0];
	if (!w->fp) {
		w->stack.end = WALK_COMPLETE;
		return 1;
	}
	if (w->fp <= fp || w->fp & 7) {
		w->stack.end = WALK_BAD_FRAME;
		return 1;
	}
	return 0;
}

static long step_current(__u32 i, void *data)
{
	struct walk *w = ((struct walk_from *)data)->walk;
	__u64 frame[2];
	long err = bpf_probe_read_user(frame, sizeof(frame), (void *)w->fp);

	return step(w, frame, err);
}

static long step_remote(__u32 i, void *data)
{
	struct walk_from *from = data;
	__u64 frame[2];
	long err = bpf_copy_from_user_task(frame, sizeof(frame), (void *)from->walk->fp, from->task,
					   0);

	return step(from->walk, frame, err);
}

static __always_inline bool walk__begin(struct walk *w, const struct user_regs *regs)
{
	w->regs = *regs;
	w->fp = regs->fp;
	w->hash = 0;
	w->slots = 0;
	w->span = 0;
	w->stack.n = 0;
	w->stack.end = WALK_DEPTH;
	w->stack.pad = 0;
	walk__push_frame(w, regs->ip);
	if (!w->fp) {
		w->stack.end = WALK_COMPLETE;
		return false;
	}
	if (w->fp < regs->sp || w->fp & 7) {
		w->stack.end = WALK_BAD_FRAME;
		return false;
	}
	return true;
}

static __always_inline void walk__finish(struct walk *w)
{
	w->hash = hash_finish(hash_step(w->hash, w->stack.end));
	if (w->stack.end == WALK_UNREADABLE) {
		/* what could not be read now may be readable next time */
		w->slots = NOT_MEMOISABLE;
		count(COUNTER_walk_unreadable);
	} else if (w->stack.end == WALK_BAD_FRAME) {
		count(COUNTER_walk_bad_frame);
	} else if (w->stack.end == WALK_DEPTH) {
		count(COUNTER_walk_depth);
	}
}

/*
 * Walks the user stack that begins with 'regs', of the current task. Fills w->stack, w->hash (its
 * id), and the slots that it depends on.
 */
static __always_inline void unwind__user(struct walk *w, const struct user_regs *regs)
{
	struct walk_from from = {.walk = w};

	if (walk__begin(w, regs))
		bpf_loop(max_depth - 1, step_current, &from, 0);
	walk__finish(w);
}

/* The same for another task, which sleeps; from sleepable programs. */
static __always_inline void unwind__user_remote(struct walk *w, const struct user_regs *regs,
						struct task_struct *task)
{
	struct walk_from from = {.walk = w, .task = task};

	if (walk__begin(w, regs))
		bpf_loop(max_depth - 1, step_remote, &from, 0);
	walk__finish(w);
}

#endif
