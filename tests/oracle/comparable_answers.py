"""Common form of Kafka's answer and ours to one case, so that `==` compares them.

The fate of a record in Kafka follows from exceptions and log lines; our fold uses the same fates:

* *loses the batch*: the store threw a `KafkaException`, the only exception that
  `KafkaBasedLog#poll` catches;
* *poison*: the store threw another exception;
* *undecodable*: the config store logged that it could not convert the value. The config offset
  stays where it was;
* *ignored*: a store logged anything else at WARN or ERROR. An offset with an odd key is ignored:
  the store keeps it under its raw bytes, but never lists it;
* *accepted*: any other record, even one that changes no state. A log line about a single field
  (`kafkas_answer.DEFECTS`) leaves the record accepted.
"""

import json
import struct
from collections.abc import Mapping
from typing import Any

from controlplane.core.fold import FateKind

ComparableAnswer = dict[str, Any]
"""An answer by dotted names: `record 3`, `config.tasks`, `offsets.data`, …"""


UNREAD = "unread"
"""Fate of a record that never reached its store."""


def compact(kind: FateKind, thrown: str | None, calls: list[Any]) -> Any:
    """One word for an accepted record without listener calls, a list for any other."""
    return [kind.value, thrown, calls] if thrown or calls else kind.value


def rows_of(rows: Mapping[str, Any] | None) -> Any:
    """Rows without empty ones: an empty row equals an absent row."""
    return {name: row for name, row in (rows or {}).items() if row}


def in_order(items: list[Any]) -> list[str]:
    """Items of any types in a canonical order."""
    return sorted(json.dumps(item, sort_keys=True) for item in items)


def each_in_order(offsets: Mapping[str, list[Any]]) -> Any:
    """Offsets of each connector that has any."""
    return rows_of({name: in_order(rows) for name, rows in offsets.items()})


def typed(value: Any) -> Any:
    """A value with its type: `1`, `1.0` and `True` are equal in Python, but not in Java."""
    if isinstance(value, bool):
        return {"boolean": value}
    if isinstance(value, float):
        return {"double": struct.pack(">d", value).hex()}
    if isinstance(value, Mapping):
        return {name: typed(member) for name, member in value.items()}
    if isinstance(value, list):
        return [typed(element) for element in value]
    return value


def differences(kafka: ComparableAnswer, ours: ComparableAnswer) -> Mapping[str, tuple[Any, Any]]:
    """Differences between two answers: name → (Kafka's, ours)."""
    if kafka == ours:
        return {}
    names = [*kafka, *(name for name in ours if name not in kafka)]
    pairs = ((name, (kafka.get(name), ours.get(name))) for name in names)
    return {name: pair for name, pair in pairs if pair[0] != pair[1]}
