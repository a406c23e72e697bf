# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs the tool and the workloads, and reads what the tool wrote.

Every recording that passes through here is checked for conservation: for each thread
on + run queue + blocked + lost = window to the nanosecond, lost <= 0.1 % of the window, and the
folded files sum up to the same totals.
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("OFFCPU_BUILD", ROOT / "build"))
OFFCPU = pathlib.Path(os.environ.get("OFFCPU", BUILD / "offcpu"))
TARGETS = BUILD / "targets"

NS = 1_000_000_000
MS = 1_000_000
US = 1_000


class Folded:
    """A folded file: a list of (frames, microseconds)."""

    def __init__(self, text):
        assert text == "" or text.endswith("\n")
        self.lines = []
        for line in text.split("\n")[:-1]:
            stack, _, value = line.rpartition(" ")
            assert stack and re.fullmatch(r"[0-9]+", value), f"not a folded line: {line!r}"
            frames = stack.split(";")
            assert all(frames), f"empty frame: {line!r}"
            assert not re.search(r"[\x00-\x1f\x7f-\x9f]", line), f"control character: {line!r}"
            self.lines.append((frames, int(value)))
        order = [line.rpartition(" ")[0] for line in text.split("\n")[:-1]]
        assert len(set(order)) == len(order), "the same stack on two lines"

    @property
    def total_us(self):
        return sum(value for _, value in self.lines)

    def us(self, *names):
        """Time of the stacks that hold all these functions, in this order, root first."""
        return sum(value for frames, value in self.lines if holds(frames, names))

    def blocked_us(self, *names):
        """The same without the time in the run queue, which depends on what else the machine does."""
        return sum(value for frames, value in self.lines
                   if frames[-1] != "[run queue]" and holds(frames, names))

    def stacks(self, *names):
        return [frames for frames, _ in self.lines if holds(frames, names)]


def bare(frame):
    """A folded frame without the marks of flamegraph.pl."""
    return re.sub(r"_\[[kij]\]$", "", frame)


def holds(frames, names):
    rest = iter(bare(frame) for frame in frames)
    return all(name in rest for name in names)


class Stack:
    """One (thread, stack) of the json file."""

    def __init__(self, names, raw):
        self.names = names
        self.raw = raw
        self.on_ns = raw.get("on_ns", 0)
        self.runq_ns = raw.get("runq_ns", 0)
        self.blocked_ns = raw.get("blocked_ns", 0)
        self.off_ns = self.runq_ns + self.blocked_ns
        self.count = raw.get("blocks", 0)
        self.samples = raw.get("samples", 0)


