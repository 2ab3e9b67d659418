"""Query parameters: which ones an endpoint takes, which values they can have, how they are checked.

Kafka ignores a parameter that it does not know, and reads a value that makes no sense as a default.
A misspelt `dry_run=` would carry a deletion out. So `/` refuses both, and refuses one parameter
with two meanings. Tools that expect Kafka use `/compat`, or the root of a service that speaks as a
release. There the parameters of Connect's endpoints are read as Kafka reads them. Only our own
parameters are checked, and names that are close to `dry_run`.
"""

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from typing import NamedTuple, get_args

from controlplane.core.commands import AnyCommand
from controlplane.core.moments import TEXT_SHOWN, TIME_DIGITS, UnknownMoment, read_time_ms, shown
from controlplane.rest.errors import BadQuestion
from controlplane.rest.paths import path_of

DRY_RUN = "dry_run"
"""The question whether nothing is to be done but told what would be."""

AS_OF, PROFILE = "as_of", "profile"

FORWARD = "forward"
"""A parameter that workers send to each other. Kafka takes it with every change; it says nothing
here, where one process answers."""

OUTCOMES = ("done", "failed", "refused", "unfinished")
"""How a command can have ended (`GET /commands`)."""

LIMIT_MOST = 10_000
"""Rows of one answer: some MB, which a browser still shows."""

NAME_LENGTH = 100
"""Characters of a name that are compared; longer names are floods."""

_NOTHING = "Nothing has been done."

ALIKE = 0.6
"""How alike two names are (`difflib`) of which one is taken for a slip of the other."""

DRY_ALIKE = 0.75
"""The same for `dry_run` where a release answers, and other unknown names are ignored."""

Query = Mapping[str, Sequence[str]]
Place = tuple[str, tuple[str, ...]]
"""A method and a path template."""


class _Kind(NamedTuple):
    """The values that a parameter can have."""

    admits: Callable[[str], bool] = lambda _: True
    wrong: str = ""
    """What is said of any other value."""
    repeats: bool = False
    """Whether several values go together."""


def _one_of(*words: str, repeats: bool = False) -> _Kind:
    listed = ", ".join(words)
    return _Kind(lambda given: given in words, f"is none: use one of {listed}", repeats)


def _is_number(given: str) -> bool:
    return given.isascii() and given.isdecimal() and len(given) <= TIME_DIGITS


def _is_time(given: str) -> bool:
    try:
        read_time_ms(given)
    except UnknownMoment:
        return False
    return True


def _is_limit(given: str) -> bool:
    return _is_number(given) and 0 < int(given) <= LIMIT_MOST


_ANY = _Kind()
_FLAG = _Kind(lambda given: given.lower() in ("true", "false"), "is neither true nor false")
_SCOPE = _Kind(
    lambda given: given.lower() in ("worker", "cluster"), "is none: use worker or cluster"
)
_TIME = _Kind(_is_time, "is no time: write it like 2026-11-20T12:00:00Z, or 1795214808118 (ms)")
_LIMIT = _Kind(_is_limit, f"is no number from 1 to {LIMIT_MOST}")

_COMMANDS = sorted(str(one.__struct_config__.tag) for one in get_args(AnyCommand))

_CONNECTOR = ("connectors", "{}")
_PAGED = {"limit": _LIMIT, "after": _ANY}

_PARAMETERS: dict[Place, dict[str, _Kind]] = {
    ("GET", ("connectors",)): {"expand": _one_of("status", "info", repeats=True)},
    ("POST", (*_CONNECTOR, "restart")): {"includeTasks": _FLAG, "onlyFailed": _FLAG},
    ("POST", (*_CONNECTOR, "undo")): {"to": _ANY, "offsets": _FLAG},
    ("GET", (*_CONNECTOR, "history")): {**_PAGED, "records": _FLAG},
    ("GET", ("diff",)): {"from": _ANY, "connector": _ANY, **_PAGED},
    ("GET", ("targets",)): {"connector": _ANY, **_PAGED},
    ("GET", ("commands",)): {
        "connector": _ANY,
        "principal": _ANY,
        "command": _one_of(*_COMMANDS),
        "outcome": _one_of(*OUTCOMES),
        "since": _TIME,
        **_PAGED,
    },
    ("GET", ("watch",)): {"connector": _ANY, "since": _ANY, "records": _FLAG},
    ("GET", ("connector-plugins",)): {"connectorsOnly": _FLAG},
    ("GET", ("connector-plugins", "{}", "config")): {"version": _ANY},
    ("PUT", ("admin", "loggers", "{}")): {"scope": _SCOPE},
}
"""What single endpoints take, beside what all of them take."""


