/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * debuginfod: debug files from servers, by their client library, which is loaded only when asked
 * for. Servers are those in the environment variable DEBUGINFOD_URLS.
 */
#ifndef OFFCPU_DEBUGINFOD_H
#define OFFCPU_DEBUGINFOD_H

#include <stddef.h>
#include <stdint.h>

/* Returns a descriptor of the debug file with that build ID, or -errno. Says once if there is no
 * library or no server. */
int debuginfod__find(const uint8_t *build_id, size_t len);

#endif
