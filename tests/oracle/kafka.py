"""Kafka's own stores in a Java process, one per release.

The process is our harness (`harness/`, compiled once) on the class path of the release. It makes
`KafkaConfigBackingStore`, `KafkaStatusBackingStore` and `KafkaOffsetBackingStore` without a broker
and feeds them through the callbacks that Kafka's consumer would call.
"""

import json
import os
import subprocess
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from tests.jars import ROOT, SHORT_LIVED, Artifacts, JarsUnavailable, classpath, compiled, java
from tests.oracle.case import Case, framed
from tests.oracle.oracle_releases import ASKED
from tests.patience import PATIENCE_S

HARNESS = Path(__file__).parent / "harness"
CACHE = ROOT / ".cache" / "oracle"

COMPILED_AGAINST = "2.8.2"
"""Any release would do: the harness reaches differences between releases by reflection."""

CHUNK = 200
"""Cases sent at once. While Java answers one chunk, Python compares the one before."""

HEAP = "-Xmx512m"
StoreAnswer = dict[str, Any]
"""Answer of a release's stores to one case: `records`, and the content of each store."""


def release_path(release: str) -> str:
    """The class path of a Kafka release, without any slf4j binding: the harness has its own."""
    return classpath(*_artifacts(release), silent=False, soon=map(_artifacts, ASKED))


def _artifacts(release: str) -> Artifacts:
    return tuple(
        f"org.apache.kafka:{name}:{release}" for name in ("connect-runtime", "connect-json")
    )


def harness(where: Path = HARNESS, against: str = COMPILED_AGAINST) -> Path:
    """The folder of the compiled harness; a changed source file is compiled again."""
    return compiled(where, release_path(against), CACHE)


def line_answers(
    program: str, class_path: Iterable[str | Path], questions: Iterable[str], *options: str
) -> list[Any]:
    """Answers in JSON of a Java program that answers each line of its input with one line.

    `program` is its class in the package `oracle`; `options` are the JVM's.
    """
    path = os.pathsep.join(map(str, class_path))
    ended = subprocess.run(
        [str(java()), *options, "-cp", path, f"oracle.{program}"],
        input="\n".join(questions).encode(),
        stdout=subprocess.PIPE,
        check=True,
        timeout=PATIENCE_S,
    )
    return [json.loads(line) for line in ended.stdout.splitlines()]


class KafkaOracle:
    """The stores of one release. A context manager: leaving it ends the process."""

    def __init__(self, release: str) -> None:
        self.release = release
        program = java()
        if program is None:
            raise JarsUnavailable("there is no Java: apt-get install openjdk-17-jdk-headless")
        path = os.pathsep.join((str(harness()), release_path(release)))
        self._process = subprocess.Popen(
            [str(program), HEAP, *SHORT_LIVED, "-cp", path, "oracle.Main"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process; closing twice is allowed."""
        self._stdin.close()
        self._process.kill()
        self._process.wait()
        self._stdout.close()

    def answer(self, case: Case) -> StoreAnswer:
        """Answer of the stores to one case."""
        return next(answer for _, answer in self.answers([case]))

    def answers(self, cases: Iterable[Case]) -> Iterator[tuple[Case, StoreAnswer]]:
        """Yield each case with the answer of the stores, in order."""
        rest = iter(cases)
        sent = self._ask(list(islice(rest, CHUNK)))
        while sent:
            lines = [self._line() for _ in sent]
            following = self._ask(list(islice(rest, CHUNK)))
            for case, line in zip(sent, lines, strict=True):
                yield case, json.loads(line)
            sent = following

    def _ask(self, cases: list[Case]) -> list[Case]:
        if cases:
            self._stdin.write(framed(cases))
            self._stdin.flush()
        return cases

    def _line(self) -> bytes:
        line = self._stdout.readline()
        if not line:
            raise RuntimeError(f"the harness of {self.release} has died; see its standard error")
        return line

    @property
    def _stdin(self) -> IO[bytes]:
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def _stdout(self) -> IO[bytes]:
        assert self._process.stdout is not None
        return self._process.stdout
