# SPDX-License-Identifier: GPL-2.0-or-later
"""Fixtures of the whole-program tests, and the count line that scripts/check.sh adds up."""
import os
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent / "live"))
import offcpu  # noqa: E402


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes more than about ten seconds")


def pytest_collection_modifyitems(items):
    if os.geteuid() == 0:
        return
    for item in items:
        item.add_marker(pytest.mark.skip(reason="needs root"))


@pytest.fixture
def target():
    """Starts workloads, and ends what is left of them."""
    started = []

    def start(*args, **kwargs):
        started.append(offcpu.Target(*args, **kwargs))
        return started[-1]

    yield start
    for one in started:
        one.kill()


@pytest.fixture
def spawn():
    """Starts any program in a process group of its own, and ends what is left of the group."""
    started = []

    def start(*args, **kwargs):
        kwargs.setdefault("stdout", subprocess.DEVNULL)
        kwargs.setdefault("stderr", subprocess.DEVNULL)
        kwargs.setdefault("stdin", subprocess.DEVNULL)
        started.append(subprocess.Popen([str(a) for a in args], start_new_session=True, **kwargs))
        return started[-1]

    yield start
    for one in started:
        try:
            os.killpg(one.pid, 9)
        except ProcessLookupError:
            pass
        one.wait()
