// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Records are passed on straight from the rings, always the oldest among all CPUs' next ones. A
 * record is taken only if its time is before the moment at which the round began: what a task did
 * earlier, on whatever CPU, was then in its ring before that ring's head was read. Younger ones
 * stay for the next round. So a fork never overtakes its parent's mmap.
 *
 * Pacing: an idle ring costs nothing, and the first records wake the reader at once, since files
 * are best pinned while their process lives. After that the rings' own wakeups are masked and a
 * timer decides, until a round finds nothing:
 *
 *   wait_fd (epoll) --+-- rings_fd (epoll) -- one perf descriptor per CPU
 *                     +-- timer_fd
 */
#include "sideband.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "procmap.h"
#include "util/log.h"
#include "util/xalloc.h"

#define MAX_RING_BYTES (256u << 10)
#define MIN_RING_BYTES (16u << 10)
/* Less than one exec writes (COMM and three MMAP2), more than the start and end of a thread. */
#define WAKEUP_BYTES 256
#define PACE_NS	     5000000
#define MAX_ROUNDS   16

struct ring {
	int fd;
	uint32_t cpu;
	uint64_t size; /* of the data, a power of two */
	struct perf_event_mmap_page *page;
	const uint8_t *data;
	uint64_t head, tail;
	uint64_t next_ns; /* time of the record at 'tail'; UINT64_MAX: none to take now */
};

/* sample_id_all's trailer for PERF_SAMPLE_TID | PERF_SAMPLE_TIME. */
struct trailer {
	uint32_t pid, tid;
	uint64_t time_ns;
};

struct record_mmap2 {
	struct perf_event_header header;
	uint32_t pid, tid;
	uint64_t addr, len, offset;
	union {
		struct {
			uint32_t dev_major, dev_minor;
			uint64_t inode, inode_gen;
		};
		struct {
			uint8_t build_id_len, reserved[3];
			uint8_t build_id[20];
		};
	};
	uint32_t prot, flags;
	char path[];
};

struct record_comm {
	struct perf_event_header header;
	uint32_t pid, tid;
	char comm[];
};

struct record_task { /* FORK and EXIT */
	struct perf_event_header header;
	uint32_t pid, ppid, tid, ptid;
	uint64_t time_ns;
};

struct record_lost {
	struct perf_event_header header;
	uint64_t id, lost;
};

union record {
	struct perf_event_header header;
	struct record_mmap2 mmap2;
	struct record_comm comm;
	struct record_task task;
	struct record_lost lost;
	uint8_t bytes[65536]; /* header.size has 16 bits */
};

struct sideband {
	struct procmaps *pm;
	int wait_fd, rings_fd, timer_fd;
	bool paced;
	struct ring *rings;
	size_t rings_n;
	uint64_t lost;
	union record record;
};

/* --- opening */

static int open_event(int cpu, bool build_id)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.size = sizeof(attr),
		.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
		.disabled = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.mmap = 1,
		.mmap2 = 1,
		.build_id = build_id,
		.comm = 1,
		.comm_exec = 1,
		.task = 1,
		.sample_id_all = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.watermark = 1,
		.wakeup_watermark = WAKEUP_BYTES,
	};

	return syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

/* Locked memory may be short (perf_event_mlock_kb, RLIMIT_MEMLOCK): then a smaller ring. */
static bool map_ring(struct ring *ring)
{
	size_t page = sysconf(_SC_PAGESIZE);
	void *addr = MAP_FAILED;

	for (ring->size = MAX_RING_BYTES; ring->size >= MIN_RING_BYTES && ring->size >= page;
	     ring->size /= 2) {
		addr = mmap(NULL, page + ring->size, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd,
			    0);
		if (addr != MAP_FAILED)
			break;
	}
	if (addr == MAP_FAILED)
		return false;
	ring->page = addr;
	ring->data = (uint8_t *)addr + page;
	return true;
}

static void close_ring(struct ring *ring)
{
	if (ring->page)
		munmap(ring->page, sysconf(_SC_PAGESIZE) + ring->size);
	if (ring->fd >= 0)
		close(ring->fd);
}

static int watch(int epoll_fd, int fd, uint32_t tag)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u32 = tag};

	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

static int open_ring(struct sideband *sb, int cpu)
{
	struct ring *ring = &sb->rings[sb->rings_n];
	int err;

	memset(ring, 0, sizeof(*ring));
	ring->cpu = cpu;
	ring->fd = open_event(cpu, true);
	if (ring->fd < 0 && errno == EINVAL)
		ring->fd = open_event(cpu, false); /* before Linux 5.12 */
	if (ring->fd < 0)
		return -errno;
	if (map_ring(ring) && !watch(sb->rings_fd, ring->fd, sb->rings_n) &&
	    !ioctl(ring->fd, PERF_EVENT_IOC_ENABLE, 0)) {
		sb->rings_n++;
		return 0;
	}
	err = -errno;
	close_ring(ring);
	return err;
}

