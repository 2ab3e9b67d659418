"""Writes the offsets of a source task to one or two topics, in the order that survives a crash."""

from collections.abc import Sequence

from controlplane.connect.records import OffsetPair
from controlplane.core.plan import Draft
from controlplane.projection.notices import Notices
from controlplane.worker.clients import Producer, ProducerFailure, ProducerFenced
from controlplane.worker.source_offsets import SourceOffsetStore


async def write_offsets(
    producer: Producer,
    offsets: SourceOffsetStore,
    pairs: Sequence[OffsetPair],
    notices: Notices,
) -> None:
    """Commit offsets without records.

    Raises:
        DataError: an offset is not made of primitive values; nothing was written.
        ProducerFailure, ProducerFenced: they are not committed.
    """
    batches = offsets.batches(pairs)
    await producer.write_offsets(batches.removals_of_copy)
    await producer.write_offsets(batches.primary)
    offsets.committed(pairs)
    await write_copy(producer, batches.values_of_copy, notices)


async def write_copy(producer: Producer, drafts: Sequence[Draft], notices: Notices) -> None:
    """Write the copy in the worker's topic; a failure is only reported."""
    try:
        await producer.write_offsets(drafts)
    except (ProducerFailure, ProducerFenced) as failure:
        notices.warning("offsets_copy_not_written", reason=str(failure))
