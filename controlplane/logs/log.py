"""Contract of logs, and the errors that a log may raise.

A log holds topics; a topic has numbered partitions; a partition holds entries in the order of their
offsets. Offsets ascend but may have gaps (compaction, transaction markers). The contract makes only
promises that Kafka keeps. A batch of records is appended atomically (a transaction). Order holds
within a partition, and a reader can read to the end. A writer with an old epoch is fenced
(`transactional.id`). There is no compare-and-append. The next offset is not predictable, because
transaction markers also take offsets. `EmbeddedLog` adds methods that need no brokers.

A method of a closed log raises `LogUnavailable`; a waiting `tail` wakes up and raises it. Only
`close` and `writer_lock` still work then, and `until_claimed` returns. A topic may be named more
than once. A `start` or `stop` may lack topics, or the last partitions of a topic. A partition
without a `start` is read from its first record; without a `stop`, to its present end. Both may lie
past the end of a partition, except a `start` on Kafka. More offsets than a topic has partitions
raise `LogNotUsable` (on Kafka only for a `start`).
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, runtime_checkable

import msgspec

from controlplane.core.entry import Batch, Entry, Headers, Position
from controlplane.core.order import Ends

OFFSET_LIMIT = 2**40
"""Upper bound of offsets in embedded logs: 35 years of 1,000 records per second in one partition.
The SQLite log stores partition and offset in one 64-bit number; the log in memory has the same
limit."""


class Record(msgspec.Struct, frozen=True, gc=False):
    """Record to append: an entry without an offset. `timestamp` is in ms since 1970."""

    topic: str
    partition: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class LogError(Exception):
    """Failure of a log; the message tells what happened and what to do."""


class LogUnavailable(LogError):
    """The log cannot be reached or is busy. Trying again later may help."""


class LogNotUsable(LogError):
    """The log cannot be used before something is corrected.

    It is missing, lacks a topic, or has an unknown format or a newer schema. Or it refuses the
    user, a setting or a record.
    """


class LogReplaced(LogUnavailable, LogNotUsable):
    """The file of the log was moved, deleted or replaced. It may be moved back."""


class LogCorrupt(LogError):
    """The log's own structure is damaged; no byte after the damage can be trusted."""


class Fenced(LogError):
    """Another writer has taken over with a newer epoch, and nothing was appended.

    Never retry with the same epoch. The fenced writer may continue to read. It may `claim` the log
    again only on an explicit request.
    """


@runtime_checkable
class ReadableLog(Protocol):
    """A log that can be read, such as a cluster to which this program never writes."""

    async def topics(self) -> Mapping[str, int]:
        """All topics, each with its number of partitions."""
        ...

    async def starts(self, topics: Iterable[str]) -> Ends:
        """First offset of the log, per partition: no record lies before it.

        Embedded logs return the offset of the first record; for an empty partition, its end. On
        Kafka, a transaction marker may occupy the first offset. Or compaction may have removed the
        record that was there.
        """
        ...

    async def ends(self, topics: Iterable[str]) -> Ends:
        """Offset after the last record that can be read now or soon, per partition.

        It lies after every record whose `append` through this object has returned. On Kafka it is
        the last stable offset, or the end of this object's last record if that is greater. A commit
        returns before its marker is written. Until then the last stable offset lies before the
        committed records. Raises `LogNotUsable` for a missing topic.
        """
        ...

    def read(
        self, topics: Iterable[str], start: Ends | None = None, stop: Ends | None = None
    ) -> AsyncIterator[Batch]:
        """Yield batches of these topics from `start` (first record) to `stop` (current end).

        Order holds within a partition; batches of several partitions come in any interleaving
        (`core.order` sorts them for the fold). Entries of aborted transactions are
        included and marked. No batch is empty.
        """
        ...

    def tail(self, topics: Iterable[str], start: Ends) -> AsyncIterator[Batch]:
        """Yield batches from `start` on without end; waits for new records. Cancel to stop.

        `Batch.end` eventually reaches the end of each partition. If no record lies just before the
        end (markers, aborted or compacted records), an empty batch reports it (`ReadProgress`). So
        a reader whose `Batch.end` has reached `ends` has read all records.
        """
        ...

    async def close(self) -> None:
        """Release files, connections and threads. A second call does nothing."""
        ...


@runtime_checkable
class HasQuickEnds(Protocol):
    """A log that can return its ends with fewer requests, from cached partition leaders."""

    async def ends_from_leaders(self, topics: Iterable[str]) -> Ends:
        """Return the same as `ends`; partitions that were added recently may be missing."""
        ...


