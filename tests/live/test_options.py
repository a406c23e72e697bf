# SPDX-License-Identifier: GPL-2.0-or-later
"""Options, errors, and ends of all kinds."""
import json
import os
import re
import shutil
import signal
import subprocess
import time

import pytest

import offcpu
from offcpu import MS, NS, TARGETS, near, record, start, tool

NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


def filtered(tmp_path, target, *options):
    """Records 100 sleeps of 0.5 ms and 100 of 5 ms under a filter."""
    sleeps = target("sleeps", 100, 500, 100, 5000)
    running = start(tmp_path, "-p", sleeps.pid, "-d", 2.5, *options).attached()
    sleeps.go()
    truth = sleeps.line()
    result = running.finish().check()
    profile = result.json
    assert profile.start_ns < truth["start_ns"] and truth["end_ns"] < profile.end_ns
    return result, truth


@pytest.mark.parametrize("value", ["1ms", "1000", "1000us"])
def test_shorter_blocks_are_left_out(tmp_path, target, value):
    result, truth = filtered(tmp_path, target, "-m", value)
    profile = result.json
    thread = profile.threads[0]
    # None of the short ones; but a timer can be late on a busy machine, and then it was no short one.
    late = [s for s in profile.holding("sleep_first") if s.blocked_ns]
    assert sum(s.count for s in late) <= 5
    assert all(s.blocked_ns >= s.count * MS for s in late)
    # A sleep is no block if its timer fires before it gets to sleep: preempted, on a busy machine.
    near(sum(s.count for s in profile.holding("sleep_second") if s.blocked_ns), 100, absolute=3)
    second = profile.ns("blocked_ns", "sleep_second")
    assert truth["second_ns"] - thread["runq_ns"] - 2 * MS <= second <= truth["second_ns"]
    # The filtered time is still accounted for, on a line of its own.
    late_ns = sum(s.blocked_ns for s in late)
    assert truth["first_ns"] - late_ns - thread["runq_ns"] - 2 * MS <= thread["filtered_ns"]
    assert thread["filtered_ns"] <= truth["first_ns"] + 2 * MS
    assert profile.ns("blocked_ns", "[filtered]") == thread["filtered_ns"]
    near(result.off.blocked_us("[filtered]"), thread["filtered_ns"] / 1000, absolute=2)
    assert "1" in profile.raw["filter"] and re.search("ms|us|µs", profile.raw["filter"])


def test_longer_blocks_are_left_out(tmp_path, target):
    result, truth = filtered(tmp_path, target, "-M", "1ms")
    profile = result.json
    thread = profile.threads[0]
    assert profile.ns("blocked_ns", "sleep_second") == 0
    assert sum(s.count for s in profile.holding("sleep_first") if s.blocked_ns) >= 95
    assert truth["second_ns"] - thread["runq_ns"] - 2 * MS <= thread["filtered_ns"]


def test_seconds_as_unit(tmp_path, target):
    result, _ = filtered(tmp_path, target, "-m", "1s")
    assert result.json.ns("blocked_ns", "sleep_second") == 0
    result, _ = filtered(tmp_path, target, "-M", "1s")
    assert result.json.ns("blocked_ns", "sleep_second") > 0


def test_states(tmp_path, target):
    """A mask of task states: 1 is TASK_INTERRUPTIBLE, in which nanosleep waits, 2 is D."""
    sleeper = target("sleeper")
    thread = record(tmp_path, "-p", sleeper.pid, "-d", 1, "--state", "1").json.threads[0]
    assert thread["filtered_ns"] <= 0.01 * thread["blocked_ns"]
    thread = record(tmp_path, "-p", sleeper.pid, "-d", 1, "--state", "2").json.threads[0]
    assert thread["filtered_ns"] >= 0.99 * thread["blocked_ns"] > 0


# --- one line, right status, nothing half-written

def refused(status, *args, says=None, **kwargs):
    before = time.monotonic()
    result = tool(*args, timeout=20, **kwargs)
    assert result.status == status, (result.status, result.err)
    assert time.monotonic() - before < 3
    assert result.out == ""
    lines = result.err.splitlines()
    assert lines and re.match(r"(\S*/)?offcpu: ", lines[0]), lines
    if status == 1:
        assert len(lines) == 1, lines
    else:
        assert len(lines) <= 3, lines
    if says:
        assert re.search(says, result.err), result.err
    return result


