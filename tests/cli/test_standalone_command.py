"""`controlplane standalone` as a process of its own."""

import asyncio
import json
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from controlplane.cli.standalone.standalone_worker import settings_in_memory
from controlplane.plane_settings import plane_settings
from controlplane.projection.retention import DAY_MS, FOREVER
from controlplane.settings import Configuration
from controlplane.settings.sources import flag_values
from controlplane.worker.standalone.offset_file_format import decode_offsets, encode_offsets
from tests.cli.command_calls import CommandResult, call, refusal
from tests.cli.standalone_process import (
    LINES,
    OUT,
    WORKER,
    ended_worker,
    running_worker,
    until_last_line,
    until_lines,
    until_position,
    until_task_state,
    write_json,
    write_properties,
)
from tests.outages import until
from tests.ports import free_ports

RECORDS_LOG = "sqlite:///connect.offsets.records.db"
KEY = b'["lines",{"filename":"in.txt"}]'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of the worker's files, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.txt").write_text("one\ntwo\n")
    return tmp_path


def standalone(*files: object, settings: Mapping[str, str] | None = None) -> CommandResult:
    """Start a worker that must refuse."""
    properties = write_properties(Path("worker.properties"), {**WORKER, **(settings or {})})
    return call("standalone", "--port", 0, properties, *files)


def declined(result: CommandResult) -> str:
    """Error sentence of a worker that cannot create a connector."""
    (line,) = (line for line in result.err.splitlines() if line.startswith("Error: "))
    assert result.code == 3, result
    return line.removeprefix("Error: ")


