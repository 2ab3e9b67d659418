"""Offsets of sink connectors: the committed offsets of a consumer group."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from controlplane.core.commands import OffsetChange
from controlplane.core.context import Context
from controlplane.core.decide.requested_offsets import as_map
from controlplane.core.entry import TopicPartition
from controlplane.core.java.java_library import parse_int, parse_long
from controlplane.core.java.json_values import value_text
from controlplane.core.plan import (
    AdminOverrides,
    AlterGroup,
    AskGroup,
    DeleteGroup,
    Offsets,
    PlannedOffset,
    Reason,
    Rejected,
    Step,
)
from controlplane.core.records import Properties
from controlplane.core.state import ClusterState

TOPIC, PARTITION, OFFSET = "kafka_topic", "kafka_partition", "kafka_offset"


class SinkOffsets:
    """Offsets of one sink connector with this config (Kafka: `Worker`, `SinkUtils`)."""

    kind = "sink"

    def __init__(
        self, _state: ClusterState, name: str, config: Properties, context: Context
    ) -> None:
        self._name = name
        self._group = group_of(name, config, context)
        self._admin = admin_overrides(config)
        self._context = context
        self._profile = context.profile

    def requested(self, changes: Sequence[OffsetChange]) -> Offsets | Rejected:
        """The requested offsets as numbers, or a refusal of their format.

        `"0"` and `0` are one partition: the later of the two in the worker's order wins.
        """
        pairs = ((change.partition, change.offset) for change in changes)
        parsed: dict[TopicPartition, int | None] = {}
        try:
            for partition, offset in as_map(pairs, self._profile, as_longs=False):
                topic_partition = _parsed_partition(partition)
                parsed[topic_partition] = _parsed_offset(offset)
        except _OffsetFormatError as fault:
            return Rejected(Reason.INVALID, str(fault))
        return self._negative_number(parsed) or tuple(
            _planned_offset(*topic_partition, offset) for topic_partition, offset in parsed.items()
        )

    def removals(self) -> Offsets | AskGroup:
        """Every partition with a committed offset, to be removed.

        Returns a question if the context lacks the group's offsets.
        """
        if self._context.group is None:
            return AskGroup(self._name, self._group, self._admin)
        return tuple(
            _planned_offset(topic, partition, None) for topic, partition, _ in self._context.group
        )

    def fence(self) -> tuple[Step, ...]:
        """No steps: Kafka refuses to change the offsets of a group with members."""
        return ()

    def wipe(self, _stored: Offsets) -> tuple[Step, ...]:
        """Delete the group, even one without committed offsets (KIP-875)."""
        return (Step("wipe", action=DeleteGroup(self._name, self._group, self._admin)),)

    def write(self, requested: Offsets) -> tuple[Step, ...]:
        """Set and remove offsets of the group."""
        set_ = tuple(
            (partition[TOPIC], partition[PARTITION], offset[OFFSET])
            for partition, offset in requested
            if partition is not None and offset is not None
        )
        removed = tuple(
            (partition[TOPIC], partition[PARTITION])
            for partition, offset in requested
            if partition is not None and offset is None
        )
        action = AlterGroup(self._name, self._group, set_, removed, self._admin)
        return (Step("write", action=action),)

    def wipe_before_creation(self, stored: Offsets) -> tuple[Step, ...]:
        """Delete the group; a single action, so it is never half done."""
        return self.wipe(stored)

    def write_after_wipe(self, requested: Offsets) -> tuple[Step, ...]:
        """Set offsets of the group, which has been deleted; the undo deletes it again."""
        requested = tuple(pair for pair in requested if pair[1] is not None)
        if not requested:
            return ()
        (undo,) = self.wipe(requested)
        (step,) = self.write(requested)
        return (msgspec.structs.replace(step, undo=undo),)

    def _negative_number(self, parsed: Mapping[TopicPartition, int | None]) -> Rejected | None:
        """Refuse negative offsets, and under `kip` negative partitions; None: nothing to refuse."""
        for (topic, partition), offset in parsed.items():
            if self._profile.rest_bad_body_is_client_error and min(partition, offset or 0) < 0:
                where = f"partition {partition} of topic {topic}"
                text = f"Neither partitions nor offsets can be negative: {where}, offset {offset}"
                return Rejected(Reason.INVALID, text)
            # Releases detect a negative offset late, and report a failure.
            if offset is not None and offset < 0:
                text = f"Failed to modify offsets for sink connector {self._name}"
                return Rejected(Reason.FAILED, text)
        return None


def group_of(name: str, config: Properties, context: Context) -> str:
    """Consumer group of a sink connector (`Worker#baseConsumerConfigs`)."""
    override = config.get("consumer.override.group.id")
    if isinstance(override, str):
        return override
    return context.worker.consumer_group_id or f"connect-{name}"


_ADMIN_OVERRIDE = "admin.override."


def admin_overrides(config: Properties) -> AdminOverrides:
    """Settings of a connector's admin client, without their prefix; UNSET: none.

    Kafka: `Worker#adminConfigs`.
    """
    overrides = {
        key.removeprefix(_ADMIN_OVERRIDE): value
        for key, value in config.items()
        if key.startswith(_ADMIN_OVERRIDE)
    }
    return overrides or msgspec.UNSET


class _OffsetFormatError(Exception):
    """A partition or offset that is not in the format of sinks. The message is the worker's."""


def _parsed_partition(fields: Mapping[str, Any] | None) -> TopicPartition:
    """Parse a partition's fields. Raises `_OffsetFormatError`."""
    if fields is None:
        raise _OffsetFormatError(
            "The partition for a sink connector offset cannot be null or missing"
        )
    if TOPIC not in fields or PARTITION not in fields:
        raise _OffsetFormatError(
            "The partition for a sink connector offset must contain the keys "
            f"'{TOPIC}' and '{PARTITION}'"
        )
    if fields[TOPIC] is None:
        raise _OffsetFormatError("Kafka topic names must be valid strings and may not be null")
    if fields[PARTITION] is None:
        raise _OffsetFormatError("Kafka partitions must be valid numbers and may not be null")
    number = parse_int(value_text(fields[PARTITION]))
    if number is None:
        raise _OffsetFormatError(_unparsed_text("Kafka partition", "Partition", fields[PARTITION]))
    return value_text(fields[TOPIC]), number


def _parsed_offset(fields: Mapping[str, Any] | None) -> int | None:
    """Parse an offset's fields; None: the offset is removed. Raises `_OffsetFormatError`."""
    if fields is None:
        return None
    if OFFSET not in fields:
        raise _OffsetFormatError(
            f"The offset for a sink connector should either be null or contain the key '{OFFSET}'"
        )
    number = parse_long(value_text(fields[OFFSET]))
    if number is None:
        raise _OffsetFormatError(_unparsed_text("Kafka offset", "Offset", fields[OFFSET]))
    return number


def _unparsed_text(noun: str, subject: str, value: Any) -> str:
    return (
        f"Failed to parse the following {noun} value in the provided offsets: "
        f"'{value_text(value)}'. {subject} values for sink connectors need to be integers."
    )


def _planned_offset(topic: str, partition: int, offset: int | None) -> PlannedOffset:
    """A sink's offset as hooks receive it and answers show it."""
    return {TOPIC: topic, PARTITION: partition}, None if offset is None else {OFFSET: offset}
