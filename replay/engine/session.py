"""A Spark session: where it runs, what it may take, and that it says nothing by itself."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from types import MappingProxyType
from typing import IO

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, PythonException
from pyspark.sql import SparkSession

from controlplane.private_files import umask
from replay.engine.parcels import PIECE_BYTES
from replay.engine.where import Where
from replay.errors import ReplayError

OLDEST_JAVA = 17
"""Spark 4 runs on nothing older."""

HEAP = "1g"
"""Memory of the driver's JVM, which under `local` is that of all tasks: rows pass it by, their
winners do not. `--conf spark.driver.memory=…` gives it more."""

BATCH_ROWS = 100_000
"""Rows that Spark sends between a JVM and Python at a time, at most."""

_QUIET = Path(__file__).with_name("log4j2.properties")

SETTINGS = MappingProxyType(
    {
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_QUIET.as_uri()}",
        "spark.driver.memory": HEAP,
        "spark.sql.execution.arrow.maxBytesPerBatch": str(PIECE_BYTES),
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_ROWS),
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
)
"""What every session has unless `--conf` says something else."""


class NoSpark(ReplayError):
    """There is no Java, or Spark does not start, or it has failed."""


@contextmanager
def session(where: Where) -> Iterator[SparkSession]:
    """A session, for as long as it takes; whoever has one already keeps it, as it is.

    Raises:
        NoSpark: there is no Java, or Spark does not start.
    """
    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    check_java()
    if where.is_here:  # whoever asks has all that tasks need; Spark would take any `python3`
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("replay").master(where.master)
    private = {"spark.hadoop.fs.permissions.umask-mode": f"{umask():03o}"}
    for key, value in {**SETTINGS, **private, **where.conf}.items():
        builder = builder.config(key, value)
    with TemporaryFile() as said:
        try:
            with _stderr_into(said), _patiently() as heard:
                started = builder.getOrCreate()
        except (PySparkException, Py4JError) as error:
            raise NoSpark(
                f"Spark does not start at {where.master} ({_complaint(said) or told(error)}): "
                "look at --master and --conf"
            ) from None
        try:
            if heard:
                raise KeyboardInterrupt
            yield started
        finally:
            started.stop()


@contextmanager
def _patiently() -> Iterator[list[int]]:
    """Note Ctrl-C, and go on; pressed again it is as ever.

    A JVM that nobody waits for any more while it starts would be left behind: it ends with this
    process only once it has been heard of.
    """
    heard: list[int] = []
    if threading.current_thread() is not threading.main_thread():  # others hear no signals
        yield heard
        return

    def hear(number: int, _: object) -> None:
        if heard:
            raise KeyboardInterrupt
        heard.append(number)

    before = signal.signal(signal.SIGINT, hear)
    try:
        yield heard
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _stderr_into(file: IO[bytes]) -> Iterator[None]:
    """Have what a process that begins now says on standard error, as long as it lives."""
    sys.stderr.flush()
    terminal = os.dup(2)
    os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(terminal, 2)
        os.close(terminal)


def _complaint(said: IO[bytes]) -> str:
    """What a JVM complained of before it ended."""
    said.seek(0)
    lines = said.read().decode("utf-8", "replace").splitlines()
    found = (line for line in lines if re.match("Exception|Error|Invalid|Unrecognized", line))
    return _without_class(next(found, ""))


def check_java() -> None:
    """Raise `NoSpark` unless there is a Java that Spark can use."""
    java = java_number()
    if java is None or java < OLDEST_JAVA:
        there = "there is none" if java is None else f"this is {java}"
        raise NoSpark(
            f"Spark needs Java {OLDEST_JAVA} or newer, and {there}: install it, or set JAVA_HOME"
        )


def java_number() -> int | None:
    """Which Java Spark would take: 8, 17, 21; None: there is none."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if java is None:
        return None
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603
    # 1.8.0_292 was Java 8; since 9 it is the first number.
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)
    return int(found[1]) if found else None


def told(error: Exception) -> str:
    """What Spark complains of, without its stack: what was the cause of it all."""
    if isinstance(error, PythonException):  # a traceback is quoted, and ends with what happened
        return str(error).strip().splitlines()[-1].strip()
    cause = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    while cause is not None and cause.getCause() is not None:
        cause = cause.getCause()
    text = str(error) if cause is None else str(cause.toString())
    return _without_class(text.strip().splitlines()[0].strip())


def _without_class(text: str) -> str:
    return re.sub(r'^(Exception in thread "[^"]+" )?([\w$]+\.)+[\w$]+: ', "", text)