class TestRunning:
    """Worker with connectors from files."""

    async def test_connectors_of_files_run(self, folder: Path) -> None:
        """The connectors are created in file order; lines go through the topic to the sink."""
        source = write_properties(folder / "lines.properties", LINES)
        sink = write_json(folder / "out.json", {"name": "out", "config": OUT})
        async with running_worker(folder, source, sink) as worker:
            assert worker.lines[:3] == [
                "Created connector lines",
                "Created connector out",
                f"Source offsets are in connect.offsets, topics in {RECORDS_LOG}",
            ]
            await until_lines(folder / "out.txt", "one", "two")
            code, stderr = await worker.end()
        assert code == 0, stderr
        assert decode_offsets((folder / "connect.offsets").read_bytes()) == {KEY: b'{"position":8}'}

    async def test_running_connectors_have_metrics(self, folder: Path) -> None:
        """`/metrics` has the metrics of running connectors."""
        source = write_json(folder / "lines.json", LINES)
        async with (
            running_worker(folder, source) as worker,
            httpx.AsyncClient(base_url=worker.url) as client,
        ):
            await until_position(client, "lines", 8)
            metrics = (await client.get("/metrics")).text
        name = "kafka_connect_source_task_source_record_write_total"
        assert f'{name}{{connector="lines",task="0"}} 2.0' in metrics.splitlines()

    async def test_a_restarted_worker_continues(self, folder: Path) -> None:
        """Offsets, topics and groups outlive the process; files give the connectors again."""
        files = [
            write_json(folder / "lines.json", LINES),
            write_json(folder / "out.json", OUT),
        ]
        async with running_worker(folder, *files) as worker:
            await until_lines(folder / "out.txt", "one", "two")
            assert (await worker.end(signal.SIGTERM))[0] == 0
        with (folder / "in.txt").open("a") as lines:
            lines.write("three\n")
        async with running_worker(folder, *files) as worker:
            await until_lines(folder / "out.txt", "one", "two", "three")
            assert (await worker.end())[0] == 0
        async with (
            running_worker(folder) as worker,
            httpx.AsyncClient(base_url=worker.url) as client,
        ):
            assert (await client.get("/connectors")).json() == []

    async def test_a_connector_has_its_initial_state_and_offsets(self, folder: Path) -> None:
        """A stopped connector has its offsets in the file; resumed, it begins after them."""
        request = {
            "name": "lines",
            "config": LINES,
            "initial_state": "STOPPED",
            "initial_offsets": [
                {"partition": {"filename": "in.txt"}, "offset": {"position": 4}},
            ],
            "comment": "an unknown field is ignored",
        }
        other = b'["other",{"filename":"in.txt"}]'
        (folder / "connect.offsets").write_bytes(encode_offsets({KEY: b"{}", other: b"{}"}))
        files = write_json(folder / "lines.json", request), write_json(folder / "out.json", OUT)
        async with (
            running_worker(folder, *files) as worker,
            httpx.AsyncClient(base_url=worker.url) as client,
        ):
            assert worker.lines[0] == (
                "Created connector lines. The offsets for this connector have been set successfully"
            )
            status = (await client.get("/connectors/lines/status")).json()
            assert (status["connector"]["state"], status["tasks"]) == ("STOPPED", [])
            assert decode_offsets((folder / "connect.offsets").read_bytes()) == {
                KEY: b'{"position":4}',
                other: b"{}",
            }
            assert (await client.put("/connectors/lines/resume")).status_code == 202
            await until_lines(folder / "out.txt", "two")

    async def test_a_sink_begins_at_its_initial_offsets(self, folder: Path) -> None:
        """The sink begins after the first record."""
        place = {"kafka_topic": "lines", "kafka_partition": 0}
        offsets = [{"partition": place, "offset": {"kafka_offset": 1}}]
        request = {"name": "out", "config": OUT, "initial_offsets": offsets}
        sink = write_json(folder / "out.json", request)
        source = write_json(folder / "lines.json", LINES)
        async with running_worker(folder, sink, source):
            await until_lines(folder / "out.txt", "two")

    async def test_a_killed_worker_loses_no_line(self, folder: Path) -> None:
        """The offsets file is whole after each kill; some lines are doubled, in order."""
        lines = [str(number) for number in range(20_000)]
        (folder / "in.txt").write_text("\n".join(lines) + "\n")
        files = (
            write_json(folder / "lines.json", {**LINES, "batch.size": "50"}),
            write_json(folder / "out.json", OUT),
        )
        offsets = folder / "connect.offsets"
        for _ in range(3):
            async with running_worker(folder, *files) as worker:
                await until(offsets.exists)
                await worker.end(signal.SIGKILL)
            assert decode_offsets(offsets.read_bytes()).keys() == {KEY}
        async with running_worker(folder, *files):
            await until_last_line(folder / "out.txt", lines[-1])
        written = (folder / "out.txt").read_text().splitlines()
        assert [*dict.fromkeys(written)] == lines

    async def test_offsets_are_altered_and_reset_in_the_file(self, folder: Path) -> None:
        """The file has altered and reset offsets once the command is answered."""
        source = write_json(folder / "lines.json", LINES)
        async with (
            running_worker(folder, source) as worker,
            httpx.AsyncClient(base_url=worker.url) as client,
        ):
            await until_position(client, "lines", 8)
            assert (await client.put("/connectors/lines/stop")).status_code == 204
            offsets = [{"partition": {"filename": "in.txt"}, "offset": {"position": 4}}]
            changed = await client.patch("/connectors/lines/offsets", json={"offsets": offsets})
            assert changed.status_code == 200, changed.text
            file = folder / "connect.offsets"
            assert decode_offsets(file.read_bytes()) == {KEY: b'{"position":4}'}
            assert (await client.delete("/connectors/lines/offsets")).is_success
            assert decode_offsets(file.read_bytes()) == {}

    async def test_a_creation_is_answered_with_its_tasks(self, folder: Path) -> None:
        """The answer comes once the tasks exist; a deletion leaves no status."""
        async with (
            running_worker(folder) as worker,
            httpx.AsyncClient(base_url=worker.url) as client,
        ):
            body = {"name": "lines", "config": LINES}
            created = await client.post("/connectors", json=body)
            assert (created.status_code, created.json()["tasks"]) == (
                201,
                [{"connector": "lines", "task": 0}],
            )
            changed = await client.put("/connectors/lines/config", json=LINES)
            assert (changed.status_code, len(changed.json()["tasks"])) == (200, 1)
            assert (await client.delete("/connectors/lines")).status_code == 204
            assert (await client.get("/connectors/lines/status")).status_code == 404
            assert (await client.post("/connectors", json=body)).status_code == 201

    async def test_a_failed_start_is_answered(self, folder: Path) -> None:
        """The answer has Kafka's message; the connector exists nevertheless."""
        (folder / "bad.py").write_text(BAD)
        async with (
            running_worker(folder, settings={"plugin.path": "."}) as worker,
            httpx.AsyncClient(base_url=worker.url) as client,
        ):
            body = {"name": "bad", "config": {"connector.class": "bad.Bad"}}
            answer = await client.post("/connectors", json=body)
            assert answer.status_code == 500
            message = answer.json()["message"]
            assert message.startswith("Failed to transition connector bad to state STARTED")
            assert (await client.get("/connectors")).json() == ["bad"]


