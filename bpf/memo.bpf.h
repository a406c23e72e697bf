/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * memo: exact memoised stacks, and the accumulators that go with them.
 *
 * A thread blocks again and again with one of a few stacks. What a walk yields is a function of the
 * registers it starts from and of the stack slots it reads. So each thread remembers its last
 * walks: registers, slots with their values, and the resulting stack's id. The next time the
 * registers are the same, one bulk read of the stack and a comparison of the slots tell whether the
 * walk would yield the same: equality of all inputs implies equality of the output. Nothing is
 * guessed.
 *
 *        sp ──►┌──────────────┐ 0
 *              │ locals       │
 *              ├──────────────┤ offset[0]   saved fp  == value[0] ?
 *              ├──────────────┤ offset[1]   return    == value[1] ?
 *              │ locals       │
 *              ├──────────────┤ offset[2]   saved fp  == value[2] ?   ...up to 'span'
 *
 * Kernel stacks: the same, without registers: the walk always starts in __schedule(), from the
 * tracepoint's argument array ('ctx'), which lies on the kernel stack just below. Its distance to
 * the return addresses is constant (the distance to the stack's top is not: the kernel randomises
 * that with each system call). After a walk the slots are found by scanning upward from ctx for the
 * return addresses in order; the stack is memoised only if each of them occurs exactly once in the
 * stack, so that a stale copy in dead stack space cannot pass for the slot. From __schedule() up,
 * equal return addresses in those slots mean the same function called from the same place, so the
 * next slot is where it was: by induction the stack is equal. The one exception is the outermost
 * frame of a system call: the random gap lies just below it, but it is at a constant distance from
 * the top instead, the word below the saved user registers, and is compared there. Only for
 * voluntary switches, where no interrupt frame lies in between.
 *
 * Memos belong to one thread and are used only by the thread itself at its own switch-out, so they
 * need no locks; they are freed with the thread.
 */
#ifndef OFFCPU_MEMO_BPF_H
#define OFFCPU_MEMO_BPF_H

#include "store.bpf.h"
#include "unwind.bpf.h"

#define USER_MEMOS   8 /* per thread; powers of two */
#define KERNEL_MEMOS 8
#define ACCUMULATORS 8
#define WAYS	     4 /* memos tried for one walk */

struct user_memo {
	struct user_regs regs;
	__u64 stack; /* id; 0: unused */
	__u32 span, chunks;
	struct chunk deps[USER_CHUNKS];
};

struct kernel_memo {
	__u64 stack;
	__u64 entry; /* outermost frame, if it is the word below the user registers; else 0 */
	__u32 span;
	__u16 slots, chunks;
	struct chunk deps[KERNEL_CHUNKS];
};

/* Time under one pair of stacks that is not in the row map yet. */
struct accumulator {
	__u64 ustack, kstack;
	struct row_value sum; /* blocks == 0: unused */
};

struct memos {
	__u32 user_turn, kernel_turn; /* which way to replace next */
	struct accumulator accumulators[ACCUMULATORS];
	struct kernel_memo kernel[KERNEL_MEMOS];
	struct user_memo user[USER_MEMOS];
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct memos);
} memos SEC(".maps");

/* Work space. One per CPU and context, since a sample may interrupt a switch, and the iterator may
 * be preempted by either. */
struct scratch {
	__u64 now;
	__u64 base;  /* address of ctx, as a number */
	__u64 entry; /* the word below the user registers; 0 if there are none */
	struct user_regs regs;
	__u64 found; /* id of the stack whose memo matches, or 0 */
	__u32 have;  /* bytes of 'words' that have been read */
	__u32 pad;
	__u64 words[USER_SPAN / 8];
	struct walk walk;
	struct stack_value kernel;
	/* the scan for the slots of a kernel stack's return addresses */
	struct {
		__u64 word;
		__u32 frames; /* to look for */
		__u32 found;  /* so far, in order */
		__u32 span;
		__u32 bad; /* an address occurs twice, or out of order */
	} scan;
	struct chunk kernel_deps[KERNEL_CHUNKS];
	__u64 raw[MAX_FRAMES + 1]; /* what bpf_get_stack() gave */
};

enum scratch_context { SCRATCH_SWITCH, SCRATCH_SAMPLE, SCRATCH_MAX };

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SCRATCH_MAX);
	__type(key, __u32);
	__type(value, struct scratch);
} scratches SEC(".maps");

