// SPDX-License-Identifier: GPL-2.0-or-later
#include "target.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <mntent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/log.h"
#include "util/xalloc.h"

#define PF_KTHREAD 0x00200000UL

/* Reads the name of a process or thread. Returns false if it is not there. */
static bool read_comm(pid_t pid, char comm[COMM_LEN])
{
	char path[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, comm, COMM_LEN);
	close(fd);
	if (n <= 0)
		return false;
	comm[n - 1] = 0;
	return true;
}

/* Field 9 of /proc/PID/stat (proc(5)); the name before it may hold anything, even ')'. */
static bool is_kernel_thread(pid_t pid)
{
	char path[64], text[1024], *end;
	unsigned long flags = 0;
	FILE *f;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = 0;
	end = strrchr(text, ')');
	return end && sscanf(end + 1, " %*c %*d %*d %*d %*d %*d %lu", &flags) == 1 &&
	       flags & PF_KTHREAD;
}

/* What /proc calls it, as part of a file name. */
static char *make_slug(const char *name, const char *suffix)
{
	char *slug = xasprintf("%s%s%s", name, *suffix ? "-" : "", suffix);

	for (char *p = slug; *p; p++)
		if (!isalnum((unsigned char)*p) && !strchr("._-+", *p))
			*p = '_';
	return slug;
}

static int parse_list(struct target *t, const char *list, const char *what)
{
	const char *p = list;
	size_t cap = 0;

	do {
		char *end;
		long id;

		errno = 0;
		id = strtol(p, &end, 10);
		if (end == p || !isdigit((unsigned char)*p) || (*end && *end != ',') || errno ||
		    id <= 0 || id > INT_MAX) {
			log__error("'%s' is not a list of %s; give numbers with commas: 12,345",
				   log__safe(list), what);
			return -EINVAL;
		}
		t->ids = xgrow(t->ids, t->nids, &cap, sizeof(*t->ids));
		t->ids[t->nids++] = id;
		p = end + 1;
		if (!*end)
			break;
	} while (1);
	return 0;
}

static int check_id(pid_t id, const char *what)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d", id);
	if (access(path, F_OK)) {
		log__error("no %s with id %d", what, id);
		return -ESRCH;
	}
	if (is_kernel_thread(id)) {
		log__error("%d is a kernel thread; only -a records those", id);
		return -EOPNOTSUPP;
	}
	return 0;
}

static void set_titles(struct target *t, const char *one, const char *many)
{
	char comm[COMM_LEN] = "?", suffix[32];

	if (t->nids == 1) {
		read_comm(t->ids[0], comm);
		t->title = xasprintf("%s (%s %d)", comm, one, t->ids[0]);
		snprintf(suffix, sizeof(suffix), "%d", t->ids[0]);
		t->slug = make_slug(comm, suffix);
	} else {
		t->title = xasprintf("%d %s", t->nids, many);
		snprintf(suffix, sizeof(suffix), "%d", t->ids[0]);
		t->slug = make_slug(many, suffix);
	}
}

int target__processes(struct target *t, const char *list)
{
	int err = parse_list(t, list, "process ids");

	t->mode = TARGET_PROCESSES;
	for (int i = 0; i < t->nids && !err; i++) {
		char path[64];

		err = check_id(t->ids[i], "process");
		/* /proc/TID exists for threads too, though they are not listed */
		snprintf(path, sizeof(path), "/proc/%d/task/%d", t->ids[i], t->ids[i]);
		if (!err && access(path, F_OK)) {
			log__error("no process with id %d", t->ids[i]);
			err = -ESRCH;
		}
		if (!err) {
			char line[128];
			int tgid = t->ids[i];
			FILE *f;

			snprintf(path, sizeof(path), "/proc/%d/status", t->ids[i]);
			f = fopen(path, "re");
			while (f && fgets(line, sizeof(line), f))
				if (sscanf(line, "Tgid: %d", &tgid) == 1)
					break;
			if (f)
				fclose(f);
			if (tgid != t->ids[i]) {
				log__error("%d is a thread of process %d; use -t %d or -p %d",
					   t->ids[i], tgid, t->ids[i], tgid);
				err = -ESRCH;
			}
		}
	}
	if (!err)
		set_titles(t, "pid", "processes");
	return err;
}

int target__threads(struct target *t, const char *list)
{
	int err = parse_list(t, list, "thread ids");

	t->mode = TARGET_THREADS;
	for (int i = 0; i < t->nids && !err; i++)
		err = check_id(t->ids[i], "thread");
	if (!err)
		set_titles(t, "tid", "threads");
	return err;
}

int target__name(struct target *t, const char *name)
{
	char comm[COMM_LEN];
	struct dirent *entry;
	int found = 0;
	DIR *proc;

	if (!*name || strlen(name) >= COMM_LEN) {
		log__error("'%s' is no command name; the kernel keeps at most %d characters (see "
			   "/proc/PID/comm)",
			   log__safe(name), COMM_LEN - 1);
		return -EINVAL;
	}
	proc = opendir("/proc");
	while (proc && (entry = readdir(proc))) {
		pid_t pid = atoi(entry->d_name);

		if (pid > 0 && pid != getpid() && read_comm(pid, comm) && !strcmp(comm, name))
			found++;
	}
	if (proc)
		closedir(proc);
	if (!found) {
		log__error("no process is called '%s'", log__safe(name));
		return -ESRCH;
	}
	t->mode = TARGET_NAME;
	strcpy(t->name, name);
	t->title = xasprintf("processes named %s", name);
	t->slug = make_slug(name, "");
	return 0;
}