PID = str(os.getpid())


@pytest.mark.parametrize("args", [
    (), ("-d", "1"),
    ("-p", PID, "-a"), ("-p", PID, "-n", "sh"), ("-a", "-g", "/sys/fs/cgroup"),
    ("-p", PID, "--", "true"), ("-a", "--", "true"),
    ("-p", PID, "-u", "-k"), ("-p", PID, "-m", "5ms", "-M", "1ms"),
    ("-p", PID, "-d", "0"), ("-p", PID, "-d", "-1"), ("-p", PID, "-d", "3x"), ("-p", PID, "-d", ""),
    ("-p", PID, "-d", "nan"), ("-p", PID, "-d", "1e30"),
    ("-p", "12abc"), ("-p", ""), ("-p", "1,,2"), ("-p", "0"), ("-p", "-5"), ("-p", "99999999999"),
    ("-t", "7x"), ("-p", PID, "-F", "99hz"), ("-p", PID, "-F", "-1"), ("-p", PID, "-m", "1xs"),
    ("-p", PID, "-m", "ms"), ("-p", PID, "-m", "-1ms"), ("-p", PID, "--max-depth", "5.5"),
    ("-p", PID, "--max-depth", "0"), ("-p", PID, "--max-depth", "100000"),
    ("-p", PID, "--state", "1z"), ("-p", PID, "--stacks", "magic"),
    ("-p", PID, "-f", "nonsense"), ("-p", PID, "-f", ""), ("-p", PID, "-f", "json,,on"),
    ("-p", PID, "-o", "-"), ("-p", PID, "-f", "folded", "-o", "-"), ("-p", PID, "-f", "on,json", "-o", "-"),
    ("--nonsense",), ("-p",), ("-p", PID, "stray"),
], ids=lambda args: " ".join(args).replace(PID, "PID"))
def test_usage_errors(tmp_path, args):
    refused(2, *args, cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_unknown_format_names_the_known_ones():
    result = refused(2, "-p", PID, "-f", "nonsense", says="nonsense")
    assert "json" in result.err


def test_help_and_version():
    result = tool("--help")
    assert result.status == 0 and result.err == ""
    for option in ("-p", "-t", "-n", "-g", "-a", "-d", "-F", "-o", "-f", "-m", "-M", "--state", "-u", "-k",
                   "--stacks", "--max-depth", "-T", "--children", "--no-inline", "--debuginfod", "-q", "-v"):
        assert re.search(rf"(^|[\s,]){option}\b", result.out, re.M), option
    result = tool("--version")
    assert result.status == 0 and re.fullmatch(r"offcpu \S+\n", result.out)


def test_no_such_process(tmp_path, spawn):
    dead = spawn("true")
    dead.wait()
    refused(1, "-p", dead.pid, "-d", 1, says=str(dead.pid), cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_no_such_thread_name_or_group(tmp_path):
    refused(1, "-t", 4194303, "-d", 1, says="4194303", cwd=tmp_path)
    refused(1, "-n", "no-such-name", "-d", 1, says="no-such-name", cwd=tmp_path)
    refused(1, "-g", "/no/such/group", "-d", 1, says="/no/such/group", cwd=tmp_path)
    refused(1, "-g", tmp_path, "-d", 1, says="cgroup|control group", cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_kernel_thread(tmp_path):
    if not os.path.exists("/proc/2/stat") or os.path.exists("/proc/2/exe"):
        pytest.skip("pid 2 is no kernel thread here")
    refused(1, "-p", 2, "-d", 1, says="kernel thread", cwd=tmp_path)


def test_missing_output_directory(target):
    sleeper = target("sleeper")
    refused(1, "-p", sleeper.pid, "-d", 10, "-o", "/nonexistent/dir/rec", says="/nonexistent/dir")


def test_read_only_output_directory(tmp_path, target):
    sleeper = target("sleeper")
    place = tmp_path / "ro"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "none", place], check=True)
    try:
        refused(1, "-p", sleeper.pid, "-d", 10, "-o", place / "rec", says="[Rr]ead-only")
    finally:
        subprocess.run(["umount", place], check=True)


def test_full_disk(tmp_path, target):
    """4 KiB for what needs more: an error, and no file under a final name."""
    sleeper = target("depth", 100)
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "none", place], check=True)
    try:
        result = tool("-p", sleeper.pid, "-d", 1, "-q", "-f", "json", "-o", place / "rec")
        assert result.status == 1
        line, = result.err.splitlines()
        assert re.search("[Nn]o space", line)
        assert list(place.iterdir()) == []
    finally:
        subprocess.run(["umount", place], check=True)


