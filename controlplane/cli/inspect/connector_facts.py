"""Facts about one connector, as a row of a table shows them."""

from collections import Counter
from typing import Any

import msgspec

from controlplane.core import views
from controlplane.core.plugins import UNKNOWN_TYPE, Plugins
from controlplane.core.records import Status
from controlplane.core.state import ClusterState
from controlplane.core.text.redaction import redacted, redacted_text, redacted_value
from controlplane.core.text.value_text import json_line

NONE = "-"
"""Cell without a value."""


class ConnectorFacts(msgspec.Struct, frozen=True):
    """Facts about one connector, for a row of a table."""

    name: str
    configured: bool
    type: str
    connector_class: str | None
    target_state: str | None
    tasks: int | None
    """None: there is no connector config, or the worker fails at counting them."""
    status: str | None
    task_states: dict[int, str]
    flags: tuple[str, ...]

    def cells(self) -> tuple[str, ...]:
        """Table cells in the order of the fields; `configured` has none."""
        return (
            self.name,
            self.type,
            alias(self.connector_class),
            self.target_state or NONE,
            NONE if self.tasks is None else str(self.tasks),
            self.status or NONE,
            states(self.task_states),
            "; ".join(self.flags),
        )


def alias(connector_class: str | None) -> str:
    """Short name of a class, which Connect also accepts: `FileStreamSource`."""
    simple = (connector_class or NONE).rpartition(".")[2]
    return simple.removesuffix("Connector") or simple


def states(task_states: dict[int, str]) -> str:
    """Task states, counted: `2 RUNNING, 1 FAILED`."""
    counts = Counter(task_states.values()).most_common()
    return ", ".join(f"{count} {state}" for state, count in counts) or NONE


def names(state: ClusterState) -> list[str]:
    """Sorted names of connectors with a config, and of those with a half-done operation."""
    return sorted({*views.connectors(state), *(half.connector for half in views.half_done(state))})


def all_facts(state: ClusterState, plugins: Plugins) -> list[ConnectorFacts]:
    """Facts about every connector, by name."""
    half_done: dict[str, list[str]] = {}
    for name, half in views.half_done(state):
        half_done.setdefault(name, []).append(half.value)
    return [facts(state, name, plugins, half_done.get(name, [])) for name in names(state)]


def facts(state: ClusterState, name: str, plugins: Plugins, half_done: list[str]) -> ConnectorFacts:
    """Facts about one connector; `half_done` names each operation on it that is half done."""
    config = state.config.connectors.get(name)
    target, reported = views.target(state, name), state.status.connectors.get(name)
    tasks, flags = _tasks(state, name)
    connector_class = (config or {}).get("connector.class")
    return ConnectorFacts(
        name,
        config is not None,
        views.connector_type(state, name, plugins) if config is not None else UNKNOWN_TYPE,
        _class(connector_class),
        target.value if target else None,
        tasks,
        reported.state.value if reported else None,
        task_states(state, name),
        (*flags, *half_done),
    )


def _class(value: Any) -> str | None:
    """The value of `connector.class` as text; in a config it may be any JSON value."""
    if value is None:
        return None
    return redacted_text(value) if isinstance(value, str) else json_line(redacted_value("", value))


def _tasks(state: ClusterState, name: str) -> tuple[int | None, list[str]]:
    """Number of tasks that a worker would run, and the remarks about them."""
    flags = ["inconsistent"] if name in state.config.inconsistent else []
    if name not in state.config.connectors:
        return None, flags
    try:
        return len(views.task_ids(state, name)), flags
    except views.ReadFailed as error:
        return None, [*flags, f"reading its tasks fails: {error}"]


def task_states(state: ClusterState, name: str) -> dict[int, str]:
    """Last reported state of each task, by number."""
    reported = state.status.tasks.get(name, {})
    return {task: report.state.value for task, report in sorted(reported.items())}


def status_document(status: Status | None) -> dict[str, Any] | None:
    """A status as JSON; secrets in its trace are hidden."""
    if status is None:
        return None
    trace = {"trace": status.trace} if status.trace else {}
    return redacted(views.status_fields(status) | trace)
