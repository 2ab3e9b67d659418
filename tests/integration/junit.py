"""Kafka's own integration tests, run by JUnit against workers that are processes.

A test starts its cluster by `EmbeddedConnectCluster`, in which only `WorkerHandle` uses a worker of
the JVM. Our class of that name (`java/`) comes first on the class path, and starts any program
instead. The broker of the cluster runs in the JVM of the tests. Kafka publishes its tests as jars;
this project changes none.
"""

import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.integration.artifacts import ARTIFACTS, CACHE, unpacked_tests
from tests.integration.selection import TEST_CLASSES
from tests.integration.worker_programs import WorkerProgram
from tests.jars import classpath, compiled
from tests.kafka.process import JavaProgram, ProgramNotReady

PACKAGE = "org.apache.kafka.connect.integration"
HANDLE = Path(__file__).parent / "java"

JVM = ("-Xmx768m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

LAUNCHER = (
    *("org.junit.platform.console.ConsoleLauncher", "execute"),
    *("--disable-banner", "--disable-ansi-colors", "--details=tree"),
)

Failures = Mapping[str, str | None]
"""Reason why each test of a class failed; None: it passed."""


async def run_tests(test_class: str, worker: WorkerProgram, folder: Path) -> Failures:
    """Run a class of Kafka's integration tests; all output stays in `folder`.

    Raises:
        JarsUnavailable: there is no Java or Maven, or Maven could not resolve a jar.
        ProgramNotReady: JUnit could not run the class.
    """
    path = classpath(*ARTIFACTS)
    tests = unpacked_tests(path)
    handle = compiled(HANDLE, f"{tests}:{path}", CACHE)
    java = JavaProgram(
        "junit",
        folder,
        f"{handle}:{tests}:{path}",
        *LAUNCHER,
        *("--reports-dir", str(folder)),
        *_selected(test_class),
        jvm=(
            *JVM,
            f"-Dworker.folder={folder}",
            f"-Dworker.shared={str(worker.is_shared).lower()}",
            "-Dworker.program=" + "\n".join(worker.command),
        ),
    )
    try:
        await java.run()
    except ProgramNotReady:  # JUnit ends with 1 where a test failed
        if not _report(folder).exists():
            raise
    finally:
        await java.end()
    return _failures(_report(folder))


def _selected(test_class: str) -> Iterator[str]:
    """Options that select the tests of a class."""
    name = f"{PACKAGE}.{test_class}"
    methods = TEST_CLASSES[test_class]
    if not methods:
        yield f"--select-class={name}"
    for method in methods:
        yield f"--select-method={name}#{method}()"


def _report(folder: Path) -> Path:
    return folder / "TEST-junit-jupiter.xml"


def _failures(report: Path) -> Failures:
    failures = {}
    for case in ET.parse(report).getroot().iter("testcase"):
        reports = [entry for tag in ("failure", "error", "skipped") for entry in case.iter(tag)]
        failures[case.get("name", "").removesuffix("()")] = _reason(reports[0]) if reports else None
    return failures


def _reason(report: ET.Element) -> str:
    return report.get("message") or report.get("type") or report.tag
