"""State of a worker that has read its topics up to certain offsets. Immutable.

The parts are named as in Kafka's `ClusterConfigState`, `KafkaStatusBackingStore` and
`KafkaOffsetBackingStore`. Snapshots share structure with their fold and with each other, so
publishing one is cheap. A published snapshot never changes.
"""

from collections.abc import Mapping
from enum import Enum
from itertools import combinations
from typing import TypeVar

import msgspec

from controlplane.core.codec.offsets import PartitionIdentity
from controlplane.core.copy_on_write import CopyOnWrite
from controlplane.core.entry import Position
from controlplane.core.records import (
    Activity,
    CommandTrace,
    Properties,
    SessionKey,
    Status,
    Target,
)
from controlplane.core.releases.profiles import Profile
from controlplane.core.topic_names import ALLOWED, is_legal


class Aspect(Enum):
    """Aspects in which a connector can change or differ."""

    CONFIG = "config"
    TARGET_STATE = "target state"
    TASKS = "tasks"
    TASK_CONFIG = "task config"
    INCONSISTENT = "inconsistent"
    STATUS = "status"
    TASK_STATUS = "task status"
    ACTIVE_TOPIC = "active topic"
    SOURCE_OFFSET = "source offset"


ChangePositions = CopyOnWrite[tuple[str, Aspect, str], Position]
"""(connector, aspect, item) → position of the record that changed it last.

The item is a task id or a topic; for other aspects it is empty.
"""


class SharedTopic(ValueError):
    """Two topics have the same name. The message names it and the remedy."""


class Topics(msgspec.Struct, frozen=True):
    """Names of a cluster's topics. Any other topic in a state holds a connector's offsets."""

    config: str = "connect-configs"
    offsets: str = "connect-offsets"
    status: str = "connect-status"
    commands: str = "connect-commands"

    def short(self, topic: str) -> str:
        """Display name of a topic: `config`, `offsets`, `status`, `commands`; others in full."""
        for name in self.__struct_fields__:
            if getattr(self, name) == topic:
                return name
        return topic

    def sees_aborted(self, topic: str, *, exactly_once: bool) -> bool:
        """True if a worker sees aborted records of a topic.

        Exactly-once support sets `read_committed` for configs and offsets (KIP-618). Consumers of
        connectors' own offsets topics always have this isolation level, those of statuses never.
        Commands, which Kafka lacks, are read like configs.
        """
        if topic == self.status:
            return True
        return not exactly_once and topic in msgspec.structs.astuple(self)

    @property
    def shared(self) -> tuple[str, str] | None:
        """Two fields with the same topic name; None: all four differ.

        One topic cannot have two roles: each record would be read in only one of them.
        """
        for first, second in combinations(self.__struct_fields__, 2):
            if getattr(self, first) == getattr(self, second):
                return first, second
        return None


def check_topics(topics: Topics) -> None:
    """Check that a cluster can work with these topic names.

    Raises:
        ValueError: a name is not legal for a topic.
        SharedTopic: two names are the same.
    """
    for name in msgspec.structs.astuple(topics):
        if not is_legal(name):
            raise ValueError(f"{name!r} cannot be the name of a topic: use {ALLOWED}")
    if topics.shared is not None:
        first, second = topics.shared
        name = getattr(topics, first)
        raise SharedTopic(
            f"{name} cannot be the {first} topic and the {second} topic: "
            "give each a name of its own"
        )


