# SPDX-License-Identifier: GPL-2.0-or-later
"""What tracing costs: this tool and its peers side by side, in alternating rounds.

Each tracer's sample is compared with samples without a tracer just before and just after it, window
by window of the same pace (matched.py); what is printed is the median of these differences over the
rounds, and their quartiles.
"""
import argparse
import os
import pathlib
import signal
import sys
import tempfile
import time

import machine
import memo
import tracers
from machine import CPU, BpfStats, cpu_ns, median, peak_rss, quantile
from matched import Comparison
from workloads import PingPong, Spin, Unmeasured, bystander

SAMPLE_S = 0.8
BASE_S = 0.5
SETTLE_S = 0.4
PACED = 100_000  # switches a second
PACED_S = 4
STARTS = 5
SPIN_PAIRS = 4
SPIN_S = 1.5

failures = []


def failed(what, why):
    failures.append(what)
    print(f"cannot measure '{what}': {why}", flush=True)


def say(text=""):
    print(text, flush=True)


def table(head, rows):
    """The first column to the left, the others to the right."""
    widths = [max(len(str(row[i])) for row in [head, *rows]) for i in range(len(head))]
    for row in [head, *rows]:
        say("  ".join(str(cell).ljust(w) if i == 0 else str(cell).rjust(w)
                      for i, (cell, w) in enumerate(zip(row, widths))).rstrip())


def fraction(x):
    """A ratio as one says it: 1/8.2 or 1.5 x."""
    if x <= 0:
        return "0"
    return f"1/{1 / x:.1f}" if x < 0.95 else f"{x:.2f} x"


class Cost:
    """What one tracer added in each round."""

    def __init__(self, label):
        self.label = label
        self.rounds = []   # (Comparison, others' BPF programs)
        self.why = None    # of the last failure

    @property
    def chosen(self):
        """The rounds in which nobody else traced, if they are enough to speak of."""
        alone = [c for c, foreign in self.rounds if not foreign]
        return alone if 2 * len(alone) >= len(self.rounds) else [c for c, _ in self.rounds]

    def over(self, of, q=0.5):
        """Median, or another quantile, over the rounds."""
        return quantile([of(c) for c in self.chosen], q)

    @property
    def added(self):
        return self.over(lambda c: c.added)


# --- cost of a switch

def measure_tracer(tracer, pingpong, other, before, cost, work):
    """Adds one round to the tracer's cost; the sample without a tracer at its end."""
    traced = other if tracer.untraced else pingpong
    with tracer.start(traced.pid, work) as running:
        time.sleep(SETTLE_S)
        during = pingpong.sample(SAMPLE_S, [running.pid])
    time.sleep(0.1)
    after = pingpong.sample(BASE_S)
    foreign = {name for s in (before, during, after) for name in s.foreign}
    cost.rounds.append((Comparison(before.windows + after.windows, during.windows), foreign))
    return after


def one_round(pingpong, other, kinds, costs, work):
    before = pingpong.sample(BASE_S)
    for tracer in kinds:
        cost = costs[tracer.label]
        try:
            before = measure_tracer(tracer, pingpong, other, before, cost, work)
        except Unmeasured as why:
            cost.why = why
            before = pingpong.sample(BASE_S)


def measure_switches(build, work, kinds, rounds):
    """Costs by label. The order is turned round in every other round."""
    costs = {kind.label: Cost(kind.label) for kind in kinds}
    other = bystander()
    try:
        with PingPong(build, work) as pingpong:
            time.sleep(0.3)
            for i in range(rounds):
                begin = time.monotonic()
                one_round(pingpong, other, kinds if i % 2 == 0 else kinds[::-1], costs, work)
                say(f"round {i + 1}/{rounds}: {time.monotonic() - begin:.0f} s")
    finally:
        other.kill()
        other.wait()
    for cost in costs.values():
        if cost.why and cost.rounds:
            say(f"note: {cost.label} failed in {rounds - len(cost.rounds)} of {rounds} "
                f"rounds: {cost.why}")
        elif not cost.rounds:
            failed(cost.label, cost.why)
    return {label: cost for label, cost in costs.items() if cost.rounds}


def switch_row(c, peer):
    ratio = fraction(c.added / peer.added) if peer and peer.added > 0 else "-"
    low, high = (c.over(lambda x: x.added, q) for q in (0.25, 0.75))
    return [c.label, f"{c.over(lambda x: x.traced):,.0f}", f"{c.added:,.0f}",
            f"{low:,.0f} .. {high:,.0f}", ratio, f"{c.over(lambda x: x.added_wall):,.0f}",
            f"{c.over(lambda x: x.slowness):.2f}", f"{len(c.chosen)}/{len(c.rounds)}"]


