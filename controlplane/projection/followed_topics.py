"""Set of topics that a follower reads, and detection of new ones."""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress

import msgspec

from controlplane.core.state import Topics
from controlplane.core.topics.source_partitions import OFFSETS_TOPIC
from controlplane.logs.log import ReadableLog
from controlplane.logs.tail import ChangeCounter
from controlplane.projection.past_states import ends_now
from controlplane.projection.release_folds import ReleaseFolds


class FollowedTopics:
    """Connect's topics, the offsets topics that connector configs name, and requested topics."""

    def __init__(
        self,
        log: ReadableLog,
        topics: Topics,
        folds: ReleaseFolds,
        poll_ms: int,
        *,
        exactly_once: bool = False,
    ) -> None:
        self._log = log
        self._topics = topics
        self._folds = folds
        self._poll_ms = poll_ms
        self._exactly_once = exactly_once
        self._requested: set[str] = set()
        self._requests = ChangeCounter()

    def add(self, topics: Iterable[str]) -> None:
        """Follow these topics as well, though no connector config names them."""
        self._requested.update(topics)
        self._requests.note_change()

    async def ends(self) -> dict[str, list[int]]:
        """Return the end offsets of all topics to follow now.

        Raises:
            LogNotUsable: the log has no config topic.
        """
        ends = await ends_now(self._log, self._topics, exactly_once=self._exactly_once)
        extra_ends = await self._log.ends(self._requested & (await self._log.topics()).keys())
        return ends | {topic: list(parts) for topic, parts in extra_ends.items()}

    def lost(self, existing: Mapping[str, int]) -> set[str]:
        """Return followed topics, besides Connect's own, that the log lacks: deleted ones."""
        connect_topics = msgspec.structs.astuple(self._topics)
        return self._folds.positions.ends.keys() - existing.keys() - {*connect_topics}

    async def until_others(self, followed: Iterable[str], partitions: Mapping[str, int]) -> None:
        """Wait until a topic outside of `followed` must be followed, or a followed one has changed.

        `partitions`: number of partitions per topic before the tail began. A tail does not read
        partitions that are added afterwards. A request for a new topic (`add`) ends the wait at
        once. Polling finds the other changes: additional partitions, deleted topics, and offsets
        topics of connectors. A requested topic may be missing, because it was deleted, or because
        another log has replaced this one. Polling finds the topic once it exists again.
        """
        previous, followed = None, {*followed}
        while True:
            count = self._requests.count  # before the check, so that no later request is missed
            missing = self._requested - followed
            if missing and missing & (await self._log.topics()).keys():
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(self._poll_ms / 1_000):
                    await self._requests.wait_for_change(count)
            now = await self._log.topics()
            grown = any(now.get(topic, 0) > partitions.get(topic, 0) for topic in followed)
            if grown or self.lost(now):
                return
            # The set can change only with a new config record or a new topic in the log.
            existing = frozenset(now)
            current = self._folds.positions.ends[self._topics.config], existing
            if current != previous and not await self._read_by_any(existing) <= followed:
                return
            previous = current

    async def _read_by_any(self, existing: frozenset[str]) -> set[str]:
        """Return every topic of the log that a worker of any release reads now.

        A connector config may name the connector's own offsets topic (`offsets.storage.topic`).
        Every loaded fold has the configs. If no fold is loaded, they are read from the config
        topic.
        """
        fold = self._folds.any()
        if fold is None:
            return set(await ends_now(self._log, self._topics, exactly_once=self._exactly_once))
        configs = fold.state().config.connectors.values()
        configured = (config.get(OFFSETS_TOPIC) for config in configs)
        own_topics = (topic for topic in configured if isinstance(topic, str))
        return {*msgspec.structs.astuple(self._topics), *own_topics} & existing
