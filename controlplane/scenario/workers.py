"""Workers of a scenario: which release each is, and which of them read alike."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from controlplane.core.releases.profiles import RELEASES, Profile

EXACTLY_ONCE = "+eos"


class Worker(NamedTuple):
    """A worker: its release as written (`3.4`), what that means, exactly-once support or not."""

    name: str
    release: str
    profile: Profile
    exactly_once: bool

    @property
    def runs(self) -> str:
        """Its release with its support, as a scenario spells it: `3.9+eos`."""
        return self.release + (EXACTLY_ONCE if self.exactly_once else "")

    @property
    def title(self) -> str:
        """Name and release: `w1@3.4`."""
        return f"{self.name}@{self.runs}"


class Column(NamedTuple):
    """All workers that read alike: one column of a view."""

    title: str
    profile: Profile
    exactly_once: bool


def columns(workers: Iterable[Worker]) -> list[Column]:
    """The workers by release, oldest first; of one release, those with exactly-once last."""
    groups: dict[tuple[str, bool], list[Worker]] = defaultdict(list)
    for worker in sorted(workers):
        groups[worker.release, worker.exactly_once].append(worker)
    found = []
    for _, group in sorted(groups.items(), key=_age):
        names = " ".join(worker.name for worker in group)
        first = group[0]
        found.append(Column(f"{first.runs} ({names})", first.profile, first.exactly_once))
    return found


def _age(group: tuple[tuple[str, bool], Sequence[Worker]]) -> tuple[int, str, bool]:
    (release, exactly_once), workers = group
    real = workers[0].profile.release
    return (RELEASES.index(real) if real in RELEASES else len(RELEASES)), release, exactly_once
