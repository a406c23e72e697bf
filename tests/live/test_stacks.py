# SPDX-License-Identifier: GPL-2.0-or-later
"""Stacks and names."""
import collections
import re
import shutil
import subprocess
import time

import pytest

import offcpu
from offcpu import TARGETS, near, record

LIBC_START = ("__libc_start_call_main", "__libc_start_main", "_start")


def user_frames(profile, stack):
    return [f for f in profile.frames(stack) if f["kind"] in ("user", "jit")]


# Samples per second: at 99 a workload with a period of 10 ms may run in step with the samples, and
# always be missed.
OFTEN = 499


def test_twenty_thousand_distinct_stacks(tmp_path, target):
    count = 20000
    stacks = target("stacks", count)
    running = offcpu.start(tmp_path, "-p", stacks.pid, "-d", 5).attached()
    stacks.go()
    truth = stacks.line()
    profile = running.finish().check().json
    assert profile.start_ns < truth["start_ns"] and truth["end_ns"] < profile.end_ns
    seen = collections.Counter()
    for stack in profile.holding("bottom"):
        if stack.blocked_ns:
            path = [name for name in stack.names if name in ("zero", "one")]
            bits = [name == "one" for name in path[1:]]
            seen[sum(bit << i for i, bit in enumerate(bits))] += stack.count
            assert len(path) == 21
    assert count - len(seen) == 0, "stacks lost or merged"
    assert set(seen) == set(range(count))
    near(sum(seen.values()), truth["blocks"], absolute=20)


def test_tiny_maps_say_what_they_lost(tmp_path, target):
    """Far more stacks than fit: counted, their time told and under [lost], and still conserved."""
    stacks = target("stacks", 2000)
    running = offcpu.start(tmp_path, "-p", stacks.pid, "-d", 3, "--map-entries", 16).attached()
    stacks.go()
    stacks.line()
    result = running.finish().check()
    losses = {loss["kind"]: loss for loss in result.json.raw["losses"]}
    assert losses["stack_full"]["count"] > 0
    lost = [s for s in result.json.stacks if "[lost]" in s.names]
    assert sum(s.blocked_ns + s.runq_ns for s in lost) > 0
    assert result.off.us("[lost]") > 0


def test_depth_of_120_is_complete(tmp_path, target):
    deep = target("depth", 115)
    result = record(tmp_path, "-p", deep.pid, "-d", 1, "-F", OFTEN)
    profile = result.json
    stacks = [s for s in profile.holding("deep_sleep") if s.blocked_ns]
    assert stacks
    for stack in stacks:
        assert stack.names.count("deeper") == 115
        assert stack.names.index("diver") < stack.names.index("deeper")
        assert "[truncated]" not in stack.names
    blocked = profile.ns("blocked_ns", "diver")
    assert profile.ns("blocked_ns", "diver", *["deeper"] * 115, "deep_sleep") >= 0.999 * blocked > 0
    assert result.on.us("diver", *["deeper"] * 115, "deep_run") >= 0.8 * result.on.total_us


@pytest.mark.parametrize("options,at_most", [([], 127), (["--max-depth", "30"], 30)])
def test_deeper_stacks_are_marked_as_truncated(tmp_path, target, options, at_most):
    deep = target("depth", 300)
    result = record(tmp_path, "-p", deep.pid, "-d", 1, *options)
    profile = result.json
    thread, = [t for t in profile.threads if t["tid"] != deep.pid]
    stacks = [s for s in profile.holding("deep_sleep") if s.blocked_ns]
    assert sum(s.blocked_ns for s in stacks) >= 0.99 * thread["blocked_ns"]
    for stack in stacks:
        assert stack.names[0] == "[truncated]"
        assert at_most - 5 <= len(user_frames(profile, stack)) <= at_most
    assert sum(profile.lost_stacks().values()) > 0
    near(result.off.blocked_us("[truncated]", "deeper", "deep_sleep"), thread["blocked_ns"] / 1000, 0.01)


def test_inlined_frames_are_shown_and_can_be_left_out(tmp_path, target):
    frames = target("frames")
    result = record(tmp_path, "-p", frames.pid, "-d", 1)
    stacks = result.off.stacks("main", "holder", "inlined_part", "last_call", "never_returns")
    assert stacks and all("inlined_part_[i]" in stack for stack in stacks)
    result = record(tmp_path, "-p", frames.pid, "-d", 1, "--no-inline")
    assert result.off.blocked_us("main", "holder", "last_call", "never_returns") >= \
        0.99 * result.off.blocked_us()
    assert not result.off.stacks("inlined_part")


