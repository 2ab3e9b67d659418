"""Offsets of source connectors: records in the worker's offsets topic or the connector's own.

A connector may store its offsets in an offsets topic of its own. The worker's topic then holds a
copy, in case that setting is removed. KIP-618 says that readers fall back to the copy for a missing
partition. No release of Kafka does; the profile `kip` does (`Profile.own_offsets_fall_back`). So
the order of writes matters (KAFKA-15018). Removals go to the copy first
(`Profile.writes_removals_first`), or else a crash would revive an old offset. Values go there last,
as best effort.

The profile decides the key bytes of a partition's record. Releases serialise the parsed key again,
in the order of Java's maps. So they miss a record whose key has its fields in another order. `kip`
reuses the bytes of the log, so that one partition has one key (`Profile.writes_log_key`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from controlplane.core.codec.offsets import encode_partition, frozen
from controlplane.core.commands import OffsetChange
from controlplane.core.context import Context
from controlplane.core.decide.requested_offsets import as_map, ordered_for_flush, ordered_part
from controlplane.core.decide.task_configs import fencing
from controlplane.core.java import json_codec
from controlplane.core.java.json_values import fits_long
from controlplane.core.plan import (
    AskRemoteOffsets,
    Draft,
    Offsets,
    PlannedOffset,
    Reason,
    Rejected,
    Step,
    WriteOffsets,
)
from controlplane.core.records import JsonObject, Properties
from controlplane.core.state import ClusterState, OffsetState
from controlplane.core.topics.remote_offsets import (
    producer_servers,
    remote_clients,
    remote_topic,
    with_remote,
)
from controlplane.core.topics.source_partitions import (
    cluster_name,
    is_remote,
    listed,
    spellings,
    topics_of,
)


class SourceOffsets:
    """Offsets of one source connector with this config (Kafka: `Worker`)."""

    kind = "source"

    def __init__(
        self, state: ClusterState, name: str, config: Properties, context: Context
    ) -> None:
        self._state = state
        self._name = name
        self._context = context
        self._profile = context.profile
        remote = remote_topic(state, config, context.worker)
        if remote is not None and context.remote is not None:
            state = with_remote(state, remote, context.remote)
        self._config = config
        self._clients = remote_clients(config)
        self._topics = topics_of(state, config)
        keys = LoggedKeys if self._profile.writes_log_key else JavaKeys
        self._keys = keys(state, name, self._topics)

    def requested(self, changes: Sequence[OffsetChange]) -> Offsets | Rejected:
        """The requested offsets as Connect's converter reads them, or a refusal of their format."""
        pairs = ((change.partition, change.offset) for change in changes)
        return self._normalised(as_map(pairs, self._profile, as_longs=False))

    def removals(self) -> Offsets | Rejected:
        """Every partition with an offset, to be removed."""
        pairs = tuple((partition, None) for partition in self._keys.partitions())
        if self._profile.writes_log_key:
            return pairs
        return self._normalised(as_map(pairs, self._profile, as_longs=True))

    def fence(self) -> tuple[Step, ...]:
        """Steps that fence leftover tasks; none without exactly-once support."""
        if not self._state.exactly_once:
            return ()
        return fencing(self._state, self._name, self._config, self._context)

    def wipe(self, stored: Offsets) -> tuple[Step, ...]:
        """Steps that remove these offsets, named `wipe`."""
        return self._steps("wipe", stored)

    def write(self, requested: Offsets) -> tuple[Step, ...]:
        """Steps that set and remove these offsets, named `write`."""
        return self._steps("write", requested)

    def wipe_before_creation(self, stored: Offsets) -> tuple[Step, ...]:
        """Remove all offsets, perhaps from two topics; the undo of a step repeats the step.

        A crash may leave a part of the offsets, and a connector must never start from a part. The
        undo cannot know which offsets are left, so it removes all of them.
        """
        return tuple(msgspec.structs.replace(step, undo=step) for step in self.wipe(stored))

    def write_after_wipe(self, requested: Offsets) -> tuple[Step, ...]:
        """Set offsets of partitions that have none; the undo of a step removes its offsets."""
        set_ = tuple(pair for pair in requested if pair[1] is not None)
        return tuple(_with_undo(step) for step in self._steps("write", set_))

    # --- requested offsets ------------------------------------------------------------------

    def _normalised(self, pairs: Offsets) -> Offsets | Rejected:
        """Validated offsets, written and read back by Connect's converter, or a refusal.

        Kafka: `Worker#normalizeSourceConnectorOffsets`.
        """
        faults = (_format_fault(fields or {}) for pair in pairs for fields in pair)
        fault = next(filter(None, faults), None)
        if fault is not None:
            return self._malformed(fault)
        try:
            read = [(self._read_back(partition), self._read_back(to)) for partition, to in pairs]
        except json_codec.Undecodable:
            return self._malformed(_UNREADABLE)
        return as_map(read, self._profile, as_longs=True)

    def _malformed(self, fault: str) -> Rejected:
        """Refusal of malformed offsets. Releases report it as a failure of the worker."""
        is_client_error = self._profile.rest_bad_body_is_client_error
        return Rejected(Reason.INVALID if is_client_error else Reason.FAILED, fault)

    def _read_back(self, fields: JsonObject | None) -> JsonObject | None:
        if fields is None:
            return None
        return cast(
            "JsonObject",
            json_codec.decode(json_codec.encode_hash_order(fields), self._profile),
        )

    # --- written records ----------------------------------------------------------------------

    def _steps(self, name: str, offsets: Offsets) -> tuple[Step, ...]:
        """Steps for one topic after the other, in the order that the module explains.

        Steps without records are left out.
        """
        ordered = ordered_for_flush(self._name, offsets, self._profile)
        primary, *copies = self._topics
        steps = []
        for copy in copies if self._profile.writes_removals_first else ():
            removed = (pair for pair in ordered if pair[1] is None)
            steps.append(self._step("wipe-copy", copy, self._ordered_part(removed)))
        steps.append(self._step(name, primary, ordered))
        for copy in copies:
            pairs = ordered
            if self._profile.writes_removals_first:
                pairs = self._ordered_part(pair for pair in ordered if pair[1] is not None)
            steps.append(self._step(f"{name}-copy", copy, pairs, best_effort=True))
        return tuple(step for step in steps if step.records or step.action is not None)

    def _ordered_part(self, offsets: Iterable[PlannedOffset]) -> Offsets:
        return ordered_part(self._name, offsets, self._profile)

    def _step(self, name: str, topic: str, offsets: Offsets, *, best_effort: bool = False) -> Step:
        """Step that writes to one topic; on another cluster, an action does it."""
        drafts = tuple(self._draft(topic, *pair) for pair in self._keyed(topic, offsets))
        if is_remote(topic):
            return Step(name, action=self._remote_write(topic, drafts) if drafts else None)
        read_back = (topic,) if self._profile.reads_back_offsets else ()
        return Step(name, drafts, read_back=read_back, best_effort=best_effort)

    def _remote_write(self, topic: str, drafts: tuple[Draft, ...]) -> WriteOffsets:
        """Action that writes to a topic on the cluster of the producer.

        With exactly-once support it is a transaction of the first task's producer, as in Kafka.
        """
        name, on_cluster = self._name, cluster_name(topic)
        records = tuple(msgspec.structs.replace(draft, topic=on_cluster) for draft in drafts)
        first_task = f"{self._context.worker.group_id}-{name}-0"
        transactional_id = first_task if self._state.exactly_once else ""
        return WriteOffsets(name, on_cluster, records, self._clients, transactional_id)

    def _keyed(self, topic: str, offsets: Offsets) -> Iterator[tuple[bytes, JsonObject | None]]:
        """Keys and offsets to write: offsets to a partition's first key, removals to all keys."""
        for partition, offset in offsets:
            keys = self._keys.of(topic, partition)
            yield from ((key, offset) for key in (keys if offset is None else keys[:1]))

    def _draft(self, topic: str, key: bytes, offset: JsonObject | None) -> Draft:
        value = None if offset is None else json_codec.encode_hash_order(offset)
        return Draft(topic, key, value, self._keys.place(topic, key))


