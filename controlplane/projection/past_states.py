"""Past states: the state that a worker of a release had at a moment of its log.

A query reads the log from the nearest snapshot up to the moment, which is expensive. So one query
runs at a time, and the last few results are cached. After compaction, a past state contains only
what the remaining records give.
"""

import asyncio
from collections.abc import Collection, Sequence
from functools import partial
from typing import NamedTuple

from controlplane.core import views
from controlplane.core.entry import Entry
from controlplane.core.fold import Fold
from controlplane.core.moments import (
    UnknownMoment,
    check_length,
    check_not_future,
    is_vector,
    quoted,
    read_vector,
)
from controlplane.core.order import Ends
from controlplane.core.releases.profiles import KIP, Profile
from controlplane.core.state import ClusterState, Topics
from controlplane.core.views.history import History, HistoryEvent, HistoryFold, HistorySearch
from controlplane.event_loop import in_thread_if_large, now_ms, sliced
from controlplane.logs.end_vectors import FittedEnds, fitted, padded
from controlplane.logs.log import ReadableLog
from controlplane.projection.loader import load, own_topics, read_topics
from controlplane.projection.lru_cache import LruCache
from controlplane.projection.moment_search import ends_up_to, moment_position

STATES_KEPT = 8
"""Maximum cached past states: enough to compare a few moments; each is a complete state."""

CUTS_KEPT = 64
"""Maximum cached cuts, by moment; each is a vector of offsets."""


class PastState(NamedTuple):
    """A past state, with notices about its moment."""

    state: ClusterState
    notices: tuple[str, ...] = ()


class PastStates:
    """States of one log at past moments.

    `exactly_once`: True if the workers skip aborted configs and offsets (KIP-618).
    """

    def __init__(
        self, log: ReadableLog, *, topics: Topics | None = None, exactly_once: bool = False
    ) -> None:
        self._log = log
        self._topics = topics or Topics()
        self._exactly_once = exactly_once
        self._states: LruCache[tuple[str, _EndsKey], ClusterState]
        self._cuts: _Cuts
        self.forget()
        self._lock = asyncio.Lock()

    async def state(self, moment: str, profile: Profile, now: Ends) -> PastState:
        """Return the state at a moment (see `order.ends_at`) of a log that was read up to `now`.

        Raises:
            UnknownMoment: the text is no moment, or the log has nothing there.
            LogError: the log cannot be read.
        """
        async with self._lock:
            states, cuts = self._states, self._cuts  # `forget` may replace them meanwhile
            ends, notices = await self._cut(cuts, moment, now)
            key = profile.release, _key(ends)
            cached = states.use(key)
            return PastState(cached or states.put(key, await self._load(profile, ends)), notices)

    def forget(self) -> None:
        """Drop the caches: the log was replaced. A query that runs now fills the old ones."""
        self._states, self._cuts = LruCache(STATES_KEPT), LruCache(CUTS_KEPT)

    async def _cut(self, cuts: "_Cuts", moment: str, now: Ends) -> FittedEnds:
        """Return the cut at a moment, cached in `cuts` by moment and `now`.

        `now` is a part of the key, because a later record can belong before the moment.
        """
        key = moment, _key(now)
        cached = cuts.use(key)
        if cached is None:
            cut = await cut_at(
                self._log, moment, self._topics, now, exactly_once=self._exactly_once
            )
            cached = cuts.put(key, cut)
        return cached

    async def _load(self, profile: Profile, cut: Ends) -> ClusterState:
        fold = await load(
            self._log,
            profile,
            topics=self._topics,
            exactly_once=self._exactly_once,
            stop=cut,
        )
        return fold.snapshot()


async def load_at(
    log: ReadableLog,
    moment: str,
    profile: Profile,
    *,
    topics: Topics | None = None,
    exactly_once: bool = False,
) -> Fold:
    """Fold a log as a worker of this release does, up to a past moment.

    `moment` is a record (`config@57`), a time, or a vector of end offsets (see `order.ends_at`).

    Raises:
        UnknownMoment: the text is no moment, or the log has nothing there.
        LogNotUsable: the log has no config topic.
    """
    names = topics or Topics()
    now = await ends_now(log, names, exactly_once=exactly_once)
    cut = await cut_at(log, moment, names, now, exactly_once=exactly_once)
    return await load(log, profile, topics=names, exactly_once=exactly_once, stop=cut.ends)


async def ends_now(
    log: ReadableLog, topics: Topics, *, exactly_once: bool = False
) -> dict[str, list[int]]:
    """Return the end offsets of every topic that a worker of any release reads in this log.

    `exactly_once`: True if the workers skip aborted configs, which may name other offsets topics.

    Raises:
        LogNotUsable: the log has no config topic.
    """
    names = await read_topics(log, topics)
    ends = dict(await log.ends(names))
    ends |= await log.ends(await _own_topics(log, topics, ends, exactly_once=exactly_once))
    return {topic: list(parts) for topic, parts in ends.items()}


