"""Kafka for tests: jars by Maven, or else containers."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import jars
from tests.jars import JarsUnavailable
from tests.kafka.containers import KafkaImage, engine_answers, run_command, signal_command
from tests.kafka.real_kafka import runtime, worker_runtime

pytestmark = [pytest.mark.java, pytest.mark.broker]

NOWHERE = "org.apache.kafka:connect-json:0.0.9"
"""Artifact that does not exist, so no class path of it is cached."""


def engine(folder: Path, code: int) -> None:
    """Put a `docker` into a folder that answers every command with an exit code."""
    program = folder / "docker"
    program.write_text(f"#!/bin/sh\nexit {code}\n")
    program.chmod(0o755)


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Folder with all programs that tests find: no Java, Maven or Docker is among them."""
    folder = tmp_path / "tools"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    jars.java.cache_clear()
    yield folder
    jars.java.cache_clear()


def test_java_runs_in_kafkas_image(tmp_path: Path) -> None:
    """Java in Kafka's image, with this machine's network and files, as the same user."""
    arguments = ["-Xmx384m", "-cp", "/opt/kafka/libs/*", "kafka.Kafka", "server.properties"]
    files = tempfile.gettempdir()
    assert run_command(KafkaImage("4.3.0"), "broker", tmp_path, arguments, "1000:1000") == [
        *("docker", "run", "--rm", "--name", "broker", "--network", "host"),
        *("--user", "1000:1000", "--volume", f"{files}:{files}", "--workdir", str(tmp_path)),
        *("--entrypoint", "java", "apache/kafka:4.3.0", *arguments),
    ]
    assert signal_command("broker", "SIGKILL") == [
        "docker",
        "kill",
        "--signal",
        "SIGKILL",
        "broker",
    ]


@pytest.mark.parametrize(("code", "answers"), [(0, True), (1, False), (None, False)])
def test_only_an_engine_that_answers_counts(tools: Path, code: int | None, answers: bool) -> None:
    """Containers count only where `docker info` succeeds: a client alone runs nothing."""
    if code is not None:
        engine(tools, code)
    assert engine_answers() is answers


def test_the_image_replaces_a_missing_java(tools: Path) -> None:
    """Without Java: the image if an engine answers and has the artifacts, else the reason."""
    with pytest.raises(JarsUnavailable, match="Java is missing"):
        runtime("4.3.0", NOWHERE)
    engine(tools, 0)
    assert runtime("4.3.0", NOWHERE) == KafkaImage("4.3.0")
    with pytest.raises(JarsUnavailable, match="Java is missing"):
        runtime("4.3.0", NOWHERE, in_image=False)


def test_jars_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With Maven's jars no container engine is used."""
    engine(tmp_path, 0)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    path = worker_runtime("4.3.0")
    assert isinstance(path, str)
    assert "connect-json-4.3.0.jar" in path