/* The v1 controller that is mounted at the file system 'dev', or NULL. */
static char *find_controller(dev_t dev)
{
	static const char *const known[] = {"cpuacct", "cpu",	    "memory", "pids",
					    "blkio",   "devices",   "cpuset", "freezer",
					    "net_cls", "perf_event"};
	FILE *mounts = setmntent("/proc/self/mounts", "re");
	struct mntent *m;
	char *found = NULL;

	while (mounts && !found && (m = getmntent(mounts))) {
		struct stat st;

		if (strcmp(m->mnt_type, "cgroup") || stat(m->mnt_dir, &st) || st.st_dev != dev)
			continue;
		for (size_t i = 0; i < sizeof(known) / sizeof(known[0]) && !found; i++)
			if (hasmntopt(m, known[i]))
				found = xstrdup(known[i]);
	}
	if (mounts)
		endmntent(mounts);
	return found;
}

int target__cgroup(struct target *t, const char *path)
{
	const char *last = strrchr(path, '/');
	struct statfs fs;
	struct stat st;

	if (statfs(path, &fs) || stat(path, &st)) {
		int err = errno;

		log__error("cannot find cgroup '%s': %s", log__safe(path), strerror(err));
		return -err;
	}
	if (fs.f_type == CGROUP_SUPER_MAGIC)
		t->controller = find_controller(st.st_dev);
	if (!S_ISDIR(st.st_mode) || (fs.f_type != CGROUP2_SUPER_MAGIC &&
				     (fs.f_type != CGROUP_SUPER_MAGIC || !t->controller))) {
		log__error(
			"'%s' is not the directory of a cgroup; give a path below a cgroup2 mount "
			"or below a v1 controller",
			log__safe(path));
		return -ENOTDIR;
	}
	t->mode = TARGET_CGROUP;
	t->cgroup = st.st_ino;
	t->title = xasprintf("cgroup %s", path);
	t->slug = make_slug(last && last[1] ? last + 1 : "cgroup", "");
	return 0;
}

void target__system(struct target *t)
{
	t->mode = TARGET_ALL;
	t->title = xstrdup("whole system");
	t->slug = xstrdup("system");
}

/* In the child: wait for the word, then become the command. Only async-signal-safe calls. */
static void run_command(int go_fd, int exec_fd, char **argv)
{
	char byte;
	int err;

	if (read(go_fd, &byte, 1) != 1)
		_exit(127);
	signal(SIGPIPE, SIG_DFL);
	execvp(argv[0], argv);
	err = errno;
	if (write(exec_fd, &err, sizeof(err)) != sizeof(err))
		_exit(126);
	_exit(127);
}

int target__command(struct target *t, char **argv)
{
	const char *name = strrchr(argv[0], '/');
	int go[2], exec[2], err;
	char suffix[32];

	if (pipe2(go, O_CLOEXEC) || pipe2(exec, O_CLOEXEC)) {
		err = -errno;
		log__error("cannot make a pipe: %s", strerror(-err));
		return err;
	}
	fflush(NULL);
	t->child = fork();
	if (t->child < 0) {
		err = -errno;
		log__error("cannot start '%s': %s", log__safe(argv[0]), strerror(-err));
		return err;
	}
	if (!t->child) {
		close(go[1]);
		close(exec[0]);
		run_command(go[0], exec[1], argv);
	}
	close(go[0]);
	close(exec[1]);
	t->go_fd = go[1];
	t->exec_fd = exec[0];
	t->mode = TARGET_PROCESSES;
	t->ids = xcalloc(1, sizeof(*t->ids));
	t->ids[0] = t->child;
	t->nids = 1;
	t->command = argv[0];
	name = name ? name + 1 : argv[0];
	t->title = xasprintf("%s (pid %d)", name, t->child);
	snprintf(suffix, sizeof(suffix), "%d", t->child);
	t->slug = make_slug(name, suffix);
	return 0;
}

int target__go(struct target *t)
{
	int err = 0;

	if (!t->child)
		return 0;
	if (write(t->go_fd, "", 1) != 1)
		return -errno;
	close(t->go_fd);
	t->go_fd = 0;
	/* the pipe closes when exec works, and brings the error when it does not */
	if (read(t->exec_fd, &err, sizeof(err)) != sizeof(err))
		return 0;
	log__error("cannot run '%s': %s", log__safe(t->command), strerror(err));
	target__wait(t);
	return -err;
}

bool target__ended(struct target *t)
{
	if (t->child && !t->reaped && waitpid(t->child, &t->status, WNOHANG) == t->child)
		t->reaped = true;
	return t->reaped;
}

int target__wait(struct target *t)
{
	while (t->child && !t->reaped) {
		if (waitpid(t->child, &t->status, 0) == t->child || errno != EINTR)
			t->reaped = true;
	}
	return WIFSIGNALED(t->status) ? 128 + WTERMSIG(t->status) : WEXITSTATUS(t->status);
}

void target__free(struct target *t)
{
	if (t->go_fd)
		close(t->go_fd); /* a command that was never let go ends here */
	if (t->exec_fd)
		close(t->exec_fd);
	free(t->ids);
	free(t->controller);
	free(t->title);
	free(t->slug);
}
