"""Unfinished changes in the config topic: a worker died between two records.

A stop is an empty task set and then the state STOPPED (KIP-875). A task set is a record per task
and then the commit.
"""

from collections.abc import Iterator, Mapping

import msgspec

from controlplane.core.records import (
    ConnectorConfig,
    ConnectorStatus,
    State,
    Target,
    TargetState,
    TaskCommit,
    TaskConfig,
    TaskStatus,
)
from controlplane.core.state import ConfigState
from controlplane.core.text.safe_text import count
from replay.audit.context import AuditContext
from replay.audit.decoded_log import DecodedRecord
from replay.findings import Finding, FindingText, Severity

_STOP_ANEW = "Stop the connector again (PUT /connectors/…/stop), or resume it if it should run."


class _ConnectorRecords(msgspec.Struct):
    """Last records of a connector since its last deletion."""

    commit: DecodedRecord | None = None
    task: DecodedRecord | None = None
    target: DecodedRecord | None = None
    status: DecodedRecord | None = None
    tasks: dict[int, DecodedRecord] = {}
    """Last status of each task."""
    had_tasks: int = 0
    """Number of tasks in the last non-empty commit, unless the config changed since."""


class PartialCommits:
    """Finds unfinished changes at the end of the log."""

    concerns = (ConnectorConfig, TaskConfig, TaskCommit, TargetState, ConnectorStatus, TaskStatus)

    def __init__(self, about: AuditContext) -> None:
        self._about = about
        self._lives: dict[str, _ConnectorRecords] = {}
        self._config = ConfigState()

    def see(self, decoded: DecodedRecord) -> Iterator[Finding]:
        """Remember the last records of each connector."""
        self._config = decoded.config
        life = self._lives.setdefault(decoded.connector, _ConnectorRecords())
        match decoded.record:
            case ConnectorConfig(name, None):
                del self._lives[name]
            case ConnectorConfig():
                life.had_tasks = 0
            case TaskConfig():
                life.task = decoded.without_states
            case TaskCommit(_, tasks):
                life.commit = decoded.without_states
                life.had_tasks = tasks if tasks > 0 else life.had_tasks
            case TargetState():
                life.target = decoded.without_states
            case ConnectorStatus():
                life.status = decoded.without_states
            case TaskStatus(_, task):
                life.tasks[task] = decoded.without_states
        return iter(())

    def end(self) -> Iterator[Finding]:
        """Report each connector with its missing records."""
        for name, life in self._lives.items():
            if name in self._config.connectors:
                for check in (self._without_tasks, self._with_tasks, self._idle, self._task_set):
                    yield from check(name, life)

    def _without_tasks(self, name: str, life: _ConnectorRecords) -> Iterator[Finding]:
        if life.commit is None or not life.had_tasks or life.commit.record.tasks:
            return
        if self._target(name) is not Target.STARTED or not _is_running(life.status):
            return
        was = count(life.had_tasks, "task")
        if life.target is not None and life.target.entry.offset > life.commit.entry.offset:
            sentence = (
                f"{name} was resumed and is RUNNING, but its tasks were not generated again; "
                f"it had {was}"
            )
            advice = (
                "Restart the connector (POST /connectors/…/restart): it generates its tasks again."
            )
        else:
            sentence = (
                f"{name} is RUNNING without its {was}: a stop was interrupted before STOPPED, or "
                "the connector returned no task configs"
            )
            advice = f"{_STOP_ANEW} If its source has nothing to read, no action is needed."
        words = FindingText(sentence, advice)
        yield self._finding("stop-half-done", name, [life.commit, life.status], words)

    def _with_tasks(self, name: str, life: _ConnectorRecords) -> Iterator[Finding]:
        tasks = len(self._config.task_ids(name))
        if self._target(name) is not Target.STOPPED or not tasks:
            return
        sentence = f"{name} is STOPPED, but still has {count(tasks, 'task')}: "
        if life.target and life.commit and life.commit.entry.offset > life.target.entry.offset:
            sentence += (
                "they were committed after the stop, by a leader of a release without STOPPED or "
                "by another program"
            )
        else:
            sentence += "another program than a worker wrote STOPPED, and kept the task set"
        advice = f"{_STOP_ANEW} Until then its offsets cannot be changed safely."
        records = [life.target, life.commit]
        yield self._finding("stop-half-done", name, records, FindingText(sentence, advice))

    def _idle(self, name: str, life: _ConnectorRecords) -> Iterator[Finding]:
        """Finding for tasks that no worker runs; a failed or paused task has a worker."""
        tasks = self._config.task_ids(name)
        if self._target(name) is not Target.STARTED or not _is_running(life.status) or not tasks:
            return
        reports = [life.tasks[task] for task in tasks if task in life.tasks]
        if any(not _is_unassigned(report) for report in reports):
            return
        sentence = (
            f"{name} is RUNNING, but no worker runs any of its {count(len(tasks), 'task')}: an "
            "earlier stop or rebalance was not completed"
        )
        advice = "Stop and resume the connector: its tasks are then generated and assigned again."
        records = [life.target, life.commit, life.status, *reports]
        words, patience_ms = FindingText(sentence, advice), self._about.thresholds.rebalance_ms
        yield self._finding("tasks-not-running", name, records, words, patience_ms)

    def _task_set(self, name: str, life: _ConnectorRecords) -> Iterator[Finding]:
        advice = (
            "Write the unchanged config again (PUT /connectors/…/config), or restart the "
            "connector: its tasks are then generated and committed again."
        )
        waiting: Mapping[int, object] = self._config.deferred.get(name, {})
        if waiting:
            sentence = (
                f"{name} has {count(len(waiting), 'task config')} without a commit: their writer "
                "died, and the tasks keep their earlier configs"
            )
            words = FindingText(sentence, advice)
            yield self._finding("tasks-uncommitted", name, [life.task], words)
        if name in self._config.inconsistent:
            sentence = f"{name} runs no tasks: configs of tasks in its last commit are missing"
            words = FindingText(sentence, advice)
            yield self._finding("tasks-inconsistent", name, [life.commit], words)

    def _target(self, name: str) -> Target:
        return self._config.targets.get(name, Target.STARTED)

    def _finding(
        self,
        kind: str,
        name: str,
        records: list[DecodedRecord | None],
        words: FindingText,
        patience_ms: int | None = None,
    ) -> Finding:
        """Create a finding; while its records are fresh, the change may still be in progress."""
        present = [decoded for decoded in records if decoded is not None]
        limit_ms = self._about.thresholds.under_way_ms if patience_ms is None else patience_ms
        severity, words = severity_by_age(present, words, self._about.clock.now_ms, limit_ms)
        evidence = [decoded.position for decoded in present]
        return self._about.finding(kind, severity, name, evidence, words)


def severity_by_age(
    records: list[DecodedRecord], words: FindingText, now_ms: int, patience_ms: int
) -> tuple[Severity, FindingText]:
    """Severity and text for records without the expected successor."""
    latest_ms = max((decoded.time_ms for decoded in records), default=-1)
    if latest_ms >= 0 and now_ms - latest_ms < patience_ms:
        remark = " (written just before the end of the log: it may still be in progress)"
        return Severity.INFO, words._replace(sentence=words.sentence + remark)
    return Severity.WARNING, words


def _is_running(decoded: DecodedRecord | None) -> bool:
    status = None if decoded is None else decoded.record.status
    return status is not None and status.state is State.RUNNING


def _is_unassigned(decoded: DecodedRecord) -> bool:
    status = decoded.record.status
    return status is None or status.state is State.UNASSIGNED
