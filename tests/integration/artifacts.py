"""Jars of Kafka's integration tests, of release 3.9.1."""

from pathlib import Path
from zipfile import ZipFile

from tests.jars import ROOT

RELEASE = "3.9.1"
CACHE = ROOT / ".cache" / "integration"

_KAFKA = (
    *("connect-runtime", "connect-json", "connect-transforms", "connect-file", "kafka_2.13"),
    *("kafka-server",),
)
_TESTS = ("connect-runtime", "connect-api", "kafka-clients", "kafka_2.13", "kafka-server-common")
_TOOLS = (
    "org.junit.jupiter:junit-jupiter:5.10.2",
    "org.junit.platform:junit-platform-console-standalone:1.10.2",
    "org.mockito:mockito-core:5.11.0",
    "org.hamcrest:hamcrest:2.2",
    "junit:junit:4.13.2",
)
ARTIFACTS = (
    *(f"org.apache.kafka:{name}:{RELEASE}:test" for name in _TESTS),
    *(f"org.apache.kafka:{name}:{RELEASE}" for name in _KAFKA),
    *_TOOLS,
)
"""Kafka, its tests, and the tools that they use."""


def unpacked_tests(path: str) -> Path:
    """Folder of Connect's unpacked tests, which look for files beside their classes."""
    jars = (Path(entry) for entry in path.split(":"))
    jar = next(jar for jar in jars if "connect-runtime" in jar.name and "test" in jar.name)
    folder = CACHE / jar.stem
    if not folder.exists():
        unfinished = folder.with_suffix(".unfinished")
        with ZipFile(jar) as tests:
            tests.extractall(unfinished)
        unfinished.rename(folder)
    return folder
