"""What only shows when several clusters are looked at: two that write one topic.

Two clusters that share a config topic have the same session key: it is random, and made once.
Two sources that write the same topic are often meant to, in one cluster; in two, hardly ever.
"""

from collections.abc import Iterable, Iterator
from hashlib import sha256

import msgspec

from controlplane.core.entry import Position
from controlplane.core.records import ActiveTopic, ConnectorConfig, SessionKey, SourcePartition
from replay.audit.about import Words, found
from replay.audit.reading import Told
from replay.findings import Finding, Severity

_KIND = "two-clusters-one-topic"


class Writer(msgspec.Struct, frozen=True):
    """A source that writes a topic, as its cluster tells."""

    cluster: str
    connector: str
    topic: str
    position: Position


class Shares(msgspec.Struct, frozen=True):
    """Of one cluster, what it may have in common with others and should not."""

    cluster: str
    keys: dict[str, Position]
    """Its session keys, as hashes: nobody needs to know them."""
    writers: tuple[Writer, ...]

    @property
    def positions(self) -> Iterator[Position]:
        """The records that tell of it."""
        yield from self.keys.values()
        yield from (writer.position for writer in self.writers)


class Sharing:
    """Gathers who writes what, as the records of a cluster go by."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._keys: dict[str, Position] = {}
        self._sources: set[str] = set()
        self._active: dict[str, dict[str, Position]] = {}
        """By connector and topic."""

    def see(self, seen: Told) -> None:
        """One record."""
        match seen.record:
            case SessionKey(key):
                self._keys[sha256(key).hexdigest()] = seen.position
            case SourcePartition(name, _):
                self._sources.add(name)
            case ConnectorConfig(name, None):
                self._active.pop(name, None)
            case ActiveTopic(name, topic, activity):
                if activity is None:
                    self._active.get(name, {}).pop(topic, None)
                else:
                    self._active.setdefault(name, {})[topic] = seen.position

    def end(self) -> Shares:
        """The records are over: only sources write topics, the others read them."""
        writers = tuple(
            Writer(self._cluster, name, topic, position)
            for name in sorted(self._sources & self._active.keys())
            for topic, position in self._active[name].items()
        )
        return Shares(self._cluster, self._keys, writers)


def in_common(fleet: Iterable[Shares]) -> Iterator[Finding]:
    """What clusters have in common that they should not; told of the first of them."""
    keys: dict[str, dict[str, Position]] = {}
    topics: dict[str, list[Writer]] = {}
    for one in fleet:
        for key, position in one.keys.items():
            keys.setdefault(key, {})[one.cluster] = position
        for writer in one.writers:
            topics.setdefault(writer.topic, []).append(writer)
    for shared in keys.values():
        if len(shared) > 1:
            yield _one_config_topic(shared)
    for topic, writers in topics.items():
        if len({writer.cluster for writer in writers}) > 1:
            yield _two_writers(topic, writers)


NAMED = 8
"""So many a sentence names; the others are counted."""


def _some(names: list[str]) -> str:
    """`a, b and c`; of many the first ones."""
    more = len(names) - NAMED
    first, last = (names[:NAMED], f"{more} more") if more > 0 else (names[:-1], names[-1])
    return f"{', '.join(first)} and {last}"


def _one_config_topic(shared: dict[str, Position]) -> Finding:
    names = sorted(shared)
    sentence = (
        f"the clusters {_some(names)} have the same session key: they write one config "
        "topic, or one was made from a copy of the other, or the same log was given twice"
    )
    advice = (
        "Give each cluster a group.id and topics of its own; two groups on one config topic "
        "both run every connector."
    )
    evidence, words = [shared[name] for name in names], Words(sentence, advice)
    one = found(_KIND, Severity.DANGER, (names[0], None), evidence, words)
    return _in(names, one)


def _two_writers(topic: str, writers: list[Writer]) -> Finding:
    there = _some([f"{writer.connector} of {writer.cluster}" for writer in writers])
    sentence = (
        f"{topic} is written by sources of several clusters: {there} – if those clusters write to "
        "the same Kafka, the topic holds the records of all of them"
    )
    advice = (
        "Delete the connector where it should not run any more (after a move, most likely), or "
        "give each of them a topic of its own."
    )
    evidence, words = [writer.position for writer in writers], Words(sentence, advice)
    whom = writers[0].cluster, writers[0].connector
    one = found(_KIND, Severity.WARNING, whom, evidence, words)
    return _in([writer.cluster for writer in writers], one)


def _in(clusters: list[str], finding: Finding) -> Finding:
    """A finding that tells of each of its records in which cluster it lies."""
    told = tuple(clusters[: len(finding.evidence)])
    return msgspec.structs.replace(finding, clusters=told)
