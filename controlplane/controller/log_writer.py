"""Drafts → records at the end of the log, durable and read back."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from controlplane.controller.admission import CommandLimits
from controlplane.controller.log_retry import retried
from controlplane.controller.log_view import LogView
from controlplane.core.commands import CommandRequest
from controlplane.core.entry import Headers
from controlplane.core.plan import Draft
from controlplane.core.topics.partitioner import partition_of
from controlplane.event_loop import sliced
from controlplane.logs.log import Log, LogUnavailable, Record

COMMAND_ID, PRINCIPAL = "controlplane-command-id", "controlplane-principal"
"""Headers of our records in Connect's topics; Java workers ignore them."""


class LogWriter:
    """Appends as the one writer of an epoch, and waits until the reader has read what it wrote.

    Without an epoch it writes beside the one writer, as any worker may write some records. A log
    that is unavailable is tried again for a bounded time. `LogUnavailable` after that means that
    nobody knows whether the batch is there: all of it, or nothing.
    """

    def __init__(  # noqa: PLR0913 - settings, by name only
        self,
        log: Log,
        reader: LogView,
        *,
        epoch: int | None,
        offsets_topic: str,
        limits: CommandLimits,
        now_ms: Callable[[], int],
    ) -> None:
        self._log = log
        self._reader = reader
        self._epoch = epoch
        self._offsets_topic = offsets_topic
        self._limits = limits
        self._now_ms = now_ms
        self._partitions: dict[str, int] = {}

    async def append(self, asked: CommandRequest, drafts: Sequence[Draft]) -> int:
        """Append one atomic batch and read it back; answers how many records that were.

        Raises:
            Fenced: another writer has taken over; nothing was appended.
            LogUnavailable: for too long.
        """
        headers: Headers = (
            (COMMAND_ID, asked.command_id.encode("utf-8", "surrogatepass")),
            (PRINCIPAL, asked.principal.encode("utf-8", "surrogatepass")),
        )
        places = await retried(partial(self._places, drafts), self._limits)
        at_ms = self._now_ms()  # last, so that times ascend as the log does
        records = [
            Record(*place, at_ms, draft.key, draft.value, headers)
            for place, draft in zip(places, drafts, strict=True)
        ]
        positions = await retried(partial(self._log.append, records, self._epoch), self._limits)
        try:
            async with asyncio.timeout(self._limits.write_patience_ms / 1_000):
                await self._reader.passed(positions)
        except TimeoutError:
            raise LogUnavailable("what was written could not be read back") from None
        return len(records)

    async def _places(self, drafts: Sequence[Draft]) -> list[tuple[str, int]]:
        """Topic and partition of each draft; the reader follows these topics from now on."""
        places = [(one.topic, await self._partition(one)) async for one in sliced(drafts)]
        await self._reader.follow({topic for topic, _ in places})  # or it never reads them back
        return places

    async def _partition(self, draft: Draft) -> int:
        """Partition that Kafka's partitioner gives a key; a connector's own topic is created.

        It gets as many partitions as the worker's own (`TopicAdmin`, KIP-618).
        """
        if draft.partition is not None:
            return draft.partition
        if draft.topic not in self._partitions:
            self._partitions = dict(await self._log.topics())
        if draft.topic not in self._partitions:
            partitions = self._partitions[self._offsets_topic]
            await self._log.create_topic(draft.topic, partitions)
            self._partitions[draft.topic] = partitions
        return partition_of(draft.key, self._partitions[draft.topic])
