"""Fate of one record: its effect on a worker, and the listener calls that it causes."""

from enum import Enum
from typing import Any, NamedTuple

import msgspec

from controlplane.core.records import Invalid


class FateKind(Enum):
    """Fates of a record, from harmless to fatal."""

    ACCEPTED = "accepted"
    IGNORED = "ignored"
    """Logged; nothing changes. Exception: an offset under an unusable key is stored, not listed."""
    UNDECODABLE = "undecodable"
    """Config topic only: ignored, and the worker's config offset does not advance."""
    LOSES_BATCH = "loses batch"
    """Throws an exception that costs the worker the rest of the poll batch (`KafkaBasedLog#poll`).
    """
    POISON = "poison"
    """Throws an exception that ends the worker at start, and blocks or damages a running one."""


class ListenerCall(NamedTuple):
    """Call of Kafka's `ConfigBackingStore.UpdateListener`: Kafka's worker learns of changes by it.

    `name` is the kind of call, `subject` its connector, namespace, key or task ids, `detail` a
    further argument. A fold reports calls only while `live`: records read at start-up are state,
    not news. `tests/oracle` compares them with Kafka's calls, and scenarios show them. This
    project's worker does not read them: it follows published states.
    """

    name: str
    subject: Any = None
    detail: Any = None


class RecordFate(msgspec.Struct, frozen=True, gc=False):
    """Fate of one record, with the reason if it is not ACCEPTED."""

    kind: FateKind
    reason: str = ""
    thrown: str | None = None
    """Java exception that the worker's backing store throws; None: none."""
    calls: tuple[ListenerCall, ...] = ()
    """Calls of a worker's `ConfigBackingStore.UpdateListener`. This project's worker compares
    states instead. Scenarios show the calls, and `tests/oracle` compares them with Kafka's own."""


ACCEPTED = RecordFate(FateKind.ACCEPTED)
UNSEEN = RecordFate(FateKind.IGNORED, "of an aborted transaction")

_LOSE_BATCH = ("ConnectException", "DataException")
"""Kafka exceptions that `KafkaBasedLog#poll` catches. Any other one ends the log thread, unless
`Profile.log_thread_survives`."""


def fate(invalid: Invalid) -> RecordFate:
    """Fate of bytes that are no record."""
    if invalid.thrown is not None:
        kind = FateKind.LOSES_BATCH if invalid.thrown in _LOSE_BATCH else FateKind.POISON
    else:
        kind = FateKind.IGNORED if invalid.advances else FateKind.UNDECODABLE
    return RecordFate(kind, invalid.reason, invalid.thrown)
