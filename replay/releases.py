"""Releases by their names, with `all` for one release of each distinct behaviour."""

from collections.abc import Callable, Iterable, Sequence

from controlplane.core.releases.profiles import PROFILES, Profile, UnknownRelease, check_support

EVERY = "all"
"""Name that stands for every release that behaves differently from the ones before it."""


def profiles_named(
    names: Iterable[str], read: Callable[[str], Profile], *, exactly_once: bool
) -> list[Profile]:
    """Releases by name, each once; `all` means one release of each distinct behaviour.

    Raises:
        UnknownRelease: an unknown name, or with `exactly_once` a release that lacks it.
    """
    by_release: dict[str, Profile] = {}
    for name in names:
        for profile in _every(exactly_once=exactly_once) if name == EVERY else [read(name)]:
            check_support(profile, exactly_once=exactly_once)
            by_release[profile.release] = profile
    return list(by_release.values())


def _every(*, exactly_once: bool) -> Sequence[Profile]:
    return [release for release in PROFILES if release.exactly_once_support or not exactly_once]


def check_single(*names: str) -> None:
    """Check names of options that take one release each, as other commands also take `all`.

    Raises:
        UnknownRelease: a name is `all`.
    """
    if EVERY in names:
        raise UnknownRelease(
            f"one release is needed here, not {EVERY!r}: name one such as 3.9, or kip"
        )
