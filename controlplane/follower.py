"""A log that grows → what workers of any release know of it, now and at any moment before.

Loading is folding: a state is loaded once from the log (`loading`), then entries are applied as the
log brings them. Like a real worker that runs, and unlike one that starts, a follower can only apply
what arrives in the order in which it arrives; what arrives together is put into the one order.
"""

import asyncio
from collections.abc import (
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager, suppress
from itertools import zip_longest
from types import TracebackType
from typing import Annotated, Any, NamedTuple, Protocol, Self

import msgspec
from msgspec import Meta

from controlplane.asof import Past, Then, ends_now
from controlplane.core.entry import Batch, Entry, Position
from controlplane.core.evolve import Fold
from controlplane.core.order import Ordering, entries_of, in_order
from controlplane.core.profiles import Profile, check_support
from controlplane.core.source_partitions import OFFSETS_TOPIC
from controlplane.core.state import ClusterState, Topics
from controlplane.event_loop import close, ended, first_of, sliced, to_its_end
from controlplane.loading import load
from controlplane.logs.changes import Changes
from controlplane.logs.log import LogError, LogUnavailable, MayBeInterrupted, ReadableLog
from controlplane.recent import Recent

Ends = Mapping[str, Sequence[int]]

Listener = Callable[[Entry, ClusterState, ClusterState], Awaitable[None]]
"""Receives an entry and the states before and after it; the next entry is folded afterwards."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of a follower."""

    profiles_kept: int = 8
    """Releases followed at once: each costs a state and a share of every entry."""
    gather_ms: Annotated[int, Meta(ge=0)] = 20
    """What arrives within this time is folded in one go, in the one order between partitions."""
    batches_pending: int = 256
    """Batches that may wait to be folded before the log is asked for no more."""
    topics_poll_ms: int = 1_000
    """How often to look for topics that connectors have got since."""
    interruption_poll_ms: int = 500
    """How often to look whether the tail of a log that is far away waits for it to come back."""
    retry_first_ms: int = 200
    """Time to the first new try after the log failed; it doubles from try to try."""
    retry_last_ms: int = 5_000
    """Longest time between two tries: as long as a broker may need to come back unnoticed."""


AT_ONCE = 200
"""Entries that are folded in one go; more of them are folded in slices, some 10 µs each."""


LONG_VALUE = 1 << 14
"""Bytes of a value above which its entry is folded in a thread: some 10 ms, where the value has to
be read token by token."""


class Notices(Protocol):
    """Whoever is told when the log fails and when it is back (a structlog logger will do)."""

    def info(self, event: str, **facts: Any) -> Any:
        """All is well again."""
        ...

    def warning(self, event: str, **facts: Any) -> Any:
        """Something went wrong, and will be tried again."""
        ...


class Follower:
    """Follows one log: `async with Follower(log) as follower`, then ask for a `state`.

    The log is not closed by it. If it fails for a while, what was known before is still answered,
    `failure` says why, and following goes on as soon as it can. With `live` false the log is read
    as it is when the block is entered, and never again.
    """

    def __init__(  # noqa: PLR0913 - settings, by name only
        self,
        log: ReadableLog,
        *,
        topics: Topics | None = None,
        exactly_once: bool = False,
        live: bool = True,
        limits: Limits | None = None,
        notices: Notices | None = None,
    ) -> None:
        self.failure: LogError | None = None
        self._log = log
        self._topics = topics or Topics()
        self._exactly_once = exactly_once
        self._live = live
        self._limits = limits or Limits()
        self._notices = notices
        self._past = Past(log, topics=topics, exactly_once=exactly_once)
        self._folds: Recent[str, _Following] = Recent(self._limits.profiles_kept)
        self._held: dict[str, _Following] = {}
        """Those that do not make way for others."""
        self._ends: dict[str, list[int]] = {}
        self._asked_for: set[str] = set()
        self._asked = Changes()
        self._turn = asyncio.Lock()
        self._moved = Changes()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Find the ends of the log and follow it from there, in a task of its own."""
        self._ends = await ends_now(self._log, self._topics)
        if self._live:
            self._task = asyncio.create_task(self._run(), name="follower")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._task is not None:
            await ended([self._task])

    @property
    def ends(self) -> Ends:
        """Up to where the log has been read, by topic and partition."""
        return {topic: tuple(parts) for topic, parts in self._ends.items()}

    async def state(self, profile: Profile) -> ClusterState:
        """What a worker of this release knows now; folded from the whole log on first use.

        Raises:
            UnknownRelease: it has no exactly-once support, with which the log is read here.
            LogUnavailable: this release was not asked for before and the log cannot be read.
        """
        check_support(profile, exactly_once=self._exactly_once)
        if self._task is not None and self._task.done():
            self._task.result()  # a defect of ours ended it: say so instead of growing stale
        following = self._known(profile) or await self._begin(profile)
        return following.state()

    async def state_at(self, moment: str, profile: Profile) -> Then:
        """What a worker of this release would have known at a moment (see `order.ends_at`).

        Raises:
            UnknownMoment: not such a text, or the log has nothing there.
            UnknownRelease: it has no exactly-once support, with which the log is read here.
            LogUnavailable: the log cannot be read.
        """
        check_support(profile, exactly_once=self._exactly_once)
        return await self._past.state(moment, profile, self.ends)

    def present(self, profile: Profile) -> ClusterState | None:
        """The same as `state`, where this release has been asked for before; else None."""
        following = self._known(profile)
        return None if following is None else following.state()

    @contextmanager
    def telling(
        self, profile: Profile, listener: Listener, broken_off: Callable[[], None]
    ) -> Iterator[None]:
        """Meanwhile the listener is told of every entry that this release folds, one by one.

        It is told of no more once the log is another one; then `broken_off` is called.

        Raises:
            KeyError: this release has not been asked for before.
        """
        heard = _Heard(listener, broken_off)
        with self._holding(profile) as following:
            following.listeners.append(heard)
            try:
                yield
            finally:
                following.listeners.remove(heard)

    @contextmanager
    def keeping(self, profile: Profile) -> Iterator[None]:
        """Meanwhile this release makes way for no other, however many are asked for.

        Raises:
            KeyError: this release has not been asked for before.
        """
        with self._holding(profile):
            yield

    @contextmanager
    def _holding(self, profile: Profile) -> Iterator["_Following"]:
        following = self._known(profile)
        if following is None:
            raise KeyError(profile.release)
        following.holders += 1
        self._held[profile.release] = following
        try:
            yield following
        finally:
            following.holders -= 1
            if not following.holders and self._held.get(profile.release) is following:
                del self._held[profile.release]

    @property
    def moves(self) -> int:
        """How often something has been folded so far."""
        return self._moved.count

    async def moved(self, seen: int) -> None:
        """Return as soon as `moves` is not what it was."""
        await self._moved.beyond(seen)

    async def follow(self, topics: Iterable[str]) -> None:
        """Follow these topics as well, though no connector's config names them yet, or lately does.

        Returns as soon as all that lies in them has been folded. One that is not there is left out.
        """
        more = {*topics} - self._ends.keys()
        if more:
            more &= (await self._log.topics()).keys()
            self._asked_for |= more
            self._asked.tell()
            await self.wait_for(await self._log.ends(more))

    async def passed(self, positions: Iterable[Position]) -> None:
        """Return as soon as the records at these positions have been folded."""
        last: dict[tuple[str, int], int] = {}
        async for topic, partition, offset in sliced(positions):
            last[topic, partition] = max(offset, last.get((topic, partition), -1))
        while True:
            count = self._moved.count
            if all(self._has_read(*place, offset) for place, offset in last.items()):
                return
            await self._moved.beyond(count)

    def _has_read(self, topic: str, partition: int, offset: int) -> bool:
        parts = self._ends.get(topic, ())
        return partition < len(parts) and parts[partition] > offset

    async def wait_for(self, ends: Ends) -> None:
        """Return as soon as every record before these ends has been read."""
        while True:
            count = self._moved.count
            if await self._covers(ends):
                return
            await self._moved.beyond(count)

    async def _covers(self, ends: Ends) -> bool:
        """Whether the log has nothing between here and there: offsets may have gaps."""
        start = self.ends
        if not any(_beyond(parts, start.get(topic, ())) for topic, parts in ends.items()):
            return True
        async for batch in self._log.read(ends, start, ends):
            if len(batch):
                return False
        return True

    async def _begin(self, profile: Profile) -> "_Following":
        """Fold the log for one more release, while the others stand still."""
        async with self._turn:
            return self._known(profile) or self._folds.put(
                profile.release,
                _Following(
                    await load(
                        self._log,
                        profile,
                        topics=self._topics,
                        exactly_once=self._exactly_once,
                        stop=self.ends,
                    )
                ),
            )

    def _known(self, profile: Profile) -> "_Following | None":
        """The fold of a release, if it is kept; it becomes the one asked for last."""
        return self._folds.get(profile.release) or self._held.get(profile.release)

    # --- following ----------------------------------------------------------------------------

    async def _run(self) -> None:
        """Follow the log for ever, whatever happens to it."""
        pause_ms = self._limits.retry_first_ms
        while True:
            count = self._moved.count
            try:
                await self._follow()
            except LogError as failure:
                self._failed(failure)
                if self._moved.count != count:
                    pause_ms = self._limits.retry_first_ms
                await asyncio.sleep(pause_ms / 1_000)
                pause_ms = min(2 * pause_ms, self._limits.retry_last_ms)

    def _failed(self, failure: LogError) -> None:
        """Remember a failure, and tell of it once.

        An outage speaks with many voices (nobody listens, there is no leader): the first is told.
        """
        known = self.failure is not None and isinstance(failure, LogUnavailable)
        if self._notices is not None and not known and str(failure) != str(self.failure):
            self._notices.warning("log_not_followed", reason=str(failure))
        self.failure = failure

    def _recovered(self) -> None:
        if self._notices is not None and self.failure is not None:
            self._notices.info("log_followed_again")
        self.failure = None

    async def _follow(self) -> None:
        """Follow the log until other topics matter, or it fails."""
        ends = await ends_now(self._log, self._topics)
        more = await self._log.ends(self._asked_for & (await self._log.topics()).keys())
        ends |= {topic: list(parts) for topic, parts in more.items()}
        await self._start_over_if_cut(ends)
        self._make_room(ends)
        self._recovered()
        topics = sorted(self._ends)
        pending: asyncio.Queue[Batch] = asyncio.Queue(self._limits.batches_pending)
        works = [
            self._collect(topics, pending),
            self._fold(pending),
            self._until_other_topics(topics),
        ]
        if isinstance(self._log, MayBeInterrupted):
            works.append(self._notice_interruptions(self._log))
        await first_of(*works)

    async def _notice_interruptions(self, log: MayBeInterrupted) -> None:
        """Tell when the tail waits for its log, and when it goes on: from itself it says nothing.

        Apart from all that asks the log, for an answer may be long in coming just then.
        """
        while True:
            await asyncio.sleep(self._limits.interruption_poll_ms / 1_000)
            if (failure := log.interruption) is None:
                self._recovered()
            else:
                self._failed(failure)

    async def _start_over_if_cut(self, ends: Ends) -> None:
        """Forget everything where the log has lost records at its end: it is another log now."""
        async with self._turn:
            known = {topic: self._ends.get(topic, ()) for topic in ends}
            if any(any(map(int.__lt__, ends[topic], known[topic])) for topic in ends):
                self._folds.clear()
                self._break_off()
                self._past.forget()
                self._ends = {topic: list(parts) for topic, parts in ends.items()}
                self._moved.tell()

    def _break_off(self) -> None:
        """Whoever listened has heard of another log than this one."""
        held, self._held = self._held, {}
        for following in held.values():
            for one in following.listeners:
                one.broken_off()

    def _make_room(self, ends: Ends) -> None:
        """Give every topic and partition that is new a place, at its beginning."""
        for topic, parts in ends.items():
            known = self._ends.setdefault(topic, [])
            known.extend([0] * (len(parts) - len(known)))

    async def _collect(self, topics: Iterable[str], pending: asyncio.Queue[Batch]) -> None:
        """Take batches as the log brings them."""
        tail = self._log.tail(topics, self.ends)
        try:
            async for batch in tail:
                await pending.put(batch)
        finally:
            await close(tail)

    async def _fold(self, pending: asyncio.Queue[Batch]) -> None:
        """Fold what has arrived together, in the one order."""
        while True:
            batches = [await pending.get()]
            await asyncio.sleep(self._limits.gather_ms / 1_000)
            while not pending.empty():
                batches.append(pending.get_nowait())
            async with self._turn:
                await to_its_end(self._apply(batches))

    async def _apply(self, batches: Sequence[Batch]) -> None:
        entries = await _ordered(batches)
        for following in {*self._folds.values(), *self._held.values()}:
            await following.apply(entries)
        ends: dict[tuple[str, int], int] = {}
        async for entry in sliced(entries):
            place = entry.topic, entry.partition
            ends[place] = max(ends.get(place, 0), entry.offset + 1)
        for (topic, partition), end in ends.items():
            parts = self._ends[topic]
            parts.extend([0] * (partition + 1 - len(parts)))
            parts[partition] = max(parts[partition], end)
        self._moved.tell()

    async def _until_other_topics(self, topics: Sequence[str]) -> None:
        """Return when connectors have got offsets topics of their own that are not followed yet.

        Or when somebody asks for one: he need not wait for the next look.
        """
        seen = None
        while self._asked_for <= {*topics}:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._limits.topics_poll_ms / 1_000):
                    await self._asked.beyond(self._asked.count)
            there = frozenset(await self._log.topics())
            now = tuple(self._ends[self._topics.config]), there
            if now != seen and not await self._read_by_any(there) <= set(topics):
                return
            seen = now

    async def _read_by_any(self, there: frozenset[str]) -> set[str]:
        """Of the topics that are there, every one that a worker of any release reads now.

        Whichever release is followed knows the configs that name further ones; only where none is
        they are looked for in the log, all of it.
        """
        following = next(iter(self._folds.values()), None)
        if following is None:
            return set(await ends_now(self._log, self._topics))
        configs = following.state().config.connectors.values()
        named = (config.get(OFFSETS_TOPIC) for config in configs)
        own = (topic for topic in named if isinstance(topic, str))
        return {*msgspec.structs.astuple(self._topics), *own} & there


async def _ordered(batches: Sequence[Batch]) -> Sequence[Entry]:
    """The entries of batches in the one order."""
    if sum(map(len, batches)) <= AT_ONCE:
        return in_order(entries_of(batches))
    ordering = Ordering()
    async for entry in sliced(entries_of(batches)):
        ordering.keep(ordering.rank(entry))
    return [entry async for entry in sliced(ordering.entries())]


def _is_long(entry: Entry) -> bool:
    """Whether folding this one entry would hold up the event loop."""
    return len(entry.value or b"") > LONG_VALUE


class _Heard(NamedTuple):
    """Somebody who is told of each entry."""

    listener: Listener
    broken_off: Callable[[], None]


class _Following:
    """The fold of one release and the state that it published last."""

    def __init__(self, fold: Fold) -> None:
        self._worker = fold
        self.listeners: list[_Heard] = []
        self.holders = 0
        """How many need it to be kept, whatever else is asked for."""
        self._state: ClusterState | None = None

    def state(self) -> ClusterState:
        # Only on demand: each published state costs a copy of what is written to after it.
        if self._state is None:
            self._state = self._worker.snapshot()
        return self._state

    async def apply(self, entries: Sequence[Entry]) -> None:
        """Fold what has arrived together; nobody is shown a state in between."""
        if not self.listeners and len(entries) <= AT_ONCE and not any(map(_is_long, entries)):
            self._worker.apply_all(entries)
            self._state = None
            return
        before = self.state()
        async for entry in sliced(entries):
            if _is_long(entry):
                await asyncio.to_thread(self._worker.apply, entry)
            else:
                self._worker.apply(entry)
            if self.listeners:
                after = self._worker.snapshot()
                for heard in [*self.listeners]:
                    await heard.listener(entry, before, after)
                before = after
        self._state = None


def _beyond(ends: Sequence[int], known: Sequence[int]) -> bool:
    """Whether some end lies behind what is known of its partition."""
    return any(upto > at for upto, at in zip_longest(ends, known, fillvalue=0))