/* The iterators run one at a time, but may change CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct scratch);
} iterator_scratch SEC(".maps");

#define WORD(s, offset) (*(const __u64 *)((const char *)(s)->words + ((offset) & (USER_SPAN - 8))))

static __always_inline __u64 chunk_differs(const struct scratch *s, const struct chunk *c)
{
	__u64 differ;

	differ = WORD(s, c->offset[0]) ^ c->value[0];
	differ |= WORD(s, c->offset[1]) ^ c->value[1];
	differ |= WORD(s, c->offset[2]) ^ c->value[2];
	differ |= WORD(s, c->offset[3]) ^ c->value[3];
	differ |= WORD(s, c->offset[4]) ^ c->value[4];
	differ |= WORD(s, c->offset[5]) ^ c->value[5];
	differ |= WORD(s, c->offset[6]) ^ c->value[6];
	differ |= WORD(s, c->offset[7]) ^ c->value[7];
	return differ;
}

/* Are the slots that the memo depends on, read into s->words, what they were? */
__noinline int user_slots_match(const struct scratch *s, const struct user_memo *memo)
{
	__u32 i;

	if (!s || !memo)
		return 0;
	for (i = 0; i < USER_CHUNKS && i < memo->chunks; i++)
		if (chunk_differs(s, &memo->deps[i]))
			return 0;
	return 1;
}

/* The same for the kernel stack above s->base, which need not be read first if it can be read
 * through. */
__noinline int kernel_slots_match(const struct scratch *s, const struct kernel_memo *memo)
{
	__u32 i;

	if (!s || !memo)
		return 0;
	if (!have_direct_read) {
		for (i = 0; i < KERNEL_CHUNKS && i < memo->chunks; i++)
			if (chunk_differs(s, &memo->deps[i]))
				return 0;
		return 1;
	}
	for (i = 0; i < KERNEL_CHUNKS * SLOTS_PER_CHUNK && i < memo->slots; i++) {
		const struct chunk *c = &memo->deps[i / SLOTS_PER_CHUNK];

		if (read_word(s->base + c->offset[i % SLOTS_PER_CHUNK]) !=
		    c->value[i % SLOTS_PER_CHUNK])
			return 0;
	}
	return 1;
}

static __always_inline __u32 memo_home(__u64 a, __u64 b)
{
	return (a * 0x9e3779b97f4a7c15ULL ^ b * 0xc2b2ae3d27d4eb4fULL) >> 40;
}

/* A search through the ways. (Callbacks of bpf_loop(), and their variables in a map, so that the
 * verifier sees one way, not all combinations of what may happen in each.) */
struct search {
	struct memos *memos;
	struct scratch *scratch;
	__u32 home;
};

static __noinline long try_user_memo(__u32 way, void *data)
{
	struct search *search = data;
	struct scratch *s = search->scratch;
	struct user_memo *memo = &search->memos->user[(search->home + way) & (USER_MEMOS - 1)];
	__u32 span = memo->span;

	if (memo->regs.ip != s->regs.ip || memo->regs.sp != s->regs.sp ||
	    memo->regs.fp != s->regs.fp || span > USER_SPAN)
		return 0;
	if (span > s->have) {
		if (bpf_probe_read_user(s->words, span, (void *)s->regs.sp))
			return 0;
		s->have = span;
	}
	if (!user_slots_match(s, memo))
		return 0;
	s->found = memo->stack;
	return 1;
}

/* Finds the id of the stack that begins with s->regs among the memos; 0 if it has to be walked. */
static __always_inline __u64 memo__find_user(struct memos *m, struct scratch *s)
{
	struct search search = {
		.memos = m,
		.scratch = s,
		.home = memo_home(s->regs.ip, s->regs.sp),
	};

	s->found = 0;
	s->have = 0;
	/* most often the first one is it: a plain call is cheaper */
	if (!try_user_memo(0, &search)) {
		search.home++;
		bpf_loop(WAYS - 1, try_user_memo, &search, 0);
	}
	return s->found;
}

static __always_inline void memo__add_user(struct memos *m, struct walk *w, __u64 id)
{
	__u32 home = memo_home(w->regs.ip, w->regs.sp), way;
	struct user_memo *memo;

	if (w->slots == NOT_MEMOISABLE)
		return;
	way = m->user_turn++ & (WAYS - 1);
	memo = &m->user[(home + way) & (USER_MEMOS - 1)];
	memo->regs = w->regs;
	memo->span = w->span;
	memo->chunks = CHUNKS(w->slots);
	bpf_probe_read_kernel(memo->deps, sizeof(memo->deps), w->deps);
	memo->stack = id;
}

