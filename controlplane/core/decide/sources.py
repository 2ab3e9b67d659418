"""Offsets of source connectors: records in the worker's offsets topic, and in the connector's own.

A connector with a topic of its own has its offsets there; the worker's topic holds a copy, for the
day when the setting is taken away. A partition that the former lacks is looked for in the latter,
so the order matters (KAFKA-15018): removals go to the copy first, or a crash would bring an old
offset back; values go there last, and at best effort.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec

from controlplane.core import javajson
from controlplane.core.commands import OffsetChange
from controlplane.core.context import Context
from controlplane.core.decide.keys import JavaKeys, LoggedKeys
from controlplane.core.decide.tasks import fencing
from controlplane.core.decide.wanted import as_map, selected, serialised
from controlplane.core.java_values import fits_long
from controlplane.core.plan import Draft, Offset, Offsets, Reason, Rejected, Step
from controlplane.core.records import Properties
from controlplane.core.source_partitions import OFFSETS_TOPIC, topics_of
from controlplane.core.state import ClusterState

Fields = Mapping[str, Any]


class SourceOffsets:
    """The offsets of one source connector, with this config (Kafka: `Worker`)."""

    kind = "source"

    def __init__(
        self, state: ClusterState, name: str, config: Properties, context: Context
    ) -> None:
        self._state = state
        self._name = name
        self._context = context
        self._profile = context.profile
        self._topics = topics_of(state, config)
        keys = LoggedKeys if self._profile.writes_log_key else JavaKeys
        self._keys = keys(state, name, self._topics)

    def wanted(self, changes: Sequence[OffsetChange]) -> Offsets | Rejected:
        """What is asked for, as Connect's converter reads it; or what is wrong with its form."""
        pairs = ((change.partition, change.offset) for change in changes)
        return self._normal(as_map(pairs, self._profile, as_longs=False))

    def known(self) -> Offsets | Rejected:
        """Every partition that has an offset, to be taken away."""
        pairs = tuple((partition, None) for partition in self._keys.partitions())
        if self._profile.writes_log_key:
            return pairs
        return self._normal(as_map(pairs, self._profile, as_longs=True))

    def fence(self) -> tuple[Step, ...]:
        """Before anything else, tasks that were thought to be gone must be unable to write."""
        return fencing(self._state, self._name, self._context) if self._state.exactly_once else ()

    def wipe(self, known: Offsets) -> tuple[Step, ...]:
        """Take these away."""
        return self._steps("wipe", known)

    def write(self, wanted: Offsets) -> tuple[Step, ...]:
        """Set and take away."""
        return self._steps("write", wanted)

    def start_over(self, known: Offsets) -> tuple[Step, ...]:
        """Take these away, from two topics perhaps; half of them would be a position of nobody's.

        How far it came, nobody knows behind a crash: so what takes it back does it once more.
        """
        return tuple(msgspec.structs.replace(step, undo=step) for step in self.wipe(known))

    def start_at(self, wanted: Offsets) -> tuple[Step, ...]:
        """Set what nobody had an offset of before; what was set can be taken away again."""
        set_ = tuple(one for one in wanted if one[1] is not None)
        return tuple(_with_undo(step) for step in self._steps("write", set_))

    # --- what may be asked ------------------------------------------------------------------

    def _normal(self, pairs: Offsets) -> Offsets | Rejected:
        """Checked, then written and read as Connect's converter does (`Worker#normalize…`)."""
        faults = (_fault(fields or {}) for pair in pairs for fields in pair)
        fault = next(filter(None, faults), None)
        if fault is not None:
            return self._malformed(fault)
        try:
            read = [(self._read_back(partition), self._read_back(to)) for partition, to in pairs]
        except javajson.Undecodable:
            return self._malformed(_UNREADABLE)
        return as_map(read, self._profile, as_longs=True)

    def _malformed(self, fault: str) -> Rejected:
        """Releases fail at it; it is the asker's fault."""
        askers = self._profile.rest_bad_body_is_askers
        return Rejected(Reason.INVALID if askers else Reason.FAILED, fault)

    def _read_back(self, fields: Fields | None) -> Fields | None:
        if fields is None:
            return None
        return cast("Fields", javajson.decode(javajson.encode_hash_order(fields), self._profile))

    # --- what is written --------------------------------------------------------------------

    def _steps(self, name: str, offsets: Offsets) -> tuple[Step, ...]:
        """One topic after the other; where nothing is to be written there is no step."""
        ordered = serialised(self._name, offsets, self._profile)
        primary, *copies = self._topics
        steps = []
        for copy in copies if self._profile.writes_removals_first else ():
            removed = (one for one in ordered if one[1] is None)
            steps.append(self._step("wipe-copy", copy, self._selected(removed)))
        steps.append(self._step(name, primary, ordered))
        for copy in copies:
            rest = ordered
            if self._profile.writes_removals_first:
                rest = self._selected(one for one in ordered if one[1] is not None)
            steps.append(self._step(f"{name}-copy", copy, rest, best_effort=True))
        return tuple(step for step in steps if step.records)

    def _selected(self, some: Iterable[Offset]) -> Offsets:
        return selected(self._name, some, self._profile)

    def _step(self, name: str, topic: str, offsets: Offsets, *, best_effort: bool = False) -> Step:
        """Records for one topic: with exactly-once support a transaction of its own."""
        drafts = tuple(self._draft(topic, *one) for one in self._keyed(topic, offsets))
        read_back = (topic,) if self._profile.reads_back_offsets else ()
        return Step(name, drafts, read_back=read_back, best_effort=best_effort)

    def _keyed(self, topic: str, offsets: Offsets) -> Iterator[tuple[bytes, Fields | None]]:
        """A value goes under the best key, a removal under each."""
        for partition, offset in offsets:
            keys = self._keys.of(topic, partition)
            yield from ((key, offset) for key in (keys if offset is None else keys[:1]))

    def _draft(self, topic: str, key: bytes, offset: Fields | None) -> Draft:
        value = None if offset is None else javajson.encode_hash_order(offset)
        return Draft(topic, key, value, self._keys.place(topic, key))


