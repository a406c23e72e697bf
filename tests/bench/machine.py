# SPDX-License-Identifier: GPL-2.0-or-later
"""The machine: which CPU is measured, who else traces it, and the kernel's BPF statistics."""
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import time

BPFTOOL = shutil.which("bpftool", path=os.environ["PATH"] + ":/usr/sbin:/usr/local/sbin")
STATS = pathlib.Path("/proc/sys/kernel/bpf_stats_enabled")

CPUS = sorted(os.sched_getaffinity(0))
# The workload has the last CPU; this program and the tracers keep to the others.
CPU = CPUS[-1]
OTHERS = CPUS[:-1] or CPUS


def cpu_ns(pid):
    """CPU time of a process (MAKE_PROCESS_CPUCLOCK); 0 when it is gone."""
    try:
        return time.clock_gettime_ns((~pid << 3) | 2)
    except OSError:
        return 0


def median(values):
    return statistics.median(values)


def quantile(values, q):
    """By linear interpolation."""
    values = sorted(values)
    at = q * (len(values) - 1)
    low = int(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (at - low)


# --- BPF programs

def programs():
    """Loaded BPF programs by id, as bpftool tells."""
    if not BPFTOOL:
        return {}
    out = subprocess.run([BPFTOOL, "-j", "prog", "show"], stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, check=False).stdout
    try:
        return {p["id"]: p for p in json.loads(out)}
    except (ValueError, KeyError, TypeError):
        return {}


def programs_of(pid):
    """Ids of the BPF programs that a process holds."""
    ids = set()
    try:
        for info in pathlib.Path(f"/proc/{pid}/fdinfo").iterdir():
            try:
                ids |= {int(line.split()[1]) for line in info.read_text().split("\n")
                        if line.startswith("prog_id:")}
            except OSError:
                pass
    except OSError:
        pass
    return ids


def foreign_tracers(own_pids):
    """Names of others' programs at scheduler events: they would be measured too."""
    own = set().union(*(programs_of(pid) for pid in own_pids)) if own_pids else set()
    return sorted({p.get("name", "?") for i, p in programs().items() if i not in own
                   and p.get("type") in ("tracing", "raw_tracepoint", "tracepoint")
                   and ("sched" in p.get("name", "") or "switch" in p.get("name", ""))})


class BpfStats:
    """The kernel measures BPF programs while this is entered; what was set before comes back."""

    def __enter__(self):
        self.before = STATS.read_text()
        STATS.write_text("1")
        return self

    def __exit__(self, *_):
        STATS.write_text(self.before)

    @staticmethod
    def read(pid):
        """(name, ns, runs) by id, of the programs that a process holds."""
        ids = programs_of(pid)
        return {i: (p.get("name", "?"), p.get("run_time_ns", 0), p.get("run_cnt", 0))
                for i, p in programs().items() if i in ids}


# --- processes

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


def peak_rss(pid):
    """VmHWM in bytes; 0 when it is gone."""
    try:
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().split("\n"):
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def describe():
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as f:
        model = next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")),
                     os.uname().machine)
    return f"{model}, {len(CPUS)} CPUs, Linux {os.uname().release}, load {os.getloadavg()[0]:.1f}"
