# SPDX-License-Identifier: GPL-2.0-or-later
"""The bench's workloads. Each prints a line for every short window of its own measurements."""
import os
import pathlib
import subprocess
import time

import machine
from machine import CPU
from matched import Window

# Samples taken again because others trace as well: per sample, and seconds in all.
TRIES = 3
RETRY_S = 30


class Unmeasured(Exception):
    """Something could not be measured; why."""


class Workload:
    """A program that measures itself; its lines (five numbers, the first a time) go to a file."""

    def __init__(self, build, work, name, *args):
        self.path = pathlib.Path(work) / f"{name}.windows"
        self.read_to = 0
        with open(self.path, "wb") as out:
            self.process = subprocess.Popen(
                [str(pathlib.Path(build) / "bench" / name), *map(str, (CPU, *args))],
                stdin=subprocess.DEVNULL, stdout=out)
        self.pid = self.process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def windows(self, seconds):
        """The windows that begin and end within the next seconds."""
        begin = time.monotonic_ns()
        time.sleep(seconds)
        end = time.monotonic_ns()
        with open(self.path, encoding="ascii") as f:
            f.seek(self.read_to)
            text = f.read()
        whole = text.rfind("\n") + 1
        self.read_to += whole
        found = [tuple(map(int, line.split())) for line in text[:whole].split("\n")[:-1]]
        found = [w for w in found if w[0] - w[1] >= begin and w[0] <= end]
        if not found:
            raise Unmeasured(f"{self.path.stem} printed nothing for {seconds} s")
        return found


class Sample:
    """Windows of the ping-pong, and others' BPF programs that traced it as well."""

    def __init__(self, lines, foreign):
        self.windows = [Window(line) for line in lines]
        self.foreign = foreign

    @property
    def rate(self):
        return sum(w.switches for w in self.windows) * 1e9 / sum(w.wall_ns for w in self.windows)


class PingPong(Workload):
    """Two threads on one CPU that wake each other in turn."""
    retry_s = RETRY_S

    def __init__(self, build, work, rate=0, depth=20):
        super().__init__(build, work, "pingpong", depth, rate)

    def sample(self, seconds, pids=()):
        """A sample; taken again while others trace as well."""
        for _ in range(TRIES):
            sample = Sample(self.windows(seconds), machine.foreign_tracers(pids))
            if not sample.foreign or PingPong.retry_s < seconds:
                break
            PingPong.retry_s -= seconds
        return sample


class Spin(Workload):
    """One thread that never stops, and sees what interrupts it."""

    def __init__(self, build, work):
        super().__init__(build, work, "spin")

    def lost(self, seconds):
        """Fraction of its time that went to interrupts, in windows in which no other ran."""
        windows = self.windows(seconds)
        alone = [w for w in windows if not w[3]]
        if len(alone) < len(windows) // 10:
            raise Unmeasured("the CPU is too busy with other programs")
        return sum(w[2] for w in alone) / sum(w[1] for w in alone)


def bystander():
    """A process that does nothing, to be traced in the workload's stead."""
    return subprocess.Popen(["sleep", "100000"], stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL,
                            preexec_fn=lambda: os.sched_setaffinity(0, machine.OTHERS))
