"""Folds to compare: everything that a view shows is computed at least twice.

The main fold applies entries one by one. The bulk loader, which takes a way of its own to the same
state, is always the second. Other packages register theirs under the entry point group
`controlplane.folds`: a callable like `Refold`; or, under `controlplane.folds.together`, one that is
asked for everything at once (`BatchFold`). Whatever differs is printed with the fold's name.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from controlplane.core.entry import Entry, batch_of
from controlplane.core.fold import Fold, fold
from controlplane.core.fold.bulk import load
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState, Topics
from controlplane.terminal.extras import install_command

GROUP = "controlplane.folds"
TOGETHER = "controlplane.folds.together"


class Refold(Protocol):
    """Computes what a worker knows after reading these entries, in the one order."""

    def __call__(
        self,
        entries: Sequence[Entry],
        profile: Profile,
        *,
        topics: Topics | None = None,
        exactly_once: bool = False,
    ) -> ClusterState:
        """The state after the last entry."""
        ...


class FoldTask(NamedTuple):
    """A log, and who reads it."""

    entries: tuple[Entry, ...]
    """All there is, in the one order."""
    profile: Profile
    topics: Topics
    exactly_once: bool


class BatchFold(Protocol):
    """The same for many logs at once: of one that needs seconds before it begins."""

    def __call__(self, asks: Sequence[FoldTask], /) -> list[ClusterState]:
        """State of each reader."""
        ...


class FoldTasks:
    """Remembers what is asked, and answers once that was asked elsewhere."""

    def __init__(self) -> None:
        self._asks: dict[FoldTask, None] = {}  # each once, in order

    def remember(
        self,
        entries: Sequence[Entry],
        profile: Profile,
        *,
        topics: Topics | None = None,
        exactly_once: bool = False,
    ) -> ClusterState:
        """Answer as the main fold does, for now."""
        self._asks[FoldTask(tuple(entries), profile, topics or Topics(), exactly_once)] = None
        return fold(entries, profile, topics=topics, exactly_once=exactly_once)

    def answered(self, together: BatchFold) -> Refold:
        """A fold that answers from one batch run over all remembered tasks."""
        asks = list(self._asks)
        states = dict(zip(asks, together(asks), strict=True))

        def refold(
            entries: Sequence[Entry],
            profile: Profile,
            *,
            topics: Topics | None = None,
            exactly_once: bool = False,
        ) -> ClusterState:
            return states[FoldTask(tuple(entries), profile, topics or Topics(), exactly_once)]

        return refold


class UnknownFold(ValueError):
    """No fold of that name is registered, or it cannot be loaded. The message says what to do."""


def bulk(
    entries: Sequence[Entry],
    profile: Profile,
    *,
    topics: Topics | None = None,
    exactly_once: bool = False,
) -> ClusterState:
    """The state as the bulk loader makes it, partition after partition."""
    partitions: dict[tuple[str, int], list[Entry]] = defaultdict(list)
    for entry in entries:
        partitions[entry.topic, entry.partition].append(entry)
    worker = Fold(profile, topics=topics, exactly_once=exactly_once)
    load(worker, [batch_of(part) for _, part in sorted(partitions.items())])
    return worker.snapshot()


class Folds(NamedTuple):
    """The main fold, and those that must agree with it, by name."""

    main: Refold = fold
    others: Mapping[str, Refold] = MappingProxyType({"bulk": bulk})
    together: Mapping[str, BatchFold] = MappingProxyType({})


def with_registered(names: Sequence[str]) -> Folds:
    """The usual folds and those registered under these names.

    Raises:
        UnknownFold: there is no such fold, or it lacks something.
    """
    single, together = (
        {point.name: point for point in entry_points(group=group)} for group in (GROUP, TOGETHER)
    )
    for name in names:
        if name not in single.keys() | together.keys():
            there = ", ".join(sorted(single.keys() | together.keys())) or "none"
            raise UnknownFold(f"no fold {name!r} is installed (installed: {there})")
    usual = Folds()
    return Folds(
        usual.main,
        {**usual.others, **{name: _loaded(single[name]) for name in names if name in single}},
        {name: _loaded(together[name]) for name in names if name in together},
    )


def _loaded(point: EntryPoint) -> Any:
    try:
        return point.load()
    except ModuleNotFoundError as missing:
        raise UnknownFold(
            f"the fold {point.name!r} needs {missing.name}, which is not installed here: "
            f"{install_command(point.name)}"
        ) from None
