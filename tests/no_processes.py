"""Guard of `make quick`: a test that starts a process is skipped.

The module is loaded only under `QUICK`. It makes a list of such tests unnecessary.
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
"""Every way to start a process: asyncio, `os.popen` and process pools use one of them."""


def _refuse(*_: object, **__: object) -> NoReturn:
    pytest.skip(REASON)


@cache
def _guard() -> None:
    """Replace all these functions, once and for the whole run."""
    for place, name in STARTS:
        setattr(place, name, _refuse)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol() -> None:
    """Guard each process that runs tests; a process that only distributes them may start others."""
    _guard()
