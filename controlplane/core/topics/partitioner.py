"""Kafka's default partitioner: murmur2 over the key's bytes.

Workers use it. A foreign writer may have another partitioner: librdkafka's default is CRC32. Then
records of one key are in two partitions, and compaction does not compare them (edge 26 of
`tests/core/test_edges.py`).
"""

from controlplane.core.plan import Draft
from controlplane.core.state import ClusterState

# Constants of murmur2 in Kafka's `Utils`.
_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
_WORD = 4


def partition_of(key: bytes, partitions: int) -> int:
    """Partition of a key (Kafka: `BuiltInPartitioner#partitionForKey`)."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions if partitions > 1 else 0


def draft_partition(draft: Draft, state: ClusterState) -> int:
    """Partition that a draft is written to: the one it names, or that of its key.

    The state has an end offset for each partition of the topic, which gives their number.
    """
    if draft.partition is not None:
        return draft.partition
    return partition_of(draft.key, sum(topic == draft.topic for topic, _ in state.ends))


def murmur2(key: bytes) -> int:
    """Kafka's 32-bit murmur2 (`Utils#murmur2`), unsigned here and signed in Java."""
    whole = len(key) - len(key) % _WORD
    hashed = _SEED ^ len(key)
    for start in range(0, whole, _WORD):
        word = int.from_bytes(key[start : start + _WORD], "little") * _M & _MASK
        word = (word ^ word >> 24) * _M & _MASK
        hashed = hashed * _M & _MASK ^ word
    tail = key[whole:]
    if tail:
        hashed = (hashed ^ int.from_bytes(tail, "little")) * _M & _MASK
    hashed = (hashed ^ hashed >> 13) * _M & _MASK
    return hashed ^ hashed >> 15
