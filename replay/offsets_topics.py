"""Dedicated offsets topics of connectors (KIP-618), named by their configs."""

from collections.abc import Iterator

from controlplane.core.codec.config import decode_config
from controlplane.core.entry import Batch
from controlplane.core.records import ConnectorConfig
from controlplane.core.releases.profiles import KIP, Profile
from controlplane.core.state import ClusterState, Topics
from controlplane.core.topics.source_partitions import topics_of

_READER = Profile.of(KIP)


def own_topics(batch: Batch, topics: Topics) -> Iterator[str]:
    """Yield the dedicated offsets topics that these config records name."""
    state = ClusterState(_READER, topics)
    for key, value in zip(batch.keys, batch.values, strict=True):
        record = decode_config(key, value, _READER)
        if isinstance(record, ConnectorConfig) and record.properties is not None:
            yield from topics_of(state, record.properties)
