# SPDX-License-Identifier: GPL-2.0-or-later
"""Where the time went, against workloads that measure themselves."""
import os
import pathlib
import threading
import time

import pytest

import offcpu
from offcpu import MS, NS, near, near_cpu, record, tapes

CPUS = len(os.sched_getaffinity(0))
ENTER_AND_LEAVE_NS = 60_000  # CPU time in and around a sleep, on a virtual CPU that was idle


def check_against_tape(profile, tape):
    """on = the thread's CPU clock; what it slept = blocked + the wait for a CPU after waking."""
    thread = profile.thread(tape.tid)
    slept = tape.slept_ns(profile)
    assert thread["window_ns"] == profile.window_ns
    error = 2 * MS + profile.stolen_ns
    near_cpu(thread, tape.cpu_ns(profile), 0.005, error)
    # (moving to another CPU blocks as well, while the migration thread takes it there)
    assert profile.ns("blocked_ns", "sleep_here", tid=tape.tid) <= slept + 2 * MS
    # what the thread takes for sleep includes running into and out of the system call
    assert thread["blocked_ns"] + thread["runq_ns"] >= \
        slept - error - ENTER_AND_LEAVE_NS * tape.voluntary(profile)


@pytest.mark.parametrize("busy_us,sleep_us", [(3000, 7000), (500, 20000), (5000, 500)])
def test_sleeper_of_known_fraction(tmp_path, target, busy_us, sleep_us):
    sleeper = target("sleeper", busy_us, sleep_us)
    result = record(tmp_path, "-p", sleeper.pid, "-d", 2, "-F", 997)
    tape, = tapes(sleeper.end())
    check_against_tape(result.json, tape)
    thread = result.json.thread(tape.tid)
    assert result.json.ns("blocked_ns", "main", "turn", "sleep_here") >= 0.999 * thread["blocked_ns"]
    assert result.json.ns("on_ns", "main", "turn", "run_here") >= 0.6 * thread["on_ns"]
    assert result.off.blocked_us("main", "turn", "sleep_here") >= \
        0.99 * result.off.blocked_us()
    near(result.json.window_ns, 2 * NS, absolute=100 * MS)


def test_thread_that_moves_to_another_cpu_at_every_sleep(tmp_path, target):
    sleeper = target("sleeper", 500, 1000, 1)
    result = record(tmp_path, "-p", sleeper.pid, "-d", 2)
    tape, = tapes(sleeper.end())
    check_against_tape(result.json, tape)


@pytest.mark.parametrize("threads", [2, 3])
def test_spinners_on_one_cpu_wait_in_the_run_queue(tmp_path, target, threads):
    spinners = target("spinners", threads)
    result = record(tmp_path, "-p", spinners.pid, "-d", 3)
    profile = result.json
    for tape in tapes(spinners.end()):
        thread = profile.thread(tape.tid)
        cpu = tape.cpu_ns(profile)
        near(thread["on_ns"], cpu, 0.005, 5 * MS + profile.stolen_ns)
        near(thread["runq_ns"], profile.window_ns - cpu, 0.01, 10 * MS + profile.stolen_ns)
        assert thread["blocked_ns"] < 0.01 * profile.window_ns
        assert thread["voluntary"] <= 2
    main = profile.thread(spinners.pid)
    assert main["blocked_ns"] >= 0.999 * profile.window_ns
    assert result.off.us("[run queue]") >= 0.9 * (threads - 1) * profile.window_ns / 1000


def test_cpu_shares_by_function(tmp_path, target):
    shares = target("shares")
    result = record(tmp_path, "-p", shares.pid, "-d", 4, "-F", 997)
    truth = shares.end()
    whole = sum(truth.values())
    profile = result.json
    for function, ns in truth.items():
        share = profile.ns("on_ns", function) / profile.total("on_ns")
        near(100 * share, 100 * ns / whole, absolute=3)
        near(100 * result.on.us(function) / result.on.total_us, 100 * share, absolute=0.1)


def test_sleep_1000(tmp_path, spawn):
    sleep = spawn("sleep", "1000")
    time.sleep(0.3)
    result = record(tmp_path, "-p", sleep.pid, "-d", 3)
    thread = result.json.thread(sleep.pid)
    assert thread["blocked_ns"] == thread["window_ns"] == result.json.window_ns
    assert thread["blocked_at_start"] and thread["blocked_at_end"]
    near(result.json.window_ns, 3 * NS, absolute=100 * MS)
    # Kernel and user stack; libc's own frames are known by its dynamic symbols.
    (frames, value), = result.off.lines
    near(value, result.json.window_ns / 1000, absolute=1)
    assert any("nanosleep" in f and f.endswith("_[k]") for f in frames)
    assert any("nanosleep" in f and not f.endswith("_[k]") for f in frames)


