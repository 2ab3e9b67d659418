"""Recent records are bounded, and complete from their first offset on."""

from controlplane.attached.recent_records import RecentRecords
from controlplane.core.entry import Entry

OFFSETS, CONFIGS = "connect-offsets", "connect-configs"


def entry(topic: str, partition: int, offset: int, value: bytes = b"{}") -> Entry:
    """Entry of a worker's topic with a fixed time and key."""
    return Entry(topic, partition, offset, 1, b"key", value)


def test_records_since_given_ends_are_returned() -> None:
    """Partitions of the named topics are in offset order; new topics begin at 0."""
    recent = RecentRecords({CONFIGS: (5,), OFFSETS: (2, 7)})
    added = [entry(CONFIGS, 0, 5), entry(OFFSETS, 1, 7), entry(CONFIGS, 0, 8), entry("new", 0, 0)]
    recent.add(added)
    assert recent.since([CONFIGS], {CONFIGS: [5]}) == [added[0], added[2]]
    assert recent.since([CONFIGS], {CONFIGS: [6]}) == [added[2]]
    assert recent.since([CONFIGS], {CONFIGS: [9]}) == []
    assert recent.since([OFFSETS, CONFIGS], {CONFIGS: [8], OFFSETS: [2, 7]}) == added[1:3]
    assert recent.since(["new"], {}) == [added[3]]


def test_earlier_records_are_missed() -> None:
    """The result is None for earlier records, or if a partition has no given end."""
    recent = RecentRecords({CONFIGS: (5,), OFFSETS: (0, 7)})
    assert recent.since([CONFIGS], {CONFIGS: [5]}) == []
    assert recent.since([CONFIGS], {CONFIGS: [4]}) is None
    assert recent.since([OFFSETS], {OFFSETS: [0]}) is None


def test_records_above_the_bound_are_dropped() -> None:
    """The oldest records of all partitions are dropped first; the rest is complete."""
    recent = RecentRecords({CONFIGS: (0,), OFFSETS: (0,)}, records_kept=2)
    recent.add([entry(CONFIGS, 0, 0), entry(OFFSETS, 0, 0), entry(CONFIGS, 0, 1)])
    assert recent.since([CONFIGS], {CONFIGS: [0]}) is None
    assert recent.since([CONFIGS], {CONFIGS: [1]}) == [entry(CONFIGS, 0, 1)]
    assert recent.since([OFFSETS], {OFFSETS: [0]}) == [entry(OFFSETS, 0, 0)]


def test_a_record_above_the_bound_is_not_kept() -> None:
    """A single record that is larger than the bound is not kept."""
    recent = RecentRecords({CONFIGS: (0,)}, bytes_kept=100)
    recent.add([entry(CONFIGS, 0, 0), entry(CONFIGS, 0, 1, bytes(50))])
    assert len(recent.since([CONFIGS], {CONFIGS: [0]}) or ()) == 2
    recent.add([entry(CONFIGS, 0, 2, bytes(98))])
    assert recent.since([CONFIGS], {CONFIGS: [2]}) is None
    assert recent.since([CONFIGS], {CONFIGS: [3]}) == []


def test_a_replaced_log_has_no_recent_records() -> None:
    """After a replacement of the log, every query returns None, also one about new records."""
    recent = RecentRecords({CONFIGS: (0,)})
    recent.add([entry(CONFIGS, 0, 0)])
    recent.break_off()
    recent.add([entry(CONFIGS, 0, 1)])
    assert recent.since([CONFIGS], {CONFIGS: [0]}) is None
    assert recent.since([CONFIGS], {CONFIGS: [2]}) is None
    assert recent.since(["new"], {}) is None
