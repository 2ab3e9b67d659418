"""What came of one record: state changed, nothing, or trouble; and whom a worker told."""

from enum import Enum
from typing import Any, NamedTuple

import msgspec

from controlplane.core.records import Invalid


class Kind(Enum):
    """Five fates of a record, from harmless to fatal."""

    ACCEPTED = "accepted"
    IGNORED = "ignored"
    """Logged, nothing changed, the previous value kept."""
    UNDECODABLE = "undecodable"
    """As IGNORED; in the config topic the worker's offset stays behind, too."""
    LOSES_BATCH = "loses batch"
    """An exception that costs the worker the rest of the poll batch (`KafkaBasedLog#poll`)."""
    POISON = "poison"
    """An exception that ends the worker at start, and wedges or wounds a running one."""


class Call(NamedTuple):
    """A call of Kafka's `ConfigBackingStore.UpdateListener`: how a worker learns that it must act.

    Made only while `live`: what lies in the log at start-up is state, not news.
    """

    name: str
    subject: Any = None
    detail: Any = None


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """The fate of one record."""

    kind: Kind
    reason: str = ""
    thrown: str | None = None
    """The Java exception that leaves the store, if any."""
    calls: tuple[Call, ...] = ()


ACCEPTED = Outcome(Kind.ACCEPTED)
UNSEEN = Outcome(Kind.IGNORED, "of an aborted transaction")

_LOSE_BATCH = ("ConnectException", "DataException")
"""Kafka exceptions, which `KafkaBasedLog#poll` catches; whatever else is thrown kills."""


def fate(invalid: Invalid) -> Outcome:
    """What a worker does about bytes that are no record."""
    if invalid.thrown is not None:
        kind = Kind.LOSES_BATCH if invalid.thrown in _LOSE_BATCH else Kind.POISON
    else:
        kind = Kind.IGNORED if invalid.advances else Kind.UNDECODABLE
    return Outcome(kind, invalid.reason, invalid.thrown)