static __noinline long try_kernel_memo(__u32 way, void *data)
{
	struct search *search = data;
	struct scratch *s = search->scratch;
	struct kernel_memo *memo =
		&search->memos->kernel[(search->home + way) & (KERNEL_MEMOS - 1)];
	__u32 span = memo->span;

	if (!memo->stack || span > KERNEL_SPAN || (memo->entry && memo->entry != s->entry))
		return 0;
	if (!have_direct_read && span > s->have) {
		if (bpf_probe_read_kernel(s->words, span, (void *)s->base))
			return 0;
		s->have = span;
	}
	if (!kernel_slots_match(s, memo))
		return 0;
	s->found = memo->stack;
	return 1;
}

/* The same for the kernel stack above s->base. 'hint' is anything that tends to go with it. */
static __always_inline __u64 memo__find_kernel(struct memos *m, struct scratch *s, __u64 hint)
{
	struct search search = {.memos = m, .scratch = s, .home = memo_home(hint, 0)};

	s->found = 0;
	s->have = 0;
	if (!try_kernel_memo(0, &search)) {
		search.home++;
		bpf_loop(WAYS - 1, try_kernel_memo, &search, 0);
	}
	return s->found;
}

static long scan_frame(__u32 i, void *data)
{
	struct scratch *s = *(struct scratch **)data;

	if (i < MAX_FRAMES && s->kernel.frames[i] == s->scan.word) {
		s->scan.bad = 1;
		return 1;
	}
	return 0;
}

static long scan_word(__u32 i, void *data)
{
	struct scratch *s = *(struct scratch **)data;
	__u64 word = s->words[i & (KERNEL_SPAN / 8 - 1)];
	__u32 found = s->scan.found, n = s->scan.frames;

	if (!LOOKS_LIKE_KERNEL_TEXT(word))
		return 0;
	if (found < n && found < KERNEL_CHUNKS * SLOTS_PER_CHUNK &&
	    word == s->kernel.frames[found]) {
		struct chunk *c = &s->kernel_deps[(found / SLOTS_PER_CHUNK) & (KERNEL_CHUNKS - 1)];

		chunk__set(c, found % SLOTS_PER_CHUNK, word, i * 8);
		s->scan.span = i * 8 + 8;
		s->scan.found = found + 1;
		return 0;
	}
	s->scan.word = word;
	bpf_loop(n, scan_frame, data, 0);
	return s->scan.bad ? 1 : 0;
}

/* Remembers the kernel stack in s->kernel, if its slots can be told without doubt. */
static __always_inline void memo__add_kernel(struct memos *m, struct scratch *s, __u64 hint,
					     __u64 id)
{
	__u32 home = memo_home(hint, 0), way;
	struct kernel_memo *memo;
	__u32 room, n = s->kernel.n;
	bool entry;

	if (!n || n > KERNEL_CHUNKS * SLOTS_PER_CHUNK)
		return;
	entry = s->entry &&
		s->kernel.frames[(n - 1) % (KERNEL_CHUNKS * SLOTS_PER_CHUNK)] == s->entry;
	s->scan.frames = entry ? n - 1 : n;
	/* up to the top of the stack, and not beyond */
	room = KERNEL_STACK_SIZE - (s->base & (KERNEL_STACK_SIZE - 1));
	if (room > KERNEL_SPAN)
		room = KERNEL_SPAN;
	if (bpf_probe_read_kernel(s->words, room, (void *)s->base))
		return;
	s->scan.found = 0;
	s->scan.bad = 0;
	bpf_loop(room / 8, scan_word, &s, 0);
	if (s->scan.bad || s->scan.found != s->scan.frames || !s->scan.found)
		return;
	way = m->kernel_turn++ & (WAYS - 1);
	memo = &m->kernel[(home + way) & (KERNEL_MEMOS - 1)];
	memo->entry = entry ? s->entry : 0;
	memo->span = s->scan.span;
	memo->slots = s->scan.found;
	memo->chunks = CHUNKS(s->scan.found);
	bpf_probe_read_kernel(memo->deps, sizeof(memo->deps), s->kernel_deps);
	memo->stack = id;
}

#endif
