"""Process of a program, mostly of Java: started, observed, stopped, killed."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from tests.jars import java
from tests.kafka.containers import (
    LIBRARIES,
    KafkaImage,
    run_command,
    signal_command,
    this_user,
)
from tests.patience import PATIENCE_S

STOP_TIMEOUT_S = 20
"""Seconds after which a program that has not stopped is killed."""

POLL_S = 0.1
"""Interval of checks whether a starting program is ready; it gives no signal."""

PRINTED_LINES = 40
SMALL_JVM = ("-Xms64m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""JVM options for a quick start and little memory."""


class ProgramNotReady(RuntimeError):
    """A program ended, or was not ready in time; the message holds the last lines it printed."""


class Program:
    """Command in a process of its own; its output goes to `<name>.log` in its directory."""

    def __init__(self, name: str, directory: Path, command: Sequence[str]) -> None:
        self._name = name
        self._directory = directory
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def alive(self) -> bool:
        """True if the process has started and has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Id of the process; it must have been started."""
        assert self._process is not None
        return self._process.pid

    @property
    def printed(self) -> str:
        """Last lines of its output, under its name."""
        lines = self.log.read_text(errors="replace").splitlines()
        return "\n".join([f"--- {self._name}", *lines[-PRINTED_LINES:]])

    @property
    def log(self) -> Path:
        """File with everything that the program prints."""
        return self._directory / f"{self._name}.log"

    def start(self) -> None:
        """Start it and return at once."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    async def ready(self, is_ready: Callable[[], Awaitable[bool]]) -> None:
        """Repeat a check until it is True.

        Raises:
            ProgramNotReady: the program ended first, or took too long.
        """
        try:
            async with asyncio.timeout(PATIENCE_S):
                while self.alive and not await is_ready():
                    await asyncio.to_thread(self._ends_within, POLL_S)
        except TimeoutError:
            raise ProgramNotReady(f"not ready in {PATIENCE_S} s\n{self.printed}") from None
        if not self.alive:
            raise ProgramNotReady(f"ended while starting\n{self.printed}")

    def _ends_within(self, timeout_s: float) -> None:
        assert self._process is not None
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)

    async def exit_code(self) -> int:
        """Start the program, wait for its end, and return its exit code."""
        self.start()
        assert self._process is not None
        return await asyncio.to_thread(self._process.wait, PATIENCE_S)

    async def run(self) -> None:
        """Start the program and wait for its end; fail unless it succeeds."""
        if await self.exit_code():
            raise ProgramNotReady(f"failed\n{self.printed}")

    def tell(self, signal_to_send: signal.Signals) -> None:
        """Send a signal that does not end the process."""
        assert self._process is not None
        self._process.send_signal(signal_to_send)

    def suspend(self) -> None:
        """Suspend the process, and wait until all its threads have stopped."""
        self.tell(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    async def end(
        self, how: signal.Signals = signal.SIGTERM, timeout_s: float = STOP_TIMEOUT_S
    ) -> None:
        """Send a signal and wait for the end; kill the process after the timeout."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        self.tell(how)
        try:
            await asyncio.to_thread(process.wait, timeout_s)
        except subprocess.TimeoutExpired:
            self.tell(signal.SIGKILL)
            await asyncio.to_thread(process.wait)


class JavaProgram(Program):
    """Main class with its arguments, on this machine or in a container."""

    def __init__(
        self,
        name: str,
        directory: Path,
        path: str | KafkaImage,
        *arguments: str,
        jvm: Sequence[str] = SMALL_JVM,
    ) -> None:
        """`path` is a class path, or the image of a container that has it."""
        self._container: str | None = None
        if isinstance(path, KafkaImage):
            self._container = f"{directory.name}-{name}-{uuid4().hex[:8]}"
            words = [*jvm, "-cp", LIBRARIES, *arguments]
            command = run_command(path, self._container, directory, words, this_user())
        else:
            command = [str(java()), *jvm, "-cp", path, *arguments]
        super().__init__(name, directory, command)

    def tell(self, signal_to_send: signal.Signals) -> None:
        """Send a signal that does not end the process, to the container if there is one."""
        if self._container is None:
            super().tell(signal_to_send)
        else:
            subprocess.run(
                signal_command(self._container, signal_to_send.name),
                check=False,
                capture_output=True,
            )

    def suspend(self) -> None:
        """Suspend the process, and wait until all its threads have stopped.

        A container is not waited for.
        """
        if self._container is None:
            super().suspend()
        else:
            self.tell(signal.SIGSTOP)
