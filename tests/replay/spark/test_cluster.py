"""Spark on a cluster: tasks run in processes that share nothing with the driver but the archive."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pyspark
import pytest

from tests.cli.command_calls import CommandResult
from tests.conftest import ROOT
from tests.kafka.process import JavaProgram
from tests.ports import free_ports
from tests.replay.buckets import archived, bucket
from tests.replay.cli.replay_calls import call

# Up to six JVMs, for most of a minute.
pytestmark = [pytest.mark.java, pytest.mark.prove]

SPARK = Path(pyspark.__file__).parent

ENVIRONMENT = {
    # Workers start executors with these; Spark's own scripts would set them.
    "SPARK_HOME": str(SPARK),
    "SPARK_SCALA_VERSION": "2.13",
    # Tasks need this Python; the driver passes it to the workers.
    "PYSPARK_PYTHON": sys.executable,
}

COMMANDS = (
    ("state", "--profile", "3.4", "--profile", "3.9", "-o", "json"),
    ("audit", "-o", "json"),
)


@pytest.fixture
def archives(tmp_path: Path) -> Iterator[list[list[str]]]:
    """One archive in a shared folder, and in an object store that the driver knows."""
    folder = tmp_path / "archive"
    folder.mkdir()
    with bucket("far") as store:
        where = archived(store, "archive", folder)
        yield [[str(folder)], [where, *store.conf()]]


@pytest.fixture
def expected(archives: list[list[str]]) -> list[CommandResult]:
    """Outputs of the commands in this process."""
    return [call(*words, *archives[0]) for words in COMMANDS]


async def test_tasks_of_workers_say_the_same(
    archives: list[list[str]],
    expected: list[CommandResult],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Spark workers give the outputs of this process, with kernels and record by record."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    async with standalone(tmp_path, workers=2) as master:
        for words, here in zip(COMMANDS, expected, strict=True):
            for archive in archives:
                there = await asyncio.to_thread(_asked, master, *words, *archive)
                assert (there.code, there.out) == (here.code, here.out), there.err
    logs = (tmp_path / f"worker-{number}.log" for number in range(2))
    assert all("Asked to launch executor" in log.read_text() for log in logs)


def _asked(master: str, *words: str) -> CommandResult:
    """A command in a process of its own, which has that cluster work it out."""
    spark = ("--master", master, "--conf", "spark.driver.host=127.0.0.1")
    done = subprocess.run(
        [sys.executable, "-m", "replay", *words, *spark],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return CommandResult(done.returncode, done.stdout, done.stderr)


@asynccontextmanager
async def standalone(folder: Path, workers: int) -> AsyncIterator[str]:
    """Start Spark's own master with workers of one core each; yield the URL of the master."""
    port, *pages = free_ports(2 + workers)
    url = f"spark://127.0.0.1:{port}"
    here = ("--host", "127.0.0.1")
    master = _program("master", folder, *here, "--port", str(port), "--webui-port", str(pages[0]))
    small = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / "work"))
    others = [
        _program(f"worker-{number}", folder, *here, *small, "--webui-port", str(page), url)
        for number, page in enumerate(pages[1:])
    ]
    try:
        master.start()
        await master.ready(_said(master, "New state: ALIVE"))
        for one in others:
            one.start()
        for one in others:
            await one.ready(_said(one, "Successfully registered with master"))
        yield url
    finally:
        for one in (*others, master):
            await one.end(signal.SIGTERM)


def _program(name: str, folder: Path, *arguments: str) -> JavaProgram:
    kind = name.partition("-")[0]
    main = f"org.apache.spark.deploy.{kind}.{kind.capitalize()}"
    return JavaProgram(name, folder, str(SPARK / "jars" / "*"), main, *arguments)


def _said(program: JavaProgram, words: str) -> Callable[[], Awaitable[bool]]:
    async def said() -> bool:
        return words in program.log.read_text(errors="replace")

    return said
