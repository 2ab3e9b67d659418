"""Records of running connectors and tasks: statuses, task sets, active topics, offsets.

The probe's workers ran Kafka's file connectors and `lab.PagesSourceConnector`, which writes `rows`
rows of each of 3 pages per task. No connector runs here. A `Runtime` reads the target states, and
writes the records that those workers would have written once all was quiet. The control plane sees
it as a foreign writer on the same log, like a real worker.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from controlplane.core import views
from controlplane.core.codec import encode_config, encode_status
from controlplane.core.commands import PublishTasks
from controlplane.core.decide.sink_offsets import group_of
from controlplane.core.records import (
    ActiveTopic,
    Activity,
    ConnectorStatus,
    Properties,
    SessionKey,
    State,
    Status,
    StatusRecord,
    Target,
    TaskStatus,
)
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState
from controlplane.core.topics.partitioner import partition_of
from controlplane.logs.log import Record
from controlplane.logs.memory import MemoryLog
from controlplane.plane import ControlPlane
from tests.offset_records import encode_offset
from tests.rest.broker import SimulatedBroker
from tests.rest.probes.rows import RELEASE, ProbeRow

PROFILE = Profile.of(RELEASE)
NOW_MS = 1_795_219_000_000
PAGES_PER_TASK = 3
KEY = b"the probe's key of the session.."
"""Key that signs requests between workers."""

FIRST_STATES = {
    Target.STARTED: State.RUNNING,
    Target.PAUSED: State.PAUSED,
    Target.STOPPED: State.STOPPED,
}


class Recording(NamedTuple):
    """Facts in a world's recording about the runtime, not about requests."""

    traces: dict[str, str]
    """Stack traces by their first line."""
    hosts: dict[str, str]
    """Worker id of each connector."""

    @classmethod
    def of(cls, rest: list[ProbeRow]) -> "Recording":
        """Facts from the answers of a world."""
        recording = cls({}, {})
        for row in rest:
            if row.answer is not None and row.answer.startswith("{"):
                recording.look_at(json.loads(row.answer))
        return recording

    def look_at(self, value: object) -> None:
        """Look for statuses in an answer, or a part of one."""
        match value:
            case {"name": str(name), "connector": {"worker_id": str(host)}}:
                self.hosts.setdefault(name, host)
            case {"trace": str(trace)}:
                self.traces.setdefault(trace.partition("\n")[0], trace)
        if isinstance(value, dict | list):
            for part in value.values() if isinstance(value, dict) else value:
                self.look_at(part)