BAD = """
from controlplane.connect import SourceConnector, SourceTask

class Task(SourceTask):
    def poll(self): return None

class Bad(SourceConnector):
    task = Task
    def start(self, config): raise RuntimeError("no such host")
    def task_configs(self, limit): return [{}]
"""


class TestConnectorFiles:
    """A file that declares no connector ends the worker, with exit code 3 as in Kafka."""

    @pytest.mark.parametrize(
        ("name", "content", "says"),
        [
            ("a.json", "{", "a.json is no JSON object: Input data was truncated"),
            ("a.json", "", "is missing the mandatory 'name' configuration"),
            ("a.json", '{"connector.class": "X"}', "is missing the mandatory 'name' configuration"),
            ("a.json", '{"name": "a", "topics": ["b"]}', "a.json: Cannot deserialize"),
            ("a.properties", "topic=x\n", "is missing the mandatory 'name' configuration"),
            ("a.properties", "name=a\\u12\n", "a.properties:1: "),
            (
                "a.json",
                '{"name": "a", "config": {"name": "b"}}',
                "a.json: Connector name configuration (b) doesn't match",
            ),
            (
                "a.json",
                '{"name": "a", "config": {}, "initial_state": "RESTING"}',
                "a.json: Cannot",
            ),
            (
                "a.json",
                '{"name": "a", "config": {}, "initial_offsets": []}',
                "Partitions / offsets need to be provided",
            ),
        ],
    )
    def test_a_file_without_a_connector_ends_the_worker(
        self, name: str, content: str, says: str
    ) -> None:
        """The message names the file; no connector was started."""
        Path(name).write_text(content)
        assert says in declined(standalone(name))
        assert not Path("connect.offsets.records.db").exists()

    def test_a_binary_file_is_refused_with_its_first_bad_byte(self) -> None:
        """The error names the first byte that no text has."""
        Path("a.bin").write_bytes(b"\x89PNG\r\n\x1a\n\0")
        assert declined(standalone("a.bin")) == (
            "a.bin is no text (byte 6 is 0x1a): name the file of a connector, which has JSON or "
            "lines key=value"
        )

    def test_a_long_value_is_shortened_in_the_refusal(self) -> None:
        """A refusal repeats only the beginning of a long value."""
        config = {**LINES, "tasks.max": "9" * 5_000}
        result = standalone(write_json(Path("a.json"), config))
        assert declined(result).startswith("Failed to create connector for a.json: ")
        refused = result.err.partition("Error: ")[2]
        assert "999…" in refused
        assert len(max(refused.splitlines(), key=len)) <= 1_000

    def test_a_missing_file_is_named(self) -> None:
        """The error begins with the name of the file."""
        assert declined(standalone("nowhere.json")).startswith("nowhere.json cannot be read")

    def test_a_file_that_is_too_large_is_not_read(self) -> None:
        """The worker does not read an oversized file to its end."""
        Path("a.json").write_bytes(b" " * (1 << 20) + b"{}")
        assert "more than 1 MiB" in declined(standalone("a.json"))

    def test_one_name_in_two_files_is_refused(self) -> None:
        """The error for a connector in two files names both files."""
        first = write_json(Path("a.json"), LINES)
        second = write_json(Path("b.json"), LINES)
        assert declined(standalone(first, second)) == (
            "b.json: Connector lines already exists: it is in a.json, too"
        )

    @pytest.mark.parametrize(
        ("config", "says"),
        [
            ({"connector.class": "org.example.Nobody"}, "Failed to find any class that implements"),
            ({"connector.class": "FileStreamSource"}, "Connector configuration is invalid"),
        ],
        ids=["class", "config"],
    )
    def test_a_refused_connector_ends_the_worker(
        self, folder: Path, config: dict[str, Any], says: str
    ) -> None:
        """The worker ends with Kafka's message and exit code 3."""
        file = write_json(Path("a.json"), {"name": "a", "config": config})
        message = declined(ended_worker(folder, file))
        assert message.startswith("Failed to create connector for a.json: ")
        assert says in message

    async def test_a_failed_task_does_not_end_the_worker(self, folder: Path) -> None:
        """The status is FAILED and the worker runs on, as in Kafka."""
        file = write_json(folder / "a.json", {**LINES, "file": "/etc/passwd"})
        async with (
            running_worker(folder, file) as worker,
            httpx.AsyncClient(base_url=worker.url) as client,
        ):
            assert worker.lines[0] == "Created connector lines"
            await until_task_state(client, "lines", "FAILED")

    def test_a_connector_that_fails_to_start_ends_the_worker(self, folder: Path) -> None:
        """The worker ends, as Kafka's does, with the author's message."""
        Path("bad.py").write_text(BAD)
        file = write_json(Path("a.json"), {"name": "a", "connector.class": "bad.Bad"})
        message = declined(ended_worker(folder, file, settings={"plugin.path": "."}))
        assert "Failed to transition connector a to state STARTED" in message
        assert "no such host" in message

    def test_initial_offsets_are_checked(self, folder: Path) -> None:
        """The message has the connector's reason (KIP-995); no part of the connector is left."""
        offsets = [{"partition": {"filename": "in.txt"}, "offset": {"position": "x"}}]
        request = {"name": "lines", "config": LINES, "initial_offsets": offsets}
        message = declined(ended_worker(folder, write_json(Path("a.json"), request)))
        assert "The value for the 'position' key in the offset is expected to be a Long" in message
        assert not Path("connect.offsets").exists()

    async def test_a_release_ignores_newer_fields(self, folder: Path) -> None:
        """The worker ignores newer fields with a warning; that release's own script does, too."""
        request = {"name": "lines", "config": LINES, "initial_offsets": ["nonsense"]}
        file = write_json(folder / "a.json", request)
        async with running_worker(folder, file, options=("--release", "3.9.1")) as worker:
            assert worker.lines[0] == "Created connector lines"
            _, stderr = await worker.end()
        assert "Warning: a.json: 3.9.1 ignores the field initial_offsets" in stderr