def print_switches(costs):
    every = [c for cost in costs.values() for c in cost.chosen]
    peer = costs.get(tracers.Offcputime().label)
    rows = [["no tracer", f"{median([c.base for c in every]):,.0f}", "", "", "", "",
             f"{median([c.slowness for c in every]):.2f}", ""]]
    rows += [switch_row(c, peer) for c in costs.values()]
    say("\nTIME PER CONTEXT SWITCH, ns: ping-pong over pipes, 20 user frames, one CPU")
    table(["", "CPU TIME", "ADDED", "QUARTILES", "OF OFFCPUTIME", "ADDED WALL", "SLOW", "ROUNDS"],
          rows)
    say("ADDED: median of the differences to the time without a tracer just before and after;\n"
        "SLOW: how much slower than at its best the CPU was in the windows compared (1.00: not);\n"
        "ROUNDS: used (without others' tracers, if these are half) / measured")
    foreign = sorted({name for c in costs.values() for _, names in c.rounds for name in names})
    if foreign:
        say(f"note: BPF programs of others traced as well: {', '.join(foreign)}")


# --- where it goes

def bpf_rows(build, work, tracer, other):
    """Rows of the table of BPF programs, for one tracer on the ping-pong."""
    with PingPong(build, work) as pingpong:
        traced = other if tracer.untraced else pingpong
        with tracer.start(traced.pid, work) as running, BpfStats():
            time.sleep(SETTLE_S)
            begin, start = BpfStats.read(running.pid), time.monotonic()
            rate = pingpong.sample(1.0, [running.pid]).rate
            end, seconds = BpfStats.read(running.pid), time.monotonic() - start
    switches = rate * seconds
    rows, total = [], 0
    for i, (name, ns, runs) in end.items():
        ns, runs = ns - begin.get(i, ("", 0, 0))[1], runs - begin.get(i, ("", 0, 0))[2]
        if runs < switches / 1000:
            continue
        total += ns / switches
        rows.append([f"  {name}", f"{ns / runs:,.0f}", f"{runs / switches:.2f}",
                     f"{ns / switches:,.0f}"])
    return [[tracer.label, "", "", f"{total:,.0f}"], *rows]


def measure_bpf(build, work, kinds):
    if not machine.BPFTOOL:
        say("\nskipped: BPF statistics (bpftool is not installed)")
        return
    other, rows = bystander(), []
    try:
        for tracer in kinds:
            try:
                rows += bpf_rows(build, work, tracer, other)
            except Unmeasured as why:
                failed(f"BPF statistics of {tracer.label}", why)
    finally:
        other.kill()
        other.wait()
    say("\nBPF PROGRAMS, as the kernel measures them (the measuring itself is partly included)")
    table(["", "NS PER RUN", "RUNS PER SWITCH", "NS PER SWITCH"], rows)


# --- this tool's own needs

def record(binary, pid, work, *args, watch=lambda running: None):
    """A recording, ended after 'watch'; what it states as its cost, its start and largest size."""
    tracer = tracers.Offcpu("offcpu", binary, *args)
    spawned, peak = time.time_ns(), 0
    running = tracer.start(pid, work)
    try:
        watch(running)
        while running.process.poll() is None:
            peak = max(peak, peak_rss(running.pid))
            time.sleep(0.002)
    finally:
        running.end()
    running.check()
    result = tracer.result(work)
    return {**result["cost"], "peak_rss": peak, "first_ns": result["start_unix_ns"] - spawned}


def measure_start(build, work, binary):
    """Medians of load + attach, and of the whole time until the window opens, in seconds."""
    with PingPong(build, work, PACED) as pingpong:
        time.sleep(0.2)
        costs = [record(binary, pingpong.pid, work, "-d", "0.1") for _ in range(STARTS)]
    return (median([c["load_ns"] + c["attach_ns"] for c in costs]) / 1e9,
            median([c["first_ns"] for c in costs]) / 1e9)


def measure_own(build, work, binary):
    """CPU as a fraction of a core at the paced rate, that rate, and the recording's cost."""
    found = {}

    with PingPong(build, work, PACED) as pingpong:
        def watch(running):
            running.attach()
            time.sleep(SETTLE_S)
            begin, start = cpu_ns(running.pid), time.monotonic_ns()
            found["rate"] = pingpong.sample(PACED_S, [running.pid]).rate
            found["cpu"] = (cpu_ns(running.pid) - begin) / (time.monotonic_ns() - start)
            running.interrupt()

        cost = record(binary, pingpong.pid, work, watch=watch)
    return found["cpu"], found["rate"], cost


