"""Two answers to one case, Kafka's and ours, in one form, so that they can be compared with `==`.

What became of a record is taken from Kafka by this rule, which our fold adopts:

* an exception left the store: it *loses the batch* if it is a `KafkaException`, which is all that
  `KafkaBasedLog#poll` catches; anything else is *poison*;
* the config store logged that it could not convert the value: the record is *undecodable*, and the
  config offset stays where it was;
* a store logged anything else at WARN or ERROR: the record is *ignored* (an offset with an odd key
  is kept under its raw bytes all the same, but never listed);
* otherwise it is *accepted*, whether or not it changed anything. So is a record of which only one
  field is complained about (`kafkas_answer.DEFECTS`).
"""

import json
import struct
from collections.abc import Mapping
from typing import Any

from controlplane.core.fold import FateKind

Common = dict[str, Any]
"""An answer by dotted names: `record 3`, `config.tasks`, `offsets.data`, …"""


UNREAD = "unread"
"""In place of the fate of a record that never reached its store."""


def compact(kind: FateKind, thrown: str | None, calls: list[Any]) -> Any:
    """One word for an accepted record without listener calls, a list for any other."""
    return [kind.value, thrown, calls] if thrown or calls else kind.value


def rows_of(rows: Mapping[str, Any] | None) -> Any:
    """Rows without the empty ones, which look like absent ones."""
    return {name: row for name, row in (rows or {}).items() if row}


def in_order(items: list[Any]) -> list[str]:
    """Items of any types in a defined order."""
    return sorted(json.dumps(item, sort_keys=True) for item in items)


def each_in_order(offsets: Mapping[str, list[Any]]) -> Any:
    """Offsets of each connector that has any."""
    return rows_of({name: in_order(rows) for name, rows in offsets.items()})


def typed(value: Any) -> Any:
    """A value with its type: Python thinks that `1`, `1.0` and `True` are equal, Java does not."""
    if isinstance(value, bool):
        return {"boolean": value}
    if isinstance(value, float):
        return {"double": struct.pack(">d", value).hex()}
    if isinstance(value, Mapping):
        return {name: typed(member) for name, member in value.items()}
    if isinstance(value, list):
        return [typed(element) for element in value]
    return value


def differences(kafka: Common, ours: Common) -> Mapping[str, tuple[Any, Any]]:
    """Differences between two answers: name → (Kafka's, ours)."""
    if kafka == ours:
        return {}
    names = [*kafka, *(name for name in ours if name not in kafka)]
    pairs = ((name, (kafka.get(name), ours.get(name))) for name in names)
    return {name: pair for name, pair in pairs if pair[0] != pair[1]}
