"""Records in flight: Kafka's `SubmittedRecordsTest`, and marks.

Q1 and Q2 are laws of docs/kafka-unit-tests.md.
"""

import tracemalloc
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from controlplane.connect.records import OffsetPair
from controlplane.worker.offsets.submitted_records import SubmittedRecord, SubmittedRecords

PARTITION_1, PARTITION_2, PARTITION_3 = ({"partition": number} for number in (1, 2, 3))


def committable(records: SubmittedRecords) -> dict[int, Any]:
    """Committable offsets by the number of the partition."""
    return {
        int(str(partition["partition"])): None if offset is None else offset["at"]
        for partition, offset in records.committable().values()
    }


def submit(records: SubmittedRecords, partition: dict[str, int], at: int) -> SubmittedRecord:
    return records.submit(partition, {"at": at})


def test_without_records_nothing_is_committable() -> None:
    """Without records nothing may be committed."""
    assert committable(SubmittedRecords()) == {}


def test_unacknowledged_records_hold_their_offsets_back() -> None:
    """Without an acknowledgement no offset is committable, and every record is in flight."""
    records = SubmittedRecords()
    for partition in (PARTITION_1, PARTITION_2, PARTITION_3):
        for at in range(3):
            submit(records, partition, at)
    assert committable(records) == {}
    assert records.in_flight == 9


def test_an_acknowledged_record_gives_its_offset_once() -> None:
    """The second request for committable offsets returns none."""
    records = SubmittedRecords()
    submit(records, PARTITION_1, 1).ack()
    assert committable(records) == {1: 1}
    assert committable(records) == {}


def test_partitions_do_not_wait_for_each_other() -> None:
    """Partitions do not wait for each other (Q2)."""
    records = SubmittedRecords()
    first = [submit(records, PARTITION_1, at) for at in range(2)]
    second = [submit(records, PARTITION_2, at) for at in range(2)]
    first[0].ack()
    first[1].ack()
    second[1].ack()
    assert committable(records) == {1: 1}
    second[0].ack()
    assert committable(records) == {2: 1}


def test_a_removed_record_gives_no_offset() -> None:
    """A removed record neither holds back nor gives an offset."""
    records = SubmittedRecords()
    record = submit(records, PARTITION_1, 1)
    assert records.remove(record)
    assert committable(records) == {}
    record.ack()
    assert committable(records) == {}


def test_records_around_a_removed_one_count() -> None:
    """The records around a removed one count."""
    records = SubmittedRecords()
    before = submit(records, PARTITION_1, 1)
    removed = submit(records, PARTITION_1, 2)
    assert records.remove(removed)
    assert committable(records) == {}
    before.ack()
    assert committable(records) == {1: 1}
    removed.ack()
    assert committable(records) == {}


def test_a_record_is_removed_only_once() -> None:
    """A record that is no longer in a queue cannot be removed."""
    records = SubmittedRecords()
    record = submit(records, PARTITION_1, 1)
    assert records.remove(record)
    assert not records.remove(record)


def test_a_record_without_a_partition_gives_no_offset() -> None:
    """A record without a partition is counted and gives no offset."""
    records = SubmittedRecords()
    record = records.submit(None, None)
    assert records.in_flight == 1
    record.ack()
    assert committable(records) == {}
    assert records.in_flight == 0


def test_nothing_is_in_flight_without_records() -> None:
    """A task without records ends without waiting."""
    assert SubmittedRecords().in_flight == 0


def test_nothing_is_in_flight_after_the_last_acknowledgement() -> None:
    """A second acknowledgement of a record does not count for another record."""
    records = SubmittedRecords()
    first, second = submit(records, PARTITION_1, 1), submit(records, PARTITION_2, 1)
    first.ack()
    first.ack()
    assert records.in_flight == 1
    second.ack()
    assert records.in_flight == 0


def test_removed_records_are_not_in_flight() -> None:
    """A removed record counts once, however often it is removed."""
    records = SubmittedRecords()
    first, second = (submit(records, PARTITION_1, at) for at in (1, 2))
    assert records.in_flight == 2
    assert records.remove(first)
    assert not records.remove(first)
    assert records.in_flight == 1
    assert records.remove(second)
    assert records.in_flight == 0


def test_a_later_acknowledgement_waits_for_earlier_records() -> None:
    """A later acknowledgement waits for the records before it (Q1)."""
    records = SubmittedRecords()
    earlier, later = submit(records, PARTITION_1, 1), submit(records, PARTITION_1, 2)
    later.ack()
    assert committable(records) == {}
    earlier.ack()
    assert committable(records) == {1: 2}


