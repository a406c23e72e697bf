// SPDX-License-Identifier: GPL-2.0-or-later
#include "ranges.h"

#include <stdlib.h>
#include <string.h>

#include "util/xalloc.h"

void ranges__add(struct ranges *r, uint64_t start, uint64_t end, uint32_t id)
{
	if (start >= end)
		return;
	r->v = xgrow(r->v, r->n, &r->cap, sizeof(*r->v));
	r->v[r->n++] = (struct range){start, end, id};
}

void ranges__clear(struct ranges *r)
{
	free(r->v);
	memset(r, 0, sizeof(*r));
}

static int by_start(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return (x->id > y->id) - (x->id < y->id);
}

/* A binary max-heap by id of the ranges that began at or before the sweep's position. */
static void heap__push(struct range *h, size_t n, struct range x)
{
	while (n && h[(n - 1) / 2].id < x.id) {
		h[n] = h[(n - 1) / 2];
		n = (n - 1) / 2;
	}
	h[n] = x;
}

static void heap__pop(struct range *h, size_t n)
{
	struct range x = h[--n];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < n) {
		if (child + 1 < n && h[child + 1].id > h[child].id)
			child++;
		if (h[child].id <= x.id)
			break;
		h[i] = h[child];
		i = child;
	}
	h[i] = x;
}

static void emit(struct ranges *out, uint64_t start, uint64_t end, uint32_t id)
{
	struct range *last = out->n ? &out->v[out->n - 1] : NULL;

	if (last && last->end == start && last->id == id)
		last->end = end;
	else
		ranges__add(out, start, end, id);
}

/* Sweeps over all starts and ends; a range that has ended leaves the heap when it gets to its top.
 */
void ranges__flatten(struct ranges *r)
{
	struct range *heap = xreallocarray(NULL, r->n, sizeof(*heap));
	struct ranges out = {0};
	size_t i = 0, active = 0;
	uint64_t pos = 0, next;

	if (r->n)
		qsort(r->v, r->n, sizeof(*r->v), by_start);
	while (i < r->n || active) {
		if (!active && r->v[i].start > pos)
			pos = r->v[i].start;
		for (; i < r->n && r->v[i].start <= pos; i++)
			heap__push(heap, active++, r->v[i]);
		while (active && heap[0].end <= pos)
			heap__pop(heap, active--);
		if (!active)
			continue;
		next = heap[0].end;
		if (i < r->n && r->v[i].start < next)
			next = r->v[i].start;
		emit(&out, pos, next, heap[0].id);
		pos = next;
	}
	free(heap);
	free(r->v);
	*r = out;
}

const struct range *ranges__find(const struct ranges *r, uint64_t addr)
{
	size_t lo = 0, hi = r->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (r->v[mid].end <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < r->n && r->v[lo].start <= addr ? &r->v[lo] : NULL;
}
