"""Prompts on the terminal and reads of pipes, which Ctrl-C ends at once."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from getpass import GetPassWarning
from threading import current_thread, main_thread
from types import FrameType
from warnings import catch_warnings, simplefilter

import click

from controlplane.terminal.command_errors import InputRefused
from controlplane.terminal.output import note


def confirm(question: str, *, yes: bool) -> None:
    """Ask for confirmation, unless `yes`.

    Raises:
        Abort: the answer is no, or the input ends without an answer.
        KeyboardInterrupt: Ctrl-C instead of an answer.
    """
    if yes:
        return
    try:
        with ended_by_ctrl_c():
            click.confirm(question, abort=True, err=True)
    except click.Abort:
        if not sys.stdin.isatty():
            note("there is no terminal to answer on: add --yes")
        raise


def password(prompt: str, *, twice: bool = False) -> str:
    """Ask for a password, without an echo; `twice` for a new one.

    Raises:
        Abort: the input ends without an answer.
        InputRefused: the password is no UTF-8.
        KeyboardInterrupt: Ctrl-C instead of an answer.
    """
    try:
        with ended_by_ctrl_c(), catch_warnings():
            simplefilter("ignore", GetPassWarning)  # without a terminal, nothing is echoed
            text: str = click.prompt(prompt, hide_input=True, confirmation_prompt=twice, err=True)
        text.encode()
    except click.Abort:
        if not sys.stdin.isatty():
            note("there is no terminal to type the password on: give NAME:PASSWORD")
        raise
    except UnicodeError:
        raise InputRefused("the password is no UTF-8: type it again") from None
    return text


@contextmanager
def ended_by_ctrl_c() -> Iterator[None]:
    """Raise `KeyboardInterrupt` on Ctrl-C within this context.

    The handler of asyncio only cancels the task, which ends neither a prompt nor the reading of a
    pipe. The answer after Ctrl-C would still be taken. The library click turns Ctrl-C into the same
    `Abort` as the answer no.
    """
    if current_thread() is not main_thread():
        yield
        return
    interrupted = False

    def interrupt(_: int, __: FrameType | None) -> None:
        nonlocal interrupted
        interrupted = True
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    except click.Abort:
        if interrupted:
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGINT, before)
