"""Many releases, one pass: they are asked as one until they disagree.

Which behaviours a log has to do with is not written down anywhere: it is seen when one is looked
at. If releases that have gone together do not agree in it, each group goes over the last few
records again, by itself from there on.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Generic, Protocol, TypeVar

from controlplane.core.each_profile import Disagreement, as_one, parted
from controlplane.core.profiles import Profile

Chunk_contra = TypeVar("Chunk_contra", contravariant=True)
Found_co = TypeVar("Found_co", covariant=True)


class Reading(Protocol[Chunk_contra, Found_co]):
    """What a reader knows so far, as releases that a profile stands for."""

    @property
    def profile(self) -> Profile:
        """Whose eyes."""
        ...

    def fork(self, profile: Profile) -> "Reading[Chunk_contra, Found_co]":
        """Another one that knows the same, and goes on by itself."""
        ...

    def take(self, chunk: Chunk_contra) -> Found_co:
        """Go on; what was found. Where releases disagree, this one is of no more use."""
        ...

    def rest(self) -> Found_co:
        """What is still to be told when there is nothing more to read."""
        ...


C = TypeVar("C")
F = TypeVar("F")
One = TypeVar("One")


FIRST_CHUNK, LARGEST_CHUNK = 256, 16_384
"""Records that are folded in one go. What a few find out costs a few to do again."""


def chunks(records: Iterable[One]) -> Iterator[list[One]]:
    """Records in chunks that grow."""
    records, size = iter(records), FIRST_CHUNK
    while chunk := list(islice(records, size)):
        yield chunk
        size = min(2 * size, LARGEST_CHUNK)


class Together(Generic[C, F]):
    """Readings of all profiles, each shared by those that have agreed in everything so far."""

    def __init__(self, profiles: Sequence[Profile], begin: Reading[C, F]) -> None:
        self._groups = [(list(profiles), begin.fork(as_one(profiles)))]

    def take(self, chunk: C) -> list[tuple[list[Profile], F]]:
        """Let all of them go on; what each group has found."""
        waiting, done = self._groups, []
        found: list[tuple[list[Profile], F]] = []
        while waiting:
            (profiles, reading), *waiting = waiting
            trial = reading.fork(reading.profile)
            try:
                found.append((profiles, trial.take(chunk)))
            except Disagreement as about:
                parts = parted(profiles, about.field)
                waiting = [(part, reading.fork(as_one(part))) for part in parts] + waiting
            else:
                done.append((profiles, trial))
        self._groups = done
        return found

    def rest(self) -> list[tuple[list[Profile], F]]:
        """What each group has still to tell at the end."""
        return [(profiles, reading.rest()) for profiles, reading in self._groups]
