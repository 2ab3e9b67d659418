"""Records of real workers keep their bytes when they are decoded and encoded."""

from pathlib import Path

import pytest

from controlplane.core.codec import (
    decode_config,
    decode_offset,
    decode_partition,
    decode_status,
    encode_config,
    encode_status,
)
from controlplane.core.entry import Entry
from controlplane.core.java import json_codec
from controlplane.core.records import Invalid, TaskConfig
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import Topics
from controlplane.logs.dumps import read_dump
from tests.offset_records import encode_offset

HISTORIES = Path(__file__).parent / "histories"
LOGS = sorted(HISTORIES.glob("*.log.jsonl"))
TOPICS = Topics()

OTHERS = {
    "odd-records-3.9.log.jsonl": 16,  # by a foreign hand: spaces, missing fields, trailing text
    "aborted-3.9.log.jsonl": 2,  # by a foreign hand: spaces
    "mirror-3.9.log.jsonl": 1,  # `["copy",null]`: can be written, but is never read
}


def again(entry: Entry, profile: Profile) -> tuple[bytes | None, bytes | None] | None:
    """Key and value that this release writes after reading them; None: it reads nothing."""
    if entry.topic == TOPICS.config:
        record = decode_config(entry.key, entry.value, profile)
        return None if isinstance(record, Invalid) else encode_config(record, profile)
    if entry.topic == TOPICS.status:
        report = decode_status(entry.key, entry.value, profile)
        return None if isinstance(report, Invalid) else encode_status(report, profile)
    subject, offset = decode_partition(entry.key, profile), decode_offset(entry.value, profile)
    if isinstance(subject, Invalid) or isinstance(offset, Invalid):
        return None
    return encode_offset(subject.connector, subject.partition, offset)


@pytest.mark.parametrize("path", LOGS, ids=[path.name for path in LOGS])
def test_every_record_of_a_real_cluster_is_written_to_the_byte(path: Path) -> None:
    """At least one release of the cluster writes the same bytes; foreign records are counted."""
    dump = read_dump(path)
    profiles = [Profile.of(release) for release in dump.about["releases"]]
    odd = [
        entry
        for entry in dump.entries
        if (entry.key, entry.value) not in [again(entry, profile) for profile in profiles]
    ]
    assert len(odd) == OTHERS.get(path.name, 0), [(entry.position, entry.value) for entry in odd]


def test_task_configs_stand_in_the_order_of_a_hash_map() -> None:
    """A connector puts task configs into a java.util.HashMap; the leader keeps their order."""
    kept = total = 0
    for path in LOGS:
        for entry in read_dump(path).entries:
            record = decode_config(entry.key, entry.value, Profile.of("3.9"))
            if entry.topic == TOPICS.config and isinstance(record, TaskConfig):
                total += 1
                kept += (
                    json_codec.encode_hash_order({"properties": record.properties}) == entry.value
                )
    # Seven records differ. Another program wrote one. In six, two names share a bucket of the
    # HashMap; the connector's order of insertion decides which comes first.
    assert (kept, total) == (129, 136)
