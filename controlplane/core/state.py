"""What a worker knows after reading its topics up to somewhere: immutable, as published.

The parts are named as in Kafka's `ClusterConfigState`, `KafkaStatusBackingStore` and
`KafkaOffsetBackingStore`. Snapshots share structure with the fold that published them and with each
other; publishing one is cheap and it never changes.
"""

from collections.abc import Mapping
from enum import Enum
from itertools import combinations

import msgspec

from controlplane.core.codec.offsets import Identity
from controlplane.core.entry import Position
from controlplane.core.profiles import Profile
from controlplane.core.records import (
    Activity,
    CommandAccepted,
    CommandFinished,
    CommandRefused,
    Properties,
    SessionKey,
    Status,
    Target,
)
from controlplane.core.shared import CopyOnWrite
from controlplane.core.topic_names import ALLOWED, is_legal


class Aspect(Enum):
    """What about a connector can change, and differ."""

    CONFIG = "config"
    TARGET_STATE = "target state"
    TASKS = "tasks"
    TASK_CONFIG = "task config"
    INCONSISTENT = "inconsistent"
    STATUS = "status"
    TASK_STATUS = "task status"
    ACTIVE_TOPIC = "active topic"
    SOURCE_OFFSET = "source offset"


Changes = CopyOnWrite[tuple[str, Aspect, str], Position]
"""(connector, aspect, item) → the record that changed it last."""


class SharedTopic(ValueError):
    """One topic is to be two. The message says which, and what to do."""


class Topics(msgspec.Struct, frozen=True):
    """Names of the topics of one cluster. Any other topic of a log holds a connector's offsets."""

    config: str = "connect-configs"
    offsets: str = "connect-offsets"
    status: str = "connect-status"
    commands: str = "connect-commands"

    def short(self, topic: str) -> str:
        """The name by which people are shown a topic: `config`, `offsets`, `status`, `commands`."""
        for name in self.__struct_fields__:
            if getattr(self, name) == topic:
                return name
        return topic

    @property
    def shared(self) -> tuple[str, str] | None:
        """Two of the four that have the same name, as fields; None: each has its own.

        The records of one would be read as those of the other.
        """
        for one, other in combinations(self.__struct_fields__, 2):
            if getattr(self, one) == getattr(self, other):
                return one, other
        return None


def check_topics(topics: Topics) -> None:
    """Refuse names of topics with which no cluster can work.

    Raises:
        ValueError: no topic can have one of them.
        SharedTopic: two of them are the same.
    """
    for name in msgspec.structs.astuple(topics):
        if not is_legal(name):
            raise ValueError(f"{name!r} cannot be the name of a topic: use {ALLOWED}")
    if topics.shared is not None:
        one, other = topics.shared
        name = getattr(topics, one)
        raise SharedTopic(
            f"{name} cannot be the {one} topic and the {other} topic: give each a name of its own"
        )


class ConfigState(msgspec.Struct, frozen=True):
    """Fold of the config topic."""

    offset: int = -1
    """Offset of the next record after the last whose value could be decoded; -1: none yet."""
    connectors: Mapping[str, Properties] = {}
    targets: Mapping[str, Target] = {}
    task_counts: Mapping[str, int] = {}
    tasks: Mapping[str, Mapping[int, Properties]] = {}
    """Applied task configs. Ids beyond the count stay: the count alone hides them."""
    deferred: Mapping[str, Mapping[int, Properties]] = {}
    """Task configs that wait for a commit. An empty map is not the same as none."""
    inconsistent: Mapping[str, bool] = {}
    """Names whose last commit did not find its task configs."""
    fenced_counts: Mapping[str, int] = {}
    generations: Mapping[str, int] = {}
    pending_fencing: Mapping[str, bool] = {}
    applied: Mapping[str, Properties | None] = {}
    """The connector config from which the committed tasks were made."""
    session_key: SessionKey | None = None

    def task_ids(self, connector: str) -> range:
        """The tasks a worker would run: none while inconsistent (`ClusterConfigState#tasks`)."""
        if connector in self.inconsistent:
            return range(0)
        return range(max(0, self.task_counts.get(connector, 0)))


class StatusState(msgspec.Struct, frozen=True):
    """Fold of the status topic."""

    connectors: Mapping[str, Status] = {}
    tasks: Mapping[str, Mapping[int, Status]] = {}
    active_topics: Mapping[str, Mapping[str, Activity]] = {}
    """Connector → topic (both as the key has it) → activity."""


class OffsetState(msgspec.Struct, frozen=True):
    """Fold of one offsets topic: raw bytes, the last value of each raw key."""

    values: Mapping[bytes | None, bytes | None] = {}
    hidden: Mapping[Identity, bool] = {}
    """Source partitions whose last record, under whatever spelling of the key, is a tombstone."""


class CommandTrace(msgspec.Struct, frozen=True, gc=False):
    """One command as far as the command topic tells: begun, ended, or refused."""

    accepted: CommandAccepted | None = None
    finished: CommandFinished | None = None
    refused: CommandRefused | None = None

    @property
    def unfinished(self) -> bool:
        """Begun and never ended: a crash lies in between."""
        return self.accepted is not None and self.finished is None

    @property
    def ended(self) -> bool:
        """Finished, or refused without having begun: nothing more is to come."""
        return not self.unfinished


class ClusterState(msgspec.Struct, frozen=True):
    """Everything that one worker knows, and up to where it has read."""

    profile: Profile
    topics: Topics = Topics()
    exactly_once: bool = False
    config: ConfigState = ConfigState()
    status: StatusState = StatusState()
    offsets: Mapping[str, OffsetState] = {}
    """By topic: the worker's own and those of connectors that have one of their own."""
    commands: Mapping[str, CommandTrace] = {}
    """By id: all that have not ended, as they began, and the last to end (`ENDED_KEPT`)."""
    ends: Mapping[tuple[str, int], int] = {}
    """(topic, partition) → offset of the next record to read."""
    causes: Mapping[tuple[str, bytes | None], Position] = {}
    """(topic, raw key) → the last record with that key. Offsets topics only when traced, the
    command topic (whose keys never come back) only then, too."""
    changed: Mapping[tuple[str, Aspect, str], Position] = {}
    """(connector, aspect, item) → the record that changed it last. No offsets: see `causes`."""
    unreadable: Mapping[Position, str] = {}
    """Records that were no use, with the reason; the first few (`UNREADABLE_KEPT`)."""
    unreadable_counts: Mapping[str, int] = {}
    """How many of those there were, by topic. The fast way through a log (`bulk`) looks neither at
    offsets nor at statuses that later ones have replaced."""

    @property
    def unreadable_count(self) -> int:
        """How many records were no use, in all."""
        return sum(self.unreadable_counts.values())

    @property
    def ends_by_topic(self) -> dict[str, list[int]]:
        """The ends as a log takes them: by topic, one offset for each partition."""
        ends: dict[str, list[int]] = {}
        for (topic, partition), end in sorted(self.ends.items()):
            parts = ends.setdefault(topic, [])
            parts.extend([0] * (partition + 1 - len(parts)))
            parts[partition] = end
        return ends
