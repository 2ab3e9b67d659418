"""One question, asked of many releases: those that agree in all that it depends on are asked once.

Most of what lies in a log is read alike by nearly all releases. Which of their behaviours an answer
depends on is not written down anywhere: it is seen while the question is worked on.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

from controlplane.core.profiles import Profile

Answer = TypeVar("Answer")


class _Noted:
    """Stands in for a profile. `vars` of it are the behaviours that have been looked at so far."""

    __slots__ = ("__dict__", "_profile")

    def __init__(self, profile: Profile) -> None:
        self._profile = profile

    def __getattr__(self, name: str) -> Any:
        # Called for what is not known yet: the second look finds it in the instance.
        value = getattr(self._profile, name)
        vars(self)[name] = value
        return value


def of_each(profiles: Iterable[Profile], ask: Callable[[Profile], Answer]) -> Iterator[Answer]:
    """The answer to each profile, in their order. It may be shared: it must not be changed.

    `ask` must depend on the fields of the profile that it is given and on nothing else that
    changes; an answer may not hold the profile, and nothing may be left to be worked out later.
    """
    answers: list[tuple[Mapping[str, Any], Answer]] = []
    for profile in profiles:
        found = next((one for one in answers if _agrees(profile, one[0])), None)
        if found is None:
            noted = _Noted(profile)
            answer = ask(cast("Profile", noted))
            found = vars(noted), answer
            answers.append(found)
        yield found[1]


def _agrees(profile: Profile, looked_at: Mapping[str, Any]) -> bool:
    return all(getattr(profile, name) == value for name, value in looked_at.items())


class Disagreement(Exception):
    """Releases that are asked as one do not agree: in the behaviour with the name `field`."""

    def __init__(self, field: str) -> None:
        super().__init__(field)
        self.field = field


class _Agreed:
    """Stands in for several profiles. `vars` of it are the behaviours known to be those of all."""

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
    """What stands in for all of these profiles, as long as they agree in all that is looked at.

    Looking at anything else raises `Disagreement`. Nothing that is kept may hold it.
    """
    return cast("Profile", _Agreed(profiles))


def parted(profiles: Iterable[Profile], field: str) -> list[list[Profile]]:
    """Profiles in groups that agree in a behaviour."""
    groups: dict[Any, list[Profile]] = {}
    for profile in profiles:
        groups.setdefault(getattr(profile, field), []).append(profile)
    return list(groups.values())
