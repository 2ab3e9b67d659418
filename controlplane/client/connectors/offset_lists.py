"""Lists of offsets, in the form of Connect's REST API (KIP-875), and their differences."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from controlplane.client.http.api import Api, connector
from controlplane.client.http.request_errors import Unavailable
from controlplane.core.text.redaction import redacted_value
from controlplane.core.text.value_text import TOMBSTONE, json_line

OffsetEntry = Mapping[str, Any]
"""`{"partition": {…}, "offset": {…}}`, both in answers and in alterations (KIP-875)."""

SINK_KEYS = {"topic": "kafka_topic", "partition": "kafka_partition", "offset": "kafka_offset"}
"""Short keys for sinks in KIP-875's draft → keys of the releases; our service accepts both."""


def offsets_in(body: Any) -> list[OffsetEntry]:
    """Return the offsets in an answer or a file.

    They are one list, as in Kafka's releases. Or they are two lists, `source` and `sink`, as in the
    draft of KIP-875.

    Raises:
        ValueError: it is neither; the message says why.
    """
    listed = body.get("offsets") if isinstance(body, Mapping) else body
    if isinstance(listed, Mapping):
        sinks = [_with_long_keys(entry) for entry in _checked(listed.get("sink") or [])]
        return [*_checked(listed.get("source") or []), *sinks]
    return _checked(listed)


async def present_offsets(api: Api, name: str) -> list[OffsetEntry]:
    """The present offsets of a connector, without those that are null.

    Raises:
        Declined, Unavailable: the server refuses, or its answer is no list of offsets.
    """
    body = await api.get(connector(name, "offsets"))
    try:
        entries = offsets_in(body)
    except ValueError:
        raise Unavailable(f"{api.name} gave no list of the offsets of {name}") from None
    return [entry for entry in entries if entry["offset"] is not None]


def _checked(listed: Any) -> list[OffsetEntry]:
    if not isinstance(listed, list):
        raise ValueError(  # noqa: TRY004 - a value of the user, not of the program
            'it is no list of offsets: write {"offsets": [{"partition": …, "offset": …}]}'
        )
    for entry in listed:
        if not isinstance(entry, Mapping) or not entry.keys() <= {"partition", "offset"}:
            raise ValueError(
                f'{json_line(entry)} is not of the form {{"partition": …, "offset": …}}'
            )
    return [
        {"partition": entry.get("partition"), "offset": entry.get("offset")} for entry in listed
    ]


def _with_long_keys(entry: OffsetEntry) -> OffsetEntry:
    """Replace the draft's keys in a sink's offset by those of the releases.

    A value that is no map passes unchanged; the cluster refuses it.
    """
    return {
        part: {SINK_KEYS.get(key, key): number for key, number in value.items()}
        if isinstance(value, Mapping)
        else value
        for part, value in entry.items()
    }


def alteration(before: Iterable[OffsetEntry], after: Iterable[OffsetEntry]) -> list[OffsetEntry]:
    """Changes from one list of offsets to the other; a removed offset becomes null."""
    old, new = _by_partition(before), _by_partition(after)
    changed = [entry for key, entry in new.items() if _differs(old.get(key), entry)]
    removed = [{**entry, "offset": None} for key, entry in old.items() if key not in new]
    return [*changed, *removed]


def _by_partition(offsets: Iterable[OffsetEntry]) -> dict[str, OffsetEntry]:
    return {json.dumps(entry["partition"], sort_keys=True): entry for entry in offsets}


def _differs(old: OffsetEntry | None, new: OffsetEntry) -> bool:
    present = None if old is None else old["offset"]
    return json.dumps(present, sort_keys=True) != json.dumps(new["offset"], sort_keys=True)


def rows(offsets: Iterable[OffsetEntry]) -> Iterator[tuple[str, str]]:
    """Yield a table row per offset: partition, offset."""
    for entry in offsets:
        yield offset_words(entry["partition"]), offset_words(entry["offset"])


def alteration_rows(
    before: Sequence[OffsetEntry], altered: Iterable[OffsetEntry]
) -> Iterator[tuple[str, str, str]]:
    """Yield a table row per altered offset: partition, old offset, new offset."""
    old = _by_partition(before)
    for key, entry in _by_partition(altered).items():
        present = old[key]["offset"] if key in old else None
        yield offset_words(entry["partition"]), offset_words(present), offset_words(entry["offset"])


def offset_words(value: Any) -> str:
    """Return a partition or an offset as JSON without secrets; `∅` for none."""
    return TOMBSTONE if value is None else json_line(redacted_value("", value))
