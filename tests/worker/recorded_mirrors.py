"""Twins in Python of MirrorMaker's connectors, as far as a recorded worker shows them.

They reach no cluster: the source invents the records that the recorded one has copied.
"""

from collections.abc import Mapping, Sequence
from threading import Event
from typing import ClassVar, NamedTuple

from controlplane.connect import SourceConnector, SourceRecord, SourceTask
from tests.patience import PATIENCE_S

PACKAGE = "org.apache.kafka.connect.mirror."

COPIED = {"orders": 20}
"""Records that are copied of each topic; the recorded offset of the last order is 19."""


class CopiedPartition(NamedTuple):
    """Partition of a topic in the source cluster."""

    topic: str
    number: int


class MirrorSourceTask(SourceTask):
    """Copies the records of its partitions, each from the stored offset on."""

    def start(self, config: Mapping[str, str]) -> None:
        """Read the stored offset of each partition."""
        self._cluster = config["source.cluster.alias"]
        self._next: dict[CopiedPartition, int] = {}
        for assigned in config["task.assigned.partitions"].split(","):
            topic, _, number = assigned.rpartition("-")
            partition = CopiedPartition(topic, int(number))
            stored = self.context.offset(self._key(partition))
            self._next[partition] = 0 if stored is None else int(str(stored["offset"])) + 1

    def poll(self) -> Sequence[SourceRecord]:
        """Return the records that are left."""
        records = []
        for partition, offset in self._next.items():
            self._next[partition] = COPIED.get(partition.topic, 0)
            records += [
                SourceRecord(
                    topic=f"{self._cluster}.{partition.topic}",
                    value=f"record {left}",
                    source_partition=self._key(partition),
                    source_offset={"offset": left},
                )
                for left in range(offset, self._next[partition])
            ]
        return records

    def _key(self, partition: CopiedPartition) -> dict[str, str | int]:
        return {
            "cluster": self._cluster,
            "partition": partition.number,
            "topic": partition.topic,
        }


class MirrorHeartbeatTask(SourceTask):
    """Blocks in `poll` as if the next heartbeat were an hour away; no worker waits that long."""

    released: ClassVar[Event] = Event()
    """Set at the end of a history: then the polls return."""

    def start(self, config: Mapping[str, str]) -> None:
        """Need no setting of the config."""
        del config

    def poll(self) -> Sequence[SourceRecord]:
        """Return nothing, after the end of the history."""
        self.released.wait(PATIENCE_S)
        return []


class RecordedMirror(SourceConnector):
    """Connector of MirrorMaker: each task has the connector's config and a few more settings."""

    version = "3.9.1"
    source_topics: ClassVar[list[str]]
    """Topics of the source cluster that are copied."""

    def start(self, config: Mapping[str, str]) -> None:
        """Keep the config, which each task config contains."""
        self._config = config

    def task_configs(self, limit: int) -> Sequence[Mapping[str, str]]:
        """Return a config for each task."""
        del limit
        return [{**self._config, **settings} for settings in self.task_settings()]

    def task_settings(self) -> Sequence[Mapping[str, str]]:
        """Return the settings that each task has besides those of the connector."""
        return [{}]

    def stop(self) -> None:
        """Do nothing: the connector holds nothing."""


class MirrorSource(RecordedMirror):
    """Copies the topics of the source cluster."""

    java_name = f"{PACKAGE}MirrorSourceConnector"
    task = MirrorSourceTask

    def task_settings(self) -> Sequence[Mapping[str, str]]:
        """Return one task, with a partition of each topic."""
        partitions = ",".join(f"{topic}-0" for topic in self.source_topics)
        return [{"task.index": "0", "task.assigned.partitions": partitions}]


class MirrorHeartbeat(RecordedMirror):
    """Writes a heartbeat each hour, to a topic that is copied, too, from then on."""

    java_name = f"{PACKAGE}MirrorHeartbeatConnector"
    task = MirrorHeartbeatTask

    def start(self, config: Mapping[str, str]) -> None:
        """Create the topic of heartbeats."""
        super().start(config)
        self.source_topics.append("heartbeats")


class MirrorCheckpoint(RecordedMirror):
    """Has no task, because no consumer group was there."""

    java_name = f"{PACKAGE}MirrorCheckpointConnector"
    task = MirrorHeartbeatTask

    def task_settings(self) -> Sequence[Mapping[str, str]]:
        """Return no settings: there is no task."""
        return []


def recorded_mirrors() -> dict[str, type[RecordedMirror]]:
    """The twins by Kafka's names; they share one source cluster."""
    cluster = {"source_topics": ["orders"]}
    return {
        twin.java_name: type(twin.__name__, (twin,), cluster)
        for twin in (MirrorSource, MirrorHeartbeat, MirrorCheckpoint)
    }
