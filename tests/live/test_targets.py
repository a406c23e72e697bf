# SPDX-License-Identifier: GPL-2.0-or-later
"""What can be recorded: commands, lists, names, control groups, namespaces."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

import pytest

import offcpu
from offcpu import MS, TARGETS, near, record, start, tapes


@pytest.mark.parametrize("script,status", [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137),
                                           ("kill -TERM $$", 143)])
def test_command_status_is_passed_on(tmp_path, script, status):
    record(tmp_path, "--", "sh", "-c", f"sleep 0.1; {script}", status=status)


def test_command_that_does_not_exist(tmp_path):
    result = start(tmp_path, "--", "/nonexistent/cmd").finish()
    assert result.status == 1 or result.status == 127
    assert len(result.err.splitlines()) == 1 and "/nonexistent/cmd" in result.err
    assert list(tmp_path.iterdir()) == []


def test_command_is_traced_from_its_first_instruction(tmp_path):
    """Its own CPU clock, which began at the fork, against the recorded time."""
    result = record(tmp_path, "--", TARGETS / "pingpong", 1, 0, "pipe", 1)
    truth = json.loads(result.out.splitlines()[1])
    profile = result.json
    near(profile.total("on_ns"), truth["cpu_ns"], 0.005, 5 * MS + profile.stolen_ns)
    near(profile.total("voluntary"), truth["voluntary"], 0.001, 10)
    assert {p["comm"] for p in profile.processes} == {"pingpong"}


def test_command_has_its_own_stdio(tmp_path):
    process = subprocess.run([offcpu.OFFCPU, "-q", "-f", "json", "-o", tmp_path / "rec", "--", "sh", "-c",
                              "read line; echo got $line; echo err >&2"], input=b"text\n",
                             capture_output=True, timeout=30)
    assert process.returncode == 0
    assert process.stdout == b"got text\n"
    assert process.stderr == b"err\n"


def test_children_of_a_command_are_followed(tmp_path):
    result = record(tmp_path, "--", "sh", "-c",
                    f"{TARGETS}/brood 20 15 & sh -c 'sleep 0.3; sleep 0.2'; wait")
    comms = [p["comm"] for p in result.json.processes]
    assert comms.count("brood") == 21
    assert comms.count("sleep") >= 2
    assert result.json.window_ns >= 500 * MS


def test_grandchildren_are_followed_only_on_request(tmp_path, spawn):
    script = f"sleep 2; {TARGETS}/brood 4 15; sleep 1"
    shell = spawn("sh", "-c", script)
    profile = record(tmp_path, "-p", shell.pid, "-d", 3.5).json
    assert {p["pid"] for p in profile.processes} == {shell.pid}
    shell = spawn("sh", "-c", script)
    profile = record(tmp_path, "-p", shell.pid, "-d", 4, "--children").json
    assert [p["comm"] for p in profile.processes].count("brood") == 5


def test_list_of_processes(tmp_path, target):
    one, two, other = (target("sleeper") for _ in range(3))
    profile = record(tmp_path, "-p", f"{one.pid},{two.pid}", "-d", 1).json
    assert {p["pid"] for p in profile.processes} == {one.pid, two.pid}
    assert other.pid not in {t["tid"] for t in profile.threads}


def test_list_of_threads(tmp_path, target):
    parked = target("parked", 6)
    tids = sorted(int(t) for t in os.listdir(f"/proc/{parked.pid}/task"))
    profile = record(tmp_path, "-t", f"{tids[2]},{tids[4]}", "-d", 1).json
    assert {t["tid"] for t in profile.threads} == {tids[2], tids[4]}
    assert profile.total("blocked_ns") == 2 * profile.window_ns


def test_by_name(tmp_path, target):
    shutil.copy(TARGETS / "sleeper", tmp_path / "uncommon-name")
    one, two, other = target(tmp_path / "uncommon-name"), target(tmp_path / "uncommon-name"), target("sleeper")
    profile = record(tmp_path, "-n", "uncommon-name", "-d", 1).json
    assert {p["pid"] for p in profile.processes} == {one.pid, two.pid}
    assert other.pid not in {t["pid"] for t in profile.threads}


@pytest.fixture
def cgroup2(tmp_path):
    mount = tmp_path / "cgroup2"
    mount.mkdir()
    subprocess.run(["mount", "-t", "cgroup2", "none", mount], check=True)
    group = mount / f"offcpu-test-{os.getpid()}"
    group.mkdir()
    yield group
    for sub in list(group.glob("*/")) + [group]:
        for pid in (sub / "cgroup.procs").read_text().split():
            try:
                os.kill(int(pid), signal.SIGKILL)
            except ProcessLookupError:
                pass
    time.sleep(0.2)
    for sub in list(group.glob("*/")) + [group]:
        sub.rmdir()
    subprocess.run(["umount", mount], check=True)


def test_control_group(tmp_path, target, cgroup2):
    inside, below, outside = (target("sleeper") for _ in range(3))
    (cgroup2 / "sub").mkdir()
    (cgroup2 / "cgroup.procs").write_text(str(inside.pid))
    (cgroup2 / "sub" / "cgroup.procs").write_text(str(below.pid))
    profile = record(tmp_path, "-g", cgroup2, "-d", 1).json
    assert {p["pid"] for p in profile.processes} == {inside.pid, below.pid}
    assert outside.pid not in {t["pid"] for t in profile.threads}
    tape, = tapes(inside.end())
    offcpu.near_cpu(profile.thread(tape.tid), tape.cpu_ns(profile), 0.005, 2 * MS)


def test_children_in_a_control_group(tmp_path, target, cgroup2):
    brood = target("brood", "wait", 20, 15)
    (cgroup2 / "cgroup.procs").write_text(str(brood.pid))
    running = start(tmp_path, "-g", cgroup2, "-d", 3).attached()
    brood.go()
    assert brood.line()["failed"] == 0
    profile = running.finish().check().json
    assert len({p["pid"] for p in profile.processes}) == 21


def test_version_1_control_group(tmp_path, target):
    root = pathlib.Path("/sys/fs/cgroup/cpu")
    if not (root / "cgroup.procs").exists() or (root / "cgroup.controllers").exists():
        pytest.skip("no version 1 control groups here")
    group = root / f"offcpu-test-{os.getpid()}"
    group.mkdir()
    try:
        inside, outside = target("sleeper"), target("sleeper")
        (group / "cgroup.procs").write_text(str(inside.pid))
        profile = record(tmp_path, "-g", group, "-d", 1).json
        assert {p["pid"] for p in profile.processes} == {inside.pid}
    finally:
        inside.kill()
        time.sleep(0.1)
        group.rmdir()


def test_inside_a_pid_namespace(tmp_path):
    """Pids are translated, or there is one clear error."""
    script = (f"{TARGETS}/sleeper >/dev/null & sleep 0.5; "
              f"{offcpu.OFFCPU} -p $! -d 1 -q -f folded,json -o {tmp_path}/rec; "
              "code=$?; echo pid $!; kill $!; exit $code")
    done = subprocess.run(["unshare", "-p", "-f", "-m", "--mount-proc", "sh", "-c", script],
                          capture_output=True, text=True, timeout=30)
    if done.returncode:
        assert done.returncode == 1
        line, = done.stderr.splitlines()
        assert "namespace" in line
        return
    result = offcpu.Result(0, done.stdout, done.stderr, tmp_path / "rec").check()
    pid = int(done.stdout.split()[1])
    assert [t["tid"] for t in result.json.threads] == [pid]
    assert result.off.blocked_us("main", "turn", "sleep_here") >= \
        0.99 * result.off.blocked_us()


def test_target_that_ends_during_the_recording(tmp_path, target):
    sleeper = target("sleeper")
    running = start(tmp_path, "-p", sleeper.pid, "-d", 60).attached()
    time.sleep(0.6)
    tape, = tapes(sleeper.end())
    before = time.monotonic()
    result = running.finish(timeout=10).check()
    assert time.monotonic() - before < 3
    assert result.status == 0
    assert 0.5 * offcpu.NS < result.json.window_ns < 4 * offcpu.NS
    thread = result.json.thread(tape.tid)
    assert thread["end_ns"] >= tape.marks[-1][0]
    assert not thread["blocked_at_end"]


@pytest.mark.slow
def test_fork_storm(tmp_path, target):
    """Children that live for no time at all, as many as the machine can make."""
    brood = target("brood", "wait", 4000, 0)
    running = start(tmp_path, "-p", brood.pid, "--children").attached()
    brood.go()
    truth = brood.line()
    profile = running.finish().check().json
    children = {t["tid"] for t in profile.threads} - {brood.pid}
    assert len(children) == truth["children"] == 4000
    assert truth["failed"] == 0
