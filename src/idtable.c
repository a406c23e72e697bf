// SPDX-License-Identifier: GPL-2.0-or-later
#include "idtable.h"

#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "util/xalloc.h"

/* Odd constants with well spread bits (from the golden ratio and sqrt 2). */
#define MIX1 0x9e3779b97f4a7c15ULL
#define MIX2 0x6a09e667f3bcc909ULL

static uint64_t seed(void)
{
	static uint64_t value;

	/* 16 random bytes that the kernel gives every process */
	if (!value) {
		memcpy(&value, (const void *)getauxval(AT_RANDOM), sizeof(value));
		value |= 1;
	}
	return value;
}

static uint64_t fold(uint64_t a, uint64_t b)
{
	unsigned __int128 product = (unsigned __int128)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

uint64_t hash__mix(uint64_t a, uint64_t b)
{
	return fold(a ^ seed(), b ^ MIX1) ^ fold(b ^ MIX2, a + MIX1);
}

uint64_t hash__bytes(const void *data, size_t len)
{
	const unsigned char *p = data;
	uint64_t h = seed() ^ len, word;

	for (; len >= 8; p += 8, len -= 8) {
		memcpy(&word, p, 8);
		h = fold(h ^ MIX2, word ^ MIX1);
	}
	word = 0;
	memcpy(&word, p, len);
	return fold(h ^ MIX2, word ^ MIX1) ^ h;
}

uint32_t idtable__find(const struct idtable *t, uint64_t hash, idtable_equal_fn equal,
		       const void *owner, const void *key)
{
	uint32_t tag = hash >> 32;
	size_t i;

	if (!t->size)
		return IDTABLE_NONE;
	for (i = tag & (t->size - 1); t->slots[i]; i = (i + 1) & (t->size - 1)) {
		uint32_t id = (uint32_t)t->slots[i] - 1;

		if (t->slots[i] >> 32 == tag && equal(owner, id, key))
			return id;
	}
	return IDTABLE_NONE;
}

static void place(struct idtable *t, uint64_t slot)
{
	size_t i = (slot >> 32) & (t->size - 1);

	while (t->slots[i])
		i = (i + 1) & (t->size - 1);
	t->slots[i] = slot;
}

static void grow(struct idtable *t)
{
	struct idtable bigger = {.size = t->size ? t->size * 2 : 64, .used = t->used};
	size_t i;

	bigger.slots = xcalloc(bigger.size, sizeof(*bigger.slots));
	for (i = 0; i < t->size; i++)
		if (t->slots[i])
			place(&bigger, t->slots[i]);
	free(t->slots);
	*t = bigger;
}

void idtable__add(struct idtable *t, uint64_t hash, uint32_t id)
{
	if (2 * (t->used + 1) > t->size)
		grow(t);
	place(t, hash >> 32 << 32 | (uint32_t)(id + 1));
	t->used++;
}

void idtable__free(struct idtable *t)
{
	free(t->slots);
	*t = (struct idtable){0};
}
