"""Opened inputs: entries of a log, or of an archived cluster."""

import asyncio
import functools
from collections.abc import Iterable

from controlplane.core.entry import Batch, Entry
from controlplane.core.moments import check_not_future
from controlplane.core.order import before, ends_at, entries_of, in_order
from controlplane.core.state import Topics
from controlplane.event_loop import now_ms
from controlplane.logs.log import ReadableLog
from controlplane.logs.log_factory import OpenOptions, open_log
from controlplane.terminal.output import note
from replay.cli.inputs.log_input import LogInput
from replay.cluster_records import ClusterRecords
from replay.offsets_topics import own_topics


def open_input(log_input: LogInput) -> ClusterRecords:
    """Open an input.

    Raises:
        ReplayError: the manifests of an archive are altered.
        UnknownMoment: an archive has no record at the chosen moment.
    """
    if log_input.archived:
        from replay.cli.inputs.archived_logs import open_archived  # noqa: PLC0415 - needs an extra

        return open_archived(log_input)
    topics, exactly_once, _ = log_input.reading
    entries = functools.partial(_read, log_input)
    return ClusterRecords(log_input.cluster, topics, exactly_once, entries)


def _read(log_input: LogInput) -> Iterable[Entry]:
    """Entries of a log, including those of aborted transactions.

    Raises:
        LogError: the log cannot be opened or read.
        UnknownMoment: the log has no record at the chosen moment, or the moment is in the future.
    """
    topics, _, moment = log_input.reading
    batches = asyncio.run(_batches(log_input))
    entries = list(entries_of(batches))
    if moment is None:
        return in_order(entries)
    kept = list(before(entries, ends_at(batches, moment, topics)))
    # A record after the moment proves, by the clock of its writer, that the moment is past.
    if len(kept) == len(entries):
        check_not_future(moment, now_ms())
    return in_order(kept)


async def _batches(log_input: LogInput) -> list[Batch]:
    topics, exactly_once, _ = log_input.reading
    opened_log = await open_log(log_input.where, OpenOptions(topics, exactly_once=exactly_once))
    try:
        for problem in opened_log.problems:
            note(f"{log_input.where}: {problem}")
        return await _connect_batches(opened_log.log, topics)
    finally:
        await opened_log.log.close()


async def _connect_batches(log: ReadableLog, topics: Topics) -> list[Batch]:
    """Records of Connect's topics, without the data that connectors move."""
    existing = await log.topics()
    batches = [batch async for batch in log.read({topics.config} & existing.keys())]
    own = {topic for batch in batches for topic in own_topics(batch, topics)}
    other_topics = {topics.offsets, topics.status, topics.commands, *own} - {topics.config}
    batches += [batch async for batch in log.read(sorted(other_topics & existing.keys()))]
    return batches