/* All CPUs that can be opened; those that are offline cannot. Returns 0 if there is any. */
static int open_rings(struct sideband *sb)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	int cpu, err, first_err = 0;

	sb->rings = xcalloc(cpus, sizeof(*sb->rings));
	for (cpu = 0; cpu < cpus; cpu++) {
		err = open_ring(sb, cpu);
		if (!err)
			continue;
		first_err = first_err ? first_err : err;
		log__info("processes on CPU %d are not followed: %s", cpu, strerror(-err));
	}
	return sb->rings_n ? 0 : first_err;
}

static int open_waits(struct sideband *sb)
{
	sb->wait_fd = epoll_create1(EPOLL_CLOEXEC);
	sb->rings_fd = epoll_create1(EPOLL_CLOEXEC);
	sb->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (sb->wait_fd < 0 || sb->rings_fd < 0 || sb->timer_fd < 0 ||
	    watch(sb->wait_fd, sb->rings_fd, 0) || watch(sb->wait_fd, sb->timer_fd, 0))
		return -errno;
	return 0;
}

struct sideband *sideband__open(struct procmaps *pm)
{
	struct sideband *sb = xcalloc(1, sizeof(*sb));
	int err;

	sb->pm = pm;
	sb->wait_fd = sb->rings_fd = sb->timer_fd = -1;
	err = open_waits(sb);
	if (!err)
		err = open_rings(sb);
	if (!err)
		return sb;
	log__warn("cannot follow exec and mmap with perf events: %s; %s", strerror(-err),
		  err == -EACCES || err == -EPERM ? "it needs CAP_PERFMON"
						  : "code mapped from now on stays unnamed");
	sideband__close(sb);
	errno = -err;
	return NULL;
}

void sideband__close(struct sideband *sb)
{
	size_t i;

	if (!sb)
		return;
	for (i = 0; i < sb->rings_n; i++)
		close_ring(&sb->rings[i]);
	if (sb->timer_fd >= 0)
		close(sb->timer_fd);
	if (sb->rings_fd >= 0)
		close(sb->rings_fd);
	if (sb->wait_fd >= 0)
		close(sb->wait_fd);
	free(sb->rings);
	free(sb);
}

/* --- records */

static void handle_mmap2(struct sideband *sb, const struct record_mmap2 *rec, size_t size,
			 uint64_t time_ns)
{
	struct module_id id = {0};

	if (size <= sizeof(*rec) || !memchr(rec->path, '\0', size - sizeof(*rec)))
		return;
	if ((int32_t)rec->pid <= 0 || !(rec->prot & PROT_EXEC))
		return;
	if (rec->header.misc & PERF_RECORD_MISC_MMAP_BUILD_ID) {
		id.build_id_len = rec->build_id_len <= sizeof(id.build_id) ? rec->build_id_len
									   : sizeof(id.build_id);
		memcpy(id.build_id, rec->build_id, id.build_id_len);
	} else {
		id.dev_major = rec->dev_major;
		id.dev_minor = rec->dev_minor;
		id.inode = rec->inode;
		id.inode_gen = rec->inode_gen;
	}
	procmaps__on_mmap(sb->pm, time_ns, rec->pid, rec->addr, rec->len, rec->offset, &id,
			  rec->path);
}

static void handle_comm(struct sideband *sb, const struct record_comm *rec, size_t size,
			uint64_t time_ns)
{
	if (size >= sizeof(*rec) && (rec->header.misc & PERF_RECORD_MISC_COMM_EXEC) &&
	    (int32_t)rec->pid > 0)
		procmaps__on_exec(sb->pm, time_ns, rec->pid);
}

/* A process exits with its first thread; pids are 0 or -1 if not visible from our namespace. */
static void handle_task(struct sideband *sb, const struct record_task *rec, size_t size,
			uint64_t time_ns)
{
	if (size < sizeof(*rec) || (int32_t)rec->pid <= 0)
		return;
	if (rec->header.type == PERF_RECORD_FORK)
		procmaps__on_fork(sb->pm, time_ns, rec->pid, rec->ppid);
	else if (rec->pid == rec->tid)
		procmaps__on_exit(sb->pm, time_ns, rec->pid);
}

static void handle_lost(struct sideband *sb, const struct record_lost *rec, size_t size)
{
	if (size >= sizeof(*rec))
		sb->lost += rec->lost;
}

static void handle(struct sideband *sb, uint64_t time_ns)
{
	const union record *rec = &sb->record;
	size_t size = rec->header.size - sizeof(struct trailer);

	switch (rec->header.type) {
	case PERF_RECORD_MMAP2:
		handle_mmap2(sb, &rec->mmap2, size, time_ns);
		break;
	case PERF_RECORD_COMM:
		handle_comm(sb, &rec->comm, size, time_ns);
		break;
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
		handle_task(sb, &rec->task, size, time_ns);
		break;
	case PERF_RECORD_LOST:
		handle_lost(sb, &rec->lost, size);
		break;
	}
}

