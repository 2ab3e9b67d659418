"""Kafka's own integration tests, run by JUnit against workers that are processes.

A test starts its cluster by `EmbeddedConnectCluster`, in which only `WorkerHandle` touches a worker
of the JVM. Ours (`java/`) comes first on the class path, and starts any program instead. The broker
of the cluster runs in the JVM of the tests. Kafka publishes its tests as jars; none is changed.
"""

import sys
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from pathlib import Path
from zipfile import ZipFile

from tests.jars import ROOT, classpath, compiled
from tests.kafka.process import JavaProgram, ProgramNotReady

RELEASE = "3.9.1"

CACHE = ROOT / ".cache" / "integration"
HANDLE = Path(__file__).parent / "java"
PLUGINS = Path(__file__).parent / "catalogue.json"
"""The connectors and converters of Kafka's tests, as far as a config may name them."""

KAFKA_ARTIFACTS = (
    *("connect-runtime", "connect-json", "connect-transforms", "connect-file", "kafka_2.13"),
    *("kafka-server",),
)
TEST_ARTIFACTS = (
    *("connect-runtime", "connect-api", "kafka-clients", "kafka_2.13", "kafka-server-common"),
)
TOOLS = (
    "org.junit.jupiter:junit-jupiter:5.10.2",
    "org.junit.platform:junit-platform-console-standalone:1.10.2",
    "org.mockito:mockito-core:5.11.0",
    "org.hamcrest:hamcrest:2.2",
    "junit:junit:4.13.2",
)

JVM = ("-Xmx768m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

LAUNCHER = (
    *("org.junit.platform.console.ConsoleLauncher", "execute"),
    *("--disable-banner", "--disable-ansi-colors", "--details=tree"),
)


def served() -> Sequence[str]:
    """The program of a worker: `controlplane serve` on a new log, for release 3.9.1."""
    serve = Path(__file__).parent / "serve.py"
    return (sys.executable, str(serve), RELEASE, str(PLUGINS))


async def run(test_class: str, worker: Sequence[str], folder: Path) -> Mapping[str, str | None]:
    """Run a class of Kafka's integration tests; answer each test's name and why it failed.

    `worker` is the program that is started as each worker; the path of its properties and of an
    empty folder are added. Whatever is printed stays in `folder`.
    """
    path = classpath(
        *(f"org.apache.kafka:{name}:{RELEASE}:test" for name in TEST_ARTIFACTS),
        *(f"org.apache.kafka:{name}:{RELEASE}" for name in KAFKA_ARTIFACTS),
        *TOOLS,
    )
    handle = compiled(HANDLE, f"{_unpacked(path)}:{path}", CACHE)
    java = JavaProgram(
        "junit",
        folder,
        f"{handle}:{_unpacked(path)}:{path}",
        *LAUNCHER,
        *("--reports-dir", str(folder), "--select-class", test_class),
        jvm=(*JVM, f"-Dworker.folder={folder}", "-Dworker.program=" + "\n".join(worker)),
    )
    try:
        await java.run()
    except ProgramNotReady:  # JUnit ends with 1 where a test failed
        if not _report(folder).exists():
            raise
    return _outcomes(_report(folder))


def _unpacked(path: str) -> Path:
    """The tests of Connect as a folder: they look for files beside their classes."""
    jar = next(Path(one) for one in path.split(":") if "connect-runtime" in one and "test" in one)
    folder = CACHE / jar.stem
    if not folder.exists():
        unfinished = folder.with_suffix(".unfinished")
        with ZipFile(jar) as tests:
            tests.extractall(unfinished)
        unfinished.rename(folder)
    return folder


def _report(folder: Path) -> Path:
    return folder / "TEST-junit-jupiter.xml"


def _outcomes(report: Path) -> dict[str, str | None]:
    outcomes = {}
    for case in ET.parse(report).getroot().iter("testcase"):
        failures = [one for tag in ("failure", "error") for one in case.iter(tag)]
        why = failures[0].get("message") or failures[0].get("type") if failures else None
        outcomes[case.get("name", "").removesuffix("()")] = why
    return outcomes
