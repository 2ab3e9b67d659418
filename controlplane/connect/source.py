"""Sources: connectors that bring records into Kafka.

`Source` is the API for authors: one class, one generator. `SourceConnector` and `SourceTask` below
it have the methods and the semantics of Kafka's classes of these names.

Methods may be `async def` or plain `def`. The runtime calls the methods of one task in a thread of
the task's own. A blocking call delays no other task.

Calls of one task overlap only while an `async def` is in an `await`:

- `SourceTask`: `commit_record` and `commit` may overlap other methods, such as `poll`. `stop` may
  overlap a `poll` that the runtime has cancelled.
- `Source`: `update_offsets` may overlap `read`.

The log is the store of the records: Kafka's brokers, or a file or database in their place.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol

import msgspec

from controlplane.connect.errors import ConnectError
from controlplane.connect.records import (
    OffsetFields,
    OffsetPair,
    PartitionFields,
    RecordHeader,
    RecordMetadata,
    SourceRecord,
    checked_headers,
)
from controlplane.core.configdef.key_definition import ConfigKey

ResolvedConfig = Mapping[str, str]
"""Config of a connector or task, with references to config providers resolved."""

OffsetPairs = Sequence[OffsetPair]
"""Source partitions with their offsets."""

# --- items that `read` yields ---------------------------------------------------------------------


class Idle(msgspec.Struct, frozen=True):
    """Pause of a source: the runtime resumes `read` after this time.

    Due commits, pauses and stops take effect meanwhile.
    """

    seconds: float = 1.0


class Mark(msgspec.Struct, frozen=True):
    """Offsets without a record; they cover everything that was yielded before.

    They are committed once every earlier record of the task is acknowledged. This is stricter than
    KIP-910, where `update_offsets` is called once the records are sent.
    """

    offsets: tuple[OffsetPair, ...]


class TransactionCommit(msgspec.Struct, frozen=True):
    """End the transaction after the records so far (`transaction.boundary=connector`)."""


class TransactionAbort(msgspec.Struct, frozen=True):
    """Drop the records of the transaction; their offsets are still committed."""


Item = SourceRecord | Sequence[SourceRecord] | Idle | Mark | TransactionCommit | TransactionAbort
"""Item that `read` yields.