def parameters(method: str, template: tuple[str, ...]) -> tuple[str, ...]:
    """The names of the parameters that an endpoint alone takes, as `openapi.json` lists them."""
    return tuple(_PARAMETERS.get((method, template), ()))


def check(place: Place, query: Query, matrix: Sequence[str], *, ours: bool) -> str | None:
    """Check the parameters of a request to `/`; a sentence about one that is ignored, or None.

    `matrix` are the names of matrix parameters (`/stop;dry_run=true`), which Connect ignores.
    `ours`: the endpoint is not one of Connect's.

    Raises:
        BadQuestion: a parameter is not known, cannot have such a value, or has two.
    """
    if not query and not matrix:
        return None
    known, changes = _known(place), place[0] != "GET"
    strange = [*(name for name in query if name not in known), *(matrix if changes else ())]
    told = _is_unknown(strange[0], place, known) if strange else None
    if told is not None and (changes or ours):
        raise BadQuestion(told)
    for name in known.keys() & query.keys():
        _check_values(name, query[name], known[name])
    return told


def check_as_kafka(place: Place, query: Query, matrix: Sequence[str]) -> None:
    """Check a request to a release: our own parameters, and those that are close to `dry_run`.

    Raises:
        BadQuestion: Kafka would ignore it, and the asker cannot want that.
    """
    strange = [*(name for name in query if name != DRY_RUN), *matrix]
    if place[0] != "GET" and any(map(_looks_dry, strange)):
        name = next(filter(_looks_dry, strange))
        raise BadQuestion(f"{shown(name)} is no parameter: did you mean {DRY_RUN}=? {_NOTHING}")
    for name in (DRY_RUN, AS_OF, PROFILE):
        _check_twice(name, query.get(name, ()))


@cache
def _known(place: Place) -> Mapping[str, _Kind]:
    common = {AS_OF: _ANY, PROFILE: _ANY}
    changing = {DRY_RUN: _FLAG, FORWARD: _FLAG} if place[0] != "GET" else {}
    return _PARAMETERS.get(place, {}) | common | changing


def _looks_dry(name: str) -> bool:
    plain = _plain(name)
    return plain.startswith("dry") or bool(get_close_matches(plain, ["dryrun"], 1, DRY_ALIKE))


def _is_unknown(name: str, place: Place, known: Mapping[str, _Kind]) -> str:
    """Which parameter is not known, and the one that was probably meant."""
    method, template = place
    by_plain = {_plain(one): one for one in known}
    close = get_close_matches(_plain(name), by_plain, 1, ALIKE)
    told = f"{shown(name)} is no parameter of {method} {path_of(template)[0]}"
    if close:
        told = f"{told}: did you mean {by_plain[close[0]]}=?"
    else:
        told = f"{told}: it takes {', '.join(f'{one}=' for one in known if one != FORWARD)}."
    return told if method == "GET" else f"{told} {_NOTHING}"


def _plain(name: str) -> str:
    """A name without what people confuse: case, hyphens, underscores."""
    return "".join(char for char in name[:NAME_LENGTH].casefold() if char.isalnum())


def _check_values(name: str, given: Sequence[str], kind: _Kind) -> None:
    for value in given:
        if not kind.admits(value):
            raise BadQuestion(f"{name}={_cut(value)} {kind.wrong}")
    if not kind.repeats:
        _check_twice(name, given)


def _check_twice(name: str, given: Sequence[str]) -> None:
    meant = dict.fromkeys(value.lower() if _FLAG.admits(value) else value for value in given)
    if len(meant) > 1:
        one, other, *_ = map(_cut, meant)
        raise BadQuestion(f"{name}= is given twice, as {one} and as {other}: give it once")


def _cut(value: str) -> str:
    return value if len(value) <= TEXT_SHOWN else f"{value[:TEXT_SHOWN]}…"
