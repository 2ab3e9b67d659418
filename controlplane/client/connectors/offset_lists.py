"""Offsets as values: the form in which Connect gives and takes them, and how two lists differ."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from controlplane.core.text.redaction import redacted_value
from controlplane.core.text.value_text import TOMBSTONE, json_line

OffsetEntry = Mapping[str, Any]
"""`{"partition": {…}, "offset": {…}}`, the same for reading and for altering (KIP-875)."""

SINK_KEYS = {"topic": "kafka_topic", "partition": "kafka_partition", "offset": "kafka_offset"}
"""KIP-875's draft has shorter keys for sinks than the releases; ours takes both."""


def offsets_in(body: Any) -> list[OffsetEntry]:
    """The list in an answer or a file: as releases have it, or by type as the KIP draft has.

    Raises:
        ValueError: it is neither; the message says why.
    """
    listed = body.get("offsets") if isinstance(body, Mapping) else body
    if isinstance(listed, Mapping):
        sinks = [_long(one) for one in _checked(listed.get("sink") or [])]
        return [*_checked(listed.get("source") or []), *sinks]
    return _checked(listed)


def _checked(listed: Any) -> list[OffsetEntry]:
    if not isinstance(listed, list):
        raise ValueError(  # noqa: TRY004 - of what somebody has written
            'it is no list of offsets: {"offsets": [{"partition": …, "offset": …}]}'
        )
    for one in listed:
        if not isinstance(one, Mapping) or not one.keys() <= {"partition", "offset"}:
            raise ValueError(f"an offset has a partition and an offset, and not {json_line(one)}")
    return [{"partition": one.get("partition"), "offset": one.get("offset")} for one in listed]


def _long(one: OffsetEntry) -> OffsetEntry:
    """An offset of a sink with the keys of the releases."""
    return {
        part: value and {SINK_KEYS.get(key, key): number for key, number in value.items()}
        for part, value in one.items()
    }


def alteration(before: Iterable[OffsetEntry], after: Iterable[OffsetEntry]) -> list[OffsetEntry]:
    """Changes from one list of offsets to the other; a removed offset becomes null."""
    old, new = _by_partition(before), _by_partition(after)
    changed = [one for place, one in new.items() if _differs(old.get(place), one)]
    gone = [{**one, "offset": None} for place, one in old.items() if place not in new]
    return [*changed, *gone]


def _by_partition(offsets: Iterable[OffsetEntry]) -> dict[str, OffsetEntry]:
    return {json.dumps(one["partition"], sort_keys=True): one for one in offsets}


def _differs(old: OffsetEntry | None, new: OffsetEntry) -> bool:
    present = None if old is None else old["offset"]
    return json.dumps(present, sort_keys=True) != json.dumps(new["offset"], sort_keys=True)


def rows(offsets: Iterable[OffsetEntry]) -> Iterator[tuple[str, str]]:
    """A line of a table for each."""
    for one in offsets:
        yield _words(one["partition"]), _words(one["offset"])


def alteration_rows(
    before: Sequence[OffsetEntry], altered: Iterable[OffsetEntry]
) -> Iterator[tuple[str, str, str]]:
    """A line for each that is altered: what it is, and what it becomes."""
    old = _by_partition(before)
    for place, one in _by_partition(altered).items():
        present = old[place]["offset"] if place in old else None
        yield _words(one["partition"]), _words(present), _words(one["offset"])


def _words(value: Any) -> str:
    return TOMBSTONE if value is None else json_line(redacted_value("", value))
