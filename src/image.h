/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * image: the executable mappings of one address space. Shared between processes by reference count;
 * whoever changes a shared one gets a copy.
 */
#ifndef OFFCPU_IMAGE_H
#define OFFCPU_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "procmap.h"

struct image;

/* '*account' is kept at the number of bytes that images use. */
struct image *image__new(size_t *account);
struct image *image__get(struct image *img);
void image__put(struct image *img); /* NULL is allowed */

/*
 * Adds a mapping that appeared at 'since_ns' to '*img', which changes if it was shared. Mappings
 * stay disjoint: where they overlap the newer one replaces the older. What is known already changes
 * nothing. Beyond a limit (more than any real program has) mappings are dropped.
 */
void image__add(struct image **img, const struct mapping *map, uint64_t since_ns);

/* Moves the mappings that appeared after 'time_ns' from '*img' into a new image. */
struct image *image__split(struct image **img, uint64_t time_ns);

const struct mapping *image__find(const struct image *img, uint64_t addr);
size_t image__count(const struct image *img);

#endif