Single records gather into a batch. The batch ends at a limit (time or number of records), or at the
next item of another kind. A list of records is such an item: the batch takes in the whole list, and
then ends.
"""


# --- contexts -------------------------------------------------------------------------------------


class ConnectorContext(Protocol):
    """Services of the runtime for a running connector (`ConnectorContext`)."""

    @property
    def name(self) -> str:
        """Name of the connector, as in the REST API."""
        ...

    @property
    def config(self) -> ResolvedConfig:
        """Config of the connector, with its references resolved."""
        ...

    def request_reconfiguration(self) -> None:
        """Ask for new task configs: the runtime calls `split` or `task_configs` again.

        The tasks are restarted if their configs have changed.
        """
        ...

    def fail(self, error: BaseException) -> None:
        """Report that the connector cannot go on: its status becomes FAILED."""
        ...


class TransactionContext(Protocol):
    """Transaction boundaries that the connector sets (`TransactionContext`, KIP-618)."""

    def commit(self, record: SourceRecord | None = None) -> None:
        """Commit after this record of the next batch; None: after the batch."""
        ...

    def abort(self, record: SourceRecord | None = None) -> None:
        """Abort after this record of the next batch; None: after the batch."""
        ...


class SourceTaskContext(Protocol):
    """Services of the runtime for a running source task (`SourceTaskContext`)."""

    @property
    def connector(self) -> str:
        """Name of the connector, as in the REST API."""
        ...

    @property
    def number(self) -> int:
        """Number of the task, from 0."""
        ...

    @property
    def config(self) -> ResolvedConfig:
        """Config of the task, with its references resolved."""
        ...

    def offset(self, partition: PartitionFields) -> OffsetFields | None:
        """Return the committed offset of a source partition; None: there is none."""
        ...

    def offsets(self, partitions: Sequence[PartitionFields]) -> OffsetPairs:
        """Return the committed offsets of several source partitions, in their order."""
        ...

    @property
    def transaction(self) -> TransactionContext | None:
        """Transaction of the task (KIP-618).

        None: the connector does not set the boundaries, or exactly-once support is off.
        """
        ...


class SourceRun:
    """Handle of a running `Source.read`: creates the items that it yields. Passed as `task`."""

    def __init__(self, context: SourceTaskContext) -> None:
        self._context = context

    @property
    def connector(self) -> str:
        """Name of the connector, as in the REST API."""
        return self._context.connector

    @property
    def number(self) -> int:
        """Number of the task, from 0."""
        return self._context.number

    @property
    def config(self) -> ResolvedConfig:
        """Config of the task, with its references resolved."""
        return self._context.config

    def offset(self, partition: PartitionFields) -> OffsetFields | None:
        """Return the committed offset of a source partition; None: there is none."""
        return self._context.offset(partition)

    def offsets(self, partitions: Sequence[PartitionFields]) -> OffsetPairs:
        """Return the committed offsets of several source partitions, in their order."""
        return self._context.offsets(partitions)

    def record(  # noqa: PLR0913 - fields of a record
        self,
        value: Any,
        partition: PartitionFields | None = None,
        offset: OffsetFields | None = None,
        *,
        topic: str | None = None,
        key: Any = None,
        headers: Iterable[RecordHeader] = (),
        **fields: Any,
    ) -> SourceRecord:
        """Return a record for `topic` (default: the task's config `topic`).

        `fields` are further fields of a `SourceRecord`: schemas, Kafka's partition, timestamp (in
        ms since 1970).

        Raises:
            ConnectError: neither `topic` nor the config names a topic, or the headers are no list
                of `RecordHeader`.
        """
        if topic is None:
            topic = self.config.get("topic")
        if topic is None:
            raise ConnectError(
                "The record has no topic: set topic in the connector's config, or pass topic= to "
                "task.record"
            )
        return SourceRecord(
            topic=topic,
            value=value,
            key=key,
            source_partition=partition,
            source_offset=offset,
            headers=checked_headers(headers),
            **fields,
        )

    def idle(self, seconds: float = 1.0) -> Idle:
        """Return a pause of this many seconds. Yield it instead of sleeping."""
        return Idle(seconds)

    def mark(self, offsets: OffsetPairs) -> Mark:
        """Return offsets that cover everything yielded so far; yield them to commit them."""
        return Mark(tuple(offsets))

    def commit(self) -> TransactionCommit:
        """Return an item that ends the transaction (`transaction.boundary=connector`); yield it."""
        return TransactionCommit()

    def abort(self) -> TransactionAbort:
        """Return an item that drops the records since the last end of a transaction."""
        return TransactionAbort()


# --- the API for authors --------------------------------------------------------------------------


class Source:
    """A source connector and its tasks in one class.

        class Lines(Source):
            config = (key("file"), key("topic"))

            async def read(self, task):
                part = {"file": task.config["file"]}
                at = (task.offset(part) or {"line": 0})["line"]
                for line in Path(task.config["file"]).read_text().splitlines()[at:]:
                    yield task.record(line, part, {"line": (at := at + 1)})

    The runtime resumes `read` when it wants more. Pause, stop, back-pressure and commits need no
    code: a stop closes the generator, so its `finally` runs. Each task has an instance of its own.
    The connector has another one, for `split` and `watch`.
    """

    kind: ClassVar[Literal["source"]] = "source"
    version: ClassVar[str] = "undefined"
    config: ClassVar[Sequence[ConfigKey]] = ()
    """Config keys, validated by Connect before any code of the connector runs."""
    exactly_once: ClassVar[bool | None] = None
    """True if the source supports exactly-once delivery (KIP-618); None: no statement."""
    boundaries: ClassVar[bool] = False
    """True if `read` yields `task.commit()` with `transaction.boundary=connector`."""

    def read(self, task: SourceRun) -> AsyncIterator[Item] | Iterator[Item]:
        """Generate records from the committed offsets on.

        After the end of the generator the task stays RUNNING, like a Kafka task whose `poll`
        returns no more records. Any exception ends the generator, even a `RetriableError`: the task
        is FAILED. Records that were yielded before the exception are sent first.
        """
        raise NotImplementedError(f"{type(self).__name__}.read is missing")

    def split(self, config: ResolvedConfig, limit: int) -> Sequence[ResolvedConfig]:
        """Return a config for each task, at most `limit` (`taskConfigs`)."""
        del limit
        return [config]

    def watch(self, connector: ConnectorContext) -> Any:
        """Run beside the tasks; call `connector.request_reconfiguration()` when they must change.

        Write it as `async def`: a stop cancels it. A plain `def` gets no notice of a stop.
        """

    def update_offsets(self, task: SourceRun, offsets: OffsetPairs) -> OffsetPairs | None:
        """Return offsets to commit in addition to those about to be committed (KIP-910).

        A pair with the offset None removes the offset of its partition. None or an empty list adds
        nothing. `offsets` is a copy: changes to it have no effect. After a `RetriableError` the
        commit goes on without further offsets. The runtime calls this method only with
        `--release kip`, which is the default: no release of Kafka has KIP-910.

        The runtime calls it while `read` waits, in a `yield` or in an `await` of its own. Suppose
        that `read` keeps its position in a field, and that this method returns the field. Then
        `read` must set the field directly before the `yield`, without an `await` between.
        Otherwise, a call during this `await` returns the position of a record that `read` has not
        yielded. A crash after the commit then loses this record.

        While `read` blocks its thread, the runtime cannot call the method. The commit of earlier
        offsets then waits.
        """

    def acked(self, task: SourceRun, record: SourceRecord, metadata: RecordMetadata | None) -> Any:
        """Take note that a record is in the log; without metadata it was filtered or dropped."""

    def committed(self, task: SourceRun) -> Any:
        """Take note of a commit that succeeded, even one without offsets."""


# --- classes with Kafka's methods -----------------------------------------------------------------


class SourceTask:
    """A task with Kafka's methods (`SourceTask`)."""

    context: SourceTaskContext
    """Services of the runtime; set before `start`."""

    def start(self, config: ResolvedConfig) -> Any:
        """Open what the task reads; called once, before the first `poll`."""

    def poll(self) -> Any:
        """Return records; None or an empty list if there are none now. May block for a while.

        Raises:
            RetriableError: the runtime calls it again.
        """
        raise NotImplementedError(f"{type(self).__name__}.poll is missing")

    def commit(self) -> Any:
        """Take note of a commit that succeeded, even one without offsets.

        The call may begin while an `async def poll` is in an `await`.
        """

    def commit_record(self, record: SourceRecord, metadata: RecordMetadata | None) -> Any:
        """Take note that a record is in the log; without metadata it was filtered or dropped.

        The call may begin while an `async def poll` is in an `await`.
        """

    def update_offsets(self, offsets: OffsetPairs) -> OffsetPairs | None:
        """Return offsets to commit in addition; see `Source.update_offsets` (KIP-910)."""

    def stop(self) -> Any:
        """Close what the task reads. Called once; no `poll` begins after it.

        A cancelled `async def poll` may still be in an `await`.
        """


class SourceConnector:
    """A connector with Kafka's methods (`SourceConnector`)."""

    kind: ClassVar[Literal["source"]] = "source"
    version: ClassVar[str] = "undefined"
    config: ClassVar[Sequence[ConfigKey]] = ()
    exactly_once: ClassVar[bool | None] = None
    boundaries: ClassVar[bool] = False
    task: ClassVar[type[SourceTask]]
    """Class of the connector's tasks (`taskClass`)."""

    context: ConnectorContext
    """Services of the runtime; set before `start`."""

    def start(self, config: ResolvedConfig) -> Any:
        """Begin to watch the source system; called again at the end of a pause."""

    def task_configs(self, limit: int) -> Sequence[ResolvedConfig]:
        """Return a config for each task, at most `limit` (`taskConfigs`)."""
        raise NotImplementedError(f"{type(self).__name__}.task_configs is missing")

    def stop(self) -> Any:
        """Stop watching the source system; called at a pause, too."""
