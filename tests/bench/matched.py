# SPDX-License-Identifier: GPL-2.0-or-later
"""Comparing windows of two samples on a machine whose speed changes.

A CPU may lose half its speed for a while to its core's other thread, which another virtual machine
may own. So each window tells its pace (pace.h), and only windows of about the same pace are
compared; of these, the fastest that are enough.
"""
import math
from collections import defaultdict

from machine import median

STEP = 1.1                     # windows within a factor of 1.1 are of the same pace
ENOUGH = 20                    # windows
LIMITS = (1.2, 1.5, 2.0, math.inf)  # slower than at full speed, tried in turn


class Window:
    """A line of the ping-pong."""
    __slots__ = ("end", "wall_ns", "cpu_ns", "switches", "pace_ns")
    fastest_ns = math.inf  # best pace of all windows

    def __init__(self, line):
        self.end, self.wall_ns, self.cpu_ns, self.switches, self.pace_ns = line
        Window.fastest_ns = min(Window.fastest_ns, self.pace_ns)

    @property
    def slowness(self):
        return self.pace_ns / Window.fastest_ns


def by_pace(windows, limit):
    bins = defaultdict(list)
    for w in windows:
        if w.slowness <= limit:
            bins[int(math.log(w.slowness, STEP))].append(w)
    return bins


class Comparison:
    """Time per switch without ('base') and with a tracer, by CPU time and by wall time."""

    def __init__(self, base, traced):
        for limit in LIMITS:
            a, b = by_pace(base, limit), by_pace(traced, limit)
            weights = {k: min(len(a[k]), len(b[k])) for k in a.keys() & b.keys()}
            if sum(weights.values()) >= ENOUGH:
                break
        else:
            # no two of the same pace: better than nothing
            a, b, weights = {0: base}, {0: traced}, {0: 1}
        self.slowness = sum(w * median([x.slowness for x in a[k]])
                            for k, w in weights.items()) / sum(weights.values())
        self.base, self.traced = (self._mean(x, weights, "cpu_ns") for x in (a, b))
        self.base_wall, self.traced_wall = (self._mean(x, weights, "wall_ns") for x in (a, b))

    @staticmethod
    def _mean(bins, weights, what):
        """Of the medians in the bins."""
        return sum(weight * median([getattr(w, what) / w.switches for w in bins[k]])
                   for k, weight in weights.items()) / sum(weights.values())

    @property
    def added(self):
        return self.traced - self.base

    @property
    def added_wall(self):
        return self.traced_wall - self.base_wall