class Profile:
    """The json file."""

    def __init__(self, text):
        self.raw = json.loads(text)
        self.threads = self.raw["threads"]
        self.processes = self.raw["processes"]
        self.window_ns = self.raw["window_ns"]
        self.losses = self.raw["losses"]
        self._stacks = None
        self.stolen_ns = 0

    @property
    def start_ns(self):
        """The window's start on CLOCK_MONOTONIC: that of any thread that lived through it."""
        return min(t["start_ns"] for t in self.threads)

    @property
    def end_ns(self):
        return self.start_ns + self.window_ns

    def thread(self, tid):
        found = [t for t in self.threads if t["tid"] == tid]
        assert len(found) == 1, f"{len(found)} threads {tid} in the profile"
        return found[0]

    def total(self, key):
        return sum(t[key] for t in self.threads)

    @property
    def stacks(self):
        if self._stacks is None:
            func = [frame["func"] for frame in self.raw["frames"]]
            self._stacks = [Stack([func[i] for i in raw["frames"]], raw)
                            for raw in self.raw["stacks"]]
        return self._stacks

    def frames(self, stack):
        return [self.raw["frames"][i] for i in stack.raw["frames"]]

    def holding(self, *names, tid=None):
        """The stacks that hold these functions in this order, root first."""
        return [s for s in self.stacks
                if holds(s.names, names) and tid in (None, s.raw["tid"])]

    def ns(self, key, *names, tid=None):
        """Sum of on_ns, blocked_ns, ... over the stacks that hold these functions."""
        return sum(getattr(s, key) for s in self.holding(*names, tid=tid))

    def process(self, pid):
        found = [p for p in self.processes if p["pid"] == pid]
        assert len(found) == 1, f"{len(found)} processes {pid} in the profile"
        return found[0]

    def lost_stacks(self):
        """Number of stacks that were lost or cut, by kind."""
        return {loss["kind"]: loss["count"] for loss in self.losses if loss["count"]}

    def check(self):
        """Conservation, and what else holds for every profile."""
        for t in self.threads:
            parts = t["on_ns"] + t["runq_ns"] + t["blocked_ns"] + t["lost_ns"]
            assert parts == t["window_ns"], f"parts sum to {parts}: {t}"
            assert t["end_ns"] - t["start_ns"] == t["window_ns"], f"end - start: {t}"
            assert t["lost_ns"] <= t["window_ns"] // 1000, f"lost time: {t}"
            assert 0 <= t["window_ns"] <= self.window_ns, f"window {self.window_ns}: {t}"
            assert t["user_ns"] + t["system_ns"] == t["on_ns"], f"user + system: {t}"
            assert t["tid"] > 0 and t["pid"] > 0, f"idle task: {t}"
            assert min(t[k] for k in t if k.endswith("_ns")) >= 0, f"negative: {t}"
        for key in ("on_ns", "runq_ns", "blocked_ns", "lost_ns", "user_ns", "system_ns", "samples"):
            assert sum(p[key] for p in self.processes) == self.total(key), f"sum of {key}"
        for key in ("on_ns", "runq_ns", "blocked_ns"):
            self._check_stacks(key)

    def _check_stacks(self, key):
        sums = [0] * len(self.threads)
        for stack in self.raw["stacks"]:
            sums[stack["thread"]] += stack[key]
        for thread, total in zip(self.threads, sums):
            assert total == thread[key], f"{key} of the stacks is {total}: {thread}"


class Result:
    """A finished run of the tool."""

    def __init__(self, status, out, err, prefix=None):
        self.status, self.out, self.err, self.prefix = status, out, err, prefix
        self._json = self._on = self._off = None
        self.stolen_ns = 0

    def _read(self, suffix):
        return pathlib.Path(f"{self.prefix}{suffix}").read_text(encoding="utf-8")

    @property
    def json(self):
        if self._json is None:
            self._json = Profile(self._read(".json"))
        return self._json

    @property
    def on(self):
        if self._on is None:
            self._on = Folded(self._read(".on.folded"))
        return self._on

    @property
    def off(self):
        if self._off is None:
            self._off = Folded(self._read(".off.folded"))
        return self._off

    def check(self):
        profile = self.json
        profile.stolen_ns = self.stolen_ns
        profile.check()
        # Each line is rounded to microseconds on its own, or by largest remainder.
        on_us = profile.total("on_ns") / 1000
        off_us = (profile.total("runq_ns") + profile.total("blocked_ns")) / 1000
        assert abs(self.on.total_us - on_us) <= 1 + len(self.on.lines) / 2, "on file's sum"
        assert abs(self.off.total_us - off_us) <= 1 + len(self.off.lines) / 2, "off file's sum"
        return self


class Running:
    """The tool, recording in the background."""

    def __init__(self, args, prefix=None, **kwargs):
        self.prefix = prefix
        self.stolen_ns = stolen_ns()
        self.process = subprocess.Popen([str(OFFCPU), *map(str, args)], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kwargs)

    def attached(self):
        """Waits until the programs are attached, as the tool's descriptors show."""
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and self.process.poll() is None:
            if "anon_inode:bpf_link" in descriptors(self.process.pid):
                time.sleep(0.4)
                return self
            time.sleep(0.02)
        out, err = self.process.communicate(timeout=10)
        raise AssertionError(f"it does not record: {err.decode(errors='replace')}")

    def signal(self, number):
        self.process.send_signal(number)

    def finish(self, timeout=60):
        try:
            out, err = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            out, err = self.process.communicate()
            raise AssertionError(f"it does not end; it said: {err.decode(errors='replace')}")
        result = Result(self.process.returncode, out.decode("utf-8", errors="surrogateescape"),
                        err.decode("utf-8", errors="surrogateescape"), self.prefix)
        stolen = stolen_ns() - self.stolen_ns
        result.stolen_ns = stolen and stolen + 10 * MS  # counted in ticks
        return result


