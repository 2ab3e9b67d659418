"""Shipped connectors: files, a directory, and generated orders."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import pytest

from controlplane.connect import ConnectError, Sink, SinkRecord
from controlplane.connect.source import Idle, SourceRun
from controlplane.connectors import file_access, file_stream, shipped
from controlplane.connectors.directory_source import DirectorySource
from controlplane.connectors.file_access import FileAccess
from controlplane.connectors.file_stream import FileStreamSource, lines_with_lengths
from controlplane.connectors.growing_file import GrowingFile
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
    """Shipped classes that may use this folder."""
    return ConnectorClasses(named=shipped([folder]))


def directory_config(folder: Path) -> dict[str, str]:
    """Config of a source of the lines in a directory."""
    name = "controlplane.connectors.DirectorySource"
    return {"connector.class": name, "directory": str(folder), "topic": "t"}


async def until_text(path: Path, text: str) -> None:
    """Wait until a file has this text."""
    await until(lambda: path.exists() and path.read_text() == text)


@pytest.mark.slow
async def test_a_file_arrives_in_another_file(tmp_path: Path) -> None:
    """The configs of Kafka's quickstart work unchanged; altered offsets repeat lines."""
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


@pytest.mark.parametrize(
    ("value", "line"),
    [
        (None, "null"),
        (True, "true"),
        (1e10, "1.0E10"),
        ({"a": 1}, "{a=1}"),
        ([1, None], "[1, null]"),
        (b"x", "b'x'"),
        ("x\ud800y\U0001f600\udc00", "x?y\U0001f600?"),
    ],
)
def test_values_are_written_as_java_prints_them(
    value: Any, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sink without a file prints each value; bytes, which have no text in Java, have Python's."""
    sink = shipped([])[f"{FILE}SinkConnector"]()
    assert isinstance(sink, Sink)
    record = SinkRecord(topic="t", kafka_partition=0, kafka_offset=0, value=value)
    sink.put(cast(Any, None), [record])
    assert capsys.readouterr().out == f"{line}\n"


def test_no_flush_succeeds_after_a_failed_write(tmp_path: Path) -> None:
    """The failed write loses lines of an earlier `put`, too: their offsets are not committed."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    sink = shipped([tmp_path])[f"{FILE}SinkConnector"]()
    assert isinstance(sink, Sink)
    task: Any = SlowCommitContext("s", 0, {"file": str(path)}, 0)
    sink.start(task)
    record = SinkRecord(topic="t", kafka_partition=0, kafka_offset=0, value="x" * 1_000)
    sink.put(task, [record])
    os.close(reader)
    with pytest.raises(BrokenPipeError):
        sink.put(task, [record] * 300)
    with pytest.raises(ConnectError, match="Lines were lost by a failed write"):
        sink.flush(task, {})
    sink.stop(task)


@pytest.mark.parametrize("kind", ["Source", "Sink"])
async def test_other_folders_are_not_touched(tmp_path: Path, kind: str) -> None:
    """A path that leaves the folders by a link fails the task; no file changes."""
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
        assert "only below the folders of connectors.folders" in trace
    assert (outside / "secret").read_text() == "secret\n"


def _state(worker: ConnectWorker) -> str:
    status = worker.plane.state.status.tasks.get("f", {}).get(0)
    return "" if status is None else status.state.value


async def test_a_directory_forgets_deleted_files(tmp_path: Path) -> None:
    """A deleted file gets a tombstone (KIP-910); a heartbeat is committed without records."""
    (tmp_path / "a").write_text("1\n2\n")
    (tmp_path / "b").write_text("3\n")
    async with running_classes(classes(tmp_path), runtime=QUICK) as worker:
        plane = worker.plane
        await plane.execute(CreateConnector("d", directory_config(tmp_path)))
        await until_values(plane.log, "t", [b"1", b"2", b"3"])
        await until(lambda: "{'file': 'a'}" in offsets(worker, "d"))
        await until(lambda: str({"directory": tmp_path.name}) in offsets(worker, "d"))
        (tmp_path / "a").unlink()
        await until(lambda: "{'file': 'a'}" not in offsets(worker, "d"))
        assert offsets(worker, "d")["{'file': 'b'}"] == {"line": 1}


async def test_generated_orders_continue(tmp_path: Path) -> None:
    """Two tasks generate their own orders; pause and resume neither lose nor repeat one."""
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


class SlowCommitContext(NamedTuple):
    """Task context without a new commit: each file keeps its committed line."""

    connector: str
    number: int
    config: dict[str, str]
    line: int
    transaction: None = None

    def offset(self, _: Any) -> dict[str, int]:
        """Line that was committed last."""
        return {"line": self.line}

    def offsets(self, partitions: Any) -> Any:
        """Offsets of several partitions."""
        return [(partition, self.offset(partition)) for partition in partitions]


def test_a_recreated_file_is_read_from_its_start(tmp_path: Path) -> None:
    """A recreated file is read from its start, even before its tombstone is committed."""
    file = tmp_path / "a"
    file.write_text("1\n2\n3\n")
    task = SourceRun(
        SlowCommitContext("d", 0, directory_config(tmp_path) | {"heartbeat.seconds": "9"}, 1)
    )
    source = shipped([tmp_path])["controlplane.connectors.DirectorySource"]()
    assert isinstance(source, DirectorySource)
    items = source.read(task)
    assert [next(items).value for _ in range(2)] == ["2", "3"]
    assert isinstance(next(items), Idle)
    file.unlink()
    tombstone = {"file": "a"}, None
    assert tombstone in (source.update_offsets(task, []) or ())
    assert tombstone not in (source.update_offsets(task, []) or ())
    assert isinstance(next(items), Idle)
    file.write_text("1\n2\n3\nnew\n")
    assert [next(items).value for _ in range(2)] == ["1", "2"]
    file.unlink()  # deleted while it is read: its offset is removed after its last line
    assert tombstone in (source.update_offsets(task, []) or ())
    assert [next(items).source_offset for _ in range(2)] == [{"line": 3}, {"line": 4}]
    assert isinstance(next(items), Idle)
    assert tombstone in (source.update_offsets(task, []) or ())


def test_appended_lines_are_read_next(tmp_path: Path) -> None:
    """Appended lines are read next; a file with other contents is read from its start."""
    path, access = tmp_path / "a", FileAccess.to([tmp_path])
    path.write_text("1\n2\n3")
    file = GrowingFile(1)

    def look() -> list[str]:
        return [*file.new_lines(access, path)]

    assert look() == ["2"]
    assert look() == []
    with path.open("a") as appended:
        appended.write("+\n4\n")
    assert look() == ["3+", "4"]
    (tmp_path / "b").write_text("1\n2\n3+\n4\n5\n")
    (tmp_path / "b").rename(path)
    assert look() == ["5"]
    path.write_text("x\n")
    assert look() == ["x"]
    path.unlink()
    assert look() == []
    path.write_text("y\nz\n")
    assert look() == ["y", "z"]
    assert file.lines == 2
    assert [*GrowingFile(9).new_lines(access, path)] == ["y", "z"]


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """A missing file, also below a former directory, has no lines; other failures are named."""
    access = FileAccess.to([tmp_path])
    (tmp_path / "a").write_text("1\n")
    folder = tmp_path / "folder"
    folder.mkdir()
    assert [*GrowingFile(0).new_lines(access, tmp_path / "a" / "gone")] == []
    stream = shipped([tmp_path])[f"{FILE}SourceConnector"]()
    assert isinstance(stream, FileStreamSource)
    for lines in (GrowingFile(0).new_lines(access, folder), stream._lines(folder, 0, 1)):
        with pytest.raises(
            ConnectError, match=rf"The file {folder} cannot be read: Is a directory"
        ):
            next(lines)


def test_a_line_without_end_fails_the_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines before it are read. A line of the greatest length is read, too."""
    monkeypatch.setattr(file_access, "LONGEST_LINE_BYTES", 100_000)
    path, access = tmp_path / "lines", FileAccess.to([tmp_path])
    longest = "x" * 99_999
    path.write_text(f"one\n{longest}\n{'y' * 200_000}")
    stream = cast(FileStreamSource, shipped([tmp_path])[f"{FILE}SourceConnector"]())
    sentence = f"The file {path} has a line of more than 100000 bytes"
    for read in (
        (text for text, _ in stream._lines(path, 0, 9)),
        GrowingFile(0).new_lines(access, path),
    ):
        assert [next(read), next(read)] == ["one", longest]
        with pytest.raises(ConnectError, match=sentence):
            next(read)


def test_an_unchanged_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long text without an end is not read again at each look, only after a change."""
    looks: list[IO[bytes]] = []

    def noted(file: IO[bytes]) -> Iterator[tuple[bytes, int]]:
        looks.append(file)
        return lines_with_lengths(file)

    monkeypatch.setattr(file_stream, "lines_with_lengths", noted)
    path = tmp_path / "lines"
    path.write_text("one\ntwo\nthr")
    stream = cast(FileStreamSource, shipped([tmp_path])[f"{FILE}SourceConnector"]())
    assert [*stream._lines(path, 0, 1)] == [("one", 4)]
    assert [*stream._lines(path, 4, 9)] == [("two", 8)]
    for _ in range(2):
        assert [*stream._lines(path, 8, 9)] == []
    assert len(looks) == 2
    with path.open("a") as file:
        file.write("ee\n")
    assert [*stream._lines(path, 8, 9)] == [("three", 14)]
    assert len(looks) == 3


class Swapped(FileAccess):
    """Replaces a path by a link between the check and the opening."""

    link: Path
    target: Path

    def path(self, text: str) -> Path:
        """Check the path, then replace it by a link."""
        checked = super().path(text)
        if not self.link.is_symlink():
            self.link.rename(self.link.with_name("moved"))
            self.link.symlink_to(self.target)
        return checked


@pytest.mark.parametrize("mode", ["rb", "a"])
@pytest.mark.parametrize("linked", ["inside/file", "inside"])
def test_a_link_made_after_the_check_is_not_followed(
    tmp_path: Path, mode: str, linked: str
) -> None:
    """Links to the file or to a folder above it are not followed; no file is created elsewhere."""
    for name in ("folders/inside", "outside"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "file").write_text("text\n")
    access = Swapped((tmp_path / "folders",))
    access.link = tmp_path / "folders" / linked
    access.target = tmp_path / "outside" / ("new" if linked.endswith("file") else "")
    with pytest.raises(OSError, match=r"symbolic|directory"):
        access.open(tmp_path / "folders" / "inside" / "file", mode)
    with pytest.raises(ConnectError, match=r"folders of connectors\.folders"):
        access.open(tmp_path / "folders" / "inside" / "file", mode)
    assert [path.name for path in (tmp_path / "outside").iterdir()] == ["file"]


@pytest.mark.parametrize("made", ["file", "parent"])
async def test_a_link_made_while_the_source_waits_fails_the_task(tmp_path: Path, made: str) -> None:
    """A link to another folder, made while the source waits for its file, fails the task."""
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "file").write_text("secret\n")
    config = {
        "connector.class": f"{FILE}SourceConnector",
        "file": str(inside / "link" / "file" if made == "parent" else inside / "link"),
        "topic": "t",
    }
    async with running_classes(classes(inside), runtime=QUICK) as worker:
        await worker.plane.execute(CreateConnector("f", config))
        await until_state(worker, "f", "RUNNING", "RUNNING")
        (inside / "link").symlink_to(outside if made == "parent" else outside / "file")
        await until(lambda: _state(worker) == "FAILED")
        assert "below the folders of" in (worker.plane.state.status.tasks["f"][0].trace or "")
        assert "t" not in await worker.plane.log.topics()
