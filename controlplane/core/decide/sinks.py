"""Offsets of sink connectors: those that a consumer group of Kafka's has committed."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from controlplane.core.commands import OffsetChange
from controlplane.core.context import Context
from controlplane.core.decide.wanted import as_map
from controlplane.core.java import parse_int, parse_long
from controlplane.core.java_values import value_text
from controlplane.core.plan import (
    AlterGroup,
    AskGroup,
    DeleteGroup,
    Offset,
    Offsets,
    Reason,
    Rejected,
    Step,
)
from controlplane.core.records import Properties
from controlplane.core.state import ClusterState

TOPIC, PARTITION, OFFSET = "kafka_topic", "kafka_partition", "kafka_offset"

_Place = tuple[str, int]
"""A topic and a partition of it."""


class SinkOffsets:
    """The offsets of one sink connector, with this config (Kafka: `Worker`, `SinkUtils`)."""

    kind = "sink"

    def __init__(
        self, _state: ClusterState, name: str, config: Properties, context: Context
    ) -> None:
        self._name = name
        self._group = group_of(name, config, context)
        self._context = context
        self._profile = context.profile

    def wanted(self, changes: Sequence[OffsetChange]) -> Offsets | Rejected:
        """What is asked for, in numbers; or what is wrong with its form.

        `"0"` and `0` are one partition: the last one that a worker comes to counts.
        """
        pairs = ((change.partition, change.offset) for change in changes)
        parsed: dict[_Place, int | None] = {}
        try:
            for partition, offset in as_map(pairs, self._profile, as_longs=False):
                where = _partition(partition)
                parsed[where] = _offset(offset)
        except _Fault as fault:
            return Rejected(Reason.INVALID, str(fault))
        return self._negative(parsed) or tuple(_shown(*where, to) for where, to in parsed.items())

    def known(self) -> Offsets | AskGroup:
        """Every partition with a committed offset, to be taken away: only Kafka knows."""
        if self._context.group is None:
            return AskGroup(self._name, self._group)
        return tuple(_shown(topic, partition, None) for topic, partition, _ in self._context.group)

    def fence(self) -> tuple[Step, ...]:
        """Nothing: Kafka lets nobody change the offsets of a group that has members."""
        return ()

    def wipe(self, _known: Offsets) -> tuple[Step, ...]:
        """Delete the group, also one that has committed nothing (KIP-875)."""
        return (Step("wipe", action=DeleteGroup(self._name, self._group)),)

    def write(self, wanted: Offsets) -> tuple[Step, ...]:
        """Set and remove offsets of the group."""
        put = tuple(
            (partition[TOPIC], partition[PARTITION], offset[OFFSET])
            for partition, offset in wanted
            if partition is not None and offset is not None
        )
        removed = tuple(
            (partition[TOPIC], partition[PARTITION])
            for partition, offset in wanted
            if partition is not None and offset is None
        )
        return (Step("write", action=AlterGroup(self._name, self._group, put, removed)),)

    def start_over(self, known: Offsets) -> tuple[Step, ...]:
        """Delete the group: it is there as a whole, or not at all."""
        return self.wipe(known)

    def start_at(self, wanted: Offsets) -> tuple[Step, ...]:
        """Set the offsets of a group that was deleted before, and can be deleted again."""
        wanted = tuple(one for one in wanted if one[1] is not None)
        if not wanted:
            return ()
        (undo,) = self.wipe(wanted)
        (step,) = self.write(wanted)
        return (msgspec.structs.replace(step, undo=undo),)

    def _negative(self, parsed: Mapping[_Place, int | None]) -> Rejected | None:
        """Numbers that no offset of Kafka's can have. Releases find it out too late."""
        for (topic, partition), offset in parsed.items():
            if self._profile.rest_bad_body_is_askers and min(partition, offset or 0) < 0:
                where = f"partition {partition} of topic {topic}"
                text = f"Neither partitions nor offsets can be negative: {where}, offset {offset}"
                return Rejected(Reason.INVALID, text)
            if offset is not None and offset < 0:
                text = f"Failed to modify offsets for sink connector {self._name}"
                return Rejected(Reason.FAILED, text)
        return None


def group_of(name: str, config: Properties, context: Context) -> str:
    """The consumer group of a sink connector (`Worker#baseConsumerConfigs`)."""
    override = config.get("consumer.override.group.id")
    if isinstance(override, str):
        return override
    return context.worker.consumer_group_id or f"connect-{name}"


class _Fault(Exception):
    """An offset has not the form of a sink's. The message is what a worker answers."""


def _partition(fields: Mapping[str, Any] | None) -> _Place:
    if fields is None:
        raise _Fault("The partition for a sink connector offset cannot be null or missing")
    if TOPIC not in fields or PARTITION not in fields:
        raise _Fault(
            "The partition for a sink connector offset must contain the keys "
            f"'{TOPIC}' and '{PARTITION}'"
        )
    if fields[TOPIC] is None:
        raise _Fault("Kafka topic names must be valid strings and may not be null")
    if fields[PARTITION] is None:
        raise _Fault("Kafka partitions must be valid numbers and may not be null")
    number = parse_int(value_text(fields[PARTITION]))
    if number is None:
        raise _Fault(_unparsed("Kafka partition", "Partition", fields[PARTITION]))
    return value_text(fields[TOPIC]), number


def _offset(fields: Mapping[str, Any] | None) -> int | None:
    if fields is None:
        return None
    if OFFSET not in fields:
        raise _Fault(
            f"The offset for a sink connector should either be null or contain the key '{OFFSET}'"
        )
    number = parse_long(value_text(fields[OFFSET]))
    if number is None:
        raise _Fault(_unparsed("Kafka offset", "Offset", fields[OFFSET]))
    return number


def _unparsed(what: str, whose: str, value: Any) -> str:
    return (
        f"Failed to parse the following {what} value in the provided offsets: "
        f"'{value_text(value)}'. {whose} values for sink connectors need to be integers."
    )


def _shown(topic: str, partition: int, offset: int | None) -> Offset:
    """As the hook is shown it, and as answers spell it."""
    return {TOPIC: topic, PARTITION: partition}, None if offset is None else {OFFSET: offset}
