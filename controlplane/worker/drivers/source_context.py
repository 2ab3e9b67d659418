"""Services of the runtime for a running source task: config, offsets, transactions."""

from collections.abc import Sequence
from typing import NamedTuple

from controlplane.connect.errors import ConnectError
from controlplane.connect.records import OffsetFields, PartitionFields, SourceRecord
from controlplane.connect.source import (
    Mark,
    OffsetPairs,
    ResolvedConfig,
    TransactionAbort,
    TransactionCommit,
    TransactionContext,
)
from controlplane.worker.offsets.source_offsets import SourceOffsetStore
from controlplane.worker.task_identity import TaskIdentity, TaskServices


class PolledRecord(NamedTuple):
    """Checked copy of a record, and the place where the author's code has handed it over."""

    record: SourceRecord
    place: str
    """File and line of the `yield`, or the method that has returned the record."""


PolledItem = PolledRecord | Mark | TransactionCommit | TransactionAbort
"""Item of a poll: a record, offsets without a record, or the end of a transaction."""


class TaskContext(TaskServices):
    """Services for a running source task (`SourceTaskContext`)."""

    def __init__(
        self,
        identity: TaskIdentity,
        config: ResolvedConfig,
        offsets: SourceOffsetStore,
        transaction: "TransactionRequests | None",
    ) -> None:
        super().__init__(identity, config)
        self._offsets = offsets
        self._transaction = transaction

    def offset(self, partition: PartitionFields) -> OffsetFields | None:
        """Return the committed offset of a source partition; None: there is none."""
        return self._offsets.get(partition)

    def offsets(self, partitions: Sequence[PartitionFields]) -> OffsetPairs:
        """Return the committed offsets of several source partitions, in their order."""
        return [(partition, self.offset(partition)) for partition in partitions]

    @property
    def transaction(self) -> TransactionContext | None:
        """Transaction of the task.

        None: the connector does not set the boundaries, or exactly-once support is off.
        """
        return self._transaction


class TransactionRequests:
    """Requests of a task about its transactions (Kafka: `WorkerTransactionContext`)."""

    def __init__(self) -> None:
        self._commits: list[SourceRecord | None] = []
        self._aborts: list[SourceRecord | None] = []

    def commit(self, record: SourceRecord | None = None) -> None:
        """Commit after this record of the next batch; None: after the batch."""
        self._commits.append(record)

    def abort(self, record: SourceRecord | None = None) -> None:
        """Abort after this record of the next batch; None: after the batch."""
        self._aborts.append(record)

    def bounded(self, records: Sequence[tuple[SourceRecord, PolledRecord]]) -> list[PolledItem]:
        """Return a batch with the requested boundaries in it, and forget the requests.

        Each pair is the author's record, which requests refer to, and its checked copy.

        Raises:
            ConnectError: a commit and an abort were requested after the same record, or both after
                the batch.
        """
        # By identity: two records may be equal. The lists keep the records alive meanwhile.
        commits, aborts = {*map(id, self._commits)}, {*map(id, self._aborts)}
        items: list[PolledItem] = []
        for record, checked in records:
            items.append(checked)
            items += _boundary(record, id(record) in commits, id(record) in aborts)
        items += _boundary(None, id(None) in commits, id(None) in aborts)
        self._commits.clear()
        self._aborts.clear()
        return items


def _boundary(
    place: SourceRecord | None, is_committed: bool, is_aborted: bool
) -> list[TransactionCommit | TransactionAbort]:
    """Return the end of a transaction after a record, or after the batch (None), if requested."""
    if is_committed and is_aborted:
        shown = "the same batch" if place is None else f"record {place}"
        raise ConnectError(f"Connector requested both commit and abort of {shown}")
    if is_committed:
        return [TransactionCommit()]
    return [TransactionAbort()] if is_aborted else []
