"""Logs that lie in memory, folded by way of an archive and Spark: a second opinion on the fold.

Each log becomes the archive of a cluster in a folder that is gone afterwards; all of them are one
job. So a few logs cost what hundreds do, and whoever wants to compare collects questions first.
`controlplane scenario run --via spark` asks it.
"""

import asyncio
from collections.abc import Mapping, Sequence
from tempfile import TemporaryDirectory
from typing import NamedTuple, Protocol

from pyspark.sql import SparkSession

from controlplane.core.entry import Entry
from controlplane.core.profiles import Profile
from controlplane.core.state import ClusterState, Topics
from controlplane.logs.log import LogUnavailable
from controlplane.logs.opening import memory_log
from replay.archive.cluster import Cluster
from replay.archive.segments import SIZES, Sizes
from replay.archive.store import Folder
from replay.capture.capture import Capture, Target
from replay.capture.secrets import kept
from replay.engine.asked import Asked
from replay.engine.local import Local, Options
from replay.engine.session import NoSpark, session
from replay.engine.slicing import LIMITS, Limits
from replay.engine.spark import Spark
from replay.engine.where import Where


class Ask(Protocol):
    """A log, and who reads it."""

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All there is, in the one order."""
        ...

    @property
    def profile(self) -> Profile:
        """As whom it is read."""
        ...

    @property
    def topics(self) -> Topics:
        """How the cluster's topics are called."""
        ...

    @property
    def exactly_once(self) -> bool:
        """Whether records of aborted transactions are passed over."""
        ...


class _Log(NamedTuple):
    """A log, and what of it is read."""

    entries: tuple[Entry, ...]
    topics: Topics
    exactly_once: bool


def in_spark(asks: Sequence[Ask]) -> list[ClusterState]:
    """What each reader knows, by a session of its own on this machine.

    Raises:
        LogUnavailable: no logs can be read in this way here: whoever asks knows no errors of ours.
    """
    try:
        with session(Where()) as started:
            return Refold(started)(asks)
    except NoSpark as error:
        raise LogUnavailable(str(error)) from None


class Refold:
    """Folds logs by way of archives and one job of a session.

    `sizes` and `limits` say how finely a log is cut up on the way; that must change nothing.
    """

    def __init__(
        self, started: SparkSession, sizes: Sizes = SIZES, limits: Limits = LIMITS
    ) -> None:
        self._spark = Spark(started, limits)
        self._sizes = sizes

    def __call__(self, asks: Sequence[Ask]) -> list[ClusterState]:
        """What each reader knows after the last entry."""
        readers: dict[_Log, list[Profile]] = {}
        for ask in asks:
            profiles = readers.setdefault(_log(ask), [])
            if ask.profile not in profiles:
                profiles.append(ask.profile)
        with TemporaryDirectory(prefix="replay-") as folder:
            found = self._spark.states(self._asked(Folder(folder), readers))
        known = dict(zip(readers, found, strict=True))
        return [known[_log(ask)][readers[_log(ask)].index(ask.profile)] for ask in asks]

    def _asked(self, store: Folder, readers: Mapping[_Log, Sequence[Profile]]) -> list[Asked]:
        """The questions about each log; which then is archived."""
        asked = []
        for number, (log, profiles) in enumerate(readers.items()):
            target = Target(store, f"log-{number}", log.topics, kept(log.topics), self._sizes)
            cluster = asyncio.run(_archived(log, target))
            local = Local(cluster, Options(log.exactly_once))
            asked.append(Asked(local, local.plan(None, profiles), profiles))
        return asked


def _log(ask: Ask) -> _Log:
    return _Log(ask.entries, ask.topics, ask.exactly_once)


async def _archived(log: _Log, target: Target) -> Cluster:
    memory = await memory_log(list(log.entries))
    if log.topics.config not in await memory.topics():
        await memory.create_topic(log.topics.config, 1)
    return (await Capture(memory, target, goes_on=False).run()).cluster