def quick_ends(log: ReadableLog) -> Callable[[Iterable[str]], Awaitable[Ends]]:
    """Return the method of a log that finds its ends with the fewest requests."""
    return log.ends_from_leaders if isinstance(log, HasQuickEnds) else log.ends


@runtime_checkable
class HasInterruptions(Protocol):
    """A remote log: its tails wait out an outage, and meanwhile yield nothing."""

    @property
    def interruption(self) -> LogError | None:
        """Failure that a read or tail is retrying at the moment; None without one."""
        ...


@runtime_checkable
class HasFastBatches(Protocol):
    """A log that may append to one partition much faster than to several at once."""

    @property
    def has_fast_batches(self) -> bool:
        """True if one append to three partitions takes longer than three appends to one each."""
        ...


@runtime_checkable
class HasClusterId(Protocol):
    """A log with an id of its own, which its backups share."""

    @property
    def cluster_id(self) -> str | None:
        """Id in the format of a Kafka cluster id: 22 characters of Base64; None: it has none."""
        ...


@runtime_checkable
class ProbedLog(Protocol):
    """A log that can test whether it is writable."""

    async def check_writable(self, epoch: int | None = None) -> None:
        """Raise `LogError` unless a writer of this epoch could append now. Appends nothing."""
        ...


@runtime_checkable
class HasClaimNotice(Protocol):
    """A log that notices the claim of another process without a write."""

    async def until_claimed(self, epoch: int) -> None:
        """Return as soon as an epoch newer than this one is claimed, or the log is closed."""
        ...


@runtime_checkable
class ImportedLog(Protocol):
    """A log that may be the copy of a cluster with unknown numbers of partitions."""

    async def assumed_partitions(self) -> frozenset[str]:
        """Topics that may have more partitions in that cluster."""
        ...


@runtime_checkable
class HasWriterLock(Protocol):
    """A log that several processes can write, but only one as its control plane."""

    def writer_lock(self) -> AbstractContextManager[None]:
        """Hold the lock of the control plane.

        Raises `LogNotUsable` if another process holds it, or if this user may not take it.
        """
        ...


@runtime_checkable
class Log(ReadableLog, Protocol):
    """A log that this program may also write to."""

    async def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic; no effect if it exists with as many partitions.

        Raises `LogNotUsable` if it exists with another number of partitions.
        """
        ...

    async def claim(self) -> int:
        """Become the only writer: start a new epoch. Every older epoch is `Fenced` from now on.

        When this returns, appends of older epochs are decided: their records lie before `ends`, or
        will never exist. So claim first, then read to the end. An epoch is valid only for this
        object; on Kafka it belongs to one `transactional.id`.
        """
        ...

    async def append(
        self, records: Sequence[Record], epoch: int | None = None
    ) -> Sequence[Position]:
        """Append all of the records, or none; durable when this returns.

        The records of a partition keep their order. The positions are in the order of the records.
        Without an epoch, the batch is never fenced, also if another writer has claimed the log.

        Raises:
            Fenced: the `epoch` is not the newest; nothing was appended.
            LogNotUsable: a topic or partition is missing; nothing was appended.
            LogUnavailable: the log is unreachable. The batch was appended whole or not at all;
                the outcome is decided before the next call of `ends` returns.

        After a cancellation the outcome is unknown in the same way.
        """
        ...


@runtime_checkable
class EmbeddedLog(Log, Protocol):
    """A log without brokers: its methods replace a broker's work, and import foreign entries."""

    async def add_partitions(self, topic: str, partitions: int) -> None:
        """Raise the number of partitions of a topic; no effect if it has as many or more."""
        ...

    async def put(self, entries: Sequence[Entry]) -> int:
        """Import entries of another log unchanged: offsets, gaps, timestamps, aborted marks.

        The entries may come in any order; their topics must exist. An entry equal to the one at its
        offset is skipped, so a second import adds nothing. Returns the number of added entries.

        Raises:
            LogNotUsable: a different entry at an occupied offset, or an entry in a gap below the
                end of its partition; nothing was changed.
        """
        ...

    async def compact(
        self, topic: str, below: Sequence[int] = (), *, tombstones: bool = False
    ) -> int:
        """Remove the entries that Kafka's log cleaner may remove; return their number.

        The last entry of each key stays, and so do all ends. `below`: one offset per partition
        (default: the end). Entries at or after that offset are ignored, like Kafka's active
        segment. `tombstones` also removes tombstones that are the last of their key, as Kafka does
        after `delete.retention.ms`.
        """
        ...

    async def trim(self, topic: str, below: Sequence[int]) -> int:
        """Remove all entries before these offsets, by partition; return their number.

        Partitions that are left out keep their entries; all ends stay.
        """
        ...
