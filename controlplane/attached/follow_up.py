"""Follow-up of a command: reads the cluster's log to its end, and finds the command's records."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from controlplane.attached.answered_states import AnsweredStates
from controlplane.attached.idle_signal import IdleSignal
from controlplane.attached.plan_comparison import (
    Comparison,
    compare,
    has_appeared,
    has_foreign_request,
    topics_of,
)
from controlplane.attached.recent_records import RecentRecords
from controlplane.attached.settings import ConnectSettings
from controlplane.core.entry import Entry
from controlplane.core.order import Ends, has_lost
from controlplane.core.plan import Plan, Rejected
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState
from controlplane.logs.log import LogError, LogUnavailable, ReadableLog, quick_ends
from controlplane.projection.follower import Follower

APPEARANCE_S = 0.1
"""Time in seconds in which planned records usually appear; afterwards the log's ends are read."""


class LogFollowUp:
    """Reads the cluster's log after commands; the follower folds it meanwhile.

    While it is `open`, it keeps the records that the follower has folded lately.
    """

    def __init__(
        self,
        follower: Follower,
        log: ReadableLog,
        profile: Profile,
        limits: ConnectSettings,
    ) -> None:
        self._follower = follower
        self._log = log
        self._ends = quick_ends(log)
        self._profile = profile
        self._limits = limits
        self.idle = IdleSignal()
        """Signal that ends the waits of background work."""
        self.states = AnsweredStates(follower, self.idle)
        """States for reads."""
        self._recent = RecentRecords({})
        self._recent.break_off()

    @contextmanager
    def open(self) -> Iterator[None]:
        """Keep recent records within the block."""
        self._recent = recent = RecentRecords(self._follower.ends)
        with self._follower.observed(recent.add, recent.break_off):
            yield
        recent.break_off()

    @property
    def present(self) -> ClusterState:
        """State that has been folded so far."""
        state = self._follower.present(self._profile)
        assert state is not None  # loaded and pinned when the plane was opened
        return state

    @property
    def ends(self) -> Ends:
        """End offsets up to which the log has been folded."""
        return self._follower.ends

    def hastened(self) -> AbstractContextManager[None]:
        """Within the block, fold records as soon as they arrive."""
        return self._follower.hastened()

    async def folded(self, plan: Plan | Rejected, since: Ends) -> bool:
        """Wait for the fold of all records that a command has written after the ends `since`.

        Returns True if all planned records appear within `APPEARANCE_S`, with the planned values.
        No request to the brokers is needed then.
        """
        if self.has_appeared(plan, since):
            return True
        if isinstance(plan, Plan) and _has_records(plan):
            topics = topics_of(plan, self.present.topics)
            try:
                async with asyncio.timeout(APPEARANCE_S):
                    with self.hastened():
                        await self._appearance(plan, topics, since)
            except TimeoutError:
                pass
            else:
                return True
        await self.read_on()
        return False

    def has_appeared(self, plan: Plan | Rejected, since: Ends) -> bool:
        """True if a plan has records, and all have been folded, with the planned values."""
        if not (isinstance(plan, Plan) and _has_records(plan)):
            return False
        return self._has_appeared(plan, topics_of(plan, self.present.topics), since)

    def expects_records(self, plan: Plan | Rejected) -> bool:
        """True if the records of a command are likely to be folded soon: the log is followed."""
        has_records = isinstance(plan, Plan) and _has_records(plan)
        return has_records and self._follower.failure is None

    async def _appearance(self, plan: Plan, topics: Sequence[str], since: Ends) -> None:
        """Return as soon as all planned records have been folded, with the planned values."""
        moves = self._follower.moves  # before the check: no later move is missed
        while not self._has_appeared(plan, topics, since):
            await self._follower.moved(moves)
            moves = self._follower.moves

    def _has_appeared(self, plan: Plan, topics: Sequence[str], since: Ends) -> bool:
        entries = self._recent.since(topics, since)
        return entries is not None and has_appeared(plan, entries)

    async def read_requests_on(self) -> bool:
        """Wait until every request that is in the config topic now has been folded; see `read_on`.

        A comparison needs no more once all planned records have appeared (`_compared_recent`).
        """
        return await self.read_on((self.present.topics.config,))

    async def read_on(self, topics: Iterable[str] | None = None) -> bool:
        """Wait until every record that is in the log now has been folded.

        Returns False if that takes too long, or if the log cannot be read. `topics`: topics to wait
        for, which the follower must already follow; None: all topics that it follows.
        """
        try:
            async with asyncio.timeout(self._limits.read_on_ms / 1_000):
                with self._follower.hastened():
                    future_ends = (
                        self._log.ends(self.ends) if topics is None else self._ends(topics)
                    )
                    await self._follower.wait_for(await future_ends)
        except (TimeoutError, LogError):
            return False
        return True

    async def state_at_end(self) -> ClusterState:
        """State at the present end of the log.

        Raises:
            LogUnavailable: the log cannot be read to its end in time.
        """
        if not await self.read_on():
            raise LogUnavailable("The topics of the cluster cannot be read to their end")
        return self.present

    async def reaches(self, plan: Plan, since: Ends) -> bool:
        """False if a topic ends before an offset of `since`, because it was created again.

        Only Connect's topics and those of the plan are checked: others belong to other connectors.

        Raises:
            LogError: the log cannot be read.
        """
        topics = self.present.topics
        relevant = {topics.offsets, topics.status, *topics_of(plan, topics)}
        visible = relevant & {*since} & {*await self._log.topics()}
        ends = await self._log.ends(sorted(visible))
        return not has_lost(ends, since)

    async def compared(
        self,
        plan: Plan,
        since: Ends,
        connector: str,
        *,
        await_missing: bool = True,
        is_read: bool | None = None,
    ) -> Comparison | None:
        """Compare a plan with the records since a point, once its records are there.

        Waits up to `records_ms` for missing records, and up to `patience_ms` for a log that cannot
        be read. None: the log still cannot be read. `is_read`: result of `read_requests_on` after
        all planned records have appeared; None: it was not called.
        """
        comparison = await self._compared_recent(plan, since, connector, is_read=is_read)
        if comparison is not None and comparison.as_planned:
            return comparison
        clock = asyncio.get_running_loop().time
        records_end = clock() + self._limits.records_ms / 1_000
        outage_end = clock() + self._limits.patience_ms / 1_000
        while True:
            comparison = None
            try:
                comparison = await self.compared_now(plan, since, connector)
            except LogUnavailable:
                pass
            except LogError:
                return None
            if comparison is not None and not (comparison.missing and await_missing):
                return comparison
            if clock() > (outage_end if comparison is None else records_end):
                return comparison
            await asyncio.sleep(self._limits.retry_ms / 1_000)

    async def _compared_recent(
        self, plan: Plan, since: Ends, connector: str, *, is_read: bool | None
    ) -> Comparison | None:
        """Compare a plan with recent records up to the end of the log.

        None: some records are not kept, or the log could not be read to its end.

        `compare` looks for unplanned records in the config topic alone. So once the planned records
        are there, the ends of the other topics do not matter.

        Recent records come from the tail that the follower reads (`KafkaReader.tail`). The tail
        does not always mark records of aborted transactions. So a difference that this method finds
        may be such a record. `compared` then reads the log again by `ReadableLog.read`, which marks
        them.
        """
        topics = topics_of(plan, self.present.topics)
        if not {*topics} <= self.ends.keys():
            return None
        if is_read is None:
            have_appeared = self._has_appeared(plan, topics, since)
            is_read = await (self.read_requests_on() if have_appeared else self.read_on(topics))
        if not is_read:
            return None
        entries = self._recent.since(topics, since)
        if entries is None:
            return None
        return compare(plan, entries, self.present.topics, connector)

    async def compared_now(self, plan: Plan, since: Ends, connector: str) -> Comparison:
        """Compare a plan with the records that are in the log since a point.

        Raises:
            LogError: the log cannot be read.
        """
        topics = self.present.topics
        entries = await self._entries(topics_of(plan, topics), since)
        return compare(plan, entries, topics, connector)

    async def has_foreign_request(self, plan: Plan, since: Ends, connector: str) -> bool:
        """True if, since a point, a request about a connector wrote a value that the plan lacks.

        Raises:
            LogError: the log cannot be read.
        """
        topics = self.present.topics
        entries = await self._entries([topics.config], since)
        return has_foreign_request(plan, entries, topics, connector)

    async def config_appears(self, since: Ends, connector: str) -> bool:
        """Wait during `records_ms` for a config record of a connector since a point; False: none.

        Raises:
            LogError: the log cannot be read.
        """
        clock = asyncio.get_running_loop().time
        end = clock() + self._limits.records_ms / 1_000
        while not await self.configs_since(since, connector):
            if clock() > end:
                return False
            await asyncio.sleep(self._limits.retry_ms / 1_000)
        return True

    async def configs_since(self, since: Ends, connector: str) -> Sequence[Entry]:
        """Config records of a connector since a point, tombstones included."""
        topic, key = self.present.topics.config, f"connector-{connector}".encode()
        return [entry for entry in await self._entries([topic], since) if entry.key == key]

    async def _entries(self, topics: Iterable[str], since: Ends) -> list[Entry]:
        """Committed records of these topics since a point; a topic may not exist yet.

        Raises:
            LogUnavailable: a topic that was read before is gone, or the brokers hide it because a
                right has been revoked. The records are unknown then, and not missing.
        """
        visible = await self._log.topics()
        topics = list(topics)
        for topic in topics:
            if topic in since and topic not in visible:
                raise LogUnavailable(f"The topic {topic} cannot be seen")
        topics = [topic for topic in topics if topic in visible]
        start = {topic: since[topic] for topic in topics if topic in since}
        entries: list[Entry] = []
        async for batch in self._log.read(topics, start):
            entries += (entry for entry in batch.entries() if not entry.aborted)
        return entries


def _has_records(plan: Plan) -> bool:
    return any(step.records for step in plan.steps)
