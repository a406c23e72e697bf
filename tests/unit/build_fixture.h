/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Programs with known symbols, built by the test itself into a temporary directory.
 */
#ifndef BUILD_FIXTURE_H
#define BUILD_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs the above */
#include <cmocka.h>

#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char fixture_dir[64];

static inline int fixture__setup_dir(void **state)
{
	(void)state;
	strcpy(fixture_dir, "/tmp/offcpu-test-XXXXXX");
	return mkdtemp(fixture_dir) ? 0 : -1;
}

static inline __attribute__((format(printf, 1, 2))) void fixture__run(const char *fmt, ...)
{
	char command[4096], full[4200];
	va_list args;

	va_start(args, fmt);
	vsnprintf(command, sizeof(command), fmt, args);
	va_end(args);
	snprintf(full, sizeof(full), "cd %s && %s", fixture_dir, command);
	if (system(full))
		fail_msg("command failed: %s", command);
}

static inline int fixture__teardown_dir(void **state)
{
	(void)state;
	fixture__run("rm -rf %s", fixture_dir);
	return 0;
}

static inline const char *fixture__path(const char *name)
{
	static char path[4][256];
	static unsigned next;
	char *result = path[next++ % 4];

	snprintf(result, sizeof(path[0]), "%s/%s", fixture_dir, name);
	return result;
}

static inline void fixture__write(const char *name, const void *data, size_t size)
{
	FILE *file = fopen(fixture__path(name), "w");

	assert_non_null(file);
	assert_int_equal(fwrite(data, 1, size, file), size);
	assert_int_equal(fclose(file), 0);
}

static inline void fixture__text(const char *name, const char *text)
{
	fixture__write(name, text, strlen(text));
}

static inline int fixture__open(const char *name)
{
	int fd = open(fixture__path(name), O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

/* st_value of a symbol in .symtab. */
static inline uint64_t fixture__address(const char *name, const char *symbol)
{
	int fd = fixture__open(name);
	uint64_t value = 0;
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;
	GElf_Sym sym;
	Elf *elf;

	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ, NULL);
	while ((scn = elf_nextscn(elf, scn))) {
		gelf_getshdr(scn, &shdr);
		if (shdr.sh_type != SHT_SYMTAB)
			continue;
		for (int i = 0; gelf_getsym(elf_getdata(scn, NULL), i, &sym); i++)
			if (!strcmp(elf_strptr(elf, shdr.sh_link, sym.st_name), symbol))
				value = sym.st_value;
	}
	elf_end(elf);
	close(fd);
	if (!value)
		fail_msg("no symbol %s in %s", symbol, name);
	return value;
}

#endif
