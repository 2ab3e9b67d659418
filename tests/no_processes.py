"""Guard of `make quick`: a test that is about to start a process is skipped instead.

Loaded only where `QUICK` is set. No list of such tests has to be kept.
"""

import multiprocessing.util
import os
import subprocess
from functools import cache
from typing import NoReturn

import pytest

REASON = "starts a process"

STARTS = (
    (subprocess.Popen, "__init__"),
    (os, "fork"),
    (os, "forkpty"),
    (os, "posix_spawn"),
    (os, "posix_spawnp"),
    (os, "system"),
    (multiprocessing.util, "spawnv_passfds"),
)
"""Every way to start a process: asyncio, `os.popen` and pools of processes end in one of them."""


def _refuse(*_: object, **__: object) -> NoReturn:
    pytest.skip(REASON)


@cache
def _guard() -> None:
    """Replace all that starts processes, once, for good."""
    for place, name in STARTS:
        setattr(place, name, _refuse)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol() -> None:
    """Guard every process that runs tests; the one that distributes them starts the others."""
    _guard()
