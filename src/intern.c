// SPDX-License-Identifier: GPL-2.0-or-later
#include "intern.h"

#include <stdlib.h>
#include <string.h>

#include "idtable.h"
#include "util/xalloc.h"

#define CHUNK_BYTES  (256 * 1024)
#define RECENT_SLOTS 4096

/* Memory that is only ever freed as a whole. */
struct chunk {
	struct chunk *next;
	size_t used, size;
	_Alignas(16) char data[];
};

/* 'frame' comes first: a pointer to it is a pointer to the whole. */
struct interned_frame {
	struct frame frame;
	uint32_t id;
};

struct interned_stack {
	const struct frame **frames;
	uint32_t n;
};

struct intern {
	struct chunk *chunks;

	struct idtable string_table;
	const char **strings;
	size_t n_strings, cap_strings;

	struct idtable frame_table;
	struct interned_frame **frames;
	size_t n_frames, cap_frames;
	/* Frames by the caller's pointers, which are mostly the same ones for the same frame. A
	 * guess only: what is found here is compared like any other. */
	struct interned_frame *recent[RECENT_SLOTS];

	struct idtable stack_table;
	struct interned_stack *stacks;
	size_t n_stacks, cap_stacks;

	const struct frame **scratch; /* the stack being looked up */
	size_t cap_scratch;
};

struct intern *intern__new(void)
{
	return xcalloc(1, sizeof(struct intern));
}

void intern__free(struct intern *in)
{
	struct chunk *chunk, *next;

	if (!in)
		return;
	for (chunk = in->chunks; chunk; chunk = next) {
		next = chunk->next;
		free(chunk);
	}
	idtable__free(&in->string_table);
	idtable__free(&in->frame_table);
	idtable__free(&in->stack_table);
	free(in->strings);
	free(in->frames);
	free(in->stacks);
	free(in->scratch);
	free(in);
}

static void *allocate(struct intern *in, size_t size, size_t align)
{
	struct chunk *chunk = in->chunks;
	size_t start = chunk ? (chunk->used + align - 1) & ~(align - 1) : 0;

	if (!chunk || start + size > chunk->size) {
		size_t room = size > CHUNK_BYTES ? size : CHUNK_BYTES;

		chunk = xmalloc(sizeof(*chunk) + room);
		chunk->next = in->chunks;
		chunk->size = room;
		in->chunks = chunk;
		start = 0;
	}
	chunk->used = start + size;
	return chunk->data + start;
}

static bool string_equal(const void *owner, uint32_t id, const void *key)
{
	const struct intern *in = owner;

	return strcmp(in->strings[id], key) == 0;
}

const char *intern__string(struct intern *in, const char *text)
{
	size_t len;
	uint64_t hash;
	uint32_t id;
	char *copy;

	if (!text)
		return NULL;
	len = strlen(text);
	hash = hash__bytes(text, len);
	id = idtable__find(&in->string_table, hash, string_equal, in, text);
	if (id != IDTABLE_NONE)
		return in->strings[id];

	copy = allocate(in, len + 1, 1);
	memcpy(copy, text, len + 1);
	in->strings = xgrow(in->strings, in->n_strings, &in->cap_strings, sizeof(*in->strings));
	idtable__add(&in->string_table, hash, in->n_strings);
	in->strings[in->n_strings++] = copy;
	return copy;
}

/* A path's end tells most, and the end is cheap. */
static uint64_t module_hash(const char *module)
{
	size_t len = module ? strlen(module) : 0, tail = len < 16 ? len : 16;

	return module ? hash__bytes(module + len - tail, tail) : 0;
}

static uint64_t frame_hash(const struct frame *f)
{
	uint64_t head = (uint64_t)f->line << 8 | f->kind << 1 | f->inlined;
	uint64_t hash = hash__mix(hash__bytes(f->func, strlen(f->func)), head);

	return hash__mix(hash, module_hash(f->module));
}

static bool same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool same_frame(const struct frame *a, const struct frame *b)
{
	return a->kind == b->kind && a->inlined == b->inlined && a->line == b->line &&
	       same_text(a->func, b->func) && same_text(a->module, b->module);
}

