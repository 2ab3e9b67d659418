"""Changes between two states of one cluster: one row for each changed row of a table.

Rows are made and compared only for connectors with a changed value. Unchanged source offsets of
these connectors are left out. A row is compared as JSON. The rows of one place, such as a task, are
compared as a multiset. Odd records may give a source partition several rows.
"""

from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import msgspec

from controlplane.core import views
from controlplane.core.codec.offsets import PartitionIdentity, decode_partition, identity
from controlplane.core.entry import Position
from controlplane.core.records import Invalid
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import Aspect, ClusterState, OffsetState, part_of
from controlplane.core.text.redaction import redacted_value
from controlplane.core.topics.source_partitions import OffsetsByConnector
from replay.tables.cells import RowDocument, json_cell
from replay.tables.schemas import STATE_SCHEMAS
from replay.tables.state_tables import STATE_TABLES

NOT_OF_A_STATE = ("cluster", "release", "order_dependent")
"""Columns that are not compared. `cluster` and `release` name the state. `order_dependent` cannot
be computed from a state alone: it also depends on records that a state does not show."""

OffsetPositions = Mapping[tuple[str, str], Position]
"""Last records of source offsets: by connector and source partition, as the table has it."""


class RowPlace(NamedTuple):
    """Place of a row: its table, and the columns that name it."""

    table: str
    connector: str
    task: int | None
    item: str | None

    @property
    def order(self) -> tuple[str, str, int, str]:
        """Sort key; a row without a task precedes those of tasks."""
        task = -1 if self.task is None else self.task
        return self.table, self.connector, task, self.item or ""


class StateStep(NamedTuple):
    """Two states of a cluster, and the records between them."""

    cluster: str
    before: ClusterState
    after: ClusterState
    offsets: OffsetPositions

    def rows(self) -> Iterator[RowDocument]:
        """Yield rows of `schemas.STATE_CHANGES`, connector by connector."""
        head = {"cluster": self.cluster, "release": self.after.profile.release}
        for name, states in self._changed_connectors():
            old, new = (_rows(self.cluster, _only(state, name)) for state in states)
            for place in sorted({*old, *new}, key=lambda place: place.order):
                for before, after in _pairs(old.get(place, ()), new.get(place, ())):
                    yield head | {
                        **place._asdict(),
                        "change": _kind(before, after),
                        "before": before,
                        "after": after,
                        "causes": [cause._asdict() for cause in self._causes(name, place)],
                    }

    def _changed_connectors(self) -> Iterator[tuple[str, tuple[ClusterState, ClusterState]]]:
        """Names of changed connectors; their two states, with the changed source offsets only."""
        before, after = self.before, self.after
        old_offsets, new_offsets = OffsetsByConnector(before), OffsetsByConnector(after)
        identities = _Identities(after.profile)
        partitions = changed_partitions(before, after, identities)
        for name in sorted({*changed_connectors(before, after), *partitions}):
            states = old_offsets.state_of(name), new_offsets.state_of(name)
            # If the offsets topics have changed, rows of all partitions may differ.
            if views.offsets_topics(before, name) == views.offsets_topics(after, name):
                changed = partitions.get(name, set())
                old, new = (_with_partitions(state, changed, identities) for state in states)
                states = old, new
            yield name, states

    def _causes(self, name: str, place: RowPlace) -> list[Position]:
        """Records of this step that changed a row last."""
        if place.table == "offsets":
            position = self.offsets.get((place.connector, place.item or ""))
            return [] if position is None else [position]
        facts = [(name, aspect, item) for aspect, item in _facts(place)]
        positions = {self.after.changed[fact] for fact in facts if fact in self.after.changed}
        ends = self.before.ends
        return sorted(each for each in positions if each.offset >= ends.get(each[:2], 0))


_OF_CONNECTORS = (Aspect.CONFIG, Aspect.TARGET_STATE, Aspect.TASKS, Aspect.STATUS)


def _facts(place: RowPlace) -> list[tuple[Aspect, str]]:
    """Facts that a row shows, by aspect and item."""
    if place.table == "connectors":
        return [(aspect, "") for aspect in _OF_CONNECTORS]
    if place.table == "tasks":
        return [(Aspect.TASKS, "")]
    if place.table == "topics":
        return [(Aspect.ACTIVE_TOPIC, place.item or "")]
    return [(Aspect.STATUS, "")] if place.task is None else [(Aspect.TASK_STATUS, str(place.task))]


def _kind(before: str | None, after: str | None) -> str:
    if before is None:
        return "added"
    return "removed" if after is None else "changed"


