"""Folds to compare: every view is computed by at least two of them.

The main fold applies entries one by one. The bulk loader is always the second. Other packages
register folds by entry points. The group `controlplane.folds` has callables like `Refold`. The
group `controlplane.folds.together` has callables like `BatchFold`: each computes all states at
once. A difference is printed with the fold's name.
"""

from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from controlplane.core.entry import Entry, batch_of, by_partition
from controlplane.core.fold import Fold, fold
from controlplane.core.fold.bulk import load
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState, Topics
from controlplane.terminal.extras import install_command

GROUP = "controlplane.folds"
BATCH_GROUP = "controlplane.folds.together"


class Refold(Protocol):
    """Computes the state of a worker after these entries, which are sorted by `core.order`."""

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
    """Task of a fold: a log and the worker whose state is to be computed."""

    entries: tuple[Entry, ...]
    """All entries of the log, sorted by `core.order`."""
    profile: Profile
    topics: Topics
    exactly_once: bool


class BatchFold(Protocol):
    """Computes many states at once; for a fold that takes seconds to start."""

    def __call__(self, tasks: Sequence[FoldTask], /) -> list[ClusterState]:
        """State of each task, in the order of the tasks."""
        ...


class FoldTasks:
    """Collects fold tasks in a first run of the scenarios.

    In the second run, the fold from `answered` returns the states that a `BatchFold` has computed.
    """

    def __init__(self) -> None:
        self._tasks: dict[FoldTask, None] = {}  # each once, in order

    def remember(
        self,
        entries: Sequence[Entry],
        profile: Profile,
        *,
        topics: Topics | None = None,
        exactly_once: bool = False,
    ) -> ClusterState:
        """Remember a task; return the state of the main fold for now."""
        self._tasks[FoldTask(tuple(entries), profile, topics or Topics(), exactly_once)] = None
        return fold(entries, profile, topics=topics, exactly_once=exactly_once)

    def answered(self, batch_fold: BatchFold) -> Refold:
        """A fold that answers from one batch run over all remembered tasks."""
        tasks = list(self._tasks)
        states = dict(zip(tasks, batch_fold(tasks), strict=True))

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
    worker = Fold(profile, topics=topics, exactly_once=exactly_once)
    load(worker, [batch_of(group) for _, group in sorted(by_partition(entries).items())])
    return worker.snapshot()


class Folds(NamedTuple):
    """The main fold, and those that must agree with it, by name."""

    main: Refold = fold
    others: Mapping[str, Refold] = MappingProxyType({"bulk": bulk})
    batch: Mapping[str, BatchFold] = MappingProxyType({})
    """Folds that take all tasks at once."""


def with_registered(names: Sequence[str]) -> Folds:
    """The usual folds and those registered under these names.

    Raises:
        UnknownFold: there is no such fold, or a package that it needs is not installed.
    """
    single, batch = (
        {point.name: point for point in entry_points(group=group)} for group in (GROUP, BATCH_GROUP)
    )
    for name in names:
        if name not in single.keys() | batch.keys():
            installed = ", ".join(sorted(single.keys() | batch.keys())) or "none"
            raise UnknownFold(f"no fold {name!r} is installed (installed: {installed})")
    usual = Folds()
    return Folds(
        usual.main,
        {**usual.others, **{name: _loaded(single[name]) for name in names if name in single}},
        {name: _loaded(batch[name]) for name in names if name in batch},
    )


def _loaded(point: EntryPoint) -> Any:
    try:
        return point.load()
    except ModuleNotFoundError as missing:
        raise UnknownFold(
            f"the fold {point.name!r} needs {missing.name}, which is not installed here: "
            f"{install_command(point.name)}"
        ) from None