static bool frame_equal(const void *owner, uint32_t id, const void *key)
{
	return same_frame(&((const struct intern *)owner)->frames[id]->frame, key);
}

static struct interned_frame *add_frame(struct intern *in, const struct frame *frame, uint64_t hash)
{
	struct interned_frame *copy = allocate(in, sizeof(*copy), _Alignof(struct interned_frame));

	copy->frame = *frame;
	copy->frame.func = intern__string(in, frame->func);
	copy->frame.module = intern__string(in, frame->module);
	copy->frame.build_id = intern__string(in, frame->build_id);
	copy->frame.file = intern__string(in, frame->file);
	copy->id = in->n_frames;
	in->frames = xgrow(in->frames, in->n_frames, &in->cap_frames, sizeof(*in->frames));
	idtable__add(&in->frame_table, hash, copy->id);
	in->frames[in->n_frames++] = copy;
	return copy;
}

static struct interned_frame *find_frame(struct intern *in, const struct frame *frame)
{
	uint64_t hash = frame_hash(frame);
	uint32_t id = idtable__find(&in->frame_table, hash, frame_equal, in, frame);

	return id != IDTABLE_NONE ? in->frames[id] : add_frame(in, frame, hash);
}

static const struct interned_frame *intern_frame(struct intern *in, const struct frame *frame)
{
	uint64_t hash = hash__mix((uintptr_t)frame->func, frame->line);
	struct interned_frame **slot = &in->recent[hash % RECENT_SLOTS];

	if (!*slot || !same_frame(&(*slot)->frame, frame))
		*slot = find_frame(in, frame);
	return *slot;
}

static bool stack_equal(const void *owner, uint32_t id, const void *key)
{
	const struct intern *in = owner;
	const struct interned_stack *a = &in->stacks[id], *b = key;

	return a->n == b->n && (!a->n || !memcmp(a->frames, b->frames, a->n * sizeof(*a->frames)));
}

static uint32_t add_stack(struct intern *in, const struct interned_stack *key, uint64_t hash)
{
	size_t size = key->n * sizeof(*key->frames);
	struct interned_stack *stack;

	in->stacks = xgrow(in->stacks, in->n_stacks, &in->cap_stacks, sizeof(*in->stacks));
	stack = &in->stacks[in->n_stacks];
	stack->n = key->n;
	stack->frames = allocate(in, size, _Alignof(const struct frame *));
	if (size)
		memcpy(stack->frames, key->frames, size);
	idtable__add(&in->stack_table, hash, in->n_stacks);
	return in->n_stacks++;
}

uint32_t intern__stack(struct intern *in, const struct frame *frames, uint32_t n)
{
	struct interned_stack key = {.n = n};
	uint64_t hash = n;
	uint32_t i, id;

	if (n > in->cap_scratch) {
		in->scratch = xreallocarray(in->scratch, n, sizeof(*in->scratch));
		in->cap_scratch = n;
	}
	key.frames = in->scratch;
	for (i = 0; i < n; i++) {
		const struct interned_frame *frame = intern_frame(in, &frames[i]);

		key.frames[i] = &frame->frame;
		hash = hash__mix(hash, frame->id);
	}
	id = idtable__find(&in->stack_table, hash, stack_equal, in, &key);
	return id != IDTABLE_NONE ? id : add_stack(in, &key, hash);
}

uint32_t intern__stacks(const struct intern *in)
{
	return in->n_stacks;
}

uint32_t intern__stack_frames(const struct intern *in, uint32_t stack, const struct frame ***frames)
{
	*frames = in->stacks[stack].frames;
	return in->stacks[stack].n;
}

uint32_t intern__frames(const struct intern *in)
{
	return in->n_frames;
}

const struct frame *intern__frame(const struct intern *in, uint32_t id)
{
	return &in->frames[id]->frame;
}

uint32_t intern__frame_id(const struct frame *frame)
{
	return ((const struct interned_frame *)frame)->id;
}