class Runtime:
    """The running part of the workers of one world."""

    def __init__(
        self,
        log: MemoryLog,
        plane: ControlPlane,
        broker: SimulatedBroker,
        recording: Recording,
        profile: Profile = PROFILE,
    ) -> None:
        self._log = log
        self._profile = profile
        self._plane = plane
        self._broker = broker
        self._recording = recording
        self._last_configs: dict[str, tuple[Properties, bool]] = {}
        self._files: dict[str, list[str]] = {}
        self._restarted: set[str] = set()
        broker.starts = self._starts

    def write(self, file: ProbeRow) -> None:
        """Write a file that connectors read."""
        self._files[file.path] = file.lines

    async def lead(self) -> None:
        """Write the session key that signs requests among workers, as a new leader does."""
        secret = SessionKey(KEY, "HmacSHA256", NOW_MS)
        await self._append([("connect-configs", *encode_config(secret, self._profile))])

    def _starts(self, name: str) -> bool:
        """True if a connector starts again; else it is UNASSIGNED until the next long `settle`."""
        if _failure(self._plane.state.config.connectors[name]) is None:
            return True
        self._restarted.add(name)
        return False

    async def settle(self, *, long: bool) -> None:
        """Write the records that the workers would write until all is quiet.

        `long`: the probe had waited, so sources and sinks have committed their offsets, too. They
        commit every second, and requests come faster.
        """
        await self._make_tasks()
        if long:
            self._restarted.clear()
        state = self._plane.state
        statuses = [encode_status(report, self._profile) for report in self._reports(state)]
        await self._append([("connect-status", *record) for record in statuses])
        if long:
            await self._append([("connect-offsets", *record) for record in self._offsets(state)])
            self._consume(state)

    async def _make_tasks(self) -> None:
        """Publish tasks of connectors that start or have a new config."""
        state = self._plane.state
        for name, config in state.config.connectors.items():
            runs = _runs(state, name)
            before, self._last_configs[name] = self._last_configs.get(name), (config, runs)
            if runs and before != (config, runs) and config.get("fail") != "tasks":
                tasks = self._tasks(config)
                if tasks != [*views.task_configs(state, name).values()]:
                    await self._plane.execute(PublishTasks(name, tuple(tasks)))

    def _consume(self, state: ClusterState) -> None:
        """Let sinks read all records of their topics."""
        for name, config in state.config.connectors.items():
            if _runs(state, name) and _kind(config) == "FileStreamSink":
                group = group_of(name, config, self._plane.context)
                self._broker.consume(group, config["topics"])

    async def _append(self, drafts: Iterable[tuple[str, bytes, bytes | None]]) -> None:
        """Append as a foreign writer, and wait until the plane has read it."""
        numbers = await self._log.topics()
        records = [
            Record(topic, partition_of(key, numbers[topic]), NOW_MS, key, value)
            for topic, key, value in drafts
        ]
        await self._plane.follower.wait_for_records(await self._log.append(records))

    # --- task configs ---------------------------------------------------------------------------

    def _tasks(self, config: Properties) -> list[Properties]:
        """The configs of a connector's tasks."""
        kind = _kind(config)
        if kind != "PagesSource":
            return [{**config, "task.class": f"org.apache.kafka.connect.file.{kind}Task"}]
        task_class = {"task.class": "lab.PagesSourceTask"}
        numbers = range(int(config.get("tasks.max", 1)))
        return [{**config, **task_class, "task.number": str(number)} for number in numbers]

    # --- statuses -------------------------------------------------------------------------------

    def _reports(self, state: ClusterState) -> Iterator[StatusRecord]:
        """Yield every status that differs from the current state."""
        statuses = state.status
        for name in {*statuses.connectors, *statuses.active_topics} - {*state.config.connectors}:
            yield ConnectorStatus(name, None)
            yield from (TaskStatus(name, task, None) for task in statuses.tasks.get(name, {}))
            topics = statuses.active_topics.get(name, {})
            yield from (ActiveTopic(name, topic, None) for topic in topics)
        for name in state.config.connectors:
            yield from self._reports_of(state, name)

    def _reports_of(self, state: ClusterState, name: str) -> Iterator[StatusRecord]:
        statuses, config = state.status, state.config.connectors[name]
        target = state.config.targets.get(name, Target.STARTED)
        failure = None if target is Target.STOPPED else _failure(config)
        status = self._status(name, FIRST_STATES[target], failure)
        if name in self._restarted:
            status = self._status(name, State.UNASSIGNED, None)
        if statuses.connectors.get(name) != status:
            yield ConnectorStatus(name, status)
        reported, running = statuses.tasks.get(name, {}), state.config.task_ids(name)
        yield from (TaskStatus(name, task, None) for task in reported if task not in running)
        failure = f"{_FAILED_IN} task start" if config.get("fail") == "start" else None
        status = self._status(name, FIRST_STATES[target], failure)
        for task in running:
            if reported.get(task) != status:
                yield TaskStatus(name, task, status)
        if running and _runs(state, name):
            topics = self._active(config)
            new = [topic for topic in topics if topic not in statuses.active_topics.get(name, {})]
            yield from (ActiveTopic(name, topic, Activity(topic, name, 0, NOW_MS)) for topic in new)

    def _status(self, name: str, state: State, failure: str | None) -> Status:
        host = self._recording.hosts.get(name, "127.0.0.1:8083")
        version = self._profile.kafka_release if self._profile.status_version else None
        if failure is None:
            return Status(state, None, host, 1, version)
        return Status(State.FAILED, self._recording.traces[failure], host, 1, version)

    def _active(self, config: Properties) -> list[str]:
        """The topics that a connector's tasks use."""
        match _kind(config):
            case "FileStreamSource":
                lines = self._files.get(config.get("file", ""), [])
                self._broker.ends[config["topic"]] = len(lines)
                return [config["topic"]] if lines else []
            case "FileStreamSink":
                return [config["topics"]] if self._broker.ends.get(config["topics"]) else []
        return config["topics"].split(",") if self._rows(config) else []

    # --- source offsets -------------------------------------------------------------------------

    def _offsets(self, state: ClusterState) -> Iterator[tuple[bytes, bytes | None]]:
        """Offsets of sources that are not committed yet."""
        committed = state.offsets["connect-offsets"].values if state.offsets else {}
        for name, config in state.config.connectors.items():
            if not _runs(state, name) or config.get("fail"):
                continue
            for partition, offset in self._progress(config):
                key, value = encode_offset(name, partition, offset)
                if committed.get(key) != value:
                    yield key, value

    def _progress(self, config: Properties) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        """Every partition of a source, read to its end."""
        match _kind(config):
            case "FileStreamSource" if config.get("file") in self._files:
                lines = self._files[config["file"]]
                position = sum(len(line) + 1 for line in lines)
                yield {"filename": config["file"]}, {"position": position}
            case "PagesSource" if rows := self._rows(config):
                for page in range(PAGES_PER_TASK * int(config.get("tasks.max", 1))):
                    yield {"page": page}, {"row": rows}

    def _rows(self, config: Properties) -> int:
        """Number of rows of a page; a file may define it."""
        text = str(config.get("rows", 5))
        if text.startswith("${file:"):
            path, _, key = text.removeprefix("${file:").removesuffix("}").rpartition(":")
            text = dict(line.split("=") for line in self._files[path]).get(key, "")
        return int(text) if text.isdigit() else 0


def _kind(config: Properties) -> str:
    named: str = config["connector.class"]
    return named.rpartition(".")[2].removesuffix("Connector")


_FAILED_IN = "org.apache.kafka.connect.errors.ConnectException: told to fail in"


def _failure(config: Properties) -> str | None:
    """Reason why a connector does not start: the first line of its trace."""
    for key, value in config.items():
        if value is None:
            text = "Non-string value found in original settings for key"
            return f"java.lang.ClassCastException: {text} {key}: null"
    return f"{_FAILED_IN} connector start" if config.get("fail") == "connector" else None


def _runs(state: ClusterState, name: str) -> bool:
    started = state.config.targets.get(name, Target.STARTED) is Target.STARTED
    return started and _failure(state.config.connectors[name]) is None