def missing_remote(
    state: ClusterState, name: str, config: Properties, context: Context
) -> AskRemoteOffsets | None:
    """Question about offsets on the cluster of the producer; None: the decision needs no answer."""
    topic = remote_topic(state, config, context.worker)
    if topic is None or context.remote is not None:
        return None
    servers = producer_servers(config, context.worker)
    return AskRemoteOffsets(name, topic, servers, remote_clients(config))


def _with_undo(step: Step) -> Step:
    """The step with an undo that removes every offset that the step sets."""
    undo = Step(f"undo-{step.name}", _removals(step.records), read_back=step.read_back)
    if isinstance(step.action, WriteOffsets):
        removal = msgspec.structs.replace(step.action, records=_removals(step.action.records))
        undo = msgspec.structs.replace(undo, action=removal)
    return msgspec.structs.replace(step, undo=undo)


def _removals(records: Iterable[Draft]) -> tuple[Draft, ...]:
    return tuple(msgspec.structs.replace(draft, value=None) for draft in records)


_NON_PRIMITIVES: Mapping[type, str] = {dict: "MAP", list: "ARRAY"}
_UNREADABLE = "Converting byte[] to Kafka Connect data failed due to serialization error: "


def _format_fault(fields: JsonObject) -> str | None:
    """Fault of a partition or offset; None: valid (`OffsetUtils#validateFormat`)."""
    for name, value in fields.items():
        kind = _NON_PRIMITIVES.get(type(value))
        if isinstance(value, int) and not fits_long(value):
            kind = "class java.math.BigInteger"
        if kind is not None:
            return (
                "Offsets may only contain primitive types as values, "
                f"but field {name} contains {kind}"
            )
    return None


