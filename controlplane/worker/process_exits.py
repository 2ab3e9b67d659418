"""`os._exit` in an author's code raises `SystemExit`, so that the process stays up."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from typing import NoReturn

_PROCESS: ContextVar[int] = ContextVar("process of the worker")
"""Process id of the worker; set in the context of an author's code, and so in copies of it."""

_exit_process = os._exit


def guard_exits() -> Token[int]:
    """Guard this process in the present context and its copies; the token ends the guard."""
    os._exit = _exit_author
    return _PROCESS.set(os.getpid())


@contextmanager
def exits_guarded() -> Iterator[None]:
    """Guard this process until the block ends."""
    token = guard_exits()
    try:
        yield
    finally:
        _PROCESS.reset(token)


def _exit_author(status: int) -> NoReturn:
    """`os._exit` of a worker. Child processes of an author's code end as usual."""
    if _PROCESS.get(None) == os.getpid():
        raise SystemExit(status)
    _exit_process(status)
