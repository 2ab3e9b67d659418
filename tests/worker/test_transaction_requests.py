"""Transaction boundaries that a classic task requests for single records (KIP-618)."""

import pytest

from controlplane.connect.errors import ConnectError
from controlplane.connect.records import SourceRecord
from controlplane.connect.source import TransactionAbort, TransactionCommit
from controlplane.worker.drivers.source_context import PolledRecord, TransactionRequests
from controlplane.worker.drivers.source_items import checked_record
from tests.operation_counts import operations

RECORDS = [
    SourceRecord(topic="t", value=str(number), source_partition={"p": 1}, source_offset={"at": 1})
    for number in range(3)
]
PAIRS = [(record, PolledRecord(checked_record(record), "Task.poll")) for record in RECORDS]


def test_a_boundary_follows_its_record() -> None:
    """A request names the task's own record; the boundary follows the runtime's checked copy."""
    requests = TransactionRequests()
    requests.commit(RECORDS[0])
    requests.abort(RECORDS[1])
    requests.commit()
    zero, first, second = (polled for _, polled in PAIRS)
    assert requests.bounded(PAIRS) == [
        zero,
        TransactionCommit(),
        first,
        TransactionAbort(),
        second,
        TransactionCommit(),
    ]
    assert requests.bounded(PAIRS) == [zero, first, second]


def test_a_commit_and_an_abort_at_one_record_are_refused() -> None:
    """A commit and an abort at one record raise ConnectError, as in Kafka."""
    requests = TransactionRequests()
    requests.commit(RECORDS[0])
    requests.abort(RECORDS[0])
    with pytest.raises(ConnectError, match="both commit and abort"):
        requests.bounded(PAIRS)


def test_the_cost_of_boundaries_grows_with_their_number() -> None:
    """Twice as many records with a boundary each take twice the work, not four times."""

    def cost(size: int) -> int:
        requests, records = TransactionRequests(), [SourceRecord(topic="t") for _ in range(size)]
        for record in records:
            requests.commit(record)
        pairs = [(record, PolledRecord(record, "Task.poll")) for record in records]
        return operations(lambda: requests.bounded(pairs))

    assert cost(200) < 3 * cost(100)
