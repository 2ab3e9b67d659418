"""Retention: what of a log of our own may go after some time.

An embedded log keeps everything, because it is where one looks for what happened. Only the command
topic is cut, at its beginning: it is no state, and it grows with every request. Of the other topics
something goes only if that is asked for, and then only what Kafka's log cleaner would remove: the
last record of each key always stays.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Annotated, Literal, NamedTuple, Protocol, runtime_checkable

import msgspec
from msgspec import Meta

from controlplane.core.entry import Batch
from controlplane.core.state import ClusterState
from controlplane.logs.log import ReadableLog

DAY_MS = 24 * 60 * 60 * 1_000

FOREVER: Literal[-1] = -1
"""How Kafka writes it, too (`retention.ms`)."""

_KeptMs = Literal[-1] | Annotated[int, Meta(ge=1)]


class RetentionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How long records stay, or `FOREVER`."""

    commands_ms: _KeptMs = 30 * DAY_MS
    """Records of the command topic: as long as somebody may still ask who did that, and longer
    than anybody repeats a request under its idempotency key."""

    superseded_ms: _KeptMs = FOREVER
    """Records of the other topics that later ones have replaced: for ever, for they are the history
    of the cluster, and what questions about the past are answered from. As in Kafka, cleaning the
    config topic can lose a task set (KAFKA-17719) until its connector publishes it again."""


@runtime_checkable
class CleanableLog(ReadableLog, Protocol):
    """A log from which records can be removed."""

    async def trim(self, topic: str, below: Sequence[int]) -> int:
        """Remove every entry before these offsets, by partition; answers how many that were."""
        ...

    async def compact(
        self, topic: str, below: Sequence[int] = (), *, tombstones: bool = False
    ) -> int:
        """Remove what Kafka's log cleaner may remove of the entries before these offsets."""
        ...


async def retain(
    log: ReadableLog, state: ClusterState, now_ms: int, settings: RetentionSettings | None = None
) -> int:
    """Remove what has been there for long enough; answers how many records that were.

    `state` is what is known of the log: the records of a command that has not ended stay, and all
    behind them. Works in slices, beside readers and writers. A log that is not ours is left alone.

    Raises:
        LogError: the log cannot be read or written.
    """
    settings = settings or RetentionSettings()
    if not isinstance(log, CleanableLog):
        return 0
    removed = 0
    for topic, ends in state.ends_by_topic.items():
        is_ours = topic == state.topics.commands
        kept_ms = settings.commands_ms if is_ours else settings.superseded_ms
        if kept_ms != FOREVER:
            held = _unfinished(state) if is_ours else set()
            below = await _first_kept(log, topic, ends, Kept(now_ms - kept_ms, held))
            removed += await (log.trim(topic, below) if is_ours else log.compact(topic, below))
    return removed


def _unfinished(state: ClusterState) -> set[bytes]:
    """The keys of commands that have not ended."""
    traces = state.commands.items()
    return {name.encode("utf-8", "surrogatepass") for name, trace in traces if trace.unfinished}


class Kept(NamedTuple):
    """What stays, and all that lies behind it: what is young enough, and certain keys."""

    since_ms: int
    keys: AbstractSet[bytes]

    def first_of(self, batch: Batch) -> int | None:
        """The offset of the first such record."""
        for offset, time_ms, key in zip(batch.offsets, batch.timestamps, batch.keys, strict=True):
            if time_ms >= self.since_ms or key in self.keys:
                return offset
        return None


async def _first_kept(log: ReadableLog, topic: str, ends: Sequence[int], kept: Kept) -> list[int]:
    """By partition the offset of the first record that stays; the end if none does."""
    below = []
    for partition, end in enumerate(ends):
        stop = [0] * len(ends)
        stop[partition] = end
        below.append(await _first(log.read([topic], stop={topic: stop}), end, kept))
    return below


async def _first(batches: AsyncIterator[Batch], end: int, kept: Kept) -> int:
    try:
        async for batch in batches:
            offset = kept.first_of(batch)
            if offset is not None:
                return offset
        return end
    finally:
        if isinstance(batches, AsyncGenerator):
            await batches.aclose()