def test_an_added_offset_waits_for_earlier_records_of_its_partition() -> None:
    """Offsets of KIP-910 count as acknowledged, and pass no record in flight (Q1)."""
    records = SubmittedRecords()
    earlier = submit(records, PARTITION_1, 1)
    at_once = records.submit_acked([(PARTITION_1, {"at": 5}), (PARTITION_2, None)])
    assert [*at_once.values()] == [(PARTITION_2, None)]
    assert committable(records) == {}
    earlier.ack()
    assert committable(records) == {1: 5}


def test_an_added_offset_queues_behind_an_uncommitted_one() -> None:
    """An earlier offset waits for the next `committable`, so the offset of KIP-910 waits, too."""
    records = SubmittedRecords()
    submit(records, PARTITION_1, 1).ack()
    assert records.submit_acked([(PARTITION_1, {"at": 5})]) == {}
    assert committable(records) == {1: 5}


def test_records_around_a_removed_one_keep_their_order() -> None:
    """The records before and behind a removed one stay in their order."""
    records = SubmittedRecords()
    first, removed, last = (submit(records, PARTITION_1, at) for at in range(3))
    last.ack()
    assert records.remove(removed)
    assert committable(records) == {}
    first.ack()
    assert committable(records) == {1: 2}
    submit(records, PARTITION_1, 3).ack()
    assert committable(records) == {1: 3}


def test_a_record_after_a_removed_last_one_waits_for_earlier_ones() -> None:
    """After the removal of the last record, a new one still waits for the earlier ones."""
    records = SubmittedRecords()
    first, removed = (submit(records, PARTITION_1, at) for at in range(2))
    assert records.remove(removed)
    submit(records, PARTITION_1, 2).ack()
    assert committable(records) == {}
    first.ack()
    assert committable(records) == {1: 2}


def test_a_mark_waits_for_every_earlier_record_of_the_task() -> None:
    """A mark also waits for records of other partitions, unlike the hook of KIP-910."""
    records = SubmittedRecords()
    row = submit(records, PARTITION_1, 1)
    records.mark([(PARTITION_2, {"at": 7})])
    behind = submit(records, PARTITION_3, 9)
    behind.ack()
    assert committable(records) == {3: 9}
    row.ack()
    assert committable(records) == {1: 1, 2: 7}


def test_a_late_mark_does_not_turn_an_offset_back() -> None:
    """A mark's offset is dropped if a later record was committed first."""
    records = SubmittedRecords()
    row = submit(records, PARTITION_1, 1)
    records.mark([(PARTITION_2, {"at": 7})])
    submit(records, PARTITION_2, 8).ack()
    assert committable(records) == {2: 8}
    row.ack()
    assert committable(records) == {1: 1}


def test_the_last_offset_of_a_partition_in_a_mark_counts() -> None:
    """A mark may name a partition twice."""
    records = SubmittedRecords()
    records.mark([(PARTITION_1, {"at": 1}), (PARTITION_1, {"at": 2})])
    assert committable(records) == {1: 2}


def test_marks_that_wait_take_little_memory() -> None:
    """A source may mark its position very often while a record waits for the end of an outage."""
    records = SubmittedRecords()
    row = submit(records, PARTITION_1, 1)
    tracemalloc.start()
    try:
        for at in range(1_000):
            records.mark([(PARTITION_2, {"at": at})])
        bytes_used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert bytes_used < 20_000
    row.ack()
    assert committable(records) == {1: 1, 2: 999}


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(1, 3)),
        st.tuples(st.just("mark"), st.integers(1, 3)),
        st.tuples(st.just("ack"), st.integers(0, 30)),
        st.tuples(st.just("commit"), st.just(0)),
    )
)


@given(STEPS)
def test_an_offset_never_passes_a_record_in_flight(steps: list[tuple[str, int]]) -> None:
    """Q1 holds for records and marks, and offsets never decrease (compared with a simple model)."""
    records = SubmittedRecords()
    sent: list[tuple[int, SubmittedRecord]] = []  # number, record
    owners: dict[int, int] = {}  # number → partition
    marks: set[int] = set()
    committed: dict[int, int] = {}
    for number, (step, value) in enumerate(steps):
        if step == "send":
            owners[number] = value
            sent.append((number, records.submit({"partition": value}, {"at": number})))
        elif step == "mark":
            owners[number] = value
            marks.add(number)
            pair: OffsetPair = ({"partition": value}, {"at": number})
            records.mark([pair])
        elif step == "ack" and sent:
            sent[value % len(sent)][1].ack()
        else:
            for partition, at in committable(records).items():
                assert at > committed.get(partition, -1)
                committed[partition] = at
                held = [
                    other
                    for other, record in sent
                    if not record.acked
                    and other < at
                    and (at in marks or owners[other] == partition)
                ]
                assert not held
