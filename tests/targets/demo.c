/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * demo: a small server with three known problems, for 'make demo': hot_loop() burns CPU,
 * rebuild_index() sleeps while it holds cache_lock, for which refresh_entry() then waits, and
 * write_journal() waits for fsync.
 */
#include "truth.h"

static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long entries;
static const char *journal;

static FRAME void hot_loop(void)
{
	truth__burn_ns(60000000);
	AFTER_CALL();
}

static FRAME void refresh_entry(void)
{
	pthread_mutex_lock(&cache_lock);
	entries++;
	pthread_mutex_unlock(&cache_lock);
}

static FRAME void rebuild_index(void)
{
	pthread_mutex_lock(&cache_lock);
	truth__sleep_ns(30000000);
	entries = 0;
	pthread_mutex_unlock(&cache_lock);
}

static FRAME void write_journal(int fd)
{
	static const char block[65536];

	if (pwrite(fd, block, sizeof(block), 0) != sizeof(block) || fsync(fd))
		truth__stop = 1;
	AFTER_CALL();
}

static FRAME void *cpu_worker(void *arg)
{
	(void)arg;
	prctl(PR_SET_NAME, "worker");
	while (!truth__stop) {
		hot_loop();
		truth__sleep_ns(40000000);
	}
	return NULL;
}

static FRAME void *cache_reader(void *arg)
{
	(void)arg;
	prctl(PR_SET_NAME, "reader");
	while (!truth__stop) {
		refresh_entry();
		truth__sleep_ns(1000000);
	}
	return NULL;
}

static FRAME void *flusher(void *arg)
{
	(void)arg;
	prctl(PR_SET_NAME, "flusher");
	while (!truth__stop) {
		rebuild_index();
		truth__sleep_ns(20000000);
	}
	return NULL;
}

static FRAME void *journal_writer(void *arg)
{
	int fd = open(journal, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	(void)arg;
	prctl(PR_SET_NAME, "journal");
	unlink(journal);
	while (!truth__stop && fd >= 0) {
		write_journal(fd);
		truth__sleep_ns(5000000);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	void *(*const parts[])(void *) = {cpu_worker, cache_reader, flusher, journal_writer};
	pthread_t threads[4];

	journal = argc > 1 ? argv[1] : "demo.journal";
	truth__init();
	for (int i = 0; i < 4; i++)
		truth__spawn(&threads[i], parts[i], NULL);
	truth__ready();
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