def test_threads_blocked_before_the_start_and_through_the_end(tmp_path, target):
    parked = target("parked", 8)
    time.sleep(1)
    profile = record(tmp_path, "-p", parked.pid, "-d", 2).json
    assert len(profile.threads) == 9
    for thread in profile.threads:
        assert thread["blocked_ns"] == thread["window_ns"] == profile.window_ns
        assert thread["blocked_at_start"] and thread["blocked_at_end"]
    for park in ("park_futex", "park_pipe", "park_epoll"):
        assert profile.ns("blocked_ns", "parked", park) == 2 * profile.window_ns
    assert profile.ns("blocked_ns", "parked", "park_timer") == 2 * profile.window_ns
    assert profile.ns("blocked_ns", "main", "park_timer") == profile.window_ns


def test_sleeping_threads_are_not_disturbed(tmp_path, target):
    """A thousand sleepers: recording causes not one switch nor any CPU time in them."""
    parked = target("parked", 1000)
    before = switches(parked.pid)
    profile = record(tmp_path, "-p", parked.pid, "-d", 2).json
    assert switches(parked.pid) == before
    assert len(profile.threads) == 1001
    assert profile.total("blocked_ns") == 1001 * profile.window_ns


def switches(pid):
    total = 0
    for status in pathlib.Path(f"/proc/{pid}/task").glob("*/status"):
        total += sum(int(line.split()[1]) for line in status.read_text().splitlines()
                     if "ctxt_switches" in line)
    return total


@pytest.mark.slow
def test_ten_thousand_threads(tmp_path, target):
    parked = target("parked", 10000)
    result = record(tmp_path, "-p", parked.pid, "-d", 2, timeout=120)
    profile = result.json
    assert len(profile.threads) == 10001
    assert profile.total("blocked_ns") == 10001 * profile.window_ns
    for park in ("park_timer", "park_futex", "park_pipe", "park_epoll"):
        assert profile.ns("blocked_ns", "parked", park) == 2500 * profile.window_ns


def test_threads_born_and_gone(tmp_path, target):
    births = target("births")
    profile = record(tmp_path, "-p", births.pid, "-d", 2).json
    lives = births.end()["lives"]
    start, end = profile.start_ns, profile.end_ns
    inside = [life for life in lives if start < life[1] and life[4] < end]
    assert len(inside) > 100
    known = {}
    for thread in profile.threads:
        assert thread["tid"] not in known
        known[thread["tid"]] = thread
    for tid, before, first, last, after, cpu in inside:
        assert tid in known, f"thread {tid} is not in the profile; losses: {profile.losses}"
        thread = known[tid]
        assert before <= thread["start_ns"] <= first
        assert last <= thread["end_ns"] <= after + 20 * MS
        near(thread["on_ns"], cpu, 0.05, 3 * MS)  # beginning and end of a thread are outside
        assert thread["blocked_ns"] + thread["runq_ns"] >= 14 * MS
    # Those cut by the window's edges are clipped to it.
    for tid, before, first, last, after, _ in lives:
        if first < start < last and tid in known:
            assert known[tid]["start_ns"] == start
        if first < end < last:
            assert known[tid]["end_ns"] == end


@pytest.mark.parametrize("kind", ["pipe", "futex"])
def test_switch_storm_on_every_cpu(tmp_path, target, kind):
    storm = target("pingpong", CPUS, 20, kind)
    profile = record(tmp_path, "-p", storm.pid, "-d", 3).json
    truth = storm.end()
    # Marks of the tapes are 512 rounds apart.
    for tape in tapes(truth):
        thread = profile.thread(tape.tid)
        near(thread["voluntary"], tape.voluntary(profile), 0.01)
        near(thread["on_ns"], tape.cpu_ns(profile), 0.01, profile.stolen_ns)
        assert thread["lost_ns"] == 0
    assert profile.total("switches") > 50000
    assert profile.lost_stacks() == {}
    assert profile.ns("blocked_ns", "player", *["descend"] * 21, "play") >= \
        0.99 * sum(t["blocked_ns"] for t in profile.threads if t["tid"] != storm.pid)


def test_widths_follow_time_not_counts(tmp_path, target):
    """15 waits of 1.92 s in all against 237 of 49 ms in all."""
    sleeps = target("sleeps", 15, 128000, 237, 207)
    running = offcpu.start(tmp_path, "-p", sleeps.pid, "-d", 4).attached()
    sleeps.go()
    truth = sleeps.line()
    result = running.finish().check()
    profile = result.json
    assert profile.start_ns < truth["start_ns"] and truth["end_ns"] < profile.end_ns
    first, second = (profile.ns("off_ns", name) for name in ("sleep_first", "sleep_second"))
    near(first, truth["first_ns"], 0.01)
    near(second, truth["second_ns"], 0.05)
    near(result.off.us("sleep_first") / result.off.us("sleep_second"),
         truth["first_ns"] / truth["second_ns"], 0.06)
    assert sum(s.count for s in profile.holding("sleep_first")) == 15
    near(sum(s.count for s in profile.holding("sleep_second")), 237, absolute=5)


