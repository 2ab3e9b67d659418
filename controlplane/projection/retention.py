"""Retention: removal of old records from an embedded log.

Connect's topics keep all records by default, and so the whole history of the cluster. On request
(`superseded_ms`), retention removes the records that Kafka's log cleaner would remove: the last
record of each key stays. Other topics lose records by default:

- The command topic (`commands_ms`): it holds no state, and grows with every request. The same holds
  for the trail of an attached cluster.
- The topics that connectors use (`records_ms`).
- The topic of committed group offsets: each run compacts it.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta

from controlplane.core.entry import Batch
from controlplane.core.records import CommandTrace
from controlplane.core.state import ClusterState
from controlplane.core.topic_names import GROUPS_TOPIC
from controlplane.logs.log import EmbeddedLog, ReadableLog

DAY_MS = 24 * 60 * 60 * 1_000

FOREVER: Literal[-1] = -1
"""Unlimited retention, as in Kafka (`retention.ms`)."""

_RetentionMs = Literal[-1] | Annotated[int, Meta(ge=1)]


class RetentionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Retention times, in ms or `FOREVER`."""

    commands_ms: _RetentionMs = 30 * DAY_MS
    """Retention of the command topic. For this time, past commands can be queried. A repeated
    idempotency key gets its first answer for the same time, or until `ENDED_KEPT` later commands
    have ended (`core.fold.commands`)."""

    superseded_ms: _RetentionMs = FOREVER
    """Retention of superseded records in Connect's topics. The default keeps all of them, for
    queries about past moments. As in Kafka, cleaning the config topic can lose a task set
    (KAFKA-17719) until its connector publishes it again."""

    records_ms: _RetentionMs = 7 * DAY_MS
    """Retention of the data in topics that connectors have used (KIP-558), if this log has it.
    7 days is the brokers' default (`log.retention.hours`)."""


class ReadCommands(NamedTuple):
    """Command topic of a log, as far as a process has read it."""

    topic: str
    ends: Sequence[int]
    """Offset of the next record to read, by partition."""
    commands: Mapping[str, CommandTrace]
    """Commands by id, with all unfinished ones."""


async def retain(
    log: ReadableLog, state: ClusterState, now_ms: int, settings: RetentionSettings | None = None
) -> int:
    """Remove expired records; return their number.

    `state`: the state of the log. In the command topic, records from an unfinished command onwards
    stay. Removal works in slices, concurrently with readers and writers. A log that is not embedded
    is not changed.

    Raises:
        LogError: the log cannot be read or written.
    """
    settings = settings or RetentionSettings()
    if not isinstance(log, EmbeddedLog):
        return 0
    removed = 0
    for topic, ends in state.ends_by_topic.items():
        if topic == state.topics.commands:
            commands = ReadCommands(topic, ends, state.commands)
            removed += await retain_commands(log, commands, now_ms, settings)
        elif settings.superseded_ms != FOREVER:
            rule = KeepRule(now_ms - settings.superseded_ms, frozenset())
            removed += await log.compact(topic, await _first_kept(log, topic, ends, rule))
    return removed + await _retain_records(log, state, now_ms, settings.records_ms)


async def retain_commands(
    log: ReadableLog, read: ReadCommands, now_ms: int, settings: RetentionSettings
) -> int:
    """Remove expired records of a command topic; return their number.

    Records from an unfinished command onwards stay, and so do records that were not read. A log
    that is not embedded is not changed.

    Raises:
        LogError: the log cannot be read or written.
    """
    if settings.commands_ms == FOREVER or not isinstance(log, EmbeddedLog):
        return 0
    rule = KeepRule(now_ms - settings.commands_ms, _unfinished(read.commands))
    return await log.trim(read.topic, await _first_kept(log, read.topic, read.ends, rule))


async def _retain_records(log: EmbeddedLog, state: ClusterState, now_ms: int, kept_ms: int) -> int:
    """Remove expired records of active topics; compact the topic of committed group offsets.

    Other topics stay: they may hold the offsets of a connector that does not exist at present.
    """
    topics = (await log.topics()).keys()
    removed = await log.compact(GROUPS_TOPIC) if GROUPS_TOPIC in topics else 0
    if kept_ms == FOREVER:
        return removed
    active = {topic for used in state.status.active_topics.values() for topic in used}
    record_topics = (active & topics) - state.ends_by_topic.keys() - {GROUPS_TOPIC}
    for topic, ends in (await log.ends(record_topics)).items():
        below = await _first_kept(log, topic, ends, KeepRule(now_ms - kept_ms, frozenset()))
        removed += await log.trim(topic, below)
    return removed


def _unfinished(commands: Mapping[str, CommandTrace]) -> set[bytes]:
    """Return the keys of unfinished commands."""
    names = (name for name, trace in commands.items() if trace.unfinished)
    return {name.encode("utf-8", "surrogatepass") for name in names}


class KeepRule(NamedTuple):
    """Rule for the first record to keep: it has one of `keys`, or is not older than `since_ms`."""

    since_ms: int
    keys: AbstractSet[bytes]

    def first_of(self, batch: Batch) -> int | None:
        """Return the offset of the first record to keep in a batch; None if there is none."""
        for offset, time_ms, key in zip(batch.offsets, batch.timestamps, batch.keys, strict=True):
            if time_ms >= self.since_ms or key in self.keys:
                return offset
        return None


async def _first_kept(
    log: ReadableLog, topic: str, ends: Sequence[int], rule: KeepRule
) -> list[int]:
    """Return the offset of the first record to keep in each partition; the end if there is none."""
    below = []
    for partition, end in enumerate(ends):
        stop = [0] * len(ends)
        stop[partition] = end
        below.append(await _first_kept_offset(log.read([topic], stop={topic: stop}), end, rule))
    return below


async def _first_kept_offset(batches: AsyncIterator[Batch], end: int, rule: KeepRule) -> int:
    try:
        async for batch in batches:
            offset = rule.first_of(batch)
            if offset is not None:
                return offset
        return end
    finally:
        if isinstance(batches, AsyncGenerator):
            await batches.aclose()
