# SPDX-License-Identifier: GPL-2.0-or-later
"""Real programs, from packages and as they come: recorded whole, conserved, plausible."""
import glob
import json
import os
import pathlib
import pwd
import shutil
import subprocess
import sys
import tempfile
import time

import pytest

from offcpu import MS, NS, near, record


@pytest.fixture
def place():
    """A directory under /tmp that other users can reach; paths of sockets must be short."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="offcpu-", dir="/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


def await_path(path):
    deadline = time.monotonic() + 20
    while not os.path.exists(path):
        assert time.monotonic() < deadline, f"{path} does not appear"
        time.sleep(0.05)
    time.sleep(0.2)


def cpu_ns(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * (NS // os.sysconf("SC_CLK_TCK"))


def test_redis_under_load(tmp_path, spawn, place):
    socket = place / "s"
    redis = spawn("redis-server", "--port", 0, "--unixsocket", socket, "--save", "", "--dir", place)
    await_path(socket)
    spawn("redis-benchmark", "-s", socket, "-n", 100000000, "-q", "-t", "set,get", "-c", 20)
    time.sleep(0.5)
    before = cpu_ns(redis.pid)
    result = record(tmp_path, "-p", redis.pid, "-d", 3)
    after = cpu_ns(redis.pid)
    profile = result.json
    main = profile.thread(redis.pid)
    assert main["on_ns"] > 0.2 * profile.window_ns
    assert profile.total("on_ns") <= after - before + 20 * MS + profile.stolen_ns
    assert main["samples"] > 20 and main["system_ns"] > 0
    assert profile.holding("epoll_wait"), "redis waits in epoll_wait"
    assert len(profile.threads) >= 4
    idle = [t for t in profile.threads if t["blocked_ns"] == t["window_ns"]]
    assert idle, "its background threads have nothing to do"


def test_postgres_under_pgbench(tmp_path, spawn, place):
    binaries = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
    assert binaries, "the package postgresql is not installed"
    bin_dir = binaries[-1]
    user = pwd.getpwnam("postgres")
    os.chown(place, user.pw_uid, user.pw_gid)
    as_user = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--init-groups"]
    subprocess.run([*as_user, f"{bin_dir}/initdb", "-D", place / "db", "-A", "trust", "--no-sync"],
                   check=True, capture_output=True, cwd=place)
    server = spawn(*as_user, f"{bin_dir}/postgres", "-D", place / "db", "-k", place, "-h", "",
                   cwd=place)
    await_path(place / ".s.PGSQL.5432")
    bench = [*as_user, f"{bin_dir}/pgbench", "-h", str(place)]
    subprocess.run([*bench, "-i", "-q", "postgres"], check=True, capture_output=True, cwd=place)
    load = spawn(*bench, "-c", 4, "-T", 20, "postgres", cwd=place)
    time.sleep(1)
    result = record(tmp_path, "-n", "postgres", "-d", 3)
    load.terminate()
    profile = result.json
    assert server.pid in {p["pid"] for p in profile.processes}
    assert len(profile.processes) >= 9, "the server, its five helpers and four backends"
    busy = [p for p in profile.processes if p["on_ns"] > 50 * MS]
    assert len(busy) >= 4
    for process in profile.processes:
        assert process["window_ns"] == profile.window_ns
    assert profile.total("voluntary") > 1000
    assert result.off.us("fdatasync") > 0 or result.off.us("fsync") > 0, "commits reach the disk"


PYTHON = """
import threading, time
def compute():
    while True:
        sum(range(1000))
def rest():
    while True:
        time.sleep(0.01)
for work in (compute, compute, rest, rest):
    threading.Thread(target=work, daemon=True).start()
time.sleep(1000)
"""


def test_python_with_threads(tmp_path, spawn):
    python = spawn(sys.executable, "-c", PYTHON)
    time.sleep(0.7)
    before = cpu_ns(python.pid)
    profile = record(tmp_path, "-p", python.pid, "-d", 3).json
    after = cpu_ns(python.pid)
    assert len(profile.threads) == 5
    main = profile.thread(python.pid)
    assert main["blocked_ns"] == profile.window_ns
    # One lock, so the two computing threads have no more than one CPU between them.
    busy = sorted(profile.threads, key=lambda t: t["on_ns"])[-2:]
    assert sum(t["on_ns"] for t in busy) < 1.2 * profile.window_ns
    assert sum(t["on_ns"] + t["runq_ns"] for t in busy) > 0.8 * profile.window_ns
    assert profile.total("on_ns") <= after - before + 20 * MS + profile.stolen_ns
    assert busy[0]["on_ns"] > 0.2 * busy[1]["on_ns"]


BUILD = """
import json, resource, subprocess, sys
code = subprocess.run(["make", "-s", "-j2", "-C", sys.argv[1]]).returncode
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps({"cpu": usage.ru_utime + usage.ru_stime, "user": usage.ru_utime}))
sys.exit(code)
"""


def test_make_of_c_sources(tmp_path, place):
    names = [f"part{i}" for i in range(10)]
    for name in names:
        (place / f"{name}.c").write_text(
            "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
            + "".join(f"int {name}_{i}(int x) {{ for (int i = 0; i < x; i++) x ^= rand() * {i}; return x; }}\n"
                      for i in range(300)))
    objects = " ".join(f"{name}.o" for name in names)
    (place / "Makefile").write_text(f"CFLAGS = -O2\nall: {objects}\n\tgcc -shared -o all.so {objects}\n")
    result = record(tmp_path, "--", sys.executable, "-c", BUILD, place)
    truth = json.loads(result.out.splitlines()[-1])
    profile = result.json
    comms = [p["comm"] for p in profile.processes]
    assert comms.count("cc1") == 10 and "make" in comms
    assert comms.count("as") == 10 and ("ld" in comms or "ld.bfd" in comms)
    top = profile.threads[0]["pid"]
    children = [p for p in profile.processes if p["pid"] != top]
    near(sum(p["on_ns"] for p in children), truth["cpu"] * NS, 0.02, 50 * MS + profile.stolen_ns)
    assert all(p["wall_ns"] <= profile.window_ns for p in children)