/* --- rings */

static void copy_out(const struct ring *ring, uint64_t pos, void *to, size_t size)
{
	uint64_t at = pos & (ring->size - 1), first = ring->size - at;

	if (first > size)
		first = size;
	memcpy(to, ring->data + at, first);
	memcpy((uint8_t *)to + first, ring->data, size - first);
}

static void give_back(struct ring *ring)
{
	__atomic_store_n(&ring->page->data_tail, ring->tail, __ATOMIC_RELEASE);
}

/* Looks at the record at the tail. A ring that makes no sense is skipped to its head. */
static void peek(struct sideband *sb, struct ring *ring, uint64_t until_ns)
{
	struct perf_event_header header;

	ring->next_ns = UINT64_MAX;
	if (ring->tail == ring->head)
		return;
	copy_out(ring, ring->tail, &header, sizeof(header));
	if (header.size < sizeof(header) + sizeof(struct trailer) || header.size % 8 ||
	    header.size > ring->head - ring->tail) {
		sb->lost++;
		ring->tail = ring->head;
		give_back(ring);
		return;
	}
	copy_out(ring, ring->tail + header.size - sizeof(uint64_t), &ring->next_ns,
		 sizeof(ring->next_ns));
	if (ring->next_ns > until_ns)
		ring->next_ns = UINT64_MAX;
}

static void take(struct sideband *sb, struct ring *ring)
{
	struct perf_event_header header;

	copy_out(ring, ring->tail, &header, sizeof(header));
	copy_out(ring, ring->tail, &sb->record, header.size);
	ring->tail += header.size;
	give_back(ring);
}

/* The ring with the oldest record, the lowest CPU among equals. NULL: nothing to take. */
static struct ring *oldest(struct sideband *sb)
{
	struct ring *best = NULL;
	size_t i;

	for (i = 0; i < sb->rings_n; i++)
		if (sb->rings[i].next_ns != UINT64_MAX &&
		    (!best || sb->rings[i].next_ns < best->next_ns))
			best = &sb->rings[i];
	return best;
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

static int read_round(struct sideband *sb)
{
	uint64_t until_ns = now_ns(), time_ns;
	struct ring *ring;
	int count = 0;
	size_t i;

	for (i = 0; i < sb->rings_n; i++) {
		ring = &sb->rings[i];
		ring->head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
		if (ring->head - ring->tail > ring->size)
			ring->tail = ring->head;
		peek(sb, ring, until_ns);
	}
	while ((ring = oldest(sb))) {
		time_ns = ring->next_ns;
		take(sb, ring);
		peek(sb, ring, until_ns);
		handle(sb, time_ns);
		count++;
	}
	return count;
}

static bool any_unread(const struct sideband *sb)
{
	size_t i;

	for (i = 0; i < sb->rings_n; i++)
		if (__atomic_load_n(&sb->rings[i].page->data_head, __ATOMIC_ACQUIRE) !=
		    sb->rings[i].tail)
			return true;
	return false;
}

/* --- pacing */

static void set_timer(struct sideband *sb, long ns)
{
	struct itimerspec when = {.it_value.tv_nsec = ns};

	timerfd_settime(sb->timer_fd, 0, &when, NULL);
}

static void mask_rings(struct sideband *sb, bool masked)
{
	struct epoll_event event = {.events = masked ? 0 : EPOLLIN};

	if (sb->paced != masked)
		epoll_ctl(sb->wait_fd, EPOLL_CTL_MOD, sb->rings_fd, &event);
	sb->paced = masked;
}

/* Takes note of what woke us; the event of a CPU that went offline would wake us for ever. */
static void clear_wakeups(struct sideband *sb)
{
	struct epoll_event events[16];
	uint64_t ticks;
	int i, n;

	if (read(sb->timer_fd, &ticks, sizeof(ticks)) < 0 && errno != EAGAIN)
		log__info("cannot read a timer: %s", strerror(errno));
	n = epoll_wait(sb->rings_fd, events, 16, 0);
	for (i = 0; i < n; i++)
		if (events[i].events & (EPOLLHUP | EPOLLERR))
			epoll_ctl(sb->rings_fd, EPOLL_CTL_DEL, sb->rings[events[i].data.u32].fd,
				  NULL);
}

int sideband__poll(struct sideband *sb)
{
	int count = 0, got, rounds = 0;

	clear_wakeups(sb);
	do {
		got = read_round(sb);
		count += got;
	} while (got && ++rounds < MAX_ROUNDS);
	mask_rings(sb, count > 0);
	/* Unmasking may have swallowed a wakeup. */
	if (!count && any_unread(sb))
		mask_rings(sb, true);
	set_timer(sb, sb->paced ? PACE_NS : 0);
	return count;
}

int sideband__fd(const struct sideband *sb)
{
	return sb->wait_fd;
}

uint64_t sideband__lost(const struct sideband *sb)
{
	return sb->lost;
}
