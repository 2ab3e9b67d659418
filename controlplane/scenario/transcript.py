"""Output of scenarios: one fact per line, sorted, aligned, and the same on every run.

No clock, port or varying id appears. Absence is explicit: `∅` for a tombstone, `(none)`, `(empty)`,
`(no response)`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from controlplane.core.entry import Entry, Position
from controlplane.core.java import json_codec
from controlplane.core.moments import position_text
from controlplane.core.plan import (
    AlterGroup,
    AnyAction,
    DeleteGroup,
    FenceProducers,
    RestartInstances,
    WriteOffsets,
)
from controlplane.core.state import Topics
from controlplane.rest.errors import Answer
from controlplane.scenario.journal import JournalStep
from controlplane.scenario.notation import NULL, key_text_of, printable, text_of

OK = "ok"
NONE = "(none)"
NOTHING = "(empty)"
NO_RESPONSE = "(no response)"

_GAP = "  "
_LABEL_WIDTH = 10
_KEY_WIDTH = 20
_STEP_WIDTH = 6
"""Least widths of columns, so that the tables of a file are aligned alike."""


class TranscriptRow(NamedTuple):
    """Row of a table: label, cells, and the fold that gave it unless it is the main one."""

    label: str
    cells: tuple[str, ...]
    via: str = ""


def table(header: TranscriptRow | None, rows: Sequence[TranscriptRow]) -> list[str]:
    """An aligned table with its rows in the given order; `(none)` if it is empty.

    Without a header the cells are not aligned: two spaces separate them.
    """
    if not rows:
        return [NONE]
    shown = ([header] if header else []) + list(rows)
    texts = [(_label(row), *row.cells) for row in shown]
    lines = aligned(texts, _LABEL_WIDTH) if header else list(map(_GAP.join, texts))
    return [
        line + (f"   <-- via {row.via}" if row.via else "")
        for row, line in zip(shown, lines, strict=True)
    ]


def _label(row: TranscriptRow) -> str:
    """Label for the start of a line: not empty, and not like a comment."""
    label = row.label or NOTHING
    return rf"\x23{label[1:]}" if label.startswith("#") else label


def aligned(rows: Sequence[Sequence[str]], *least: int) -> list[str]:
    """Rows with aligned columns, two spaces apart. `least`: minimum widths of the first columns."""
    widths = [
        max(*map(len, column), least[index] if index < len(least) else 0)
        for index, column in enumerate(zip(*rows, strict=True))
    ]
    return [_GAP.join(map(str.ljust, row, widths)).rstrip() for row in rows]


def entries(listed: Sequence[Entry], topics: Topics) -> list[str]:
    """Records with their positions: `config@4  key  value`."""
    if not listed:
        return [NOTHING]
    rows = [
        (
            position_text(entry.position, topics),
            key_text_of(entry.key),
            text_of(entry.value) + ("  (aborted)" if entry.aborted else ""),
        )
        for entry in listed
    ]
    return aligned(rows, 0, _KEY_WIDTH)


def span(first: Position, last: int, topics: Topics) -> str:
    """A range of records of one partition: `config@0..3`, `offsets@2:0..3`."""
    start = position_text(first, topics)
    return start if first.offset == last else f"{start}..{last}"


def ends(reached: Mapping[str, Sequence[int]], topics: Topics) -> str:
    """End of the records read, by topic: `config to @4, offsets (empty)`.

    Each partition with records is listed, partition 0 without its number: `offsets to @3 @2:1`.
    Empty topics other than `config` and `offsets` are left out.
    """
    usual = [getattr(topics, field) for field in topics.__struct_fields__]
    named = [*usual[:2], *sorted(topic for topic in reached if topic not in usual), *usual[2:]]
    parts = []
    for topic in (topic for topic in named if topic in reached):
        last = [(part, end - 1) for part, end in enumerate(reached[topic]) if end]
        if last:
            parts.append(f"{topics.short(topic)} to {' '.join(_reached(topic, last, topics))}")
        elif topic in (topics.config, topics.offsets):
            parts.append(f"{topics.short(topic)} {NOTHING}")
    return ", ".join(parts)


def _reached(topic: str, last: Iterable[tuple[int, int]], topics: Topics) -> Iterator[str]:
    """The last offset of each partition without the topic's name: `@4`, `@2:1`."""
    for partition, offset in last:
        yield position_text(Position(topic, partition, offset), topics).removeprefix(
            topics.short(topic)
        )


def json_text(value: Any) -> str:
    """A JSON value on one line. Its members are sorted, because Java keeps them in no order."""
    return printable(json_codec.encode(_sorted(value)).decode())


def _sorted(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _sorted(value[name]) for name in sorted(value)}
    if isinstance(value, list):
        return [_sorted(element) for element in value]
    return value


def naturally(labels: Iterable[str]) -> list[str]:
    """Sorted as people count: `orders-2` before `orders-10`."""
    return sorted(labels, key=_counting)


def _counting(label: str) -> tuple[list[tuple[str, int]], str]:
    parts = re.findall(r"([^0-9]*)([0-9]*)", label)
    return [(text, int(digits or -1)) for text, digits in parts], label


def answer(given: Answer | None) -> str:
    """Text of an answer: the status, and the body if there is one."""
    if given is None:
        return NO_RESPONSE
    text = given.body if isinstance(given.body, str) else json_codec.encode(given.body).decode()
    return f"{given.status} {printable(text)}".rstrip()


def journal(done: Sequence[JournalStep], topics: Topics, *, steps: bool) -> list[str]:
    """Records and actions in order; with `steps`, each with the name of its step."""
    lines = [(step.step, line) for step in done for line in _unaligned(step)]
    records = [line for _, line in lines if isinstance(line, Entry)]
    shown = _aligned_by_topic(records, topics)
    texts = [
        (step, shown[line.position] if isinstance(line, Entry) else line) for step, line in lines
    ]
    return aligned(texts, _STEP_WIDTH) if steps and texts else [text for _, text in texts]


def _unaligned(step: JournalStep) -> list[Entry | str]:
    return [*step.entries, *([action(step.action)] if step.action else [])]


def _aligned_by_topic(records: Sequence[Entry], topics: Topics) -> dict[Position, str]:
    shown: dict[Position, str] = {}
    for topic in {record.topic for record in records}:
        same = [record for record in records if record.topic == topic]
        lines = entries(same, topics)
        shown |= zip((record.position for record in same), lines, strict=True)
    return shown


def action(done: AnyAction) -> str:
    """Line for an action outside of the logs."""
    match done:
        case AlterGroup():
            put = [f"{topic}-{partition} -> {offset}" for topic, partition, offset in done.put]
            removed = [f"{topic}-{partition} -> {NULL}" for topic, partition in done.remove]
            return printable(f"group {done.group}: {', '.join([*put, *removed])}")
        case DeleteGroup():
            return printable(f"group {done.group}: deleted")
        case FenceProducers():
            return printable(f"producers fenced: {', '.join(done.transactional_ids)}")
        case RestartInstances():
            named = [
                done.connector if task is None else f"{done.connector}-{task}"
                for task in done.instances
            ]
            return printable(f"restarted: {', '.join(named)}")
        case WriteOffsets():
            keys = [draft.key.decode("utf-8", "replace") for draft in done.records]
            return printable(f"offsets written to another cluster: {', '.join(keys)}")
