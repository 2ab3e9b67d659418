"""Reports of a worker about its only connector, noted where connectors and tasks make them."""

from collections.abc import Sequence
from typing import Any

import pytest

from controlplane.core.records import ConnectorStatus, State, StatusRecord, TaskStatus
from controlplane.worker import worker
from controlplane.worker.lifecycle.statuses import StatusWriter
from controlplane.worker.task_identity import TaskIdentity
from tests.worker.worker_fixture import until

reports: list[tuple[str, str]] = []
"""Reports in their order: `connector` or `task 0`, and the report."""


class NotingWriter(StatusWriter):
    """Writer that also adds to `reports`."""

    def connector(self, name: str, state: State, trace: str | None = None, **how: Any) -> None:
        """Note and write."""
        _note("connector", state, trace, **how)
        super().connector(name, state, trace, **how)

    def task(self, task: TaskIdentity, state: State, trace: str | None = None, **how: Any) -> None:
        """Note and write."""
        _note(f"task {task.number}", state, trace, **how)
        super().task(task, state, trace, **how)

    def _add(self, record: StatusRecord) -> None:
        if isinstance(record, ConnectorStatus | TaskStatus) and record.status is None:
            instance = f"task {record.task}" if isinstance(record, TaskStatus) else "connector"
            removal = instance, "removed"
            if removal not in reports:  # a deletion may remove a status twice
                reports.append(removal)
        super()._add(record)


def _note(
    instance: str, state: State, trace: str | None, *, safe: bool = False, version: Any = None
) -> None:
    del version
    how = "safe" if safe else "put"
    reports.append((instance, f"{state.value} {how}{'' if trace is None else ', with trace'}"))


def reported(instance: str) -> list[str]:
    """Return the reports about the connector or a task."""
    return [report for each, report in reports if each == instance]


async def until_reported(instance: str, expected: Sequence[str]) -> None:
    """Wait for these reports about the connector or a task, and check that there are no others."""
    try:
        await until(lambda: len(reported(instance)) >= len(expected))
    finally:
        assert reported(instance) == [*expected], instance


def note_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Note the reports of workers that open from now on."""
    reports.clear()
    monkeypatch.setattr(worker, "StatusWriter", NotingWriter)
