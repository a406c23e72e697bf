/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mapped_fixture: programs and libraries made on the spot, with known build IDs, and processes that
 * run them and do what they are told. For the tests of module, procmap and sideband.
 *
 * A subject reads commands, one per line, and answers each with one line:
 *   where          address of one of its functions
 *   open PATH      dlopen; address of the library's function 'probe'
 *   close          dlclose
 *   exec PATH      becomes PATH; the answer is that of 'where' in the new program
 *   thread         starts and joins a thread; answers 0
 */
#ifndef OFFCPU_TEST_MAPPED_FIXTURE_H
#define OFFCPU_TEST_MAPPED_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "maps_line.h"
#include "module.h"
#include "procmap.h"

#define BUILD_A "a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4"
#define BUILD_B "b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4"

static const char fixture_subject[] =
	"#define _GNU_SOURCE\n"
	"#include <dlfcn.h>\n#include <pthread.h>\n#include <stdio.h>\n#include <string.h>\n"
	"#include <unistd.h>\n"
	"__attribute__((noinline)) int probe(int x) { return x * 3 + 1; }\n"
	"static void *nothing(void *p) { return p; }\n"
	"int main(int argc, char **argv) {\n"
	"	char line[8192], *arg; void *lib = NULL; pthread_t t;\n"
	"	if (argc > 1 && !strcmp(argv[1], \"exec\")) printf(\"%lx\\n\", (long)probe);\n"
	"	fflush(stdout);\n"
	"	while (fgets(line, sizeof(line), stdin)) {\n"
	"		line[strcspn(line, \"\\n\")] = 0;\n"
	"		arg = strchr(line, ' ');\n"
	"		if (arg) *arg++ = 0;\n"
	"		if (!strcmp(line, \"open\")) {\n"
	"			lib = dlopen(arg, RTLD_NOW | RTLD_LOCAL);\n"
	"			printf(\"%lx\\n\", lib ? (long)dlsym(lib, \"probe\") : 0);\n"
	"		} else if (!strcmp(line, \"close\")) {\n"
	"			printf(\"%d\\n\", dlclose(lib));\n"
	"		} else if (!strcmp(line, \"exec\")) {\n"
	"			execl(arg, arg, \"exec\", NULL);\n"
	"			return 1;\n"
	"		} else if (!strcmp(line, \"thread\")) {\n"
	"			pthread_create(&t, NULL, nothing, NULL);\n"
	"			printf(\"%d\\n\", pthread_join(t, NULL));\n"
	"		} else {\n"
	"			printf(\"%lx\\n\", (long)probe);\n"
	"		}\n"
	"		fflush(stdout);\n"
	"	}\n"
	"	return probe(argc) == 0;\n"
	"}\n";

static const char fixture_library[] = "int probe(int x) { return x * 5 + 2; }\n";

static char fixture_dir[64];

static int fixture__setup(void **state)
{
	(void)state;
	strcpy(fixture_dir, "/tmp/offcpu-mapped-XXXXXX");
	return mkdtemp(fixture_dir) ? 0 : -1;
}

static int fixture__teardown(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf '%s'", fixture_dir);
	return system(command);
}

/* A path in the test's directory; the caller has eight of them at a time. */
__attribute__((unused)) static const char *fixture__path(const char *name)
{
	static char paths[8][256];
	static int next;
	char *path = paths[next++ % 8];

	snprintf(path, sizeof(paths[0]), "%s/%s", fixture_dir, name);
	return path;
}

/* Compiles C text to fixture_dir/name. 'build_id': hex, or NULL for none. */
__attribute__((unused)) static const char *fixture__compile(const char *name, const char *text,
							    const char *build_id, const char *flags)
{
	char command[1024], note[128] = "none";
	const char *path = fixture__path(name);
	FILE *cc;

	if (build_id)
		snprintf(note, sizeof(note), "0x%s", build_id);
	snprintf(command, sizeof(command),
		 "cc -O1 -x c - -o '%s' -Wl,--build-id=%s %s -pthread -ldl", path, note, flags);
	cc = popen(command, "w");
	assert_non_null(cc);
	fputs(text, cc);
	assert_int_equal(pclose(cc), 0);
	return path;
}

__attribute__((unused)) static void fixture__copy(const char *from, const char *to)
{
	char command[1024];

	snprintf(command, sizeof(command), "cp '%s' '%s'", from, to);
	assert_int_equal(system(command), 0);
}

struct subject {
	pid_t pid;
	FILE *to, *from;
};

/* Starts a program as subject, in the directory 'root' as its root if that is not NULL. */
__attribute__((unused)) static struct subject subject__start(const char *path, const char *root)
{
	int in[2], out[2];
	struct subject s;

	assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC), 0);
	s.pid = fork();
	if (!s.pid) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		if (root && (chroot(root) || chdir("/")))
			_exit(1);
		execl(path, path, NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	s.to = fdopen(in[1], "w");
	s.from = fdopen(out[0], "r");
	return s;
}

/* Sends a command; returns the address (or number) that it answers. */
__attribute__((unused)) static uint64_t subject__ask(struct subject *s, const char *command,
						     const char *arg)
{
	char line[64] = "";

	fprintf(s->to, "%s%s%s\n", command, arg ? " " : "", arg ? arg : "");
	fflush(s->to);
	assert_non_null(fgets(line, sizeof(line), s->from));
	return strtoull(line, NULL, 16);
}

__attribute__((unused)) static void subject__end(struct subject *s)
{
	fclose(s->to);
	fclose(s->from);
	waitpid(s->pid, NULL, 0);
}

/* What /proc/PID/maps says of an address; 'line' holds the text that 'map' points into. */
__attribute__((unused)) static void fixture__maps_of(pid_t pid, uint64_t addr,
						     struct maps_line *map, char line[8192])
{
	char name[32];
	bool found = false;
	FILE *file;

	snprintf(name, sizeof(name), "/proc/%d/maps", pid);
	file = fopen(name, "re");
	assert_non_null(file);
	while (!found && fgets(line, 8192, file))
		found = maps_line__parse(line, map) && map->start <= addr && addr < map->end;
	fclose(file);
	assert_true(found);
}

__attribute__((unused)) static struct module_id fixture__inode_id(const struct maps_line *map)
{
	return (struct module_id){
		.dev_major = map->dev_major,
		.dev_minor = map->dev_minor,
		.inode = map->inode,
	};
}

__attribute__((unused)) static struct module_id fixture__build_id(const char *hex)
{
	struct module_id id = {.build_id_len = strlen(hex) / 2};
	int i;

	for (i = 0; i < id.build_id_len; i++)
		sscanf(hex + 2 * i, "%2hhx", &id.build_id[i]);
	return id;
}

/* Address of a symbol in the file's own terms. */
__attribute__((unused)) static uint64_t fixture__nm(const char *path, const char *symbol)
{
	char command[512], line[64] = "";
	FILE *nm;

	snprintf(command, sizeof(command), "nm '%s' | sed -n 's/ [Tt] %s$//p'", path, symbol);
	nm = popen(command, "r");
	assert_non_null(nm);
	assert_non_null(fgets(line, sizeof(line), nm));
	pclose(nm);
	return strtoull(line, NULL, 16);
}

__attribute__((unused)) static uint64_t fixture__now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

#define SKIP_UNLESS_ROOT()                                                                         \
	do {                                                                                       \
		if (geteuid()) {                                                                   \
			print_message("skipped: needs root\n");                                    \
			skip();                                                                    \
		}                                                                                  \
	} while (0)

#endif
