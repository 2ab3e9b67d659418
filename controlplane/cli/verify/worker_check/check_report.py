"""Report of a check: a table for people, a document for machines, the exit code."""

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from controlplane.cli.verify.answer_diff import without_secrets
from controlplane.cli.verify.worker_check.answer_progress import (
    Agreement,
    AnswerProgress,
    ComparedAnswers,
)
from controlplane.cli.verify.worker_check.checked_worker import CheckedWorker
from controlplane.cli.verify.worker_check.comparison_rounds import CheckedEndpoint
from controlplane.cli.verify.worker_check.explanation import Explanation
from controlplane.client.http.request_errors import LATE, UNAVAILABLE
from controlplane.core.moments import time_text
from controlplane.core.state import Topics
from controlplane.core.text import record_text
from controlplane.core.text.safe_text import count, short
from controlplane.core.text.value_text import json_line
from controlplane.scenario.json_equality import equal_json, unshared
from controlplane.scenario.story import RecordedAnswer
from controlplane.terminal.exit_codes import FOUND
from controlplane.terminal.output import print_json, say
from controlplane.terminal.tables import table

PARTS_SHOWN = 3
"""Number of differing parts of an answer that a table names; the others are counted."""

VALUE_CHARACTERS = 60
"""Characters of a value in a table."""

ABSENT = "∅"

_UNSETTLED = (Agreement.UNKNOWN, Agreement.MOVES, Agreement.SILENT)


class WorkerDifference(NamedTuple):
    """Answer of a worker that its log does not give, and the reason."""

    endpoint: CheckedEndpoint
    answers: ComparedAnswers
    explanation: Explanation


class CheckReport(NamedTuple):
    """Comparison of workers with a log, as far as it came before its time-out."""

    log: str
    topics: Topics
    workers: Sequence[CheckedWorker]
    progress: Mapping[CheckedEndpoint, AnswerProgress]
    differences: Sequence[WorkerDifference]

    @property
    def unsettled(self) -> dict[CheckedEndpoint, AnswerProgress]:
        """Comparisons without a result: not begun, still moving, or without an answer."""
        return {
            endpoint: progress
            for endpoint, progress in self.progress.items()
            if progress.standing in _UNSETTLED
        }

    @property
    def exit_code(self) -> int:
        """1: a worker differs; 4: a worker is not reachable; 5: any other missing result."""
        if self.differences:
            return FOUND
        unsettled = self.unsettled.values()
        if any(progress.is_gone for progress in unsettled if progress.standing is Agreement.SILENT):
            return UNAVAILABLE
        return LATE if unsettled else 0

    def standings(self, worker: CheckedWorker) -> Counter[Agreement]:
        """Number of comparisons of a worker, by their `Agreement`."""
        return Counter(
            progress.standing
            for endpoint, progress in self.progress.items()
            if endpoint.worker == worker
        )


def print_report(report: CheckReport, output: str) -> None:
    """Print a report as a table or as JSON."""
    if output == "json":
        print_json(_document(report))
        return
    if report.differences:
        table(_HEADS, [_row(difference, report.topics) for difference in report.differences])
        say()
    for line in (*_stranger_lines(report), *_unsettled_lines(report)):
        say(line, style="yellow")
    for worker in report.workers:
        standings = report.standings(worker)
        style = "red" if standings[Agreement.DIFFERS] else "green"
        say(_summary(worker, standings), style=style)


_HEADS = ("WORKER", "ENDPOINT", "DIFFERENCE (WORKER → LOG)", "RECORD", "TIME", "WHY")


def _row(difference: WorkerDifference, topics: Topics) -> list[str]:
    worker, path = difference.endpoint
    record, reason, _ = difference.explanation
    where = when = "-"
    if record is not None:
        where = f"{record_text.place(record.position, topics)} {record_text.key(record)}"
        when = time_text(record.timestamp)
    return [worker.name, path, _difference_text(difference.answers), where, when, reason]


def _difference_text(answers: ComparedAnswers) -> str:
    """The first differing parts of two answers."""
    worker, log = without_secrets(answers.worker, answers.after)
    parts = list(_differing_parts(worker, log))
    if not parts:
        return "a hidden secret"
    unlisted = len(parts) - PARTS_SHOWN
    return "; ".join([*parts[:PARTS_SHOWN], *([f"and {unlisted} more"] if unlisted > 0 else [])])


def _differing_parts(worker: RecordedAnswer, log: RecordedAnswer) -> Iterator[str]:
    if worker.status != log.status:
        yield f"HTTP {worker.status} → HTTP {log.status}"
    else:
        yield from differing_members("", worker.answer, log.answer)


