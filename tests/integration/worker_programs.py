"""Programs that run as the workers of Kafka's integration tests."""

import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.integration.artifacts import ARTIFACTS, RELEASE
from tests.jars import java
from tests.kafka.class_archives import extended
from tests.kafka.class_recorder import record_classes
from tests.kafka.real_kafka import QUIET, quick_jvm, runtime, worker_runtime

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
    archived = worker_runtime(RELEASE, in_image=False)
    assert isinstance(path, str)
    assert isinstance(archived, str)
    await record_classes(RELEASE)
    jvm = quick_jvm("worker", archived)
    words = (str(java()), *jvm, "-cp", extended(archived, path), QUIET, MAIN)
    return WorkerProgram(words, is_shared=False)


JAVA, OWN = "java", "own"
PROGRAMS: Mapping[str, Callable[[], Awaitable[WorkerProgram]]] = {
    JAVA: java_worker,
    OWN: own_service,
}
"""Programs by the name of their kind."""
