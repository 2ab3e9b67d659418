"""Query parameters of the endpoints: names, permitted values, checks.

Kafka ignores an unknown parameter, and replaces an invalid value by a default. A misspelt
`dry_run=` would then delete a connector. So `/` refuses unknown parameters, invalid values, and one
parameter with two values.

Tools that expect Kafka use `/compat`, or the root of a service that speaks as a release. There
Connect's parameters are read as Kafka reads them. Only this project's own parameters are checked,
and names that are close to `dry_run`.
"""

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from typing import NamedTuple, get_args

from controlplane.core.commands import AnyCommand
from controlplane.core.moments import TEXT_SHOWN, TIME_DIGITS, UnknownMoment, quoted, read_time_ms
from controlplane.rest.errors import BadQuestion
from controlplane.rest.http.request_targets import path_of

DRY_RUN = "dry_run"
"""Parameter that asks for the plan of a command instead of running it."""

AS_OF, PROFILE = "as_of", "profile"

FORWARD = "forward"
"""Parameter between workers. Kafka takes it with every change; here it has no effect, because one
process answers."""

OUTCOMES = ("done", "failed", "refused", "unfinished")
"""Outcomes of a command (`GET /commands`)."""

LIMIT_MOST = 10_000
"""Maximum rows of one answer: some MB, which a browser still shows."""

NAME_LENGTH = 100
"""Maximum characters of a name that are compared, to bound the work."""

_NOTHING = "Nothing has been done."

ALIKE = 0.6
"""Minimum similarity (`difflib`) to suggest a known name for an unknown one."""

DRY_ALIKE = 0.75
"""Minimum similarity to `dry_run` to refuse a name that a release would ignore."""

Query = Mapping[str, Sequence[str]]
EndpointKey = tuple[str, tuple[str, ...]]
"""A method and a path template."""


class _Kind(NamedTuple):
    """Permitted values of a parameter."""

    admits: Callable[[str], bool] = lambda _: True
    wrong: str = ""
    """Error text for any other value."""
    repeats: bool = False
    """True if several values may be given."""


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

_PARAMETERS: dict[EndpointKey, dict[str, _Kind]] = {
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
"""Parameters of single endpoints, beside the common ones."""


def parameters(method: str, template: tuple[str, ...]) -> tuple[str, ...]:
    """Return the endpoint's own parameters, as `openapi.json` lists them."""
    return tuple(_PARAMETERS.get((method, template), ()))


def check(place: EndpointKey, query: Query, matrix: Sequence[str], *, ours: bool) -> str | None:
    """Check the parameters of a request to `/`; return a notice about an ignored one, or None.

    `matrix` are the names of matrix parameters (`/stop;dry_run=true`), which Connect ignores.
    `ours`: the endpoint is not one of Connect's.

    Raises:
        BadQuestion: a parameter is unknown, has an invalid value, or has two values.
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


def check_as_kafka(place: EndpointKey, query: Query, matrix: Sequence[str]) -> None:
    """Check a request to a release: this project's parameters, and names close to `dry_run`.

    Raises:
        BadQuestion: Kafka would ignore a parameter that the client depends on.
    """
    if not query and not matrix:
        return
    strange = [*(name for name in query if name != DRY_RUN), *matrix]
    if place[0] != "GET" and any(map(_looks_dry, strange)):
        name = next(filter(_looks_dry, strange))
        raise BadQuestion(f"{quoted(name)} is no parameter: did you mean {DRY_RUN}=? {_NOTHING}")
    for name in (DRY_RUN, AS_OF, PROFILE):
        _check_twice(name, query.get(name, ()))


@cache
def _known(place: EndpointKey) -> Mapping[str, _Kind]:
    common = {AS_OF: _ANY, PROFILE: _ANY}
    changing = {DRY_RUN: _FLAG, FORWARD: _FLAG} if place[0] != "GET" else {}
    return _PARAMETERS.get(place, {}) | common | changing


def _looks_dry(name: str) -> bool:
    plain = _plain(name)
    return plain.startswith("dry") or bool(get_close_matches(plain, ["dryrun"], 1, DRY_ALIKE))


def _is_unknown(name: str, place: EndpointKey, known: Mapping[str, _Kind]) -> str:
    """Return the error text for an unknown parameter, with a suggestion."""
    method, template = place
    by_plain = {_plain(one): one for one in known}
    close = get_close_matches(_plain(name), by_plain, 1, ALIKE)
    told = f"{quoted(name)} is no parameter of {method} {path_of(template)[0]}"
    if close:
        told = f"{told}: did you mean {by_plain[close[0]]}=?"
    else:
        told = f"{told}: it takes {', '.join(f'{one}=' for one in known if one != FORWARD)}."
    return told if method == "GET" else f"{told} {_NOTHING}"


def _plain(name: str) -> str:
    """Normalize a name: drop case, hyphens and underscores."""
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
