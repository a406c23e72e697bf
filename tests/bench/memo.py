# SPDX-License-Identifier: GPL-2.0-or-later
"""The stack memos against the truth: every hit is walked again as well, over all test workloads."""
import json
import os
import pathlib
import re
import signal
import subprocess
import time

from workloads import Unmeasured

# Arguments of the workloads that need some; one entry for each run. Those that begin on a line from
# stdin get it when the recording has begun.
ARGUMENTS = {
    "brood": [("100000", "10")],
    "depth": [("10",), ("120",)],
    "execer": None,  # records another workload
    "pingpong": [("2", "20", "pipe"), ("2", "20", "futex")],
    "sleeper": [("1000", "1000"), ("100", "100", "1")],
    "sleeps": [("100000", "10", "100000", "20")],
    "spinners": [("4",)],
    "stacks": [("100000",)],
}
SECONDS = 1.5
COUNTER = re.compile(r"offcpu: ([0-9]+) x memo hits (walked again|that differed)")


def command(offcpu, pid, prefix):
    return [offcpu, "--verify-memo", "--children", "-v", "-d", str(SECONDS), "-f", "json",
            "-o", prefix, "-p", str(pid)]


def record(offcpu, target, work):
    """Records a running workload; (stacks asked for, memo hits, hits checked, hits that differed)."""
    prefix = f"{work}/memo"
    out = subprocess.Popen(command(offcpu, target.pid, prefix), stdin=subprocess.DEVNULL,
                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    time.sleep(0.5)
    try:
        target.stdin.write(b"\n")
        target.stdin.flush()
    except OSError:
        pass
    try:
        _, err = out.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        out.kill()
        out.communicate()
        raise Unmeasured("offcpu does not end") from None
    if out.returncode:
        raise Unmeasured(err.strip()[-200:])
    counters = {kind: int(n) for n, kind in COUNTER.findall(err)}
    cost = json.loads(pathlib.Path(f"{prefix}.json").read_text())["cost"]
    hits = cost["user_memo_hits"] + cost["kernel_memo_hits"]
    return (hits + cost["user_memo_misses"] + cost["kernel_memo_misses"], hits,
            counters.get("walked again", 0), counters.get("that differed", 0))


def run(offcpu, path, args, work):
    target = subprocess.Popen([str(path), *args], stdin=subprocess.PIPE, cwd=work,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              start_new_session=True)
    try:
        time.sleep(0.2)
        if target.poll() is not None:
            raise Unmeasured("the workload has ended")
        return record(offcpu, target, work)
    finally:
        try:
            os.killpg(target.pid, signal.SIGKILL)
        except OSError:
            pass
        target.wait()


def runs(build):
    for path in sorted((pathlib.Path(build) / "targets").iterdir()):
        if os.access(path, os.X_OK) and path.is_file():
            for args in ARGUMENTS.get(path.name, [()]) or []:
                yield path.resolve(), args


def check(offcpu, build, work, failed):
    """A row for each workload, and the sums: (rows, checked, differed)."""
    rows, checked, differed = [], 0, 0
    for path, args in runs(build):
        label = " ".join([path.name, *args])
        try:
            stacks, hits, walked, wrong = run(offcpu, path, args, work)
        except Unmeasured as why:
            failed(f"memo: {label}", why)
            continue
        rows.append([label, f"{stacks:,}", f"{100 * hits / stacks:.1f} %" if stacks else "-",
                     f"{walked:,}", f"{wrong:,}"])
        checked += walked
        differed += wrong
    return rows, checked, differed
