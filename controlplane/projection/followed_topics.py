"""Set of followed topics, and detection of new ones."""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress

import msgspec

from controlplane.core.state import Topics
from controlplane.core.topics.source_partitions import OFFSETS_TOPIC
from controlplane.logs.log import ReadableLog
from controlplane.logs.tail import ChangeCounter
from controlplane.projection.past_states import ends_now
from controlplane.projection.release_folds import ReleaseFolds


class FollowedTopics:
    """Connect's topics, the offsets topics of connector configs, and requested topics."""

    def __init__(
        self,
        log: ReadableLog,
        topics: Topics,
        folds: ReleaseFolds,
        poll_ms: int,
    ) -> None:
        self._log = log
        self._topics = topics
        self._folds = folds
        self._poll_ms = poll_ms
        self._asked_for: set[str] = set()
        self._requests = ChangeCounter()

    def add(self, topics: Iterable[str]) -> None:
        """Follow these topics as well, though no connector config names them."""
        self._asked_for.update(topics)
        self._requests.tell()

    async def ends(self) -> dict[str, list[int]]:
        """Return the end offsets of all topics to follow now.

        Raises:
            LogNotUsable: the log lacks a topic that every worker needs.
        """
        ends = await ends_now(self._log, self._topics)
        extra_ends = await self._log.ends(self._asked_for & (await self._log.topics()).keys())
        return ends | {topic: list(parts) for topic, parts in extra_ends.items()}

    async def until_others(self, followed: Sequence[str]) -> None:
        """Return when a topic outside of `followed` must be followed.

        Connectors' topics are polled; requested topics are noticed at once.
        """
        previous = None
        while self._asked_for <= {*followed}:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._poll_ms / 1_000):
                    await self._requests.beyond(self._requests.count)
            existing = frozenset(await self._log.topics())
            # Without a new config record or a new topic, the set is the same.
            current = self._folds.positions.ends[self._topics.config], existing
            if current != previous and not await self._read_by_any(existing) <= {*followed}:
                return
            previous = current

    async def _read_by_any(self, existing: frozenset[str]) -> set[str]:
        """Return every topic of the log that a worker of any release reads now.

        Any fold has the configs that name further topics. Without a fold, the log is read for them.
        """
        fold = self._folds.any()
        if fold is None:
            return set(await ends_now(self._log, self._topics))
        configs = fold.state().config.connectors.values()
        named = (config.get(OFFSETS_TOPIC) for config in configs)
        own = (topic for topic in named if isinstance(topic, str))
        return {*msgspec.structs.astuple(self._topics), *own} & existing