def stolen_ns():
    """Time that the hypervisor gave to others: the kernel leaves it out of a thread's CPU time."""
    fields = open("/proc/stat").readline().split()
    return int(fields[8]) * (NS // os.sysconf("SC_CLK_TCK"))


def descriptors(pid):
    found = []
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            try:
                found.append(os.readlink(f"/proc/{pid}/fd/{name}"))
            except OSError:
                pass
    except OSError:
        pass
    return found


def start(tmp_path, *args, formats="folded,json"):
    """Starts a recording into tmp_path."""
    prefix = tmp_path / "rec"
    options = ["-f", formats, "-o", prefix, "-q"]
    return Running([*options, *args], prefix)


def record(tmp_path, *args, status=0, timeout=60):
    """Records, checks conservation, returns the result."""
    result = start(tmp_path, *args).finish(timeout)
    assert result.status == status, f"status {result.status}: {result.err}"
    return result.check()


def tool(*args, timeout=60, **kwargs):
    """Runs the tool to its end with just these arguments."""
    return Running(args, **kwargs).finish(timeout)


class Target:
    """A workload of tests/targets, ready for work; killed at the end of the test."""

    def __init__(self, *args, prefix=(), cwd=None):
        name, *rest = args
        path = name if os.path.isabs(str(name)) else TARGETS / name
        self.process = subprocess.Popen([*map(str, prefix), str(path), *map(str, rest)], cwd=cwd,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._await_ready()

    def _await_ready(self):
        line = self.process.stdout.readline()
        assert line == b"ready\n", f"{self.process.args}: {line!r}"

    @property
    def pid(self):
        return self.process.pid

    def go(self):
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def line(self):
        return json.loads(self.process.stdout.readline())

    def end(self):
        """Tells it to end; returns the truth it prints."""
        self.process.send_signal(signal.SIGTERM)
        out, _ = self.process.communicate(timeout=30)
        return json.loads(out)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


class Tape:
    """A thread's own readings; see tests/targets/truth.h."""

    def __init__(self, raw):
        self.tid = raw["tid"]
        self.marks = raw["marks"]

    def at(self, now_ns, column):
        marks = self.marks
        assert marks[0][0] <= now_ns <= marks[-1][0], "the workload did not outlast the window"
        for a, b in zip(marks, marks[1:]):
            if a[0] <= now_ns <= b[0]:
                part = (now_ns - a[0]) / max(1, b[0] - a[0])
                return a[column] + part * (b[column] - a[column])
        raise AssertionError("marks out of order")

    def between(self, profile, column):
        return self.at(profile.end_ns, column) - self.at(profile.start_ns, column)

    def cpu_ns(self, profile):
        return self.between(profile, 1)

    def slept_ns(self, profile):
        return self.between(profile, 2)

    def voluntary(self, profile):
        return self.between(profile, 3)


def tapes(truth):
    return [Tape(raw) for raw in truth["tapes"]]


def near(value, truth, relative=0.0, absolute=0.0):
    """|value - truth| within a part of the truth plus a constant."""
    assert abs(value - truth) <= relative * abs(truth) + absolute, \
        f"{value} is not {truth} +- {relative:.2%} +- {absolute}"
    return True


def near_cpu(thread, cpu_ns, relative=0.0, absolute=0.0):
    """Is on_ns the kernel's count of the CPU time? When a wakeup finds the CPU idle, the kernel charges
    CPU time from the wakeup on (it saves itself a reading of the clock: rq_clock_skip_update()), so its
    count may hold part of the run queue time."""
    low = thread["on_ns"] * (1 - relative) - absolute
    high = (thread["on_ns"] + thread["runq_ns"]) * (1 + relative) + absolute
    assert low <= cpu_ns <= high, f"CPU time {cpu_ns}, not {low} .. {high}: {thread}"