def test_exec_in_the_middle(tmp_path, target):
    execer = target("execer", 1500, offcpu.TARGETS / "sleeper", 3000, 7000)
    profile = record(tmp_path, "-p", execer.pid, "-d", 3).json
    assert execer.process.stdout.readline() == b"ready\n"
    names = [p["comm"] for p in profile.processes]
    assert sorted(names) == ["execer", "sleeper"]
    assert {p["pid"] for p in profile.processes} == {execer.pid}
    assert profile.total("window_ns") == profile.window_ns
    first, = [t for t in profile.threads if t["comm"] == "execer"]
    second, = [t for t in profile.threads if t["comm"] == "sleeper"]
    assert first["end_ns"] == second["start_ns"]
    assert profile.ns("blocked_ns", "main", "before_exec") >= 0.98 * first["blocked_ns"]
    assert profile.ns("blocked_ns", "main", "turn", "sleep_here") >= 0.98 * second["blocked_ns"]


def test_user_and_system_time(tmp_path, target):
    usersys = target("usersys", 700, 300)
    profile = record(tmp_path, "-p", usersys.pid, "-d", 3, "-F", 499).json
    truth = usersys.end()
    thread = profile.thread(usersys.pid)
    share = thread["user_ns"] / thread["on_ns"]
    near(100 * share, 100 * truth["user_ns"] / sum(truth.values()), absolute=6)


class ProcReader(threading.Thread):
    """Reads a stat file again and again: (time, utime + stime in ns)."""

    def __init__(self, path):
        super().__init__()
        self.path, self.readings, self.over = path, [], threading.Event()
        self.tick_ns = NS // os.sysconf("SC_CLK_TCK")

    def run(self):
        while not self.over.wait(0.004):
            now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            fields = pathlib.Path(self.path).read_text().rpartition(")")[2].split()
            self.readings.append((now, int(fields[11]) * self.tick_ns, int(fields[12]) * self.tick_ns))

    def between(self, profile):
        """Returns the CPU time between the readings nearest to the edges, and the bound of error:
        a tick per counter that moved, the readings' distance from the edges, and the time since
        the kernel last updated its counters (a scheduler tick of at most 10 ms)."""
        first, last = (min(self.readings, key=lambda r: abs(r[0] - edge))
                       for edge in (profile.start_ns, profile.end_ns))
        skew = abs(first[0] - profile.start_ns) + abs(last[0] - profile.end_ns)
        moved = sum(last[i] != first[i] for i in (1, 2))
        return last[1] + last[2] - first[1] - first[2], moved * self.tick_ns + skew + 10 * MS


@pytest.mark.parametrize("workload", [("sleeper", 3000, 7000), ("usersys",)])
@pytest.mark.parametrize("path", ["/proc/{0}/stat", "/proc/{0}/task/{0}/stat"])
def test_cpu_time_agrees_with_proc(tmp_path, target, workload, path):
    one = target(*workload)
    reader = ProcReader(path.format(one.pid))
    reader.start()
    try:
        profile = record(tmp_path, "-p", one.pid, "-d", 2).json
        time.sleep(0.05)
    finally:
        reader.over.set()
        reader.join()
    cpu, error = reader.between(profile)
    assert error < 60 * MS
    thread, process = profile.thread(one.pid), profile.process(one.pid)
    near_cpu(thread, cpu, absolute=error + profile.stolen_ns)
    near(thread["cpu_percent"], 100 * thread["on_ns"] / profile.window_ns, absolute=0.01)
    near(process["cpu_percent"], thread["cpu_percent"], absolute=0.01)
    near(process["machine_percent"], process["cpu_percent"] / os.cpu_count(), absolute=0.01)


def machine_busy_ns():
    """Time of all CPUs that was not idle, as /proc/stat has it, and when."""
    now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    fields = [int(f) for f in open("/proc/stat").readline().split()[1:]]
    idle = (fields[3] + fields[4]) * (NS // os.sysconf("SC_CLK_TCK"))
    return now, now * os.cpu_count() - idle


def test_whole_machine(tmp_path, target):
    """-a: every thread; the sum is what /proc/stat says was not idle. No pid 0 (see check())."""
    spinners = target("spinners", 1)
    sleeper = target("sleeper", 3000, 7000)
    running = offcpu.start(tmp_path, "-a", "-d", 3)
    readings = []
    while running.process.poll() is None:
        readings.append(machine_busy_ns())
        time.sleep(0.01)
    profile = running.finish().check().json
    first, last = (min(readings, key=lambda r: abs(r[0] - edge))
                   for edge in (profile.start_ns, profile.start_ns + profile.window_ns))
    busy = last[1] - first[1]
    near(profile.total("on_ns"), busy, 0.02, 50 * MS + profile.stolen_ns)
    assert {spinners.pid, sleeper.pid, 2} <= {p["pid"] for p in profile.processes}
    tape, = tapes(sleeper.end())
    check_against_tape(profile, tape)
