"""Workers of a scenario with their releases, and the columns of those that read alike."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from controlplane.core.releases.profiles import RELEASES, Profile

EXACTLY_ONCE = "+eos"


class Worker(NamedTuple):
    """Worker: its release as written (`3.4`), its profile, its exactly-once support."""

    name: str
    release: str
    profile: Profile
    exactly_once: bool

    @property
    def runs(self) -> str:
        """Release with exactly-once support, as in a scenario: `3.9+eos`."""
        return self.release + (EXACTLY_ONCE if self.exactly_once else "")

    @property
    def title(self) -> str:
        """Name and release, as in the step `cluster`: `w1@3.4`."""
        return f"{self.name}@{self.runs}"


class ViewColumn(NamedTuple):
    """Column of a view: all workers that read alike."""

    title: str
    profile: Profile
    exactly_once: bool


def columns(workers: Iterable[Worker]) -> list[ViewColumn]:
    """Columns by release, oldest first; within a release, exactly-once support last."""
    groups: dict[tuple[str, bool], list[Worker]] = defaultdict(list)
    for worker in sorted(workers):
        groups[worker.release, worker.exactly_once].append(worker)
    columns_found = []
    for _, group in sorted(groups.items(), key=_age):
        names = " ".join(worker.name for worker in group)
        first = group[0]
        columns_found.append(
            ViewColumn(f"{first.runs} ({names})", first.profile, first.exactly_once)
        )
    return columns_found


def _age(group: tuple[tuple[str, bool], Sequence[Worker]]) -> tuple[int, str, bool]:
    (release, exactly_once), workers = group
    real = workers[0].profile.release
    return (RELEASES.index(real) if real in RELEASES else len(RELEASES)), release, exactly_once
