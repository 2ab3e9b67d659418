"""What was begun in the config topic and not ended: a worker died between two records.

A stop is an empty task set and then the state STOPPED (KIP-875); a task set is a record for each
task and then the commit.
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
from controlplane.core.safe_text import count
from controlplane.core.state import ConfigState
from replay.audit.about import About, Words
from replay.audit.reading import Told
from replay.findings import Finding, Severity

_STOP_ANEW = "Stop the connector again (PUT /connectors/…/stop), or resume it if it is to run."


class _Life(msgspec.Struct):
    """What was written last of a connector, since it was created."""

    commit: Told | None = None
    task: Told | None = None
    target: Told | None = None
    status: Told | None = None
    tasks: dict[int, Told] = {}
    """The last status of each task."""
    had_tasks: int = 0
    """Tasks of the last commit that had any, unless the config changed since."""
    stopped_since: bool = False
    """Whether it was STOPPED at or after the last commit."""


class HalfDone:
    """Looks at the end of the log at what is still half done."""

    concerns = (ConnectorConfig, TaskConfig, TaskCommit, TargetState, ConnectorStatus, TaskStatus)

    def __init__(self, about: About) -> None:
        self._about = about
        self._lives: dict[str, _Life] = {}
        self._config = ConfigState()

    def see(self, told: Told) -> Iterator[Finding]:
        """Remembers the last records of each connector; nothing is told before the end."""
        self._config = told.config
        life = self._lives.setdefault(told.connector, _Life())
        match told.record:
            case ConnectorConfig(name, None):
                del self._lives[name]
            case ConnectorConfig():
                life.had_tasks = 0
            case TaskConfig():
                life.task = told.kept
            case TaskCommit(_, tasks):
                life.commit = told.kept
                life.had_tasks = tasks if tasks > 0 else life.had_tasks
                life.stopped_since = told.config.targets.get(told.connector) is Target.STOPPED
            case TargetState(_, wanted):
                life.target = told.kept
                life.stopped_since = life.stopped_since or wanted is Target.STOPPED
            case ConnectorStatus():
                life.status = told.kept
            case TaskStatus(_, task):
                life.tasks[task] = told.kept
        return iter(())

    def end(self) -> Iterator[Finding]:
        """Each connector that is there, and what it lacks."""
        for name, life in self._lives.items():
            if name in self._config.connectors:
                for look in (self._without_tasks, self._with_tasks, self._idle, self._task_set):
                    yield from look(name, life)

    def _without_tasks(self, name: str, life: _Life) -> Iterator[Finding]:
        if life.commit is None or not life.had_tasks or life.commit.record.tasks:
            return
        if self._target(name) is not Target.STARTED or not _is_running(life.status):
            return
        was = count(life.had_tasks, "task")
        if life.stopped_since:
            sentence = f"{name} was resumed and is RUNNING, but its {was} were not made anew"
            advice = "Restart the connector (POST /connectors/…/restart): it makes its tasks anew."
        else:
            sentence = (
                f"{name} is RUNNING with no tasks; it had {was}, and nothing stopped it: a stop "
                "died half-way, or the connector asked for no tasks"
            )
            advice = f"{_STOP_ANEW} If it finds nothing to read, nothing has to be done."
        words = Words(sentence, advice)
        yield self._finding("stop-half-done", name, [life.commit, life.status], words)

    def _with_tasks(self, name: str, life: _Life) -> Iterator[Finding]:
        tasks = len(self._config.task_ids(name))
        if self._target(name) is not Target.STOPPED or not tasks:
            return
        sentence = (
            f"{name} is STOPPED, yet its set of {count(tasks, 'task')} was not emptied: a stop "
            "that died half-way, or that was written by something else than a worker"
        )
        advice = f"{_STOP_ANEW} Before that its offsets cannot be changed safely."
        seen = [life.target, life.commit]
        yield self._finding("stop-half-done", name, seen, Words(sentence, advice))

    def _idle(self, name: str, life: _Life) -> Iterator[Finding]:
        """A task that failed, or is paused, has somebody who runs it."""
        tasks = self._config.task_ids(name)
        if self._target(name) is not Target.STARTED or not _is_running(life.status) or not tasks:
            return
        reports = [life.tasks[task] for task in tasks if task in life.tasks]
        if any(not _is_unassigned(report) for report in reports):
            return
        sentence = (
            f"{name} is RUNNING, and nobody runs any of its {count(len(tasks), 'task')}: a stop "
            "that left the task set as it was, or a rebalance that did not end"
        )
        advice = "Stop the connector and resume it: its tasks are then made and assigned anew."
        seen = [life.target, life.commit, life.status, *reports]
        words, patience_ms = Words(sentence, advice), self._about.thresholds.rebalance_ms
        yield self._finding("tasks-not-running", name, seen, words, patience_ms)

    def _task_set(self, name: str, life: _Life) -> Iterator[Finding]:
        advice = (
            "Write the config once more as it is (PUT /connectors/…/config), or restart the "
            "connector: its tasks are then made and committed anew."
        )
        waiting: Mapping[int, object] = self._config.deferred.get(name, {})
        if waiting:
            sentence = (
                f"{name} has {count(len(waiting), 'task config')} without the commit that should "
                "follow: whoever made them died, and its tasks run as they were before"
            )
            words = Words(sentence, advice)
            yield self._finding("tasks-uncommitted", name, [life.task], words)
        if name in self._config.inconsistent:
            sentence = (
                f"{name} runs no tasks: the last commit speaks of tasks whose configs are not there"
            )
            words = Words(sentence, advice)
            yield self._finding("tasks-inconsistent", name, [life.commit], words)

    def _target(self, name: str) -> Target:
        return self._config.targets.get(name, Target.STARTED)

    def _finding(
        self,
        kind: str,
        name: str,
        seen: list[Told | None],
        words: Words,
        patience_ms: int | None = None,
    ) -> Finding:
        """The records that show it; while they are fresh, it may still be under way."""
        there = [told for told in seen if told is not None]
        limit_ms = self._about.thresholds.under_way_ms if patience_ms is None else patience_ms
        severity, words = judged(there, words, self._about.clock.now_ms, limit_ms)
        evidence = [told.position for told in there]
        return self._about.finding(kind, severity, name, evidence, words)


def judged(seen: list[Told], words: Words, now_ms: int, patience_ms: int) -> tuple[Severity, Words]:
    """How bad it is that nothing came of these records by now."""
    latest_ms = max((told.time_ms for told in seen), default=-1)
    if latest_ms >= 0 and now_ms - latest_ms < patience_ms:
        more = " (it was written just before the log ends: it may be under way)"
        return Severity.INFO, words._replace(sentence=words.sentence + more)
    return Severity.WARNING, words


def _is_running(told: Told | None) -> bool:
    status = None if told is None else told.record.status
    return status is not None and status.state is State.RUNNING


def _is_unassigned(told: Told) -> bool:
    status = told.record.status
    return status is None or status.state is State.UNASSIGNED
