"""Shared fold: many releases in one pass, folded as one until they disagree.

A fold reads a behaviour from its profile when a record depends on it. If the releases of a group
disagree about this behaviour, the group is split. Each part folds the present chunk again.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Generic, Protocol, TypeVar

from controlplane.core.releases.profile_groups import Disagreement, as_one, grouped
from controlplane.core.releases.profiles import Profile

ChunkT_contra = TypeVar("ChunkT_contra", contravariant=True)
FoundT_co = TypeVar("FoundT_co", covariant=True)


class ForkableFold(Protocol[ChunkT_contra, FoundT_co]):
    """State of a fold for all releases that one profile stands for."""

    @property
    def profile(self) -> Profile:
        """Profile that stands for the releases."""
        ...

    def fork(self, profile: Profile) -> "ForkableFold[ChunkT_contra, FoundT_co]":
        """Copy the fold for a profile; the copies are independent."""
        ...

    def take(self, chunk: ChunkT_contra) -> FoundT_co:
        """Fold a chunk and return results. After a disagreement the fold is unusable."""
        ...

    def rest(self) -> FoundT_co:
        """Return the results left after the last chunk."""
        ...


C = TypeVar("C")
F = TypeVar("F")
RecordT = TypeVar("RecordT")


FIRST_CHUNK, LARGEST_CHUNK = 256, 16_384
"""First and greatest number of records per chunk. A split folds its chunk again. Releases mostly
split early, so the first chunks are small."""


def chunks(records: Iterable[RecordT]) -> Iterator[list[RecordT]]:
    """Split records into chunks that double from `FIRST_CHUNK` to `LARGEST_CHUNK`."""
    records, size = iter(records), FIRST_CHUNK
    while chunk := list(islice(records, size)):
        yield chunk
        size = min(2 * size, LARGEST_CHUNK)


class SharedFold(Generic[C, F]):
    """Folds of all releases, shared by those that have agreed so far."""

    def __init__(self, profiles: Sequence[Profile], begin: ForkableFold[C, F]) -> None:
        self._groups = [(list(profiles), begin.fork(as_one(profiles)))]

    def take(self, chunk: C) -> list[tuple[list[Profile], F]]:
        """Fold a chunk for all releases; return the results of each group."""
        waiting, next_groups = self._groups, []
        results: list[tuple[list[Profile], F]] = []
        while waiting:
            (profiles, reading), *waiting = waiting
            # A disagreement leaves a fold unusable, so a copy folds the chunk.
            trial = reading.fork(reading.profile)
            try:
                results.append((profiles, trial.take(chunk)))
            except Disagreement as about:
                parts = grouped(profiles, about.field)
                waiting = [(part, reading.fork(as_one(part))) for part in parts] + waiting
            else:
                next_groups.append((profiles, trial))
        self._groups = next_groups
        return results

    def rest(self) -> list[tuple[list[Profile], F]]:
        """Results of each group at the end."""
        return [(profiles, reading.rest()) for profiles, reading in self._groups]