def test_planted_link_is_not_followed(tmp_path, target):
    sleeper = target("sleeper")
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "rec.json").symlink_to(victim)
    refused(1, "-p", sleeper.pid, "-d", 1, "-q", "-f", "json", "-o", tmp_path / "rec", says="link")
    assert victim.read_text() == "precious"


@pytest.fixture
def public_tool():
    """A copy of the tool that any user can run."""
    path = f"/tmp/offcpu-test-{os.getpid()}"
    shutil.copy(offcpu.OFFCPU, path)
    os.chmod(path, 0o755)
    yield path
    os.unlink(path)


def test_no_privilege(public_tool, target):
    sleeper = target("sleeper")
    done = subprocess.run([*NOBODY, public_tool, "-p", str(sleeper.pid), "-d", "1", "-o", "/tmp/x"],
                          capture_output=True, text=True, timeout=20)
    assert done.returncode == 1
    line, = done.stderr.splitlines()
    assert re.search("CAP_BPF|CAP_PERFMON|root", line) and "CAP_" in line


def test_each_capability_is_named(public_tool, target):
    sleeper = target("sleeper")
    for have, lacking in (("+bpf", "CAP_PERFMON"), ("+perfmon", "CAP_BPF")):
        done = subprocess.run([*NOBODY, "--inh-caps", have, "--ambient-caps", have, public_tool,
                               "-p", str(sleeper.pid), "-d", "1", "-o", "/tmp/x"],
                              capture_output=True, text=True, timeout=20)
        assert done.returncode == 1
        line, = done.stderr.splitlines()
        assert lacking in line


def test_capabilities_suffice(tmp_path, public_tool):
    """Without root, with CAP_BPF and CAP_PERFMON: one's own process."""
    os.chmod(tmp_path, 0o777)
    place = f"/tmp/offcpu-test-dir-{os.getpid()}"
    os.mkdir(place)
    os.chmod(place, 0o777)
    shutil.copy(TARGETS / "sleeper", f"{place}/sleeper")
    caps = "+bpf,+perfmon"
    try:
        script = (f"{place}/sleeper >/dev/null & "
                  f"{public_tool} -p $! -d 1 -q -f folded,json -o {place}/rec; code=$?; kill $!; exit $code")
        done = subprocess.run([*NOBODY, "--inh-caps", caps, "--ambient-caps", caps, "sh", "-c", script],
                              capture_output=True, text=True, timeout=20)
        assert done.returncode == 0, done.stderr
        result = offcpu.Result(0, done.stdout, done.stderr, f"{place}/rec").check()
        assert result.off.blocked_us("sleep_here") >= \
        0.99 * result.off.blocked_us()
    finally:
        shutil.rmtree(place)


# --- standard output

@pytest.mark.parametrize("name", ["on", "off", "json"])
def test_one_format_to_stdout(tmp_path, target, name):
    sleeper = target("sleeper")
    result = tool("-p", sleeper.pid, "-d", 1, "-F", 499, "-f", name, "-o", "-", cwd=tmp_path)
    assert result.status == 0, result.err
    if name == "json":
        offcpu.Profile(result.out).check()
    else:
        assert offcpu.Folded(result.out).us("main", "turn") > 0
    assert list(tmp_path.iterdir()) == []


def test_closed_stdout_harms_no_file(tmp_path, target):
    sleeper = target("sleeper")
    done = subprocess.run(["sh", "-c", f"{offcpu.OFFCPU} -p {sleeper.pid} -d 1 -f folded,json "
                           f"-o {tmp_path}/rec >&-"], stderr=subprocess.PIPE, timeout=20)
    assert done.returncode in (0, 1), done.stderr
    offcpu.Result(0, "", "", tmp_path / "rec").check()


def test_reader_of_stdout_goes_away(tmp_path, target):
    sleeper = target("sleeper")
    done = subprocess.run(["bash", "-c", f"{offcpu.OFFCPU} -p {sleeper.pid} -d 1 -f json -o - | head -c 1; "
                           "exit ${PIPESTATUS[0]}"], capture_output=True, timeout=20)
    assert done.returncode in (0, 1, 141) and done.stderr == b""


