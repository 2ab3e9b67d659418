"""Findings that concern several clusters: they write one topic.

A session key is random, so clusters with equal keys share a config topic, or their logs have one
origin. Two sources often share a topic on purpose within one cluster, hardly ever across clusters.
"""

from collections.abc import Iterable, Iterator
from hashlib import sha256

import msgspec

from controlplane.core.entry import Position
from controlplane.core.records import ActiveTopic, ConnectorConfig, SessionKey, SourcePartition
from controlplane.core.text.safe_text import names_text
from replay.audit.context import new_finding
from replay.audit.decoded_log import DecodedRecord
from replay.findings import Finding, FindingText, Severity

_KIND = "two-clusters-one-topic"


class TopicWriter(msgspec.Struct, frozen=True):
    """Source that writes a topic, according to the status topic of its cluster."""

    cluster: str
    connector: str
    topic: str
    position: Position


class SharedResources(msgspec.Struct, frozen=True):
    """Resources of one cluster that others may share by mistake."""

    cluster: str
    keys: dict[str, Position]
    """Session keys as hashes; the keys themselves are not needed."""
    writers: tuple[TopicWriter, ...]

    @property
    def positions(self) -> Iterator[Position]:
        """Positions of the records that prove the resources."""
        yield from self.keys.values()
        yield from (writer.position for writer in self.writers)


class SharedResourceFinder:
    """Collects shared resources while the records of a cluster pass by."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._keys: dict[str, Position] = {}
        self._sources: set[str] = set()
        self._active: dict[str, dict[str, Position]] = {}
        """Records by connector and topic."""

    def see(self, decoded: DecodedRecord) -> None:
        """Collect the session key, topics and sources of a record."""
        match decoded.record:
            case SourcePartition(name, _):  # first: nearly all records are offsets
                self._sources.add(name)
            case SessionKey(key):
                self._keys[sha256(key).hexdigest()] = decoded.position
            case ConnectorConfig(name, None):
                self._active.pop(name, None)
            case ActiveTopic(name, topic, activity):
                if activity is None:
                    self._active.get(name, {}).pop(topic, None)
                else:
                    self._active.setdefault(name, {})[topic] = decoded.position

    def end(self) -> SharedResources:
        """Finish: only sources write topics, sinks read them."""
        writers = tuple(
            TopicWriter(self._cluster, name, topic, position)
            for name in sorted(self._sources & self._active.keys())
            for topic, position in self._active[name].items()
        )
        return SharedResources(self._cluster, self._keys, writers)


def in_common(fleet: Iterable[SharedResources]) -> Iterator[Finding]:
    """Yield findings about shared resources; each belongs to the first cluster."""
    keys: dict[str, dict[str, Position]] = {}
    topics: dict[str, list[TopicWriter]] = {}
    for shares in fleet:
        for key, position in shares.keys.items():
            keys.setdefault(key, {})[shares.cluster] = position
        for writer in shares.writers:
            topics.setdefault(writer.topic, []).append(writer)
    for shared in keys.values():
        if len(shared) > 1:
            yield _one_config_topic(shared)
    for topic, writers in topics.items():
        if len({writer.cluster for writer in writers}) > 1:
            yield _two_writers(topic, writers)


def _one_config_topic(shared: dict[str, Position]) -> Finding:
    names = sorted(shared)
    sentence = (
        f"the clusters {names_text(names)} have one session key: they write one config topic, "
        "or their logs have one origin"
    )
    advice = (
        "Give each cluster its own group.id and topics; two groups on one config topic both run "
        "every connector. Ignore this if one log is a copy of the other, or is named twice."
    )
    evidence, words = [shared[name] for name in names], FindingText(sentence, advice)
    finding = new_finding(_KIND, Severity.DANGER, (names[0], None), evidence, words)
    return _with_clusters(names, finding)


def _two_writers(topic: str, writers: list[TopicWriter]) -> Finding:
    writer_names = names_text([f"{writer.connector} of {writer.cluster}" for writer in writers])
    sentence = f"sources of several clusters write {topic}: {writer_names}"
    advice = (
        "If these clusters use one Kafka, the topic holds records of all of them. After a move, "
        "delete the connector in its former cluster. Otherwise give each source its own topic."
    )
    evidence, words = [writer.position for writer in writers], FindingText(sentence, advice)
    subject = writers[0].cluster, writers[0].connector
    finding = new_finding(_KIND, Severity.WARNING, subject, evidence, words)
    return _with_clusters([writer.cluster for writer in writers], finding)


def _with_clusters(clusters: list[str], finding: Finding) -> Finding:
    """Add the cluster of each evidence record to a finding."""
    by_record = tuple(clusters[: len(finding.evidence)])
    return msgspec.structs.replace(finding, clusters=by_record)
