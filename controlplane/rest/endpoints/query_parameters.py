"""Query parameters of the endpoints: names, permitted values, checks.

Kafka ignores an unknown parameter, and replaces an invalid value by a default. A misspelt
`dry_run=` would then delete a connector. Paths outside of `/compat` therefore refuse an invalid
value, and different values of one parameter. A change with an unknown parameter is refused as well.
Connect's read endpoints ignore an unknown parameter, with a notice; this project's own refuse it.

Tools that expect Kafka use `/compat`, or the root of a service that speaks as a release. There
Connect's parameters are read as Kafka reads them. Only this project's own parameters are checked,
and names that are close to `dry_run`.
"""

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import cache, lru_cache
from typing import NamedTuple, get_args

from controlplane.core.commands import AnyCommand
from controlplane.core.moments import TEXT_SHOWN, TIME_DIGITS, UnknownMoment, quoted, read_time_ms
from controlplane.rest.errors import InvalidParameter
from controlplane.rest.requests import Query, with_zone

DRY_RUN = "dry_run"
"""Parameter that asks for the plan of a command instead of running it."""

AS_OF, PROFILE = "as_of", "profile"

FORWARD = "forward"
"""Parameter between workers. Kafka accepts it with every change; it has no effect here, because
one process answers."""

OUTCOMES = ("done", "failed", "refused", "unfinished", "unknown")
"""Outcomes of a command (`GET /commands`)."""

LIMIT_MOST = 10_000
"""Maximum rows of one answer: some MB, which a browser can still show."""

NAME_LENGTH = 100
"""Maximum compared characters of a name, to bound the work."""

_NOTHING = "Nothing has been done."

ALIKE = 0.6
"""Minimum similarity (`difflib`) to suggest a known name for an unknown one."""

DRY_ALIKE = 0.75
"""Minimum similarity to `dry_run` to refuse a name that a release would ignore."""

EndpointKey = tuple[str, tuple[str, ...]]
"""A method and a path template."""

CONNECTOR = ("connectors", "{}")
"""Template of one connector."""


_OPEN = {
    "connectors": "connector",
    "tasks": "task",
    "loggers": "logger",
    "connector-plugins": "plugin",
}
"""Names of a template's variable segments, by the segment in front of each."""


def path_of(template: tuple[str, ...]) -> tuple[str, list[str]]:
    """Return the path of a template with named variables, and these names."""
    names: list[str] = []
    parts: list[str] = []
    for before, part in zip(("", *template), template, strict=False):
        if part == "{}":
            names.append(_OPEN.get(before, "name"))
            parts.append(f"{{{names[-1]}}}")
        else:
            parts.append(part)
    return "/" + "/".join(parts), names


class _ParameterRule(NamedTuple):
    """Test of a query parameter's values, with the error text for a wrong one."""

    admits: Callable[[str], bool] = lambda _: True
    wrong: str = ""
    """Error text for any other value."""
    repeats: bool = False
    """True if several values may be given."""


def _one_of(*words: str, repeats: bool = False) -> _ParameterRule:
    listed = ", ".join(words)
    return _ParameterRule(lambda value: value in words, f"is unknown: use one of {listed}", repeats)


def _is_number(value: str) -> bool:
    return value.isascii() and value.isdecimal() and len(value) <= TIME_DIGITS


def _is_time(value: str) -> bool:
    try:
        read_time_ms(with_zone(value))
    except UnknownMoment:
        return False
    return True


def _is_limit(value: str) -> bool:
    return _is_number(value) and 0 < int(value) <= LIMIT_MOST


_ANY = _ParameterRule()
_FLAG = _ParameterRule(
    lambda value: value.lower() in ("true", "false"), "is neither true nor false"
)
_SCOPE = _ParameterRule(
    lambda value: value.lower() in ("worker", "cluster"), "is no scope: use worker or cluster"
)
_TIME = _ParameterRule(
    _is_time, "is no time: write it like 2026-11-20T12:00:00Z, or 1795214808118 (ms)"
)
_LIMIT = _ParameterRule(_is_limit, f"is no number from 1 to {LIMIT_MOST}")

_COMMANDS = sorted(str(command.__struct_config__.tag) for command in get_args(AnyCommand))

_PAGED = {"limit": _LIMIT, "after": _ANY}