class _LoggedPartition(NamedTuple):
    """A partition and its keys with a value in a topic.

    The key that a worker would write comes first, the others follow in byte order (`spellings`).
    """

    partition: JsonObject | None
    keys: Sequence[bytes]


class LoggedKeys:
    """Keys of one connector's partitions as the log spells them.

    `topics` are its offsets topics: its own first, if any.
    """

    def __init__(self, state: ClusterState, connector: str, topics: Sequence[str]) -> None:
        self._state = state
        self._connector = connector
        self._logged = {topic: self._logged_in(topic) for topic in topics}

    def partitions(self) -> list[JsonObject | None]:
        """Every partition with a value in a topic, sorted by key, even one that no worker lists."""
        by_partition: dict[tuple[Any, ...], _LoggedPartition] = {}
        for logged in self._logged.values():
            by_partition = {**logged, **by_partition}
        in_order = sorted(by_partition.values(), key=lambda logged: logged.keys[0])
        return [logged.partition for logged in in_order]

    def of(self, topic: str, partition: JsonObject | None) -> Sequence[bytes]:
        """Keys of a partition in a topic, ordered as in `_LoggedPartition`; never empty.

        A partition that the topic lacks gets the spelling of another topic, or Java's.
        """
        partition_key = frozen(partition)
        if partition_key in self._logged[topic]:
            return self._logged[topic][partition_key].keys
        elsewhere = (
            logged[partition_key].keys[:1]
            for logged in self._logged.values()
            if partition_key in logged
        )
        return next(elsewhere, [encode_partition(self._connector, partition)])

    def place(self, topic: str, key: bytes) -> int | None:
        """Partition of the topic that holds the key, if known.

        A foreign writer may have used another partitioner than Kafka's.
        """
        cause = self._state.causes.get((topic, key))
        return None if cause is None else cause.partition

    def _logged_in(self, topic: str) -> Mapping[tuple[Any, ...], _LoggedPartition]:
        """Partitions with a value in the topic, by `frozen` partition."""
        spelled_partitions = spellings(self._state, topic, self._connector).items()
        logged = {
            partition_key: _LoggedPartition(
                spelled[0].subject.partition, [spelling.key for spelling in spelled]
            )
            for (_, partition_key), spelled in spelled_partitions
        }
        # A client can write an offset of the null partition, but `spellings` never lists it.
        null_key = encode_partition(self._connector, None)
        if null_key in self._state.offsets.get(topic, OffsetState()).values:
            logged[frozen(None)] = _LoggedPartition(None, [null_key])
        return logged


class JavaKeys:
    """Keys as a release writes them, whatever the log's spelling is."""

    def __init__(self, state: ClusterState, connector: str, topics: Sequence[str]) -> None:
        self._state = state
        self._connector = connector
        self._topics = topics

    def partitions(self) -> list[JsonObject]:
        """Every partition that a worker lists, sorted by key.

        A state does not keep the order of the log.
        """
        spelled = listed(self._state, self._topics, self._connector).values()
        in_order = sorted(spelled, key=lambda partition: partition.key)
        return [partition.subject.partition for partition in in_order]

    def of(self, _topic: str, partition: JsonObject | None) -> Sequence[bytes]:
        """The single key, with fields in HashMap order."""
        return [encode_partition(self._connector, partition)]

    def place(self, _topic: str, _key: bytes) -> None:
        """None: Kafka's partitioner chooses the partition."""
        return
