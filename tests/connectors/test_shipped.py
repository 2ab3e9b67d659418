"""Connectors that ship: files, a directory, invented orders."""

from pathlib import Path

import pytest

from controlplane.connectors import shipped
from controlplane.core.commands import (
    AlterOffsets,
    CreateConnector,
    OffsetChange,
    PauseConnector,
    ResumeConnector,
    StopConnector,
)
from controlplane.worker.connector_classes import ConnectorClasses
from controlplane.worker.worker import ConnectWorker
from tests.worker.worker_fixture import (
    QUICK,
    offsets,
    running_classes,
    until,
    until_state,
    until_values,
)

FILE = "org.apache.kafka.connect.file.FileStream"


def classes(folder: Path) -> ConnectorClasses:
    """Shipped classes that may touch this folder."""
    return ConnectorClasses(named=shipped([folder]))


async def until_text(path: Path, text: str) -> None:
    """Wait until a file has this text."""
    await until(lambda: path.exists() and path.read_text() == text)


async def test_a_file_arrives_in_another_file(tmp_path: Path) -> None:
    """Everybody's first two configs work unchanged; altered offsets repeat lines."""
    source, sink = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("one\ntwo\nthr")
    async with running_classes(classes(tmp_path), runtime=QUICK) as worker:
        plane = worker.plane
        await plane.execute(
            CreateConnector(
                "in",
                {
                    "connector.class": f"{FILE}SourceConnector",
                    "file": str(source),
                    "topic": "lines",
                },
            )
        )
        await plane.execute(
            CreateConnector(
                "out",
                {
                    "connector.class": f"{FILE}SinkConnector",
                    "file": str(sink),
                    "topics": "lines",
                },
            )
        )
        await until_text(sink, "one\ntwo\n")
        with source.open("a") as file:
            file.write("ee\n")
        await until_text(sink, "one\ntwo\nthree\n")
        task = plane.state.config.tasks["in"][0]
        assert task["task.class"] == f"{FILE}SourceTask"
        committed = {str({"filename": str(source)}): {"position": 14}}
        await until(lambda: offsets(worker, "in") == committed)
        await plane.execute(StopConnector("in"))
        await until_state(worker, "in", "STOPPED")
        change = OffsetChange({"filename": str(source)}, {"position": 8})
        await plane.execute(AlterOffsets("in", (change,)))
        await plane.execute(ResumeConnector("in"))
        await until_text(sink, "one\ntwo\nthree\nthree\n")


@pytest.mark.parametrize("kind", ["Source", "Sink"])
async def test_other_folders_are_not_touched(tmp_path: Path, kind: str) -> None:
    """A path outside of the folders, also by a link, fails the task and touches nothing."""
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "secret").write_text("secret\n")
    (inside / "link").symlink_to(outside)
    async with running_classes(classes(inside), runtime=QUICK) as worker:
        await worker.plane.execute(
            CreateConnector(
                "f",
                {
                    "connector.class": f"{FILE}{kind}Connector",
                    "file": str(inside / "link" / "secret"),
                    "topic": "t",
                    "topics": "t",
                },
            )
        )
        await until(lambda: _state(worker) == "FAILED")
        trace = worker.plane.state.status.tasks["f"][0].trace or ""
        assert "connectors.folders names the folders" in trace
    assert (outside / "secret").read_text() == "secret\n"


def _state(worker: ConnectWorker) -> str:
    status = worker.plane.state.status.tasks.get("f", {}).get(0)
    return "" if status is None else status.state.value


async def test_a_directory_forgets_deleted_files(tmp_path: Path) -> None:
    """KIP-910: a deleted file gets a tombstone; a heartbeat is committed without records."""
    (tmp_path / "a").write_text("1\n2\n")
    (tmp_path / "b").write_text("3\n")
    async with running_classes(classes(tmp_path), runtime=QUICK) as worker:
        plane = worker.plane
        await plane.execute(
            CreateConnector(
                "d",
                {
                    "connector.class": "controlplane.connectors.DirectorySource",
                    "directory": str(tmp_path),
                    "topic": "t",
                },
            )
        )
        await until_values(plane.log, "t", [b"1", b"2", b"3"])
        await until(lambda: "{'file': 'a'}" in offsets(worker, "d"))
        await until(lambda: str({"directory": tmp_path.name}) in offsets(worker, "d"))
        (tmp_path / "a").unlink()
        await until(lambda: "{'file': 'a'}" not in offsets(worker, "d"))
        assert offsets(worker, "d")["{'file': 'b'}"] == {"line": 1}


async def test_generated_orders_continue(tmp_path: Path) -> None:
    """Two tasks generate orders of their own; a pause and a resume lose and repeat none."""
    async with running_classes(classes(tmp_path), runtime=QUICK) as worker:
        plane = worker.plane
        await plane.execute(
            CreateConnector(
                "g",
                {
                    "connector.class": "GeneratorSource",
                    "topic": "orders",
                    "rate": "500",
                    "count": "20",
                    "tasks.max": "2",
                    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
                    "value.converter.schemas.enable": "false",
                },
            )
        )
        await until_state(worker, "g", "RUNNING", "RUNNING", "RUNNING")
        await plane.execute(PauseConnector("g"))
        await until_state(worker, "g", "PAUSED", "PAUSED", "PAUSED")
        await plane.execute(ResumeConnector("g"))
        done = {"{'task': 0}": {"order": 20}, "{'task': 1}": {"order": 20}}
        await until(lambda: offsets(worker, "g") == done)
        assert (await plane.log.ends(["orders"]))["orders"] == [40]