class TestWorkerFile:
    """A worker that cannot start refuses with exit code 2, and changes nothing."""

    def test_an_unreadable_offsets_file_is_never_overwritten(self) -> None:
        """The worker refuses to start, and keeps the file."""
        Path("connect.offsets").write_bytes(b"no offsets")
        assert refusal(standalone()) == (
            "connect.offsets is no offsets file of a standalone worker: expected a "
            "java.util.HashMap at byte 0. It is left as it is: restore it from a backup, or name "
            "another file with offset.storage.file.filename"
        )
        assert Path("connect.offsets").read_bytes() == b"no offsets"

    def test_the_offsets_file_must_be_named(self) -> None:
        """Without an offsets file the error has Kafka's words."""
        settings = {key: value for key, value in WORKER.items() if "offset.storage" not in key}
        result = call("standalone", write_properties(Path("w.properties"), settings))
        assert refusal(result).startswith(
            'Missing required configuration "offset.storage.file.filename" which has no default'
        )

    def test_brokers_that_do_not_answer_are_named(self) -> None:
        """One sentence names the brokers; nothing was created."""
        (port,) = free_ports(1)
        nowhere = f"127.0.0.1:{port}"
        settings = {"bootstrap.servers": nowhere, "reader.admin.patience.ms": "200"}
        result = standalone(settings=settings)
        assert refusal(result).startswith(f"no broker listens at {nowhere}")
        assert {path.name for path in Path().iterdir()} == {"worker.properties", "in.txt"}

    def test_brokers_without_a_port_are_refused(self) -> None:
        """An invalid address is refused before any connection."""
        sentence = refusal(standalone(settings={"bootstrap.servers": "broker:port"}))
        assert sentence == "'broker:port' is no address of a broker: give host:port"

    async def test_a_records_log_replaces_brokers(self, folder: Path) -> None:
        """With `records.log`, the worker connects to no broker."""
        settings = {"bootstrap.servers": "localhost:9092", "records.log": "sqlite:///topics.db"}
        async with running_worker(folder, settings=settings) as worker:
            assert worker.lines[0].endswith("topics in sqlite:///topics.db")
        assert (folder / "topics.db").exists()

    def test_without_connectors_nothing_can_run(self) -> None:
        """A plugin path with a Java worker's jars has no connectors: the worker refuses."""
        sentence = refusal(standalone(settings={"plugin.path": "/opt/connectors"}))
        assert sentence.startswith(
            "plugin.path names no Python module or directory with connectors "
            "(/opt/connectors does not exist), so no connector can run."
        )

    def test_the_records_log_is_embedded(self) -> None:
        """Only an embedded log can take records of connectors."""
        result = standalone(settings={"records.log": "kafka://b:9092"})
        assert refusal(result) == "records.log is kafka://b:9092: use sqlite:///FILE"
        with_login = refusal(standalone(settings={"records.log": "http://ada:secret@b:9092"}))
        assert with_login == "records.log is http://b:9092: use sqlite:///FILE"

    def test_a_device_has_no_records_beside_it(self) -> None:
        """With offsets in `/dev/null`, topics need a path of their own."""
        result = standalone(settings={"offset.storage.file.filename": "/dev/null"})
        assert refusal(result) == (
            "offset.storage.file.filename is /dev/null, which is no regular file, so topics cannot "
            "be stored beside it: set records.log=sqlite:///FILE"
        )

    async def test_a_path_names_a_records_log(self, folder: Path) -> None:
        """`records.log` may omit the scheme."""
        async with running_worker(folder, settings={"records.log": "topics.db"}) as worker:
            assert worker.lines[0].endswith("topics in sqlite:///topics.db")

    async def test_a_second_worker_of_one_log_is_refused(self, folder: Path) -> None:
        """The second worker is refused and changes nothing."""
        async with running_worker(folder):
            result = await asyncio.to_thread(ended_worker, folder)
        assert "connect.offsets.records.db" in refusal(result)

    async def test_exactly_once_support_has_no_effect(self, folder: Path) -> None:
        """A warning says that the setting has no effect."""
        settings = {"exactly.once.source.support": "enabled"}
        source = write_json(folder / "lines.json", LINES)
        async with (
            running_worker(folder, source, settings=settings) as worker,
            httpx.AsyncClient(base_url=worker.url) as client,
        ):
            await until_position(client, "lines", 8)
            _, stderr = await worker.end()
        assert "Warning: exactly.once.source.support has no effect" in stderr


