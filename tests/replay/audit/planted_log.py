"""Builder of handwritten logs; each has a finding, or only resembles a log with one."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from controlplane.core.codec.command_log import encode_command
from controlplane.core.entry import Entry, Headers
from controlplane.core.order import in_order
from controlplane.core.records import CommandAccepted, CommandFinished
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import Topics
from replay.audit import ClusterLog
from replay.findings import Severity

TOPICS = Topics()
START_MS = 1_790_000_000_000
LOST = 5
"""Number of records that each partition of an incomplete log lacks at its beginning."""
SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000

STARTED = {"state": "STARTED", "state.v2": "STARTED"}
STOPPED = {"state": "PAUSED", "state.v2": "STOPPED"}
PAUSED = {"state": "PAUSED", "state.v2": "PAUSED"}


class PlantedLog:
    """Log with one record per second; `wait` adds time before the next record."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._ends: dict[tuple[str, int], int] = {}
        self._headers: Headers = ()
        self._timeless = False
        self._incomplete = False
        self.now_ms = START_MS

    def put(self, topic: str, key: str, value: Any, partition: int = 0) -> "PlantedLog":
        """Append a record; None is a tombstone, bytes are written as they are."""
        offset = self._ends.get((topic, partition), LOST if self._incomplete else 0)
        self._ends[topic, partition] = offset + 1
        self.now_ms += SECOND
        content = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
        at_ms = -1 if self._timeless else self.now_ms
        place = topic, partition, offset
        self._entries.append(Entry(*place, at_ms, key.encode(), content, self._headers))
        return self

    def wait(self, time_ms: int) -> "PlantedLog":
        """Delay the next record by this time."""
        self.now_ms += time_ms
        return self

    def incomplete(self) -> "PlantedLog":
        """Begin each new partition at offset `LOST`, as if its first records were lost."""
        self._incomplete = True
        return self

    def timeless(self) -> "PlantedLog":
        """Write later records without a timestamp."""
        self._timeless = True
        return self

    def by(self, principal: str, command_id: str) -> "PlantedLog":
        """Give later records the headers with which our control plane marks its commands."""
        names = "controlplane-command-id", "controlplane-principal"
        values = command_id.encode(), principal.encode()
        self._headers = tuple(zip(names, values, strict=True))
        return self

    # --- the config topic --------------------------------------------------------------------

    def config(self, name: str, **properties: Any) -> "PlantedLog":
        """Write a connector's config; `_` in a setting's name stands for a dot."""
        settings = {key.replace("_", "."): value for key, value in properties.items()}
        whole = {"connector.class": "Source", "name": name, **settings}
        return self.put(TOPICS.config, f"connector-{name}", {"properties": whole})

    def deleted(self, name: str) -> "PlantedLog":
        """Delete a connector as workers do: first the config, then the target state."""
        self.put(TOPICS.config, f"connector-{name}", None)
        return self.put(TOPICS.config, f"target-state-{name}", None)

    def target(self, name: str, value: dict[str, str] | None) -> "PlantedLog":
        return self.put(TOPICS.config, f"target-state-{name}", value)

    def task_configs(self, name: str, number: int) -> "PlantedLog":
        """Write a task set without its commit."""
        for task in range(number):
            self.put(TOPICS.config, f"task-{name}-{task}", {"properties": {"n": str(task)}})
        return self

    def tasks(self, name: str, number: int) -> "PlantedLog":
        """Write a task set and its commit."""
        self.task_configs(name, number)
        return self.put(TOPICS.config, f"commit-{name}", {"tasks": number})

    def restart(self, name: str) -> "PlantedLog":
        """Write a request to restart a connector with its tasks."""
        flags = {"include-tasks": True, "only-failed": False}
        return self.put(TOPICS.config, f"restart-connector-{name}", flags)

    def session_key(self, key: str) -> "PlantedLog":
        """Write the session key of the leader."""
        fields = {"key": key, "algorithm": "HmacSHA256", "creation-timestamp": self.now_ms}
        return self.put(TOPICS.config, "session-key", fields)

    # --- the other topics --------------------------------------------------------------------

    def status(
        self, instance: str, state: str, worker: str = "w1", generation: int = 1, trace: str = ""
    ) -> "PlantedLog":
        """Write a status of a connector or task, for example `connector-a` or `task-a-0`."""
        value = {
            "state": state,
            "trace": trace or None,
            "worker_id": worker,
            "generation": generation,
        }
        return self.put(TOPICS.status, f"status-{instance}", value)

    def active(self, name: str, topic: str) -> "PlantedLog":
        """Write the record of a topic that a connector uses."""
        value = {"name": topic, "connector": name, "task": 0, "discoverTimestamp": 1}
        return self.put(TOPICS.status, f"status-topic-{topic}:connector-{name}", {"topic": value})

    def offset(
        self, name: str, value: dict[str, Any] | None, file: str = "f", partition: int = 0
    ) -> "PlantedLog":
        """Write the offset of a source partition."""
        key = json.dumps([name, {"file": file}], separators=(",", ":"))
        return self.put(TOPICS.offsets, key, value, partition)

    def accepted(self, command_id: str, **command: Any) -> "PlantedLog":
        """Write the begin record of one of our commands."""
        record = CommandAccepted(command_id, self.now_ms, "ada", command)
        return self.put(TOPICS.commands, command_id, encode_command(record)[1])

    def finished(self, command_id: str) -> "PlantedLog":
        """Write the end record of a command."""
        record = CommandFinished(command_id, self.now_ms, {})
        return self.put(TOPICS.commands, command_id, encode_command(record)[1])

    def running(self, name: str) -> "PlantedLog":
        """Write a connector with one task; both have the status RUNNING."""
        self.config(name).status(f"connector-{name}", "RUNNING").tasks(name, 1)
        return self.status(f"task-{name}-0", "RUNNING")

    def moving(self, name: str, every_ms: int) -> "PlantedLog":
        """Append six offsets of a source, at a steady pace."""
        for position in range(6):
            self.wait(every_ms).offset(name, {"position": position})
        return self

    @property
    def entries(self) -> list[Entry]:
        """Records in the one order of `in_order`: by time, partition and offset."""
        return in_order(self._entries)

    def cluster(self, name: str) -> ClusterLog:
        """The log in the form that an audit reads."""
        entries, profile = self.entries, Profile.of("3.9.1")
        return ClusterLog(name, entries, profile, may_be_older=lambda _: self._incomplete)


class AuditCase(NamedTuple):
    """Log (or several logs of a fleet), and the finding that an audit must, or must not, report."""

    kind: str
    logs: Callable[[], PlantedLog | list[PlantedLog]]
    severity: Severity | None = None
    """Severity of the finding; None: no finding of this kind."""
    connector: str | None = None
    evidence: tuple[str, ...] = ()

    def clusters(self) -> list[ClusterLog]:
        """The logs as clusters `c1`, `c2` and so on."""
        logs = self.logs()
        listed = logs if isinstance(logs, list) else [logs]
        return [log.cluster(f"c{number}") for number, log in enumerate(listed, 1)]


Build = Callable[[], PlantedLog | list[PlantedLog]]


def holds(
    kind: str, severity: Severity, connector: str | None, *evidence: str
) -> Callable[[Build], AuditCase]:
    """Decorator: an audit of the built log must report this kind once for the connector."""
    return lambda build: AuditCase(kind, build, severity, connector, evidence)


def resembles(kind: str) -> Callable[[Build], AuditCase]:
    """Decorator: an audit of the built log must report no finding of this kind."""
    return lambda build: AuditCase(kind, build)