def _pairs(
    old: Sequence[str], new: Sequence[str]
) -> Iterator[tuple[str, str] | tuple[str, None] | tuple[None, str]]:
    """Pairs of differing rows of one place."""
    gone = sorted((Counter(old) - Counter(new)).elements())
    come = sorted((Counter(new) - Counter(old)).elements())
    yield from zip_longest(gone, come)


# --- changed connectors and source partitions -----------------------------------------------


class _Identities:
    """Source partitions of raw keys; each key is decoded once."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._by_key: dict[bytes | None, PartitionIdentity | None] = {}

    def of(self, key: bytes | None) -> PartitionIdentity | None:
        """Connector and source partition of a key; None if it names none."""
        if key not in self._by_key:
            subject = decode_partition(key, self._profile)
            self._by_key[key] = None if isinstance(subject, Invalid) else identity(subject)
        return self._by_key[key]


def changed_connectors(before: ClusterState, after: ClusterState) -> set[str]:
    """Names of the connectors whose configs or statuses may have differing rows."""
    names: set[str] = set()
    for old, new in ((before.config, after.config), (before.status, after.status)):
        for field in old.__struct_fields__:
            names.update(_changed_keys(getattr(old, field), getattr(new, field)))
    return names


def changed_partitions(
    before: ClusterState, after: ClusterState, identities: _Identities
) -> dict[str, set[PartitionIdentity]]:
    """Source partitions that may have differing rows, by connector."""
    changed: dict[str, set[PartitionIdentity]] = defaultdict(set)
    for topic in {*before.offsets, *after.offsets}:
        old, new = (state.offsets.get(topic, OffsetState()) for state in (before, after))
        keys = old.values.keys() ^ new.values.keys()
        keys |= {key for key, value in new.values.items() if old.values.get(key) != value}
        for partition in filter(None, map(identities.of, keys)):
            changed[partition[0]].add(partition)
        for partition in old.hidden.keys() ^ new.hidden.keys():
            changed[partition[0]].add(partition)
    return changed


def _with_partitions(
    state: ClusterState, partitions: Container[PartitionIdentity], identities: _Identities
) -> ClusterState:
    """State with the offsets of some source partitions only, in all spellings of their keys."""
    offsets = {
        topic: msgspec.structs.replace(
            part,
            values={
                key: value for key, value in part.values.items() if identities.of(key) in partitions
            },
        )
        for topic, part in state.offsets.items()
    }
    return msgspec.structs.replace(state, offsets=offsets)


def _changed_keys(old: Any, new: Any) -> Iterator[str]:
    """Keys whose values differ between two mappings; none if one of them is no mapping.

    Values are compared by their `repr`: 1, 1.0 and true are equal in Python, but not in Java.
    """
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in {*old, *new}:
            if key not in old or key not in new or repr(old[key]) != repr(new[key]):
                yield key


# --- rows of one connector ------------------------------------------------------------------


def _only(state: ClusterState, name: str) -> ClusterState:
    """State with the configs and statuses of one connector only."""
    config, status = part_of(state.config, name), part_of(state.status, name)
    return msgspec.structs.replace(state, config=config, status=status)


def _rows(cluster: str, state: ClusterState) -> dict[RowPlace, list[str]]:
    """All rows of a state as JSON, by their places."""
    rows: dict[RowPlace, list[str]] = defaultdict(list)
    for table, makes in STATE_TABLES.items():
        for row in makes.of(cluster, state):
            place = place_of(table, row)
            rows[place].append(row_text(table, row))
    return rows


def place_of(table: str, row: RowDocument) -> RowPlace:
    """Place of a row in a table of a state."""
    item = {"offsets": "partition", "topics": "topic"}.get(table, "")
    # A topic has one row. Its task, the first that used the topic, is a compared column.
    task = None if table == "topics" else row.get("task")
    return RowPlace(table, row["connector"], task, row.get(item))


def row_text(table: str, row: RowDocument) -> str:
    """Compared columns of a row as JSON; the settings of a config are in alphabetical order."""
    names = (name for name in STATE_SCHEMAS[table].names if name not in NOT_OF_A_STATE)
    cells = {name: row.get(name) for name in names}
    config = cells.get("config")
    if config is not None:
        cells["config"] = dict(sorted(config))
    return json_cell(cells) or ""


def offset_item(partition: Any) -> str:
    """Source partition as the table of offsets shows it."""
    return json_cell(redacted_value("", partition)) or ""
