"""Lines of a change feed: what a batch has changed, one line each."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from controlplane.core.entry import Position
from controlplane.core.state import Topics
from controlplane.core.text.record_text import place
from controlplane.core.text.safe_text import count
from controlplane.core.text.value_text import TOMBSTONE, differing_names, json_line
from replay.findings import called
from replay.tables.cells import RowDocument

CHANGES_SHOWN = 6
"""Columns or settings of a row whose change is printed; further ones are counted."""

LONGEST = 120
"""Characters of a printed value; JSON has all."""

_SETTING = "config "
"""Prefix of the cells of settings."""

_NAMES = {"connectors": "connector", "tasks": "task", "statuses": "status", "topics": "topic"}


def state_line(row: RowDocument, topics: Topics) -> str:
    """Line of a row of `schemas.STATE_CHANGES`."""
    before, after = (_cells(row[side]) for side in ("before", "after"))
    causes = [Position(**cause) for cause in row["causes"]]
    records = f" ({', '.join(place(cause, topics) for cause in causes)})" if causes else ""
    words = _difference(before, after) if row["change"] == "changed" else _content(after or before)
    return (
        f"{row['cluster']} {called(row['connector'])} {_subject(row)} {row['change']}: "
        f"{words}{records}"
    )


def finding_line(row: RowDocument, topics: Mapping[str, Topics]) -> str:
    """Line of a row of `schemas.FINDING_CHANGES`; `topics` by cluster."""
    several = len({record["cluster"] for record in row["evidence"]}) > 1
    records = []
    for record in row["evidence"]:
        cluster = record["cluster"]
        position = Position(record["topic"], record["partition"], record["offset"])
        shown = place(position, topics.get(cluster, Topics()))
        records.append(f"{cluster} {shown}" if several else shown)
    severity = row["severity"] if row["change"] == "raised" else row["change"]
    return (
        f"{row['cluster']} {called(row['connector'])} {severity} {row['kind']}: {row['sentence']} "
        f"({', '.join(records)})"
    )


def batch_line(row: RowDocument) -> str:
    """Line of a readable row of `schemas.BATCHES`."""
    return (
        f"{row['cluster']}: batch {row['batch']}: {count(row['state_changes'], 'state change')}, "
        f"{count(row['finding_changes'], 'finding change')}"
    )


def _subject(row: RowDocument) -> str:
    if row["table"] == "offsets":
        return f"offset of {_short(row['item'])}"
    words = [_NAMES[row["table"]]]
    if row["table"] == "statuses" and row["task"] is not None:
        words = ["status of task"]
    words += [str(part) for part in (row["task"], row["item"]) if part is not None]
    return " ".join(words)


def _cells(text: str | None) -> dict[str, Any]:
    """Cells of a row; the settings of a config are cells of their own."""
    if text is None:
        return {}
    cells: dict[str, Any] = {}
    for name, cell in json.loads(text).items():
        if name == "config" and isinstance(cell, dict):
            cells |= {f"{_SETTING}{key}": value for key, value in cell.items()}
        else:
            cells[name] = cell
    return cells


_PLACE = ("connector", "task", "partition", "topic")
"""Columns that the line has already."""


def _content(cells: Mapping[str, Any]) -> str:
    """Cells of a row that was added or removed. Settings are counted."""
    settings = sum(name.startswith(_SETTING) for name in cells)
    shown = [
        f"{name} {_short(cell)}"
        for name, cell in cells.items()
        if name not in _PLACE and not name.startswith(_SETTING) and cell not in (None, False, [])
    ]
    return ", ".join([*shown, *([count(settings, "setting")] if settings else [])])


def _difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    changes = [
        f"{name} {_member(before, name)} → {_member(after, name)}"
        for name in differing_names(before, after)
    ]
    return ", ".join(_few(changes))


def _member(cells: Mapping[str, Any], name: str) -> str:
    """Cell in few characters; a setting that is null is not absent."""
    is_null = name.startswith(_SETTING) and name in cells and cells[name] is None
    return "null" if is_null else _short(cells.get(name))


def _few(changes: Sequence[str]) -> Iterator[str]:
    yield from changes[:CHANGES_SHOWN]
    if len(changes) > CHANGES_SHOWN:
        yield f"and {len(changes) - CHANGES_SHOWN} more"


def _short(cell: Any) -> str:
    """Value in few characters, on one line."""
    if cell is None:
        return TOMBSTONE
    text = cell if isinstance(cell, str) else json_line(cell)
    text = text.splitlines()[0] if text else '""'
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