def test_summary_adds_up(tmp_path, target):
    sleeper = target("sleeper")
    prefix = tmp_path / "rec"
    result = tool("-p", sleeper.pid, "-d", 1, "-f", "folded,json", "-o", prefix)
    result.prefix = prefix
    assert result.status == 0
    result.check()
    assert result.err == ""  # no status line where there is no terminal
    for word in ("on-CPU", "run queue", "blocked", str(sleeper.pid), "rec.on.folded", "rec.off.folded",
                 "rec.json", "sleep_here"):
        assert word in result.out, word
    assert "\033" not in result.out


def test_quiet(tmp_path, target):
    sleeper = target("sleeper")
    result = record(tmp_path, "-p", sleeper.pid, "-d", 1)
    assert result.out == "" and result.err == ""


def test_own_cost_with_v(tmp_path, target):
    sleeper = target("sleeper")
    result = tool("-p", sleeper.pid, "-d", 1, "-v", "-f", "json", "-o", tmp_path / "rec")
    assert result.status == 0
    cost = offcpu.Profile((tmp_path / "rec.json").read_text()).raw["cost"]
    assert 0 < cost["rss_bytes"] < 64 << 20
    assert 0 < cost["kernel_bytes"]
    assert 0 < cost["load_ns"] + cost["attach_ns"] < 3 * NS
    assert cost["bpf_runs"] > 100
    assert re.search("ns", result.out + result.err)


# --- ends of all kinds

@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_with_a_full_report(tmp_path, target, number):
    sleeper = target("sleeper")
    running = start(tmp_path, "-p", sleeper.pid, "-d", 60).attached()
    time.sleep(0.7)
    running.signal(number)
    before = time.monotonic()
    result = running.finish(timeout=10)
    assert result.status == 0, result.err
    assert time.monotonic() - before < 3
    assert 0.5 * NS < result.check().json.window_ns < 5 * NS


def test_without_duration_until_interrupted(tmp_path, target):
    sleeper = target("sleeper")
    running = start(tmp_path, "-p", sleeper.pid).attached()
    running.signal(signal.SIGINT)
    assert running.finish(timeout=10).check().status == 0


def program_ids(pid):
    ids = set()
    for name in os.listdir(f"/proc/{pid}/fdinfo"):
        try:
            text = open(f"/proc/{pid}/fdinfo/{name}").read()
        except OSError:
            continue
        ids |= {int(n) for n in re.findall(r"^prog_id:\s*(\d+)", text, re.M)}
    return ids


def loaded_programs():
    out = subprocess.run(["bpftool", "-j", "prog", "list"], capture_output=True, check=True,
                         env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}).stdout
    return {program["id"] for program in json.loads(out)}


def test_kill_leaves_nothing_behind(tmp_path, target):
    sleeper = target("sleeper")
    running = start(tmp_path, "-p", sleeper.pid, "-d", 60).attached()
    ids = program_ids(running.process.pid)
    assert ids and ids <= loaded_programs()
    running.signal(signal.SIGKILL)
    running.finish()
    deadline = time.monotonic() + 5
    while ids & loaded_programs() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not ids & loaded_programs()
    assert list(tmp_path.glob("rec*")) == []


@pytest.mark.parametrize("after_ms", [5, 30, 100, 200, 400, 1000, 1100, 1200])
def test_kill_at_any_moment(tmp_path, target, after_ms):
    """A file under its final name is a whole one, whenever the end came."""
    sleeper = target("sleeper")
    running = start(tmp_path, "-p", sleeper.pid, "-d", 1)
    time.sleep(after_ms / 1000)
    running.signal(signal.SIGKILL)
    running.finish()
    for path in tmp_path.glob("rec.*.folded"):
        offcpu.Folded(path.read_text())
    if (tmp_path / "rec.json").exists():
        offcpu.Profile((tmp_path / "rec.json").read_text()).check()


def test_interrupted_before_it_records(tmp_path, target):
    sleeper = target("sleeper")
    for after_ms in (1, 10, 50):
        running = start(tmp_path, "-p", sleeper.pid, "-d", 60)
        time.sleep(after_ms / 1000)
        running.signal(signal.SIGINT)
        assert running.finish(timeout=10).status in (0, 1, 130, -2)
