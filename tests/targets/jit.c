/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * jit: makes a function at run time that calls back into this program with a frame of its own, and
 * names it "jitted;code" in /tmp/perf-PID.map, PID being what this process sees as its own.
 */
#include <sys/mman.h>

#include "truth.h"

static FRAME void called_back(void)
{
	truth__burn_ns(300000);
	truth__sleep_ns(1000000);
	AFTER_CALL();
}

#ifdef __x86_64__
/* push rbp; mov rbp,rsp; call rdi; pop rbp; ret */
static const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
#else
#error "write the stub for this architecture"
#endif

static void write_map(const void *start)
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	f = fopen(path, "w");
	if (!f)
		exit(1);
	fprintf(f, "%lx %lx jitted;code\n", (unsigned long)start, (unsigned long)sizeof(code));
	fclose(f);
}

int main(void)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void (*fn)(void (*)(void)) = (void (*)(void (*)(void)))page;
	char path[64];

	if (page == MAP_FAILED)
		return 1;
	memcpy(page, code, sizeof(code));
	mprotect(page, 4096, PROT_READ | PROT_EXEC);
	write_map(page);
	truth__init();
	truth__ready();
	while (!truth__stop)
		fn(called_back);
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	unlink(path);
	printf("{}\n");
	return 0;
}
