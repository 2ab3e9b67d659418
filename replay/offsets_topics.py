"""Offsets topics that connectors have of their own (KIP-618), named by their configs."""

from collections.abc import Iterator

from controlplane.core.codec.config import decode_config
from controlplane.core.entry import Batch
from controlplane.core.profiles import KIP, Profile
from controlplane.core.records import ConnectorConfig
from controlplane.core.source_partitions import topics_of
from controlplane.core.state import ClusterState, Topics

_READER = Profile.of(KIP)


def own_topics(batch: Batch, topics: Topics) -> Iterator[str]:
    """The offsets topics that connectors in these config records have of their own."""
    state = ClusterState(_READER, topics)
    for key, value in zip(batch.keys, batch.values, strict=True):
        record = decode_config(key, value, _READER)
        if isinstance(record, ConnectorConfig) and record.properties is not None:
            yield from topics_of(state, record.properties)
