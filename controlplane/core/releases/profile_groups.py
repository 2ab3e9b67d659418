"""Computes a result for many releases, once for each group of releases with the same result.

Nearly all releases read most of a log alike. No code declares the behaviours that a result depends
on. A stand-in for the profile records them while the result is computed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar, cast

from controlplane.core.releases.profiles import Profile

T = TypeVar("T")


class _RecordingProfile:
    """Stand-in for a profile. Its `vars` are the behaviours that were read from it so far."""

    __slots__ = ("__dict__", "_profile")

    def __init__(self, profile: Profile) -> None:
        self._profile = profile

    def __getattr__(self, name: str) -> Any:
        # Python calls this only for the first read: later reads find the value in the instance.
        value = getattr(self._profile, name)
        vars(self)[name] = value
        return value


class SharedResults(Generic[T]):
    """Results of a computation, one for each group of releases with the same result.

    `compute` must depend on nothing that changes except the fields of its profile. A result must
    not hold the profile or be lazy: fields that are read after `compute` are not recorded. Results
    are shared: do not change them. `compute` may read from other `SharedResults`: the behaviours on
    which their results depend are recorded, too.
    """

    def __init__(self, compute: Callable[[Profile], T]) -> None:
        self._compute = compute
        self._results: list[tuple[Mapping[str, Any], T]] = []

    def of(self, profile: Profile) -> T:
        """Result for a profile, computed for the first profile of its group."""
        for behaviours, result in self._results:
            if _agrees(profile, behaviours):
                return result
        recording = _RecordingProfile(profile)
        result = self._compute(cast("Profile", recording))
        self._results.append((vars(recording), result))
        return result


def of_each(profiles: Iterable[Profile], compute: Callable[[Profile], T]) -> Iterator[T]:
    """Compute a result for each profile, in their order; see `SharedResults`."""
    return map(SharedResults(compute).of, profiles)


def _agrees(profile: Profile, behaviours: Mapping[str, Any]) -> bool:
    return all(getattr(profile, name) == value for name, value in behaviours.items())


class Disagreement(Exception):
    """The grouped releases differ in the behaviour `field`."""

    def __init__(self, field: str) -> None:
        super().__init__(field)
        self.field = field


class _AgreedProfile:
    """Stand-in for several profiles. Its `vars` are the behaviours known to be common to all."""

    __slots__ = ("__dict__", "_profiles")

    def __init__(self, profiles: Sequence[Profile]) -> None:
        self._profiles = profiles

    def __getattr__(self, name: str) -> Any:
        first, *others = (getattr(profile, name) for profile in self._profiles)
        if any(other != first for other in others):
            raise Disagreement(name)
        vars(self)[name] = first
        return first


def as_one(profiles: Sequence[Profile]) -> Profile:
    """A stand-in for all of these profiles, while they agree in every behaviour that is read.

    Reading another behaviour raises `Disagreement`. A result must not hold the stand-in.
    """
    return cast("Profile", _AgreedProfile(profiles))


def grouped(profiles: Iterable[Profile], field: str) -> list[list[Profile]]:
    """Profiles grouped by their value of a behaviour."""
    groups: dict[Any, list[Profile]] = {}
    for profile in profiles:
        groups.setdefault(getattr(profile, field), []).append(profile)
    return list(groups.values())
