"""Offsets of the tasks of one source connector: what is committed, and the records to write.

If the log has a key for a source partition, new records repeat its bytes (`LoggedKeys`).
"""

import asyncio
import base64
from collections.abc import Awaitable, Callable, Mapping, Sequence
from math import isfinite, isnan
from typing import Any, NamedTuple

from controlplane.connect.errors import DataError
from controlplane.connect.records import OffsetFields, OffsetPair, PartitionFields
from controlplane.core import views
from controlplane.core.codec.offsets import frozen
from controlplane.core.decide.source_offsets import LoggedKeys
from controlplane.core.java import json_codec
from controlplane.core.java.json_values import fits_long
from controlplane.core.plan import Draft
from controlplane.core.state import ClusterState
from controlplane.core.topics.source_partitions import topics_of
from controlplane.event_loop import sliced
from controlplane.notices import Notices
from controlplane.worker.data_topics.clients import (
    Producer,
    ProducerFailure,
    ProducerFenced,
    TransactionalProducer,
)
from controlplane.worker.offsets.submitted_records import SourcePartitionId

_SCHEMA_TYPES: Mapping[type, str] = {dict: "MAP", list: "ARRAY", tuple: "ARRAY"}


class OffsetBatches(NamedTuple):
    """Records of one commit in the order of their writing (KAFKA-15018).

    The primary topic is the connector's own offsets topic, and the copy is in the worker's topic.
    Without an own topic, the worker's is the primary one and there is no copy.

    Removals go to the copy first, or a crash would revive an old offset.
    """

    removals_of_copy: Sequence[Draft]
    primary: Sequence[Draft]
    values_of_copy: Sequence[Draft]
    """Written last; a failure is only reported, because readers prefer the primary topic."""
    changes: Mapping[SourcePartitionId, OffsetFields | None]
    """Offsets by partition once `primary` is written; None: removed."""


class SourceOffsetStore:
    """Committed offsets of a connector: read when its tasks start, then updated by their commits.

    Other threads may read the object.

    The constructor blocks; call it in a thread: a state may have very many offsets.

    Offsets change outside of the tasks only while the connector is stopped; then the next start
    makes a new object.
    """

    def __init__(self, state: ClusterState, connector: str, config: Mapping[str, Any]) -> None:
        self._topics = topics_of(state, config)
        self._keys = LoggedKeys(state, connector, self._topics)
        self._connector = connector
        self._committed = _offsets_in(state, connector)
        self._newer: list[dict[SourcePartitionId, OffsetFields | None]] = []
        """Commits since the start of each `read_again` under way."""

    @property
    def topics(self) -> Sequence[str]:
        """The connector's own offsets topic, if any, then the worker's."""
        return self._topics

    def get(self, partition: PartitionFields) -> OffsetFields | None:
        """Return a copy of the committed offset; None: there is none."""
        try:
            offset = self._committed.get(frozen(plain_fields(partition)))
        except DataError:
            return None
        return None if offset is None else dict(offset)

    async def batches(self, offsets: Sequence[OffsetPair]) -> OffsetBatches:
        """Return the records that commit these offsets. Other tasks run meanwhile.

        Raises:
            DataError: a partition or offset is not made of primitive values.
        """
        pairs: list[OffsetPair] = []
        changes: dict[SourcePartitionId, OffsetFields | None] = {}
        async for partition, offset in sliced(offsets):
            fields, plain_offset = plain_fields(partition), _plain_offset(offset)
            pairs.append((fields, plain_offset))
            changes[frozen(fields)] = plain_offset
        primary, *copies = self._topics
        removals = [pair for pair in pairs if pair[1] is None] if copies else []
        values = [pair for pair in pairs if pair[1] is not None] if copies else []
        return OffsetBatches(
            [draft for copy in copies for draft in await self._drafts(copy, removals)],
            await self._drafts(primary, pairs),
            [draft for copy in copies for draft in await self._drafts(copy, values)],
            changes,
        )

    def committed(self, batches: OffsetBatches) -> None:
        """Take note that the offsets of these batches are in the log."""
        _apply(batches.changes, self._committed)
        for newer in self._newer:
            newer.update(batches.changes)

    async def read_again(self, read: Callable[[], Awaitable[ClusterState]]) -> None:
        """Replace the offsets by those of a state that is read now.

        A predecessor of a task may have committed a transaction, but got no answer.
        """
        newer: dict[SourcePartitionId, OffsetFields | None] = {}
        self._newer.append(newer)
        try:
            # In a thread, as at the start: a state may have very many offsets.
            committed = await asyncio.to_thread(_offsets_in, await read(), self._connector)
        finally:
            # By identity: the commits of two tasks may be equal.
            self._newer = [others for others in self._newer if others is not newer]
        _apply(newer, committed)  # the state that was read may be older than these commits
        self._committed = committed

    async def _drafts(self, topic: str, pairs: Sequence[OffsetPair]) -> list[Draft]:
        drafts: list[Draft] = []
        async for partition, offset in sliced(pairs):
            keys = self._keys.of(topic, partition)
            value = None if offset is None else json_codec.encode_hash_order(offset)
            # A removal needs a tombstone for every spelling of the partition that the topic has.
            drafts += (
                Draft(topic, key, value, self._keys.place(topic, key))
                for key in (keys if offset is None else keys[:1])
            )
        return drafts


