/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * demangle: symbol names as people wrote them: C++ (Itanium ABI), Rust (legacy and v0), D, by
 * libiberty. Names are untrusted: a short one can be made to expand without end, so the length of
 * the input and of the result are bounded.
 */
#ifndef OFFCPU_DEMANGLE_H
#define OFFCPU_DEMANGLE_H

/*
 * Returns the demangled name, to be freed, or NULL if 'name' is not mangled, or not properly, or
 * too long, or would become too long: then it is shown as it is.
 */
char *demangle__name(const char *name);

#endif