class ConfigState(msgspec.Struct, frozen=True):
    """State folded from the config topic."""

    offset: int = -1
    """One past the offset of the last record whose value could be decoded; -1: none yet."""
    connectors: Mapping[str, Properties] = {}
    targets: Mapping[str, Target] = {}
    task_counts: Mapping[str, int] = {}
    """Count of each connector's last commit; it may be negative."""
    tasks: Mapping[str, Mapping[int, Properties]] = {}
    """Applied task configs. Ids beyond the count stay, hidden by the count."""
    deferred: Mapping[str, Mapping[int, Properties]] = {}
    """Task configs that wait for a commit. An empty map (after a commit) differs from no map."""
    inconsistent: Mapping[str, bool] = {}
    """Connectors whose last commit did not find all task configs."""
    fenced_counts: Mapping[str, int] = {}
    """Last `TaskCount` of each connector."""
    generations: Mapping[str, int] = {}
    """Number of task sets that were applied since reading began, less one (KIP-618)."""
    pending_fencing: Mapping[str, bool] = {}
    """Connectors with a commit after their last `TaskCount` (KIP-618)."""
    applied: Mapping[str, Properties | None] = {}
    """Connector config from which the committed tasks were generated."""
    session_key: SessionKey | None = None

    def task_ids(self, connector: str) -> range:
        """Tasks that a worker runs: none while inconsistent (`ClusterConfigState#tasks`)."""
        if connector in self.inconsistent:
            return range(0)
        return range(max(0, self.task_counts.get(connector, 0)))


class StatusState(msgspec.Struct, frozen=True):
    """State folded from the status topic."""

    connectors: Mapping[str, Status] = {}
    tasks: Mapping[str, Mapping[int, Status]] = {}
    active_topics: Mapping[str, Mapping[str, Activity]] = {}
    """Connector → topic (both from the key) → activity."""


class OffsetState(msgspec.Struct, frozen=True):
    """State folded from one offsets topic: raw keys and the last value of each."""

    values: Mapping[bytes | None, bytes | None] = {}
    hidden: Mapping[PartitionIdentity, bool] = {}
    """Source partitions whose last record, under any spelling of the key, is a tombstone."""


class ClusterState(msgspec.Struct, frozen=True):
    """State of one worker, and the offsets up to which it has read."""

    profile: Profile
    topics: Topics = Topics()
    exactly_once: bool = False
    config: ConfigState = ConfigState()
    status: StatusState = StatusState()
    offsets: Mapping[str, OffsetState] = {}
    """Offsets by topic: the worker's own topic and those that connectors have."""
    commands: Mapping[str, CommandTrace] = {}
    """Commands by id: all unfinished ones, and the last `fold.commands.ENDED_KEPT` that ended.
    Unfinished ones are in order of acceptance; a command that ends moves to the back."""
    ends: Mapping[tuple[str, int], int] = {}
    """(topic, partition) → offset of the next record to read."""
    causes: Mapping[tuple[str, bytes | None], Position] = {}
    """(topic, raw key) → position of the last record with that key. Covers offsets topics and the
    command topic only if traced, because they have many keys."""
    changed: Mapping[tuple[str, Aspect, str], Position] = {}
    """(connector, aspect, item) → position of the record that changed it last. Offsets: see
    `causes`."""
    unreadable: Mapping[Position, str] = {}
    """Unusable records with the reason: the first `fold.UNREADABLE_KEPT` of each topic."""
    unreadable_counts: Mapping[str, int] = {}
    """Number of unusable records by topic. `fold.bulk` skips offsets and statuses that later
    records replace, so it does not count them."""

    @property
    def unreadable_count(self) -> int:
        """Number of unusable records in all topics."""
        return sum(self.unreadable_counts.values())

    @property
    def ends_by_topic(self) -> dict[str, list[int]]:
        """End offsets by topic: a list with one offset per partition; 0: no end is known.

        The methods of `Log` take end offsets in this form.
        """
        ends: dict[str, list[int]] = {}
        for (topic, partition), end in sorted(self.ends.items()):
            parts = ends.setdefault(topic, [])
            parts.extend([0] * (partition + 1 - len(parts)))
            parts[partition] = end
        return ends


_PartT = TypeVar("_PartT", ConfigState, StatusState)


def part_of(part: _PartT, connector: str) -> _PartT:
    """Return a part of a state, restricted to the rows of one connector."""
    tables = {field: getattr(part, field) for field in part.__struct_fields__}
    rows = {
        field: {connector: table[connector]} if connector in table else {}
        for field, table in tables.items()
        if isinstance(table, Mapping)
    }
    return msgspec.structs.replace(part, **rows)
