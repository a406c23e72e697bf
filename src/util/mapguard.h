/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mapguard: runs code that reads memory-mapped files which somebody else may truncate meanwhile.
 * The kernel answers such a read with SIGBUS; here it only ends the guarded code.
 */
#ifndef OFFCPU_MAPGUARD_H
#define OFFCPU_MAPGUARD_H

#include <stdbool.h>

/*
 * Calls fn(arg). Returns false if it was cut off: what it was working on is then in an unknown
 * state and must be abandoned, memory included. Does not nest.
 */
bool mapguard__run(void (*fn)(void *), void *arg);

#endif
