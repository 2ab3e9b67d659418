"""Start of a program; this module imports nothing that takes time."""

import io
import os
import signal
import sys
from importlib import import_module
from typing import NoReturn

from controlplane.terminal.exit_codes import INTERRUPTED


class LossyStream(io.TextIOWrapper):
    """Standard error that drops lines if it cannot be written.

    A full disk or a reader that has left must not fail a request of a service. Neither may change
    the exit code of a command.
    """

    def write(self, text: str) -> int:
        """Write a text, or drop it."""
        try:
            return super().write(text)
        except (OSError, ValueError):
            return len(text)

    def flush(self) -> None:
        """Flush what can be written."""
        try:
            super().flush()
        except (OSError, ValueError):
            return


def run(name: str, module: str) -> NoReturn:
    """Import the commands of a program, run the one that `sys.argv` names, and end the process.

    `module`: name of the module that defines the click group `main`. The imports take a tenth of a
    second. Ctrl-C ends the process during the imports just as it does later.
    """
    _prepare_streams()
    try:
        main = import_module(module).main
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        raise SystemExit(INTERRUPTED) from None
    try:
        main(prog_name=name)
    finally:
        _end_on_ctrl_c()
    raise SystemExit(0)


def _end_on_ctrl_c() -> None:
    """From now on, let Ctrl-C end the process at once and silently, unless it is ignored.

    The command has reported its end, but Python still waits for threads. A second Ctrl-C would
    print a traceback.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _prepare_streams() -> None:
    """Open /dev/null for each closed standard stream; otherwise a log could get its descriptor.

    A closed standard input is empty, a closed standard error drops its lines. A closed standard
    output stays None: commands refuse it before they change something.
    """
    for descriptor, mode in ((0, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, mode)  # gets the lowest free descriptor, which is this one
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), "utf-8")
    bytes_out = io.BufferedWriter(io.FileIO(2, "w", closefd=False))
    encoding = getattr(sys.stderr, "encoding", "utf-8")
    sys.stderr = LossyStream(bytes_out, encoding, "backslashreplace", line_buffering=True)