def test_return_address_after_a_call_that_does_not_return(tmp_path, target):
    frames = target("frames")
    result = record(tmp_path, "-p", frames.pid, "-d", 1)
    assert result.off.blocked_us("last_call", "never_returns") >= \
        0.99 * result.off.blocked_us()
    for file in (result.off, result.on):
        assert not file.stacks("next_function")


def test_stripped_program_gets_offsets_and_no_wrong_name(tmp_path, target):
    shutil.copy(TARGETS / "sleeper", tmp_path / "stripped")
    subprocess.run(["strip", tmp_path / "stripped"], check=True)
    sleeper = target(tmp_path / "stripped")
    profile = record(tmp_path, "-p", sleeper.pid, "-d", 1).json
    own = [f for f in profile.raw["frames"] if (f["module"] or "").endswith("/stripped")]
    assert own
    # _start and what the dynamic symbol table has are allowed; it has no function of ours.
    for frame in own:
        assert re.fullmatch(r"stripped\+0x[0-9a-f]+", frame["func"]), frame


def test_segments_whose_addresses_are_not_their_offsets(tmp_path, target):
    program = tmp_path / "shifted"
    subprocess.run(["gcc", "-O2", "-g", "-fno-omit-frame-pointer", "-mno-omit-leaf-frame-pointer", "-D_GNU_SOURCE", "-no-pie",
                    "-Wl,--section-start=.text=0x1234000", "-o", program,
                    offcpu.ROOT / "tests/targets/sleeper.c", "-pthread"], check=True)
    sleeper = target(program)
    result = record(tmp_path, "-p", sleeper.pid, "-d", 1, "-F", OFTEN)
    assert result.off.blocked_us("main", "turn", "sleep_here") >= \
        0.99 * result.off.blocked_us()
    assert result.on.us("main", "turn", "run_here") >= 0.8 * result.on.total_us


@pytest.mark.parametrize("replacement", [None, "pingpong"])
def test_deleted_and_replaced_binary(tmp_path, target, replacement):
    program = tmp_path / "prog"
    shutil.copy(TARGETS / "sleeper", program)
    sleeper = target(program)
    program.unlink()
    if replacement:
        shutil.copy(TARGETS / replacement, program)
    result = record(tmp_path, "-p", sleeper.pid, "-d", 1, "-F", OFTEN)
    assert result.off.blocked_us("main", "turn", "sleep_here") >= \
        0.99 * result.off.blocked_us()
    assert result.on.us("main", "turn", "run_here") >= 0.8 * result.on.total_us


def outside_pid(parent):
    """The only child of a process."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        out = subprocess.run(["pgrep", "-P", str(parent)], capture_output=True, text=True).stdout
        if out.strip():
            return int(out)
        time.sleep(0.02)
    raise AssertionError("no child")


def test_binary_that_exists_only_in_another_mount_namespace(tmp_path, target):
    inside = tmp_path / "inside"
    inside.mkdir()
    script = f"mount -t tmpfs none {inside} && cp {TARGETS}/sleeper {inside}/hidden && exec {inside}/hidden"
    sleeper = target("/bin/sh", "-c", script, prefix=("unshare", "-m"))
    assert not (inside / "hidden").exists()
    result = record(tmp_path, "-p", sleeper.pid, "-d", 1)
    assert result.off.blocked_us("main", "turn", "sleep_here") >= \
        0.99 * result.off.blocked_us()


def test_jit_code_by_perf_map(tmp_path, target):
    jit = target("jit")
    result = record(tmp_path, "-p", jit.pid, "-d", 1)
    assert result.off.blocked_us("main", "jitted:code", "called_back") >= \
        0.99 * result.off.blocked_us()
    assert any("jitted:code_[j]" in stack for stack in result.off.stacks("called_back"))
    kinds = {f["kind"] for f in result.json.raw["frames"] if f["func"] == "jitted;code"}
    assert kinds == {"jit"}
    jit.end()


def test_jit_code_in_a_container(tmp_path, target):
    """The map lies in the container's own /tmp, under the pid the process has there."""
    # through a descriptor, since the program may lie in the /tmp that is hidden
    script = f"exec 9<{TARGETS}/jit && mount -t tmpfs none /tmp && exec /proc/self/fd/9"
    jit = target("/bin/sh", "-c", script, prefix=("unshare", "-m", "-p", "-f", "--kill-child"))
    result = record(tmp_path, "-p", outside_pid(jit.pid), "-d", 1)
    assert result.off.blocked_us("main", "jitted:code", "called_back") >= \
        0.99 * result.off.blocked_us()


def named_share(profile):
    """Part of the off-CPU user frames that have a name, weighted by nothing."""
    named = total = 0
    for stack in profile.stacks:
        for frame in user_frames(profile, stack):
            total += 1
            named += not re.search(r"(\+0x[0-9a-f]+$)|(^0x)|(^\[unknown)", frame["func"])
    return named / total