def unreachable(
    state: ClusterState, name: str, config: Properties, context: Context
) -> Rejected | None:
    """Why we cannot write the offsets of a source connector: they lie on another cluster.

    So does a connector's own topic if its producers are told so; with exactly-once support every
    connector writes its offsets with them (`Worker#sameOffsetTopicAsWorker`).
    """
    servers = config.get("producer.override.bootstrap.servers")
    ours = context.worker.bootstrap_servers
    with_producer = state.exactly_once or config.get(OFFSETS_TOPIC) is not None
    if not with_producer or not isinstance(servers, str) or not ours:
        return None
    if _servers(servers) == _servers(ours):
        return None
    text = (
        f"The offsets of connector {name} lie on the Kafka cluster {servers}, where this control "
        "plane does not write: ask a control plane of that cluster, or take away "
        "producer.override.bootstrap.servers"
    )
    return Rejected(Reason.FAILED, text)


def _servers(listed_: str) -> set[str]:
    return {server.strip() for server in listed_.split(",")}


def _with_undo(step: Step) -> Step:
    removals = tuple(msgspec.structs.replace(draft, value=None) for draft in step.records)
    undo = Step(f"undo-{step.name}", removals, read_back=step.read_back)
    return msgspec.structs.replace(step, undo=undo)


_NO_PRIMITIVES: Mapping[type, str] = {dict: "MAP", list: "ARRAY"}
_UNREADABLE = "Converting byte[] to Kafka Connect data failed due to serialization error: "


def _fault(fields: Fields) -> str | None:
    """What is wrong with a partition or an offset (`OffsetUtils#validateFormat`)."""
    for name, value in fields.items():
        found = _NO_PRIMITIVES.get(type(value))
        if isinstance(value, int) and not fits_long(value):
            found = "class java.math.BigInteger"
        if found is not None:
            return (
                "Offsets may only contain primitive types as values, "
                f"but field {name} contains {found}"
            )
    return None
