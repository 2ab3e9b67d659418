"""Records of other writers: running tasks, zombie tasks, older releases, faulty scripts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

import msgspec

from controlplane.core.codec.offsets import encode_partition
from controlplane.core.java import json_codec
from controlplane.core.releases.profiles import Profile
from tests.controller.scene import CONFIG, OFFSETS, STATUS
from tests.laws.commands.events import OWN, Committed, Event, ForeignWrite
from tests.laws.commands.world import SINK

PARTITIONS: Sequence[Mapping[str, Any]] = (
    {"page": 0},
    {"page": 1},
    {"topic": "x", "partition": 0, "cluster": "y"},
)
"""Source partitions. The members of the last one have another order in a HashMap."""

_PAUSED, _STOPPED = b'{"state":"PAUSED"}', b'{"state":"PAUSED","state.v2":"STOPPED"}'
_ORPHANS: Sequence[tuple[str, bytes | None]] = (
    ("target-state-{}", _PAUSED),
    ("target-state-{}", _STOPPED),
    ("target-state-{}", b'{"state":"STOPPED"}'),
    ("target-state-{}", b'{"state":"STARTED"}'),
    ("target-state-{}", None),
    ("task-{}-0", b'{"properties":{"foreign":"0"}}'),
    ("task-{}-1", b'{"properties":{"foreign":"1"}}'),
    ("task-{}-3", b'{"properties":{"foreign":"3"}}'),
    ("commit-{}", b'{"tasks":0}'),
    ("commit-{}", b'{"tasks":1}'),
    ("commit-{}", b'{"tasks":2}'),
    ("tasks-fencing-{}", b'{"task-count":2}'),
    ("restart-connector-{}", b'{"include-tasks":true,"only-failed":false}'),
    ("connector-other", b"{"),
)


class Foreigners:
    """Draws records of other writers about a connector."""

    def __init__(
        self,
        chance: Random,
        profile: Profile,
        classes: Sequence[str],
        partitions: Sequence[Mapping[str, Any]],
    ) -> None:
        self._chance = chance
        self._profile = profile
        self._classes = classes
        self._partitions = partitions

    def anything(self, name: str) -> Event:
        """Draw a record of any kind."""
        return self._chance.choice(_KINDS)(self, name)

    def reports(self, name: str) -> Iterator[Event]:
        """Records about a running connector."""
        kinds = (self.offset, self.offset, self.status, self.topic)
        yield from (self._chance.choice(kinds)(name) for _ in range(self._chance.randint(0, 3)))
        if self._profile.own_offset_topics and self._chance.random() < 1 / 2:
            yield from self._moved(name)

    def _moved(self, name: str) -> Iterator[Event]:
        """Offsets of a connector that ran before its config named its own topic."""
        key = self._offset_key(name)
        yield ForeignWrite(OFFSETS, key, b'{"row":1}')
        yield ForeignWrite(OWN, key, b'{"row":2}')

    def offset(self, name: str) -> Event:
        """Offsets of a running task, a zombie task, or a deleted connector."""
        if self._chance.choice(self._classes) == SINK:
            return Committed(
                f"connect-{name}", self._chance.randrange(3), self._chance.randrange(9)
            )
        topics = (OFFSETS, OWN) if self._profile.own_offset_topics else (OFFSETS,)
        value = self._chance.choice((None, *(b'{"row":%d}' % row for row in range(5))))
        return ForeignWrite(self._chance.choice(topics), self._offset_key(name), value)

    def status(self, name: str) -> Event:
        """Draw a status report of a worker."""
        state = self._chance.choice(("RUNNING", "FAILED", "FAILED", "PAUSED", "UNASSIGNED"))
        whose = self._chance.choice((f"connector-{name}", f"connector-{name}", f"task-{name}-0"))
        status = {"state": state, "trace": None, "worker_id": "w:8083", "generation": 1}
        return ForeignWrite(STATUS, f"status-{whose}".encode(), msgspec.json.encode(status))

    def topic(self, name: str) -> Event:
        """Record that a task has used a topic."""
        topic = self._chance.choice(("t", "u"))
        use = {"name": topic, "connector": name, "task": 0, "discoverTimestamp": 1}
        key = f"status-topic-{topic}:connector-{name}"
        return ForeignWrite(STATUS, key.encode(), msgspec.json.encode({"topic": use}))

    def orphan(self, name: str) -> Event:
        """Records of an older release, a crash or a faulty script, about any connector."""
        key, value = self._chance.choice(_ORPHANS)
        return ForeignWrite(CONFIG, key.format(name).encode(), value)

    def _offset_key(self, name: str) -> bytes:
        """An offset key; releases find only keys with members in the order of Java's HashMap."""
        partition = self._chance.choice(self._partitions)
        if not self._profile.offsets_by_log_key:
            return encode_partition(name, partition)
        spellings = encode_partition, _as_given, _with_spaces
        return self._chance.choice(spellings)(name, partition)


def _as_given(name: str, partition: Mapping[str, Any]) -> bytes:
    return json_codec.encode([name, partition])


def _with_spaces(name: str, partition: Mapping[str, Any]) -> bytes:
    return json_codec.encode([name, partition]).replace(b",", b", ")


_KINDS: Sequence[Callable[[Foreigners, str], Event]] = (
    Foreigners.offset,
    Foreigners.offset,
    Foreigners.status,
    Foreigners.status,
    Foreigners.topic,
    Foreigners.topic,
    Foreigners.orphan,
    Foreigners.orphan,
)