async def read_history(log: ReadableLog, state: ClusterState, connector: str) -> History:
    """Return the history of a connector in a log, up to the ends of a state.

    Records are interpreted as the state's release does.

    Raises:
        LogError: the log cannot be read.
    """
    records = await read_records(log, state, connector)
    reading = HistoryFold(connector, state.profile, state.topics)
    events: list[HistoryEvent] = []
    async for entry in sliced(records):
        events += reading.apply(entry)
    return History(records, events)


async def read_offset_records(log: ReadableLog, state: ClusterState, connector: str) -> list[Entry]:
    """Return the records of a connector's source offsets in order, up to the ends of a state.

    It reads only the topics with the connector's offsets.

    Raises:
        LogError: the log cannot be read.
    """
    return await read_records(log, state, connector, views.offsets_topics(state, connector))


async def read_records(
    log: ReadableLog, state: ClusterState, connector: str, topics: Collection[str] | None = None
) -> list[Entry]:
    """Return a connector's records in the one order, up to the ends of a state.

    `topics`: None selects all topics.

    Raises:
        LogError: the log cannot be read.
    """
    ends = state.ends_by_topic
    stop = {topic: ends[topic] for topic in ends if topics is None or topic in topics}
    if not stop:
        return []
    search = HistorySearch(connector, state.profile, state.topics, exactly_once=state.exactly_once)
    async for batch in log.read(list(stop), stop=stop):
        await in_thread_if_large(partial(search.look_at, batch), len(batch))
        await asyncio.sleep(0)  # many short batches may arrive without a pause
    return [entry async for entry in sliced(search.matches())]


async def cut_at(
    log: ReadableLog, moment: str, topics: Topics, now: Ends, *, exactly_once: bool = False
) -> FittedEnds:
    """Return the cut through the log at a moment, with every topic and partition in use then.

    `now`: the ends up to which the log is read. The cut includes offsets topics of single
    connectors that existed at the moment. With `exactly_once`, aborted configs are ignored.

    Raises:
        UnknownMoment: the text is no moment, or the log has nothing there.
    """
    check_length(moment)
    names = await read_topics(log, topics)
    if is_vector(moment):
        return await _fit_vector(log, read_vector(moment), topics, names)
    stop = {**await log.ends(names), **now}
    position = await moment_position(log, moment, topics, stop)
    configs = await _padded_cut(log, position.ends, names)
    connector_topics = await _own_topics(log, topics, configs, exactly_once=exactly_once)
    own_ends = await log.ends([topic for topic in connector_topics if topic not in stop])
    ends = {**position.ends, **await ends_up_to(log, position.limit, own_ends)}
    cut = FittedEnds(await _padded_cut(log, ends, [*names, *connector_topics]))
    # Records after the moment prove that it has passed, even if this clock has not reached it.
    if cut.ends == await _padded_cut(log, stop, [*names, *connector_topics]):
        check_not_future(moment, now_ms())
    return cut


_EndsKey = tuple[tuple[str, tuple[int, ...]], ...]
_Cuts = LruCache[tuple[str, _EndsKey], FittedEnds]


def _key(ends: Ends) -> _EndsKey:
    return tuple(sorted((topic, tuple(parts)) for topic, parts in ends.items()))


async def _own_topics(
    log: ReadableLog, topics: Topics, ends: Ends, *, exactly_once: bool
) -> list[str]:
    """Return connectors' own offsets topics, as of the given end of the config topic."""
    stop = {topics.config: ends[topics.config]}
    kip = Profile.of(KIP)
    fold = await load(log, kip, topics=topics, exactly_once=exactly_once, stop=stop)
    return await own_topics(log, fold)


async def _padded_cut(log: ReadableLog, cut: Ends, names: Sequence[str]) -> dict[str, list[int]]:
    """Return a cut of these topics; missing topics and partitions are filled in (`padded`)."""
    ends = await log.ends(names)
    return {topic: padded(cut.get(topic, ()), topic_ends) for topic, topic_ends in ends.items()}


async def _fit_vector(
    log: ReadableLog, vector: Ends, topics: Topics, names: Sequence[str]
) -> FittedEnds:
    """Fit a caller's vector to the topics and ends of the log.

    Raises:
        UnknownMoment: the log lacks a topic of the vector.
    """
    unknown = sorted(vector.keys() - (await log.topics()).keys())
    if unknown:
        raise UnknownMoment(f"the log has no topic {quoted(unknown[0])}: it has {', '.join(names)}")
    return fitted(vector, await log.ends([*dict.fromkeys([*names, *vector])]), topics.config)
