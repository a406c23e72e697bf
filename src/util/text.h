/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * text: making untrusted bytes safe to show. Names of threads, symbols and files come from the
 * target and may hold anything.
 */
#ifndef OFFCPU_TEXT_H
#define OFFCPU_TEXT_H

#include <stddef.h>

/*
 * Copies 'in' to 'out' (at most size - 1 bytes and a NUL), replacing control characters (C0, DEL,
 * C1) and every byte that is not part of well-formed UTF-8 (RFC 3629) by '?'. Never cuts a
 * character in half. Returns the length of the result.
 */
size_t text__printable(char *out, size_t size, const char *in);

#endif
