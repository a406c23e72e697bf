/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * names: threads named so as to break parsers and terminals: ';', spaces, newline, escape sequence,
 * bytes that are no UTF-8, empty, a name that looks like a count, markup. The process (main thread)
 * is renamed as well. One of the threads changes its name all the time.
 */
#include "truth.h"

static const char *const names[] = {
	"a;b;c", "two words 7",	 "new\nline 12", "\033[31mred\033[0m", "\xff\xfe\xc3(", "",
	"12345", "<script>&\"'", "tab\tname",	 "back\\slash\\n",     "\xe2\x82",	"%s%n%d",
};

static FRAME void *named(void *arg)
{
	prctl(PR_SET_NAME, arg);
	while (!truth__stop) {
		truth__burn_ns(500000);
		truth__sleep_ns(2000000);
	}
	return NULL;
}

static FRAME void *renamed(void *arg)
{
	char name[16];

	(void)arg;
	for (unsigned int i = 0; !truth__stop; i++) {
		snprintf(name, sizeof(name), "turn;%u", i);
		prctl(PR_SET_NAME, name);
		truth__sleep_ns(1000000);
	}
	return NULL;
}

int main(void)
{
	int n = (int)(sizeof(names) / sizeof(names[0]));
	pthread_t threads[32];

	truth__init();
	prctl(PR_SET_NAME, "ma;in \n\033[1m");
	for (int i = 0; i < n; i++)
		truth__spawn(&threads[i], named, (void *)names[i]);
	truth__spawn(&threads[n], renamed, NULL);
	truth__ready();
	for (int i = 0; i <= n; i++)
		pthread_join(threads[i], NULL);
	printf("{\"threads\": %d}\n", n + 2);
	return 0;
}
