"""Spark session: location, memory, and silent start."""

import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from types import MappingProxyType
from typing import IO

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException, PythonException
from pyspark.sql import SparkSession

from controlplane.private_files import umask
from replay.engine.spark.location import SparkLocation
from replay.engine.spark.task_output_codec import PIECE_BYTES
from replay.errors import ReplayError

OLDEST_JAVA = 17
"""Oldest Java that Spark 4 supports."""

HEAP = "1g"
"""Memory of the driver's JVM; under `local`, of all tasks together. Archived rows bypass the
JVM, except those on which the state depends. `--conf spark.driver.memory=…` raises it."""

BATCH_ROWS = 100_000
"""Greatest number of rows per transfer between a JVM and Python."""

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
"""Settings of each session that this module starts, unless `--conf` overrides them."""

_ENDED = (Py4JNetworkError, ConnectionRefusedError)
"""Errors of a request to a JVM that has ended."""


class NoSpark(ReplayError):
    """Java is missing, Spark does not start, or Spark has failed."""


@contextmanager
def session(where: SparkLocation) -> Iterator[SparkSession]:
    """Yield a session for the duration of the block; an existing session is reused unchanged.

    Raises:
        NoSpark: Java is missing, Spark does not start, its JVM ends, or it refuses a setting later.
    """
    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    check_java()
    if where.is_here:  # this interpreter has all packages; Spark would take any `python3`
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("replay").master(where.master)
    private = {"spark.hadoop.fs.permissions.umask-mode": f"{umask():03o}"}
    for key, value in {**SETTINGS, **private, **where.conf}.items():
        builder = builder.config(key, value)
    with TemporaryFile() as stderr_file, py4j_unlogged():
        try:
            with _stderr_into(stderr_file), _patiently() as interrupts:
                started = builder.getOrCreate()
        except (PySparkException, Py4JError) as error:
            raise NoSpark(
                f"Spark does not start at {where.master} "
                f"({_complaint(stderr_file) or root_cause(error)}): check --master and --conf"
            ) from None
        try:
            if interrupts:
                raise KeyboardInterrupt
            yield started
        except PySparkException as error:  # such as a setting that Spark reads late
            raise NoSpark(f"Spark has failed ({root_cause(error)}): check --conf") from None
        except _ENDED:
            raise NoSpark(
                "Spark's JVM has ended, as after a kill or without memory: see spark.driver.memory"
            ) from None
        finally:
            with suppress(*_ENDED):
                started.stop()


@contextmanager
def py4j_unlogged() -> Iterator[None]:
    """Drop what py4j logs at the root logger: a traceback after Ctrl-C.

    The errors themselves are raised.
    """

    def is_other(record: logging.LogRecord) -> bool:
        return not record.pathname.endswith("py4j/java_gateway.py")

    logging.root.addFilter(is_other)
    try:
        yield
    finally:
        logging.root.removeFilter(is_other)


@contextmanager
def _patiently() -> Iterator[list[int]]:
    """Note the first Ctrl-C and continue; a second one acts as usual.

    A JVM that is abandoned during its start would stay behind: only a connected JVM ends with this
    process.
    """
    interrupts: list[int] = []
    if threading.current_thread() is not threading.main_thread():  # no signals there
        yield interrupts
        return

    def hear(number: int, _: object) -> None:
        if interrupts:
            raise KeyboardInterrupt
        interrupts.append(number)

    before = signal.signal(signal.SIGINT, hear)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _stderr_into(file: IO[bytes]) -> Iterator[None]:
    """Redirect standard error to a file; processes started in the block use it until they end."""
    sys.stderr.flush()
    terminal = os.dup(2)
    os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(terminal, 2)
        os.close(terminal)


def _complaint(stderr_file: IO[bytes]) -> str:
    """Complaint of a JVM that ended early."""
    stderr_file.seek(0)
    lines = stderr_file.read().decode("utf-8", "replace").splitlines()
    complaints = (line for line in lines if re.match("Exception|Error|Invalid|Unrecognized", line))
    return _without_class(next(complaints, ""))


def check_java() -> None:
    """Raise `NoSpark` unless Spark can use an installed Java."""
    java = java_number()
    if java is None or java < OLDEST_JAVA:
        installed = "none is installed" if java is None else f"this is {java}"
        raise NoSpark(
            f"Spark needs Java {OLDEST_JAVA} or newer, but {installed}: "
            "install it, or set JAVA_HOME"
        )


def java_number() -> int | None:
    """Major version of Spark's Java: 8, 17, 21; None if there is none."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if java is None:
        return None
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603
    # 1.8.0_292 was Java 8; since 9 the first number counts.
    version = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)
    return int(version[1]) if version else None


def root_cause(error: Exception) -> str:
    """Root cause of a Spark error, without its stack."""
    if isinstance(error, PythonException):  # the quoted traceback ends with the cause
        return str(error).strip().splitlines()[-1].strip()
    cause = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    while cause is not None and cause.getCause() is not None:
        cause = cause.getCause()
    text = str(error) if cause is None else str(cause.toString())
    return _without_class(text.strip().splitlines()[0].strip())


def _without_class(text: str) -> str:
    return re.sub(r'^(Exception in thread "[^"]+" )?([\w$]+\.)+[\w$]+: ', "", text)