def measure_sampling(build, work, binary):
    """Fractions of a CPU-bound thread's time that sampling takes, one for each pair."""
    lost = []
    tracer = tracers.Offcpu("offcpu", binary, untraced=True)
    with Spin(build, work) as spin:
        time.sleep(0.3)
        before = spin.lost(SPIN_S)
        for _ in range(SPIN_PAIRS):
            with tracer.start(spin.pid, work):
                time.sleep(SETTLE_S)
                during = spin.lost(SPIN_S)
            time.sleep(0.1)
            after = spin.lost(SPIN_S)
            lost.append(during - (before + after) / 2)
            before = after
    return lost


# --- the goals

class Goals:
    def __init__(self):
        self.rows = []

    def add(self, what, value, limit, met):
        self.rows.append([what, value, limit, "met" if met else "NOT met"])

    def attempt(self, what, measure):
        """What 'measure' returns, or None when that fails."""
        try:
            return measure()
        except Unmeasured as why:
            failed(what, why)
            return None


def add_switch_goals(goals, costs):
    ours, peer = costs.get("offcpu"), costs.get(tracers.Offcputime().label)
    if ours and peer and peer.added > 0:
        ratio = ours.added / peer.added
        goals.add("added to a traced switch, of offcputime's", fraction(ratio), "<= 1/8",
                  ratio <= 1 / 8)
    untraced = costs.get("offcpu on another process")
    if untraced:
        goals.add("added to a switch that is not traced", f"{untraced.added:.0f} ns", "<= 60 ns",
                  untraced.added <= 60)


def add_own_goals(goals, build, work, binary):
    spin = goals.attempt("sampling", lambda: measure_sampling(build, work, binary))
    if spin:
        share = median(spin)
        goals.add(f"on-CPU sampling at 99 Hz, of the thread's time "
                  f"({100 * min(spin):.2f} .. {100 * max(spin):.2f})", f"{100 * share:.2f} %",
                  "<= 0.3 %", share <= 0.003)
    start = goals.attempt("start", lambda: measure_start(build, work, binary))
    if start:
        goals.add(f"load and attach ({start[1]:.2f} s from exec to the first event)",
                  f"{start[0]:.2f} s", "<= 0.3 s", start[0] <= 0.3)
    own = goals.attempt("own CPU", lambda: measure_own(build, work, binary))
    if own:
        cpu, rate, cost = own
        goals.add(f"own CPU at {rate / 1000:,.0f} k switches/s", f"{100 * cpu:.2f} %", "<= 1 %",
                  cpu <= 0.01)
        goals.add(f"own memory, largest ({cost['kernel_bytes'] / 2**20:.0f} MiB in the kernel)",
                  f"{cost['peak_rss'] / 2**20:.0f} MiB", "<= 64 MiB", cost["peak_rss"] <= 64 << 20)


def print_memo(build, work, binary):
    rows, checked, differed = memo.check(binary, build, work, failed)
    say("\nMEMO HITS, each walked again and compared")
    table(["", "STACKS", "HITS", "CHECKED", "DIFFERED"], rows)
    say(f"{checked:,} hits checked, {differed:,} differed")


def installed(kinds):
    for tracer in kinds:
        if not tracer.available:
            say(f"skipped: {tracer.label} ('{tracer.program}' is not installed)")
    return [tracer for tracer in kinds if tracer.available]


def bench(build, work, rounds):
    binary = str(build / "offcpu")
    kinds = installed(tracers.ours(binary) + tracers.peers())
    goals = Goals()
    costs = measure_switches(build, work, kinds, rounds)
    if costs:
        print_switches(costs)
    measure_bpf(build, work, [k for k in kinds if k.label in costs
                              and not isinstance(k, tracers.Perf)])
    add_switch_goals(goals, costs)
    add_own_goals(goals, build, work, binary)
    print_memo(build, work, binary)
    say()
    table(["GOAL", "MEASURED", "LIMIT", ""], goals.rows)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("what", nargs="?", choices=["all", "memo"], default="all")
    args = parser.parse_args()
    rounds = int(os.environ.get("ROUNDS", "5"))
    # so that what was changed or started is put right
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    os.sched_setaffinity(0, machine.OTHERS)
    say(f"{machine.describe()}; the workload has CPU {CPU}")
    with tempfile.TemporaryDirectory(prefix="offcpu-bench.") as work:
        if args.what == "memo":
            print_memo(args.build, work, str(args.build / "offcpu"))
        else:
            bench(args.build, work, rounds)
    if failures:
        say(f"could not be measured: {', '.join(failures)}")
    return 1 if failures else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
