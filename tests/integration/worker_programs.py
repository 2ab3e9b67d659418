"""Programs that run as the workers of Kafka's integration tests."""

import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tests.integration.artifacts import ARTIFACTS, RELEASE
from tests.jars import java
from tests.kafka.class_archives import ClassArchive, recorder
from tests.kafka.process import SMALL_JVM
from tests.kafka.real_kafka import QUIET, Broker, KafkaWorker, runtime
from tests.patience import PATIENCE_S

PLUGINS = Path(__file__).parent / "catalogue.json"
"""Catalogue of the connectors and converters of Kafka's tests that a config can name."""

MAIN = "org.apache.kafka.connect.cli.ConnectDistributed"


class WorkerProgram(NamedTuple):
    """Program, and its number of processes in a cluster."""

    command: tuple[str, ...]
    """Words of its command line; the file of properties and an empty folder are added."""
    is_shared: bool
    """True if one process is every worker of a cluster."""


async def own_service() -> WorkerProgram:
    """`controlplane serve --own`, which never shares its topics with another process."""
    serve = Path(__file__).parent / "serve.py"
    return WorkerProgram((sys.executable, str(serve), RELEASE, str(PLUGINS)), is_shared=True)


async def java_worker() -> WorkerProgram:
    """Kafka's worker, one process per worker of a cluster.

    Raises:
        JarsUnavailable: there is no Java or Maven, or Maven could not resolve a jar.
    """
    path = runtime(RELEASE, *ARTIFACTS, in_image=False)
    assert isinstance(path, str)
    archive = ClassArchive("integration-worker", path)
    await _record_classes(archive)
    jvm = (*SMALL_JVM, *archive.reading)
    return WorkerProgram((str(java()), *jvm, "-cp", path, QUIET, MAIN), is_shared=False)


async def _record_classes(archive: ClassArchive) -> None:
    """Make the archive of the worker's classes, unless it exists or is being made."""
    if archive.exists:
        return
    with recorder("integration-worker") as is_ours, TemporaryDirectory() as folder:
        if not is_ours or archive.exists:
            return
        async with (
            Broker(RELEASE, Path(folder)) as broker,
            KafkaWorker(
                RELEASE,
                broker,
                parts=(),
                extra_artifacts=ARTIFACTS,
                jvm=(*SMALL_JVM, *archive.recording),
                plugin__discovery="hybrid_warn",
            ) as worker,
        ):
            await worker.stop(PATIENCE_S)
            archive.keep()


JAVA, OWN = "java", "own"
PROGRAMS: Mapping[str, Callable[[], Awaitable[WorkerProgram]]] = {
    JAVA: java_worker,
    OWN: own_service,
}
"""Programs by the name of their kind."""
