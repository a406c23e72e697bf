/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ranges: which of many, possibly overlapping, address ranges holds an address. Add all, then
 * flatten once into disjoint pieces, then look up by binary search. Where ranges overlap the one
 * with the greatest id wins, so ids carry the priority.
 */
#ifndef OFFCPU_RANGES_H
#define OFFCPU_RANGES_H

#include <stddef.h>
#include <stdint.h>

struct range {
	uint64_t start, end; /* [start, end) */
	uint32_t id;
};

/* All zero: empty. */
struct ranges {
	struct range *v;
	size_t n, cap;
};

/* Empty ranges are left out. */
void ranges__add(struct ranges *r, uint64_t start, uint64_t end, uint32_t id);
void ranges__flatten(struct ranges *r);
/* The piece that holds 'addr', or NULL. */
const struct range *ranges__find(const struct ranges *r, uint64_t addr);
void ranges__clear(struct ranges *r);

#endif
