# SPDX-License-Identifier: GPL-2.0-or-later
"""The tools under test: how each is started, when it is attached, and whether it saw anything."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

from machine import OTHERS, descriptors
from workloads import Unmeasured

PATH = os.environ["PATH"] + ":/usr/sbin:/usr/share/bcc/tools"

# What offcputime.bt does, without its kprobe: both stacks at switch-out, summed when the thread
# runs again.
BPFTRACE = """
tracepoint:sched:sched_switch /pid == {pid}/ {{
    @start[args->prev_pid] = nsecs;
    @k[args->prev_pid] = kstack;
    @u[args->prev_pid] = ustack;
}}
tracepoint:sched:sched_switch /@start[args->next_pid]/ {{
    @[@k[args->next_pid], @u[args->next_pid], args->next_comm] =
        sum(nsecs - @start[args->next_pid]);
    delete(@start[args->next_pid]);
}}
END {{ clear(@start); clear(@k); clear(@u); }}
"""


class Tracer:
    """One way to trace a process. 'link' is what its descriptors show when it is attached."""
    link = "bpf_link"
    untraced = False

    def __init__(self, label, program, *args):
        self.label, self.program, self.args = label, program, args

    @property
    def available(self):
        return shutil.which(self.program, path=PATH)

    def command(self, pid, work):
        return [*self.args, "-p", str(pid)]

    def complaint(self, status, out, err, work):
        """Why its result shows that it did not trace, or None."""
        return None

    def start(self, pid, work):
        return Running(self, pid, work)


class Offcpu(Tracer):
    """This tool. 'untraced': attached to a process other than the one that is measured."""

    def __init__(self, label, binary, *args, untraced=False):
        super().__init__(label, str(binary), *args)
        self.untraced = untraced

    def command(self, pid, work):
        return ["-q", "-f", "json", "-o", f"{work}/rec", *self.args, "-p", str(pid)]

    @staticmethod
    def result(work):
        with open(f"{work}/rec.json", encoding="ascii") as f:
            return json.load(f)

    def complaint(self, status, out, err, work):
        if status:
            return f"it ended with status {status}: {err.strip()[-200:]}"
        if not self.untraced and self.result(work)["cost"]["switches"] == 0:
            return "it recorded no switch"
        return None


class Offcputime(Tracer):
    def __init__(self):
        super().__init__("offcputime (libbpf-tools)", "offcputime")

    def command(self, pid, work):
        return ["-p", str(pid), "100000"]

    def complaint(self, status, out, err, work):
        return None if "play" in out else "it printed no stack of the workload"


class Bpftrace(Tracer):
    link = "perf_event"

    def __init__(self):
        super().__init__("bpftrace, as offcputime.bt", "bpftrace")

    def command(self, pid, work):
        return ["-e", BPFTRACE.format(pid=pid)]

    def complaint(self, status, out, err, work):
        return None if "play" in out else f"it printed no stack of the workload: {err.strip()[-200:]}"


class Perf(Tracer):
    link = "perf_event"

    def __init__(self):
        super().__init__("perf record -e sched_switch -g", "perf")

    def command(self, pid, work):
        return ["record", "-e", "sched:sched_switch", "-g", "-p", str(pid), "-o", "/dev/null"]

    def complaint(self, status, out, err, work):
        woken = re.search(r"Woken up ([0-9]+) times", err)
        return None if woken and int(woken[1]) > 1 else f"it recorded nothing: {err.strip()[-200:]}"


class Running:
    """A tracer at work. Entered: it is attached. Left: it has ended, and its result was looked at."""

    def __init__(self, tracer, pid, work):
        self.tracer, self.work = tracer, work
        self.out = pathlib.Path(work) / "tracer.out"
        self.err = pathlib.Path(work) / "tracer.err"
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            self.process = subprocess.Popen(
                [shutil.which(tracer.program, path=PATH), *tracer.command(pid, work)],
                stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                preexec_fn=lambda: os.sched_setaffinity(0, OTHERS))
        self.pid = self.process.pid

    def _texts(self):
        return (self.out.read_text(errors="replace"), self.err.read_text(errors="replace"))

    def attach(self):
        """Waits until it is attached: it has got its descriptors, and no more for a while."""
        deadline = time.monotonic() + 20
        most, since = 0, 0
        while time.monotonic() < deadline and self.process.poll() is None:
            links = sum(self.tracer.link in fd for fd in descriptors(self.pid))
            if links > most:
                most, since = links, time.monotonic()
            elif most and time.monotonic() > since + 0.2:
                return
            time.sleep(0.02)
        ended = self.process.poll()
        self.end()
        raise Unmeasured(f"it does not attach ({'no end' if ended is None else f'status {ended}'}): "
                         f"{self._texts()[1].strip()[-200:]}")

    def interrupt(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)

    def end(self):
        self.interrupt()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def check(self):
        """Its result, after its end."""
        why = self.tracer.complaint(self.process.returncode, *self._texts(), self.work)
        if why:
            raise Unmeasured(why)

    def __enter__(self):
        try:
            self.attach()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, kind, *_):
        self.end()
        if kind is None:
            self.check()


def ours(binary):
    """This tool in the ways that it can be used."""
    text = subprocess.run([binary, "--help"], capture_output=True, text=True, check=False).stdout
    found = [Offcpu("offcpu", binary), Offcpu("offcpu --stacks none", binary, "--stacks", "none"),
             Offcpu("offcpu -u", binary, "-u")]
    if "dwarf" in text:
        found.append(Offcpu("offcpu --stacks dwarf", binary, "--stacks", "dwarf"))
    if "--wakers" in text:
        found.append(Offcpu("offcpu --wakers", binary, "--wakers"))
    return [*found, Offcpu("offcpu on another process", binary, untraced=True)]


def peers():
    return [Offcputime(), Bpftrace(), Perf()]