@pytest.mark.parametrize("how", ["cmd", "children"])
@pytest.mark.parametrize("copies", [False, True])
def test_two_hundred_short_lived_children(tmp_path, target, how, copies):
    """Each lives 30 ms; with 'copies' each runs a file of its own that it deletes at once."""
    args = [200, 30] + ([tmp_path / "copy"] if copies else [])
    if how == "cmd":
        running = offcpu.start(tmp_path, "--", TARGETS / "brood", *args)
        result = running.finish().check()
        truth = offcpu.json.loads(result.out.splitlines()[0])
    else:
        brood = target("brood", "wait", *args)
        running = offcpu.start(tmp_path, "-p", brood.pid, "--children").attached()
        brood.go()
        truth = brood.line()
        result = running.finish().check()
    profile = result.json
    assert truth["failed"] == 0
    children = {t["pid"] for t in profile.threads} - {profile.threads[0]["pid"]}
    assert len(children) == 200
    # A third of 30 ms each on a CPU, two thirds asleep.
    on = sum(t["on_ns"] for t in profile.threads if t["pid"] in children)
    near(on, truth["cpu_us"] * 1000, 0.03, 20 * offcpu.MS)
    near(profile.ns("blocked_ns", "child_life", "child_sleep"), 200 * 20 * offcpu.MS, 0.02)
    assert sum(s.count for s in profile.holding("child_life", "child_sleep")) >= 200
    assert named_share(profile) >= 0.98


def test_user_only_and_kernel_only(tmp_path, target):
    sleeper = target("sleeper")
    kinds = {}
    for option in ("-u", "-k"):
        profile = record(tmp_path, "-p", sleeper.pid, "-d", 1, option).json
        kinds[option] = {f["kind"] for s in profile.stacks for f in profile.frames(s)} - {"mark"}
    assert kinds == {"-u": {"user"}, "-k": {"kernel"}}


def test_no_stacks(tmp_path, target):
    sleeper = target("sleeper")
    profile = record(tmp_path, "-p", sleeper.pid, "-d", 1, "--stacks", "none").json
    assert "user" not in {f["kind"] for s in profile.stacks for f in profile.frames(s)}
    assert profile.total("blocked_ns") > 0


def test_stacks_of_threads(tmp_path, target):
    """-T: the second element is name/TID, and each thread's lines sum up to its time."""
    spinners = target("spinners", 2)
    result = record(tmp_path, "-p", spinners.pid, "-d", 1, "-T")
    for thread in result.json.threads:
        label = f"{thread['comm']}/{thread['tid']}"
        lines = [(f, v) for f, v in result.off.lines if f[1] == label]
        near(sum(v for _, v in lines), (thread["runq_ns"] + thread["blocked_ns"]) / 1000,
             absolute=len(lines) + 1)
    assert all(re.search(r"/[0-9]+$", f[1]) for f, _ in result.off.lines + result.on.lines)


def test_hostile_names(tmp_path, target):
    """Every file parses (see Folded and Profile), nothing reaches the terminal as control code."""
    names = target("names")
    prefix = tmp_path / "rec"
    result = offcpu.tool("-p", names.pid, "-d", 1, "-T", "-f", "folded,json", "-o", prefix)
    result.prefix = prefix
    assert result.status == 0, result.err
    result.check()
    assert len(result.json.threads) == 14
    for text in (result.out, result.err):
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text), repr(text)
        text.encode("utf-8")  # surrogates would mean bytes that are no UTF-8
    comms = {t["comm"] for t in result.json.threads}
    assert {"two words 7", "12345", "<script>&\"'", "%s%n%d"} <= comms
    tids = {f[1].rpartition("/")[2] for f, _ in result.off.lines}
    assert tids == {str(t["tid"]) for t in result.json.threads}
    threads = {f[1].rpartition("/")[0] for f, _ in result.off.lines}
    assert any(re.fullmatch("a.b.c", name) for name in threads)


def test_kernel_symbols(tmp_path, target):
    sleeper = target("sleeper")
    profile = record(tmp_path, "-p", sleeper.pid, "-d", 1).json
    stack, = [s for s in profile.holding("sleep_here") if s.blocked_ns > 0.5 * profile.total("blocked_ns")]
    kernel = [f["func"] for f in profile.frames(stack) if f["kind"] == "kernel"]
    symbols = {line.split()[2] for line in open("/proc/kallsyms")}
    assert set(kernel) <= symbols
    assert "do_nanosleep" in kernel and "hrtimer_nanosleep" in kernel
    # Root first: the system call's entry, at the end the scheduler, and nothing of the tracer.
    assert re.search("entry_SYSCALL", kernel[0]) and re.search("schedule", kernel[-1])
