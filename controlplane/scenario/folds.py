"""Folds to compare: everything that a view shows is computed at least twice.

The main fold applies entries one by one. The bulk loader, which takes a way of its own to the same
state, is always the second. Other packages register theirs under the entry point group
`controlplane.folds`: a callable like `Refold`. Whatever differs is printed with the fold's name.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import NamedTuple, Protocol

from controlplane.core.entry import Entry, batch_of
from controlplane.core.evolve import Fold, fold
from controlplane.core.evolve.bulk import load
from controlplane.core.profiles import Profile
from controlplane.core.state import ClusterState, Topics

GROUP = "controlplane.folds"


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


class UnknownFold(ValueError):
    """No fold of that name is registered. The message says which are."""


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


def with_registered(names: Sequence[str]) -> Folds:
    """The usual folds and those registered under these names.

    Raises:
        UnknownFold: there is no such fold.
    """
    known = {point.name: point for point in entry_points(group=GROUP)}
    for name in names:
        if name not in known:
            there = ", ".join(sorted(known)) or "none"
            raise UnknownFold(f"no fold {name!r} is installed (installed: {there})")
    usual = Folds()
    return Folds(usual.main, {**usual.others, **{name: known[name].load() for name in names}})
