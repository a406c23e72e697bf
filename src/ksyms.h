/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ksyms: kernel functions by address, from /proc/kallsyms: the kernel's own, those of modules and
 * of BPF programs. There are no sizes, so a function ends at the next symbol of any kind, and never
 * outside the kernel's text or its module.
 */
#ifndef OFFCPU_KSYMS_H
#define OFFCPU_KSYMS_H

#include <stdint.h>

struct ksyms;

/*
 * Reads the symbols; NULL stands for /proc/kallsyms and /proc/modules. Says why, and what to do, if
 * the addresses are hidden. Always returns a table, if an empty one.
 */
struct ksyms *ksyms__new(const char *kallsyms_path, const char *modules_path);
void ksyms__free(struct ksyms *ks);

/*
 * Name of the function that holds 'addr', or NULL. 'module' is set to "[kernel]", "[MODULE]" or
 * "[bpf]". Both live as long as the table.
 */
const char *ksyms__find(const struct ksyms *ks, uint64_t addr, const char **module);

#endif
