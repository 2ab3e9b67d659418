"""Sinks: connectors that write records from Kafka to other systems.

`Sink` is the API for authors. `SinkConnector` and `SinkTask` have the methods and the semantics of
Kafka's classes of these names. Methods may be `async def` or plain `def`, as in `source`.

The log is the store of the records: Kafka's brokers, or a file or database in their place.
"""

from collections.abc import Generator, Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol

from controlplane.connect.records import SinkRecord
from controlplane.connect.source import ConnectorContext, ResolvedConfig
from controlplane.core.configdef.key_definition import ConfigKey

KafkaPartition = tuple[str, int]
"""Topic and number of a partition."""

KafkaOffsets = Mapping[KafkaPartition, int]
"""Offset of the next record by partition."""


class SentReport(Protocol):
    """A report that is being written: `await` it in a coroutine, or call `wait` elsewhere."""

    def __await__(self) -> Generator[Any, None, None]:
        """Wait in a coroutine until the report is in the log, or has failed."""
        ...

    def wait(self) -> None:
        """Block the calling thread until the report is in the log, or has failed."""
        ...


class SinkTaskContext(Protocol):
    """Services of the runtime for a running sink task (`SinkTaskContext`)."""

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

    @property
    def assignment(self) -> frozenset[KafkaPartition]:
        """Partitions that this task consumes now."""
        ...

    def rewind(self, offsets: KafkaOffsets) -> None:
        """Consume these partitions from these offsets on; takes effect after the present call.

        A partition that is not in `assignment` then makes the task FAILED.
        """
        ...

    def retry_after(self, seconds: float) -> None:
        """Set the pause in seconds before a batch is put again after a `RetriableError`."""
        ...

    def pause(self, *partitions: KafkaPartition) -> None:
        """Deliver no records of these partitions until they are resumed, or another task gets them.

        A rebalance that assigns them to the same task again does not resume them.
        """
        ...

    def resume(self, *partitions: KafkaPartition) -> None:
        """Deliver records of these partitions again."""
        ...

    def request_commit(self) -> None:
        """Commit offsets soon, instead of at the next interval."""
        ...

    def report(self, record: SinkRecord, error: BaseException) -> "SentReport":
        """Report a record that the sink cannot take; the settings `errors.*` decide how (KIP-610).

        The runtime commits offsets only once the report is in the log. The task need not wait.

        Raises:
            ConnectError: `errors.tolerance` is `none`. The task fails, also if it catches this.
        """
        ...


class Sink:
    r"""A sink connector and its tasks in one class.

        class Lines(Sink):
            config = (key("file"),)

            def start(self, task):
                self.out = open(task.config["file"], "a")

            def put(self, task, records):
                self.out.writelines(f"{record.value}\n" for record in records)

            def flush(self, task, offsets):
                self.out.flush()

            def stop(self, task):
                self.out.close()

    When `flush` has returned, the runtime commits the offsets: make all data durable there.
    """

    kind: ClassVar[Literal["sink"]] = "sink"
    version: ClassVar[str] = "undefined"
    config: ClassVar[Sequence[ConfigKey]] = ()

    def split(self, config: ResolvedConfig, limit: int) -> Sequence[ResolvedConfig]:
        """Return a config for each task, at most `limit`; tasks share the partitions."""
        return [config] * limit

    def watch(self, connector: ConnectorContext) -> Any:
        """Run beside the tasks; call `connector.request_reconfiguration()` when they must change.

        Write it as `async def`: a stop cancels it. A plain `def` gets no notice of a stop.
        """

    def start(self, task: SinkTaskContext) -> Any:
        """Open what the task writes to."""

    def open(self, task: SinkTaskContext, partitions: Sequence[KafkaPartition]) -> Any:
        """Take note of partitions that the task consumes from now on."""

    def put(self, task: SinkTaskContext, records: Sequence[SinkRecord]) -> Any:
        """Write records; the list may be empty.

        Raises:
            RetriableError: the same records are put again after a pause.
        """
        raise NotImplementedError(f"{type(self).__name__}.put is missing")

    def flush(self, task: SinkTaskContext, offsets: KafkaOffsets) -> Any:
        """Make everything so far durable; these offsets are committed when this returns."""

    def pre_commit(self, task: SinkTaskContext, offsets: KafkaOffsets) -> Any:
        """Return the offsets to commit; None: the runtime calls `flush` and commits `offsets`."""

    def close(self, task: SinkTaskContext, partitions: Sequence[KafkaPartition]) -> Any:
        """Take note of partitions that the task no longer consumes."""

    def stop(self, task: SinkTaskContext) -> Any:
        """Close what the task writes to."""


class SinkTask:
    """A task with Kafka's methods (`SinkTask`)."""

    context: SinkTaskContext
    """Services of the runtime; set before `start`."""

    def start(self, config: ResolvedConfig) -> Any:
        """Open what the task writes to."""

    def open(self, partitions: Sequence[KafkaPartition]) -> Any:
        """Take note of partitions that the task consumes from now on."""

    def put(self, records: Sequence[SinkRecord]) -> Any:
        """Write records; the list may be empty.

        Raises:
            RetriableError: the same records are put again after a pause.
        """
        raise NotImplementedError(f"{type(self).__name__}.put is missing")

    def flush(self, offsets: KafkaOffsets) -> Any:
        """Make everything so far durable; these offsets are committed when this returns."""

    def pre_commit(self, offsets: KafkaOffsets) -> Any:
        """Return the offsets to commit; None: the runtime calls `flush` and commits `offsets`."""

    def close(self, partitions: Sequence[KafkaPartition]) -> Any:
        """Take note of partitions that the task no longer consumes."""

    def stop(self) -> Any:
        """Close what the task writes to."""


class SinkConnector:
    """A connector with Kafka's methods (`SinkConnector`)."""

    kind: ClassVar[Literal["sink"]] = "sink"
    version: ClassVar[str] = "undefined"
    config: ClassVar[Sequence[ConfigKey]] = ()
    task: ClassVar[type[SinkTask]]
    """Class of the connector's tasks (`taskClass`)."""

    context: ConnectorContext
    """Services of the runtime; set before `start`."""

    def start(self, config: ResolvedConfig) -> Any:
        """Begin to watch the target system; called again at the end of a pause."""

    def task_configs(self, limit: int) -> Sequence[ResolvedConfig]:
        """Return a config for each task, at most `limit` (`taskConfigs`)."""
        raise NotImplementedError(f"{type(self).__name__}.task_configs is missing")

    def stop(self) -> Any:
        """Stop watching the target system; called at a pause, too."""
