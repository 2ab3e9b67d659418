"""Handwritten logs: each holds one situation, or resembles a log with one."""

import json
from typing import Any

from controlplane.core.entry import Entry
from controlplane.core.state import Topics

TOPICS = Topics()
CONFIG, STATUS, OFFSETS = TOPICS.config, TOPICS.status, TOPICS.offsets

STOPPED = {"state": "PAUSED", "state.v2": "STOPPED"}
"""Target state of a stopped connector, as a worker that knows STOPPED writes it."""


class Planted:
    """Log that grows by one record per second."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._ends: dict[str, int] = {}
        self.aborting = False
        """True while records belong to a transaction that is aborted."""

    def put(self, topic: str, key: str, value: Any, *, raw: bool = False) -> "Planted":
        """Append a record; None is a tombstone. With `raw` the value is the text itself."""
        offset = self._ends.get(topic, 0)
        self._ends[topic] = offset + 1
        text = value if raw else json.dumps(value, separators=(",", ":"))
        content = None if value is None else text.encode()
        at_ms = 1_000 * (len(self.entries) + 1)
        entry = Entry(topic, 0, offset, at_ms, key.encode(), content, (), self.aborting)
        self.entries.append(entry)
        return self

    def config(self, name: str, **properties: Any) -> "Planted":
        whole = {"connector.class": "Source", "name": name, **properties}
        return self.put(CONFIG, f"connector-{name}", {"properties": whole})

    def gone(self, name: str) -> "Planted":
        """Delete a connector as workers do: first the config, then the target state."""
        self.put(CONFIG, f"connector-{name}", None)
        return self.put(CONFIG, f"target-state-{name}", None)

    def target(self, name: str, value: dict[str, Any] | None) -> "Planted":
        return self.put(CONFIG, f"target-state-{name}", value)

    def tasks(self, name: str, number: int) -> "Planted":
        """Write a task set and its commit."""
        for task in range(number):
            self.put(CONFIG, f"task-{name}-{task}", {"properties": {"task": str(task)}})
        return self.put(CONFIG, f"commit-{name}", {"tasks": number})

    def status(self, instance: str, state: str | None, **fields: Any) -> "Planted":
        """Write a status of an instance, such as `connector-a` or `task-a-0`; None: a tombstone."""
        value = {"state": state, "trace": None, "worker_id": "w1", "generation": 1, **fields}
        return self.put(STATUS, f"status-{instance}", None if state is None else value)

    def active(self, name: str, topic: str) -> "Planted":
        """Write the status record of a topic that a connector uses."""
        value = {"name": topic, "connector": name, "task": 0, "discoverTimestamp": 1}
        return self.put(STATUS, f"status-topic-{topic}:connector-{name}", {"topic": value})

    def offset(self, name: str, number: int, topic: str = OFFSETS) -> "Planted":
        """Write the offset of a source with one partition."""
        return self.put(topic, json.dumps([name, {"file": "f"}]), {"position": number})

    def abort(self) -> "Planted":
        """Let all later records belong to an aborted transaction."""
        self.aborting = True
        return self

    def commit(self) -> "Planted":
        """Let all later records be committed again."""
        self.aborting = False
        return self


def running(name: str = "a", tasks: int = 1) -> Planted:
    """Log with one running connector."""
    return Planted().config(name).tasks(name, tasks).status(f"connector-{name}", "RUNNING")


def stopped(name: str = "a") -> Planted:
    """Log whose connector was stopped by a worker of a release with STOPPED."""
    return running(name).tasks(name, 0).target(name, STOPPED)