_PARAMETERS: dict[EndpointKey, dict[str, _ParameterRule]] = {
    ("GET", ("connectors",)): {"expand": _one_of("status", "info", repeats=True)},
    ("POST", (*CONNECTOR, "restart")): {"includeTasks": _FLAG, "onlyFailed": _FLAG},
    ("POST", (*CONNECTOR, "undo")): {"to": _ANY, "offsets": _FLAG},
    ("GET", (*CONNECTOR, "history")): {**_PAGED, "records": _FLAG},
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
"""Parameters of single endpoints, besides the common ones."""


def parameters(method: str, template: tuple[str, ...]) -> tuple[str, ...]:
    """Return the endpoint's own parameters, as `openapi.json` lists them."""
    return tuple(_PARAMETERS.get((method, template), ()))


def check(endpoint: EndpointKey, query: Query, matrix: Sequence[str], *, ours: bool) -> str | None:
    """Check the parameters of a request outside of `/compat`; return a notice about an ignored one.

    None: no parameter is ignored. `matrix` are the names of matrix parameters
    (`/stop;dry_run=true`), which Connect ignores. `ours`: the endpoint is not one of Connect's.

    Raises:
        InvalidParameter: a value is invalid, or a parameter has different values. For a change and
            for this project's own endpoints, also an unknown parameter.
    """
    rules, changes = _rules_of(endpoint), endpoint[0] != "GET"
    unknown = [*(name for name in query if name not in rules), *(matrix if changes else ())]
    error = _unknown_error(unknown[0], endpoint) if unknown else None
    if error is not None and (changes or ours):
        raise InvalidParameter(error)
    for name in rules.keys() & query.keys():
        _check_values(name, query[name], rules[name])
    return error


def check_as_kafka(endpoint: EndpointKey, query: Query, matrix: Sequence[str]) -> None:
    """Check a request to a release: this project's parameters, and names close to `dry_run`.

    Raises:
        InvalidParameter: Kafka would ignore a parameter that the client depends on.
    """
    other_names = [*(name for name in query if name != DRY_RUN), *matrix]
    if endpoint[0] != "GET" and any(map(_resembles_dry_run, other_names)):
        name = next(filter(_resembles_dry_run, other_names))
        raise InvalidParameter(
            f"{quoted(name)} is no parameter: did you mean {DRY_RUN}=? {_NOTHING}"
        )
    for name in (DRY_RUN, AS_OF, PROFILE):
        if name in query:
            _check_twice(name, query[name])


@cache
def _rules_of(endpoint: EndpointKey) -> Mapping[str, _ParameterRule]:
    common = {AS_OF: _ANY, PROFILE: _ANY}
    changing = {DRY_RUN: _FLAG, FORWARD: _FLAG} if endpoint[0] != "GET" else {}
    return _PARAMETERS.get(endpoint, {}) | common | changing


def _resembles_dry_run(name: str) -> bool:
    plain = _plain(name)
    return plain.startswith("dry") or bool(get_close_matches(plain, ["dryrun"], 1, DRY_ALIKE))


@lru_cache(maxsize=64)  # clients that send such a parameter send it with every request
def _unknown_error(name: str, endpoint: EndpointKey) -> str:
    """Return the error text for an unknown parameter, with a suggestion."""
    method, template = endpoint
    rules = _rules_of(endpoint)
    by_plain = {_plain(parameter): parameter for parameter in rules}
    close = get_close_matches(_plain(name), by_plain, 1, ALIKE)
    error = f"{quoted(name)} is no parameter of {method} {path_of(template)[0]}"
    if close:
        error = f"{error}: did you mean {by_plain[close[0]]}=?"
    else:
        accepted = ", ".join(f"{parameter}=" for parameter in rules if parameter != FORWARD)
        error = f"{error}: it takes {accepted}."
    return error if method == "GET" else f"{error} {_NOTHING}"


def _plain(name: str) -> str:
    """Normalize a name: drop case, hyphens and underscores."""
    return "".join(char for char in name[:NAME_LENGTH].casefold() if char.isalnum())


def _check_values(name: str, values: Sequence[str], rule: _ParameterRule) -> None:
    for value in values:
        if not rule.admits(value):
            raise InvalidParameter(f"{name}={_cut(value)} {rule.wrong}")
    if not rule.repeats:
        _check_twice(name, values)


def _check_twice(name: str, values: Sequence[str]) -> None:
    different = dict.fromkeys(value.lower() if _FLAG.admits(value) else value for value in values)
    if len(different) > 1:
        first, second, *_ = map(_cut, different)
        raise InvalidParameter(f"{name}= is given twice, as {first} and as {second}: give it once")


def _cut(value: str) -> str:
    return value if len(value) <= TEXT_SHOWN else f"{value[:TEXT_SHOWN]}…"
