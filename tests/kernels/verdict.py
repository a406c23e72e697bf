# SPDX-License-Identifier: GPL-2.0-or-later
"""verdict.py VERSION CONSOLE: judges what tests/kernels/init sent. One line per check."""
import base64
import gzip
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "live"))
import offcpu  # noqa: E402
from offcpu import near  # noqa: E402

PARKS = ("park_timer", "park_futex", "park_pipe", "park_epoll")


# An emulated machine runs a BPF program in tens of microseconds, in bursts, and its clocks step: what
# needs precision gets wide bounds here (the host's tests have the narrow ones). Conservation, which
# needs none, is checked exactly by result().
CPU_BOUND, CPU_SLACK_NS = 0.20, 50 * offcpu.MS
COUNT_BOUND = 0.40


class Console:
    def __init__(self, text):
        self.files, self.status, self.kernel, self.over = {}, {}, "?", False
        name, body = None, []
        for line in text.replace("\r", "").split("\n"):
            word, _, rest = line.strip().partition(" ")
            if word == "@@begin":
                name, body = rest, []
            elif word == "@@end":
                self.files[name] = gzip.decompress(base64.b64decode("".join(body))).decode()
                name = None
            elif word == "@@status":
                which, _, number = rest.partition(" ")
                self.status[which] = int(number)
            elif word == "@@kernel":
                self.kernel = rest
            elif word == "@@over":
                self.over = True
            elif name:
                body.append(line.strip())

    def result(self, name):
        err = self.files.get(f"{name}.err", "")
        assert self.status[name] == 0, f"status {self.status[name]}: {err[-2000:]}"
        result = offcpu.Result(0, self.files[f"{name}.out"], err)
        result._json = offcpu.Profile(self.files[f"{name}.json"])
        result._on = offcpu.Folded(self.files[f"{name}.on.folded"])
        result._off = offcpu.Folded(self.files[f"{name}.off.folded"])
        return result.check()

    def truth(self, name):
        return json.loads(self.files[f"{name}.truth"].split("\n")[1])


def check_boot(console):
    assert console.over, "the machine did not get to the end"


def check_sleeper(console):
    """Times of a sleeper against its own clocks (emulated: coarse)."""
    profile = console.result("sleeper").json
    tape, = offcpu.tapes(console.truth("sleeper"))
    thread = profile.thread(tape.tid)
    near(thread["window_ns"], profile.window_ns, absolute=0)
    near(thread["on_ns"], tape.cpu_ns(profile), CPU_BOUND, CPU_SLACK_NS)
    assert profile.ns("blocked_ns", "main", "turn", "sleep_here") >= 0.98 * thread["blocked_ns"]


def check_parked(console):
    """Threads blocked before the start and through the end: the whole window, with their stacks."""
    profile = console.result("parked").json
    assert len(profile.threads) == 5
    for thread in profile.threads:
        assert thread["blocked_ns"] == profile.window_ns
        assert thread["blocked_at_start"] and thread["blocked_at_end"]
    for park in PARKS:
        assert profile.ns("blocked_ns", park) >= profile.window_ns, f"no stack through {park}"


def check_pingpong(console):
    """A switch storm on both CPUs: conserved, counted."""
    profile = console.result("pingpong").json
    for tape in offcpu.tapes(console.truth("pingpong")):
        near(profile.thread(tape.tid)["voluntary"], tape.voluntary(profile), COUNT_BOUND, 100)


def check_dmesg(console):
    assert console.files["dmesg"] == "", console.files["dmesg"]


def main():
    version, path = sys.argv[1:]
    console = Console(pathlib.Path(path).read_text(errors="replace"))
    for check in (check_boot, check_sleeper, check_parked, check_pingpong, check_dmesg):
        what = f"kernel {version} ({console.kernel}) {check.__name__[6:]}"
        try:
            check(console)
            print(f"PASS {what}")
        except (AssertionError, KeyError, ValueError, IndexError) as why:
            print(f"FAIL {what}: {type(why).__name__} {why}")


main()
