"""Smallest log about which folds disagree, found by leaving records out."""

from collections.abc import Callable, Sequence

from controlplane.scenario.folds import FoldTask

Differ = Callable[[Sequence[FoldTask]], list[str]]
"""Function that returns a text per question: the lines in which the folds differ; empty if none."""


def smallest(ask: FoldTask, differ: Differ) -> FoldTask:
    """Smallest part of a log with a disagreement: if any single record is removed, the folds agree.

    Halves are left out first, then quarters, and in the end single records. At least one record
    remains.
    """
    size = len(ask.entries) // 2
    while size:
        without = [_without(ask, start, size) for start in range(0, len(ask.entries), size)]
        still = [task for task, text in zip(without, differ(without), strict=True) if text]
        if still:
            ask = min(still, key=lambda task: len(task.entries))
        size = min(size if still else size // 2, len(ask.entries) - 1)
    return ask


def _without(ask: FoldTask, start: int, size: int) -> FoldTask:
    return ask._replace(entries=ask.entries[:start] + ask.entries[start + size :])


def question_code(ask: FoldTask) -> str:
    """Question as Python code for a test."""
    lines = "".join(f"    {entry!r},\n" for entry in ask.entries)
    return f"FoldTask((\n{lines}), {ask.profile!r}, exactly_once={ask.exactly_once})"


def disagreement(asks: Sequence[FoldTask], differ: Differ, closer: Differ | None = None) -> str:
    """Smallest log of the first question with a disagreement, and the differing lines.

    `differ` compares the folds of all logs, so it must be fast. `closer` compares only parts of one
    log, so it may compare the folds after more of its records. The default of `closer` is `differ`.
    """
    first = next((ask for ask, text in zip(asks, differ(asks), strict=True) if text), None)
    if first is None:
        return ""
    least = smallest(first, closer or differ)
    return "\n".join([question_code(least), *(closer or differ)([least])])
