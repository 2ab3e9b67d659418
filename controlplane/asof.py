"""States of the past: what a worker of a release would have known at a moment of its log.

Nothing is kept on disk for it but snapshots: the log is read up to the moment, from the nearest one
on. So one question is worked on at a time, and the last few answers are kept. On a log whose old
records are compacted away, a state of the past is what the remaining records tell of it.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from controlplane.clock import now_ms
from controlplane.core.entry import Entry
from controlplane.core.evolve import Fold
from controlplane.core.history import Event, History, Reading, Search
from controlplane.core.moments import (
    UnknownMoment,
    check_come,
    check_length,
    is_vector,
    read_vector,
    shown,
)
from controlplane.core.profiles import KIP, Profile
from controlplane.core.state import ClusterState, Topics
from controlplane.event_loop import sliced, sliced_parts
from controlplane.loading import load, own_topics, read_topics
from controlplane.logs.cuts import Cut, fitted, padded
from controlplane.logs.log import ReadableLog
from controlplane.recent import Recent
from controlplane.snapshots.marks import ends_up_to, place_of

Ends = Mapping[str, Sequence[int]]

STATES_KEPT = 8
"""Past states kept: enough for somebody who compares a few moments; each may be a whole state."""

CUTS_KEPT = 64
"""Moments whose place in the log is kept: a vector of numbers each."""


class Then(NamedTuple):
    """A state of the past, and what whoever asked for its moment should know."""

    state: ClusterState
    notices: tuple[str, ...] = ()


class Past:
    """States of one log at moments of the past.

    `exactly_once` says whether the workers read committed records only (KIP-618).
    """

    def __init__(
        self, log: ReadableLog, *, topics: Topics | None = None, exactly_once: bool = False
    ) -> None:
        self._log = log
        self._topics = topics or Topics()
        self._exactly_once = exactly_once
        self._states: Recent[tuple[str, _Key], ClusterState] = Recent(STATES_KEPT)
        self._cuts: Recent[tuple[str, _Key], Cut] = Recent(CUTS_KEPT)
        self._turn = asyncio.Lock()

    async def state(self, moment: str, profile: Profile, now: Ends) -> Then:
        """The state at a moment (see `order.ends_at`) of a log that has been read up to `now`.

        Raises:
            UnknownMoment: not such a text, or the log has nothing there.
            LogUnavailable: the log cannot be read at present.
        """
        async with self._turn:
            ends, notices = await self._cut(moment, now)
            key = profile.release, _key(ends)
            kept = self._states.get(key)
            return Then(kept or self._states.put(key, await self._load(profile, ends)), notices)

    def forget(self) -> None:
        """Forget what is kept: the log is another one now."""
        self._states.clear()
        self._cuts.clear()

    async def _cut(self, moment: str, now: Ends) -> Cut:
        """The cut at a moment. A later record may still belong before it, so `now` counts."""
        key = moment, _key(now)
        kept = self._cuts.get(key)
        if kept is None:
            kept = self._cuts.put(key, await cut_at(self._log, moment, self._topics, now))
        return kept

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
    """Fold a log as a worker of this release does, up to a moment of its past.

    `moment` is a record (`config@57`), a time, or a vector of end offsets (see `order.ends_at`).

    Raises:
        UnknownMoment: not such a text, or the log has nothing there.
        LogNotUsable: the log lacks a topic that every worker needs.
    """
    names = topics or Topics()
    cut = await cut_at(log, moment, names, await ends_now(log, names))
    return await load(log, profile, topics=names, exactly_once=exactly_once, stop=cut.ends)


async def ends_now(log: ReadableLog, topics: Topics) -> dict[str, list[int]]:
    """The ends of everything that a worker of any release reads in this log.

    Raises:
        LogNotUsable: the log lacks a topic that every worker needs.
    """
    names = await read_topics(log, topics)
    ends = dict(await log.ends(names))
    ends |= await log.ends(await _own_topics(log, topics, ends))
    return {topic: list(parts) for topic, parts in ends.items()}


async def read_history(log: ReadableLog, state: ClusterState, connector: str) -> History:
    """All that a log tells of a connector up to where a state has been read, as its release does.

    Raises:
        LogError: the log cannot be read.
    """
    records = await read_records(log, state, connector)
    reading = Reading(connector, state.profile, state.topics)
    events: list[Event] = []
    async for entry in sliced(records):
        events += reading.apply(entry)
    return History(records, events)


async def read_records(log: ReadableLog, state: ClusterState, connector: str) -> list[Entry]:
    """The records of a log about a connector, in the one order, up to where a state has been read.

    Raises:
        LogError: the log cannot be read.
    """
    stop = state.ends_by_topic
    search = Search(connector, state.profile, state.topics, exactly_once=state.exactly_once)
    batches = log.read(list(stop), stop=stop)
    async for entry in sliced_parts(batch.entries() async for batch in batches):
        search.look_at(entry)
    return [entry async for entry in sliced(search.found())]


async def cut_at(log: ReadableLog, moment: str, topics: Topics, now: Ends) -> Cut:
    """The cut through the log at a moment, with every topic and partition that is read then.

    `now` is up to where the log is looked at. Connectors that had an offsets topic of their own
    *then* have it in the cut, too.

    Raises:
        UnknownMoment: not such a text, or the log has nothing there.
    """
    check_length(moment)
    names = await read_topics(log, topics)
    if is_vector(moment):
        return await _fitted(log, read_vector(moment), topics, names)
    stop = {**await log.ends(names), **now}
    place = await place_of(log, moment, topics, stop)
    own = await _own_topics(log, topics, await _whole(log, place.ends, names))
    more = await log.ends([topic for topic in own if topic not in stop])
    ends = {**place.ends, **await ends_up_to(log, place.limit, more)}
    cut = Cut(await _whole(log, ends, [*names, *own]))
    if cut.ends == await _whole(log, stop, [*names, *own]):  # else a clock was ahead of ours
        check_come(moment, now_ms())
    return cut


_Key = tuple[tuple[str, tuple[int, ...]], ...]


def _key(ends: Ends) -> _Key:
    return tuple(sorted((topic, tuple(parts)) for topic, parts in ends.items()))


async def _own_topics(log: ReadableLog, topics: Topics, ends: Ends) -> list[str]:
    """Offsets topics of connectors' own, as the config topic has them up to an end."""
    stop = {topics.config: ends[topics.config]}
    return await own_topics(log, await load(log, Profile.of(KIP), topics=topics, stop=stop))


async def _whole(log: ReadableLog, cut: Ends, names: Sequence[str]) -> dict[str, list[int]]:
    """A cut of these topics as every reader takes it: no topic and no partition left out."""
    ends = await log.ends(names)
    return {topic: padded(cut.get(topic, ()), there) for topic, there in ends.items()}


async def _fitted(log: ReadableLog, vector: Ends, topics: Topics, names: Sequence[str]) -> Cut:
    """The cut that somebody's vector means."""
    unknown = sorted(vector.keys() - (await log.topics()).keys())
    if unknown:
        raise UnknownMoment(f"the log has no topic {shown(unknown[0])}: it has {', '.join(names)}")
    return fitted(vector, await log.ends([*dict.fromkeys([*names, *vector])]), topics.config)
