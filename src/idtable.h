/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * idtable: a hash table from keys to ids (indices into an array that the caller owns). It keeps
 * neither keys nor values, eight bytes per slot: the caller compares the key with its own element.
 * Ids are never removed. A zeroed struct is an empty table.
 */
#ifndef OFFCPU_IDTABLE_H
#define OFFCPU_IDTABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IDTABLE_NONE UINT32_MAX

struct idtable {
	uint64_t *slots; /* hash << 32 | (id + 1), 0: free; open addressing, at most half full */
	size_t size;	 /* a power of two, or 0 */
	size_t used;
};

/* Whether the element 'id' of the caller's array has this key. */
typedef bool (*idtable_equal_fn)(const void *owner, uint32_t id, const void *key);

/* Finds the id of a key with the given hash, or IDTABLE_NONE. */
uint32_t idtable__find(const struct idtable *t, uint64_t hash, idtable_equal_fn equal,
		       const void *owner, const void *key);
/* Adds an id whose key is not in the table yet. */
void idtable__add(struct idtable *t, uint64_t hash, uint32_t id);
void idtable__free(struct idtable *t);

/* Hashes, seeded per process: keys come from the target, which must not be able to choose
 * colliding ones. */
uint64_t hash__mix(uint64_t a, uint64_t b);
uint64_t hash__bytes(const void *data, size_t len);

#endif
