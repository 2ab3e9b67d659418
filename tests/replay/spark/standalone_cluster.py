"""Spark's standalone cluster on this machine: a master, and workers of one core each."""

import asyncio
import re
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from itertools import chain
from pathlib import Path
from types import MappingProxyType

import pyspark
import pytest

from tests.cli.command_calls import CommandResult
from tests.kafka.process import JavaProgram
from tests.ports import free_ports
from tests.replay.process_groups import started_group

SPARK = Path(pyspark.__file__).parent

_ENVIRONMENT = {
    # Workers start executors with these; Spark's own scripts would set them.
    "SPARK_HOME": str(SPARK),
    "SPARK_SCALA_VERSION": "2.13",
    # Tasks need this Python; the driver passes it to the workers.
    "PYSPARK_PYTHON": sys.executable,
}

DRIVER_PATIENCE_S = 600
"""Limit for the whole run of a driver, in seconds; it only turns a hang into a failure.

A run with Hadoop's S3 client starts several JVMs: some 60 s with a load of 8 on two cores.
"""

NO_CONF: Mapping[str, str] = MappingProxyType({})

QUICK = MappingProxyType(
    {"spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
)
"""Executors live for seconds, too short for the optimising compiler to pay."""

_HERE = ("--host", "127.0.0.1")
_SMALL = ("--cores", "1", "--memory", "1g")


class StandaloneCluster:
    """A master and its workers; they inherit the environment of this process."""

    def __init__(self, folder: Path, workers: int) -> None:
        port, *pages = free_ports(2 + workers)
        self.url = f"spark://127.0.0.1:{port}"
        address = ("--port", str(port), "--webui-port", str(pages[0]))
        self.master = _program("master", folder, *_HERE, *address)
        work = ("--work-dir", str(folder / "work"))
        self.workers = [
            _program(f"worker-{number}", folder, *_HERE, *_SMALL, *work, *_page(page), self.url)
            for number, page in enumerate(pages[1:])
        ]

    def start(self) -> None:
        """Start the processes that do not run, and wait until all workers have registered."""
        _start([self.master], "New state: ALIVE")
        _start(self.workers, "Successfully registered with master")

    def stop(self) -> None:
        for program in (*self.workers, self.master):
            asyncio.run(program.end(signal.SIGTERM))

    def worker_of(self, executor: int) -> JavaProgram:
        """Worker that has started an executor, by the id of the executor's process."""
        status = Path(f"/proc/{executor}/status").read_text()
        (parent,) = re.findall(r"^PPid:\s*(\d+)$", status, re.MULTILINE)
        (worker,) = (worker for worker in self.workers if worker.pid == int(parent))
        return worker

    def options(self, conf: Mapping[str, str] = NO_CONF) -> list[str]:
        """Options with which `replay` runs on this cluster."""
        settings = {"spark.driver.host": "127.0.0.1", **QUICK, **conf}
        pairs = (("--conf", f"{name}={value}") for name, value in settings.items())
        return ["--engine", "spark", "--master", self.url, *chain.from_iterable(pairs)]


def _page(port: int) -> tuple[str, str]:
    return "--webui-port", str(port)


def _program(name: str, folder: Path, *arguments: str) -> JavaProgram:
    kind = name.partition("-")[0]
    main = f"org.apache.spark.deploy.{kind}.{kind.capitalize()}"
    return JavaProgram(name, folder, str(SPARK / "jars" / "*"), main, *arguments)


def _start(programs: list[JavaProgram], words: str) -> None:
    """Start programs that do not run; wait until each has printed these words once more."""
    stopped = [program for program in programs if not program.alive]
    waits = [_printed_again(program, words) for program in stopped]
    for program in stopped:
        program.start()
    for program, is_ready in zip(stopped, waits, strict=True):
        asyncio.run(program.ready(is_ready))


def _printed_again(program: JavaProgram, words: str) -> Callable[[], Awaitable[bool]]:
    before = _count(program, words)

    async def printed() -> bool:
        return _count(program, words) > before

    return printed


def _count(program: JavaProgram, words: str) -> int:
    log = program.log
    return log.read_text(errors="replace").count(words) if log.exists() else 0


@contextmanager
def standalone(folder: Path, workers: int = 2) -> Iterator[StandaloneCluster]:
    """Run a cluster within the block; drivers inherit Spark's variables from this process."""
    cluster = StandaloneCluster(folder, workers)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in _ENVIRONMENT.items():
            patch.setenv(name, value)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()


def driver(*words: str, module: str = "replay") -> AbstractContextManager["subprocess.Popen[str]"]:
    """Start `replay`, or a module that runs it, with these arguments; kill it and its JVM later."""
    return started_group(module, *words, stdout=subprocess.PIPE)


def result_of(process: "subprocess.Popen[str]") -> CommandResult:
    """Wait for the end of a driver; return its output."""
    out, err = process.communicate(timeout=DRIVER_PATIENCE_S)
    return CommandResult(process.returncode, out, err)


def run_driver(*words: str, module: str = "replay") -> CommandResult:
    """Run `replay`, or a module that runs it, in a process of its own."""
    with driver(*words, module=module) as process:
        return result_of(process)
