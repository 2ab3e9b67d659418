"""The contract of every log, and the errors it may raise.

A log holds topics; a topic has numbered partitions; a partition holds entries in the order of
their log offsets, which ascend but may have gaps (compaction, transaction markers). The contract
promises only what Kafka can keep (design decision 9): a batch of records is appended atomically,
order holds within a partition, a reader can read to the end, a writer with an old epoch is fenced.
There is no compare-and-append.

Every method of a closed log but `close` raises `LogUnavailable`; a `tail` that waits is woken to
do so. Topics are named once or several times, it makes no difference. Offsets given as `Ends` may
lie outside of what is there and may leave out topics or the last partitions (then the first record
or the end is meant); more offsets than a topic has partitions raise `LogNotUsable`.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, runtime_checkable

import msgspec

from controlplane.core.entry import Batch, Entry, Headers, Position

Ends = Mapping[str, Sequence[int]]
"""Per topic, by partition number, one offset: of the next record (an end) or of the first one."""


OFFSET_LIMIT = 2**40
"""Offsets of our own logs lie below: 35 years of 1,000 records a second in one partition. SQLite
keeps partition and offset in one 64-bit number, and the other logs agree with it."""


class Record(msgspec.Struct, frozen=True, gc=False):
    """What is to be appended: an entry that has no place yet. `timestamp` in ms since 1970."""

    topic: str
    partition: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class LogError(Exception):
    """Something about a log; the message says what happened and what to do, in one sentence."""


class LogUnavailable(LogError):
    """The log cannot be reached or is busy. Trying again later may help."""


class LogNotUsable(LogError):
    """The log is there but is not what is needed: unknown format, newer schema, missing topic."""


class LogReplaced(LogUnavailable, LogNotUsable):
    """The file of the log was moved, deleted or replaced. It may be moved back."""


class LogCorrupt(LogError):
    """Bytes of the log's own framing are damaged; nothing behind them can be trusted."""


class Fenced(LogError):
    """Another writer has taken over with a newer epoch. Step down; never retry."""


@runtime_checkable
class ReadableLog(Protocol):
    """A log that can be read: every log, also those that belong to somebody else."""

    async def topics(self) -> Mapping[str, int]:
        """Every topic there is, with its number of partitions."""
        ...

    async def starts(self, topics: Iterable[str]) -> Ends:
        """Offset of the first record that is still there (the end where there is none)."""
        ...

    async def ends(self, topics: Iterable[str]) -> Ends:
        """Offset behind the last record. Raises `LogNotUsable` for a topic that is missing."""
        ...

    def read(
        self, topics: Iterable[str], start: Ends | None = None, stop: Ends | None = None
    ) -> AsyncIterator[Batch]:
        """All batches of these topics from `start` (first record) to `stop` (the end, now).

        Order holds within a partition; batches of several partitions come interleaved as it
        suits the log (`core.order` puts them into the one order in which they are folded).
        Entries of aborted transactions come too, marked.
        """
        ...

    def tail(self, topics: Iterable[str], start: Ends) -> AsyncIterator[Batch]:
        """Batches from `start` on, without end: waits for new records. Cancel to stop."""
        ...

    async def close(self) -> None:
        """Give back files, connections and threads. Closing twice is allowed."""
        ...


@runtime_checkable
class MayBeInterrupted(Protocol):
    """A log that is far away: its tails wait out an outage, and meanwhile bring nothing."""

    @property
    def interruption(self) -> LogError | None:
        """Why something is not read just now, while it is tried again; None if all is well."""
        ...


@runtime_checkable
class Named(Protocol):
    """A log that has a name of its own, which goes with it wherever it is copied."""

    @property
    def cluster_id(self) -> str | None:
        """As a Kafka cluster's: 22 characters of Base64. None: it has not got one yet."""
        ...


@runtime_checkable
class Probed(Protocol):
    """A log that can tell whether it could be written now."""

    async def check_writable(self, epoch: int | None = None) -> None:
        """Raise `LogError` unless a writer of this epoch could append now. Appends nothing."""
        ...


@runtime_checkable
class Copied(Protocol):
    """A log that may be the copy of a cluster whose numbers of partitions nobody has told."""

    async def assumed_partitions(self) -> frozenset[str]:
        """Topics that may have more partitions in that cluster."""
        ...


@runtime_checkable
class OneWriter(Protocol):
    """A log that several processes could write, of which one is its control plane."""

    def writer_lock(self) -> AbstractContextManager[None]:
        """Be its only control plane. Raises `LogNotUsable` if there is another one."""
        ...


@runtime_checkable
class Log(ReadableLog, Protocol):
    """A log of our own, which we may also write to."""

    async def create_topic(self, topic: str, partitions: int) -> None:
        """Make a topic; nothing happens if it is there with as many partitions.

        Raises `LogNotUsable` if it is there with another number of partitions.
        """
        ...

    async def claim(self) -> int:
        """Become the one writer: a new epoch. Every older epoch is `Fenced` from now on."""
        ...

    async def append(
        self, records: Sequence[Record], epoch: int | None = None
    ) -> Sequence[Position]:
        """Append all of the records, in order, or none; durable when this returns.

        The positions are in the order of the records. Raises `Fenced` for an `epoch` that is not
        the newest, `LogNotUsable` for a topic or partition that is missing; nothing is appended
        then. Whoever cancels this cannot know which it was: all of them, or none.
        """
        ...

    async def put(self, entries: Sequence[Entry]) -> int:
        """Take over entries of another log as they are: offsets, gaps, times, aborted marks.

        The order of the entries does not matter; their topics must be there. Entries whose place
        is taken by an equal entry are skipped, so importing twice adds nothing; the number of
        entries added is returned. An unequal entry at a place that is taken, or one below the end
        of its partition in a place where there was a gap, raises `LogNotUsable` and nothing is
        changed.
        """
        ...