def _offsets_in(state: ClusterState, connector: str) -> dict[SourcePartitionId, OffsetFields]:
    return {
        frozen(view.partition): view.offset
        for view in views.source_offsets(state, connector)
        if view.offset is not None
    }


def _apply(
    changes: Mapping[SourcePartitionId, OffsetFields | None],
    offsets: dict[SourcePartitionId, OffsetFields],
) -> None:
    """Set and remove offsets; None removes one."""
    for partition, offset in changes.items():
        if offset is None:
            offsets.pop(partition, None)
        else:
            offsets[partition] = offset


def plain_fields(fields: Any) -> dict[str, Any]:
    """Return a copy of a partition or offset as it is stored (`OffsetUtils#validateFormat`).

    Bytes become Base64, and NaN a text, as Kafka's JsonConverter writes them. Values of a subclass,
    such as members of an enum, become plain texts and numbers. The log has no other types.

    Raises:
        DataError: a value is not primitive, or a name is no text.
    """
    if not isinstance(fields, Mapping):
        raise DataError(f"Offsets must be maps, not {type(fields).__name__}")
    plain: dict[str, Any] = {}
    for name, value in fields.items():
        if not isinstance(name, str):
            kind = type(name).__name__
            raise DataError(f"Offsets may only use String keys, not {kind}")
        plain[str.__str__(name)] = _plain_value(name, value)
    return plain


def _plain_value(name: str, value: Any) -> Any:
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode("ascii")
    if value is None or isinstance(value, bool):
        return value
    # The methods of the base class: an enum has its own `__str__`.
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, float):
        return _plain_float(float.__float__(value))
    if isinstance(value, int) and fits_long(value):
        return int.__int__(value)
    kind = _SCHEMA_TYPES.get(type(value), f"class {type(value).__name__}")
    raise DataError(
        f"Offsets may only contain primitive types as values, but field {name} contains {kind}"
    )


def _plain_float(number: float) -> float | str:
    """Return a float as a reader of the log gets it: without -0.0; NaN and infinity as texts."""
    if isfinite(number):
        return number + 0.0  # -0.0 + 0.0 is 0.0
    return "NaN" if isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _plain_offset(offset: OffsetFields | None) -> dict[str, Any] | None:
    return None if offset is None else plain_fields(offset)


async def write_offsets(
    producer: Producer, offsets: SourceOffsetStore, batches: OffsetBatches
) -> None:
    """Commit offsets without records. The caller writes `values_of_copy` (`write_copy`).

    Raises:
        ProducerFailure, ProducerFenced: some or all are not committed.
    """
    # The order of `OffsetBatches`: a crash between two appends revives no old offset.
    await producer.write_offsets(batches.removals_of_copy)
    await producer.write_offsets(batches.primary)
    offsets.committed(batches)


async def write_copy(
    producer: Producer | TransactionalProducer,
    drafts: Sequence[Draft],
    notices: Notices,
    deadline: float | None = None,
) -> None:
    """Write the copy in the worker's topic; a failure is only reported.

    `deadline` is a time of the event loop, in seconds; None: the producer's own limits hold.
    """
    try:
        async with asyncio.timeout_at(deadline):
            await producer.write_offsets(drafts)
    except (ProducerFailure, ProducerFenced, TimeoutError) as failure:
        reason = str(failure) or "the write timed out"
        notices.warning("offsets_copy_not_written", reason=reason)
