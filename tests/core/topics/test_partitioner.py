"""The partitioner chooses the same partitions as Kafka's default one."""

from pathlib import Path

import msgspec
import pytest

from controlplane.core.topics.partitioner import murmur2, partition_of

SIGNED = 2**32

VECTORS = [
    (b"21", -973932308),
    (b"foobar", -790332482),
    (b"a-little-bit-long-string", -985981536),
    (b"a-little-bit-longer-string", -1486304829),
    (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    (b"abc", 479470107),
]
"""Values from the tests of Kafka's own `Utils#murmur2`."""


@pytest.mark.parametrize(("key", "hashed"), VECTORS)
def test_murmur2_is_kafkas(key: bytes, hashed: int) -> None:
    """The 32 bits are those of Kafka, whether or not the length is a multiple of four."""
    assert murmur2(key) == hashed % SIGNED


def test_recorded_keys_lie_where_they_should(histories: Path) -> None:
    """`partition_of` gives the recorded partition of each record that Kafka's workers wrote.

    Two histories are left out: another program chose partitions itself there.
    """
    foreign = {"aborted-3.9", "odd-records-3.9"}
    logs = [
        path for path in histories.glob("*.log.jsonl") if path.name.split(".log")[0] not in foreign
    ]
    checked = 0
    for path in logs:
        first, *lines = (msgspec.json.decode(line) for line in path.read_bytes().splitlines())
        for line in lines:
            count = len(first["end"].get(line["topic"], ()))
            if "key" in line and line["key"] is not None and count:
                assert partition_of(line["key"].encode(), count) == line["partition"], line
                checked += 1
    assert checked > 1_000
