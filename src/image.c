// SPDX-License-Identifier: GPL-2.0-or-later
#include "image.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "util/xalloc.h"

/* vm.max_map_count is 65,530 and counts all mappings; each insertion moves what lies above. */
#define MAX_ENTRIES 16384

struct entry {
	struct mapping map;
	uint64_t since_ns;
};

struct image {
	size_t refs;
	size_t n, cap;
	size_t *account;
	struct entry *entries; /* sorted, disjoint */
};

/* Entries that take the place of those of a range. */
struct pieces {
	size_t n, cap;
	struct entry *v;
};

static void set_capacity(struct image *img, size_t cap)
{
	*img->account += (cap - img->cap) * sizeof(*img->entries);
	img->entries = xreallocarray(img->entries, cap, sizeof(*img->entries));
	img->cap = cap;
}

struct image *image__new(size_t *account)
{
	struct image *img = xcalloc(1, sizeof(*img));

	img->refs = 1;
	img->account = account;
	*account += sizeof(*img);
	return img;
}

struct image *image__get(struct image *img)
{
	img->refs++;
	return img;
}

void image__put(struct image *img)
{
	if (!img || --img->refs)
		return;
	*img->account -= sizeof(*img) + img->cap * sizeof(*img->entries);
	free(img->entries);
	free(img);
}

/* Makes '*pimg' ours alone. */
static struct image *unshare(struct image **pimg)
{
	struct image *old = *pimg, *copy;

	if (old->refs == 1)
		return old;
	copy = image__new(old->account);
	if (old->n) {
		set_capacity(copy, old->n);
		memcpy(copy->entries, old->entries, old->n * sizeof(*old->entries));
		copy->n = old->n;
	}
	image__put(old);
	*pimg = copy;
	return copy;
}

/* Index of the first entry that ends above 'addr'. */
static size_t lower_bound(const struct image *img, uint64_t addr)
{
	size_t lo = 0, hi = img->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (img->entries[mid].map.end > addr)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

/* Would the two be one mapping if they touched? */
static bool continues(const struct mapping *a, const struct mapping *b)
{
	if (a->kind != b->kind || a->module != b->module)
		return false;
	return !a->module || a->offset - a->start == b->offset - b->start;
}

/* Appends the part [start, end) of an entry, to the last piece if it continues that. */
static void push(struct pieces *out, const struct entry *from, uint64_t start, uint64_t end)
{
	struct entry *last = out->n ? &out->v[out->n - 1] : NULL;

	if (start >= end)
		return;
	if (last && last->map.end == start && continues(&last->map, &from->map)) {
		last->map.end = end;
		if (last->since_ns < from->since_ns)
			last->since_ns = from->since_ns;
		return;
	}
	out->v = xgrow(out->v, out->n, &out->cap, sizeof(*out->v));
	out->v[out->n] = *from;
	out->v[out->n].map.start = start;
	out->v[out->n].map.end = end;
	if (from->map.module)
		out->v[out->n].map.offset += start - from->map.start;
	out->n++;
}

static void push_whole(struct pieces *out, const struct entry *from)
{
	push(out, from, from->map.start, from->map.end);
}

/* Lays 'add' over (or, where those are newer, under) the overlapping entries [lo, hi). */
static void overlay(struct pieces *out, const struct image *img, size_t lo, size_t hi,
		    const struct entry *add)
{
	uint64_t pos = add->map.start;
	size_t i;

	for (i = lo; i < hi; i++) {
		const struct entry *old = &img->entries[i];

		if (old->since_ns > add->since_ns) {
			push(out, add, pos, old->map.start);
			push_whole(out, old);
			pos = old->map.end;
		} else {
			push(out, old, old->map.start, add->map.start);
		}
	}
	push(out, add, pos, add->map.end);
	if (hi > lo && img->entries[hi - 1].since_ns <= add->since_ns)
		push(out, &img->entries[hi - 1], add->map.end, img->entries[hi - 1].map.end);
}

static void splice(struct image *img, size_t lo, size_t hi, const struct pieces *with)
{
	size_t n = img->n - (hi - lo) + with->n;

	if (n > img->cap)
		set_capacity(img, img->n ? n + n / 2 : n);
	memmove(&img->entries[lo + with->n], &img->entries[hi],
		(img->n - hi) * sizeof(*img->entries));
	memcpy(&img->entries[lo], with->v, with->n * sizeof(*img->entries));
	img->n = n;
}

void image__add(struct image **pimg, const struct mapping *map, uint64_t since_ns)
{
	struct entry add = {.map = *map, .since_ns = since_ns};
	struct pieces out = {0};
	struct image *img = *pimg;
	size_t lo = lower_bound(img, map->start), hi;

	if (map->start >= map->end)
		return;
	if (lo < img->n && img->entries[lo].map.start <= map->start &&
	    img->entries[lo].map.end >= map->end && continues(&img->entries[lo].map, map))
		return;
	for (hi = lo; hi < img->n && img->entries[hi].map.start < map->end; hi++)
		;
	img = unshare(pimg);
	/* The neighbours take part, so that what continues them is merged. */
	if (lo > 0)
		push_whole(&out, &img->entries[lo - 1]);
	overlay(&out, img, lo, hi, &add);
	if (hi < img->n)
		push_whole(&out, &img->entries[hi]);
	lo -= lo > 0;
	hi += hi < img->n;
	if (img->n - (hi - lo) + out.n <= MAX_ENTRIES)
		splice(img, lo, hi, &out);
	free(out.v);
}

struct image *image__split(struct image **pimg, uint64_t time_ns)
{
	struct image *later = image__new((*pimg)->account), *img;
	size_t i, kept = 0, moved = 0;

	for (i = 0; i < (*pimg)->n; i++)
		moved += (*pimg)->entries[i].since_ns > time_ns;
	if (!moved)
		return later;
	img = unshare(pimg);
	set_capacity(later, moved);
	for (i = 0; i < img->n; i++) {
		if (img->entries[i].since_ns > time_ns)
			later->entries[later->n++] = img->entries[i];
		else
			img->entries[kept++] = img->entries[i];
	}
	img->n = kept;
	return later;
}

const struct mapping *image__find(const struct image *img, uint64_t addr)
{
	size_t i = lower_bound(img, addr);

	if (i == img->n || img->entries[i].map.start > addr)
		return NULL;
	return &img->entries[i].map;
}

size_t image__count(const struct image *img)
{
	return img->n;
}