@pytest.mark.parametrize(
    ("values", "superseded_ms", "commands_ms"),
    [
        ({}, 600_000, DAY_MS),
        ({"superseded.ms": "5"}, 5, DAY_MS),
        ({"commands.ms": "6"}, 600_000, 6),
        ({"superseded.ms": "-1", "commands.ms": str(30 * DAY_MS)}, FOREVER, 30 * DAY_MS),
        ({"records.ms": "7"}, 600_000, DAY_MS),
    ],
)
def test_history_in_memory_is_short(
    values: dict[str, str], superseded_ms: int, commands_ms: int
) -> None:
    """Superseded records are kept for minutes and commands for a day, unless a setting is named.

    A named setting stays, even if its value is the default of a log in a file.
    """
    flags = [("--override", f"upkeep.retention.{key}", text) for key, text in values.items()]
    configuration = Configuration(flag_values(flags))
    kept = settings_in_memory(plane_settings(configuration), configuration).upkeep.retention
    assert (kept.superseded_ms, kept.commands_ms) == (superseded_ms, commands_ms)


def test_the_settings_are_listed() -> None:
    """`controlplane config` lists the settings and the programs that read them."""
    file = write_properties(Path("worker.properties"), {**WORKER, "records.log": "sqlite:///a.db"})
    result = call("config", "--worker-properties", file, "--all", "-o", "json")
    rows = {row["key"]: row for row in json.loads(result.out)["worker"]}
    for key in ("offset.storage.file.filename", "records.log"):
        assert rows[key]["without_effect"] == "only a standalone worker reads it"
    assert result.err == ""