def differing_members(where: str, worker: Any, log: Any) -> Iterator[str]:
    """Differing members as `path worker → log`. A list's elements have no order."""
    if equal_json(worker, log):
        return
    if isinstance(worker, list) and isinstance(log, list):
        differing = {id(element) for element in unshared(worker, log)}
        worker, log = (_by_identity(side, differing) for side in (worker, log))
    if isinstance(worker, dict) and isinstance(log, dict):
        for name in sorted({**worker, **log}):
            below = f"{where}.{name}" if where else name
            yield from differing_members(below, worker.get(name, _Absent), log.get(name, _Absent))
        return
    yield f"{where} {_value(worker)} → {_value(log)}".strip()


class _Absent:
    """Stands for a member that one answer lacks."""


def _by_identity(elements: Sequence[Any], differing: Container[int]) -> dict[str, Any]:
    """The differing elements of a list by their id, partition or text.

    `differing` has Python's `id` of each. A search in a list would take minutes for 30,000 offsets.
    """
    return {_identity(element): element for element in elements if id(element) in differing}


def _identity(element: Any) -> str:
    members = element if isinstance(element, dict) else {}
    for name in ("id", "task", "partition"):
        if name in members:
            return f"{name} {json_line(members[name])}"
    return json_line(element)


def _value(value: Any) -> str:
    return ABSENT if value is _Absent else short(json_line(value), VALUE_CHARACTERS)


def _summary(worker: CheckedWorker, standings: Counter[Agreement]) -> str:
    agree, differ = standings[Agreement.AGREES], standings[Agreement.DIFFERS]
    compared = count(agree + differ, "answer")
    verb = "agrees" if agree + differ == 1 else "agree"
    parts = [f"{worker.name} ({worker.version}): {agree} of {compared} {verb} with the log"]
    if differ:
        parts.append(f"{differ} {'differs' if differ == 1 else 'differ'}")
    left_out = standings[Agreement.LEFT_OUT]
    if left_out:
        parts.append(f"{left_out} left out, not determined by the log (-o json lists them)")
    return "; ".join(parts)


def _stranger_lines(report: CheckReport) -> Iterator[str]:
    """A sentence for each worker that has connectors, but none of those of the log."""
    for (worker, path), answers, _ in report.differences:
        theirs, ours = answers.worker.answer, answers.after.answer
        lists = path == "/connectors" and isinstance(theirs, list) and isinstance(ours, list)
        if lists and theirs and len(unshared(theirs, ours)) == len(theirs) + len(ours):
            yield (
                f"{worker.name} has none of the connectors of this log: it may read other topics. "
                "Name its topics by --config-topic and the like, or by --worker-properties"
            )


def _unsettled_lines(report: CheckReport) -> Iterator[str]:
    """A sentence for each worker with comparisons that have no result."""
    for worker in report.workers:
        mine = {
            endpoint.path: progress
            for endpoint, progress in report.unsettled.items()
            if endpoint.worker == worker
        }
        silent = [progress for progress in mine.values() if progress.standing is Agreement.SILENT]
        if silent:
            yield (
                f"{worker.name} gave no answer to {count(len(silent), 'request')} "
                f"({silent[0].reason}): start it, or leave it out of --against"
            )
        moving = [
            path for path, progress in mine.items() if progress.standing is not Agreement.SILENT
        ]
        if moving:
            shown = ", ".join(moving[:PARTS_SHOWN])
            suffix = f", and {len(moving) - PARTS_SHOWN} more" if len(moving) > PARTS_SHOWN else ""
            yield (
                f"{worker.name} never stood still within --timeout: {shown}{suffix}; verify at a "
                "quieter time, or with a longer --timeout"
            )


def _document(report: CheckReport) -> dict[str, Any]:
    return {
        "log": report.log,
        "stood_still": not report.unsettled,
        "workers": [_worker_document(worker, report) for worker in report.workers],
        "differences": [_difference_document(difference) for difference in report.differences],
    }


def _worker_document(worker: CheckedWorker, report: CheckReport) -> dict[str, Any]:
    standings = report.standings(worker)
    mine = {
        endpoint.path: progress
        for endpoint, progress in report.progress.items()
        if endpoint.worker == worker
    }
    return {
        "url": worker.name,
        "version": worker.version,
        "release": worker.profile.release,
        "compared": standings[Agreement.AGREES] + standings[Agreement.DIFFERS],
        "same": standings[Agreement.AGREES],
        "left_out": {
            path: progress.reason
            for path, progress in mine.items()
            if progress.standing is Agreement.LEFT_OUT
        },
        "unsettled": {
            path: progress.reason or progress.standing.value
            for path, progress in mine.items()
            if progress.standing in _UNSETTLED
        },
    }


def _difference_document(difference: WorkerDifference) -> dict[str, Any]:
    record, reason, order_edge = difference.explanation
    worker, log = without_secrets(difference.answers.worker, difference.answers.after)
    return {
        "worker": difference.endpoint.worker.name,
        "path": difference.endpoint.path,
        "of_worker": {"status": worker.status, "answer": worker.answer},
        "of_log": {"status": log.status, "answer": log.answer},
        "cause": None if record is None else record_text.document(record),
        "reason": reason,
        "order_edge": order_edge,
    }
