"""Thresholds of findings, each with its unit and reason."""

from collections.abc import Mapping
from typing import Annotated, Any, get_type_hints

import msgspec

from replay.errors import ReplayError


def _least(number: int, reason: str) -> msgspec.Meta:
    return msgspec.Meta(ge=number, description=reason)


class Thresholds(msgspec.Struct, frozen=True, kw_only=True):
    """All thresholds; names that end in `ms` are milliseconds, the others are counts."""

    match_ms: Annotated[
        int,
        _least(
            0,
            "Greatest time between a request and its record. Access logs have whole seconds, "
            "clocks differ, and a config is validated before it is written.",
        ),
    ] = 10_000
    under_way_ms: Annotated[
        int,
        _least(
            0,
            "A change whose last record is younger than this at the end of the log may still be in "
            "progress. A worker gives up a request after 90 s.",
        ),
    ] = 90_000
    rebalance_ms: Annotated[
        int,
        _least(
            0,
            "Unassigned tasks may wait this long for a worker to return: "
            "`scheduled.rebalance.max.delay.ms` (5 min).",
        ),
    ] = 300_000
    episode_ms: Annotated[
        int,
        _least(
            0,
            "Offsets of one connector that move within this time of each other have one cause. A "
            "task commits once a minute (`offset.flush.interval.ms`).",
        ),
    ] = 60_000
    stall_ms: Annotated[
        int,
        _least(
            1,
            "Shorter idle periods of a source are not reported: most alerts are set to an hour "
            "without data.",
        ),
    ] = 3_600_000
    stall_gaps: Annotated[
        int,
        _least(
            1,
            "An idle period counts if it is this many times the longest earlier one. A source that "
            "is read once a day has idle periods of a day.",
        ),
    ] = 10
    stall_records: Annotated[
        int,
        _least(2, "Number of moves of a source after which its usual idle periods are known."),
    ] = 5
    flap_failures: Annotated[
        int,
        _least(2, "Number of failures within the window; fewer are no pattern."),
    ] = 3
    flap_departures: Annotated[
        int,
        _least(
            2,
            "Number of exits from RUNNING within the window. Each rebalance causes one, and a "
            "rolling restart of a few workers causes a few.",
        ),
    ] = 10
    flap_window_ms: Annotated[
        int,
        _least(
            1,
            "Window for failures and exits: two rounds of `scheduled.rebalance.max.delay.ms` "
            "(5 min).",
        ),
    ] = 600_000
    storm_restarts: Annotated[
        int,
        _least(2, "Number of restarts within the window that suggest a script."),
    ] = 5
    storm_window_ms: Annotated[
        int,
        _least(1, "Window for restarts: it also detects a script that tries every two minutes."),
    ] = 600_000


class Threshold(msgspec.Struct, frozen=True):
    """Threshold, as the command line shows it."""

    name: str
    usual: int
    least: int
    reason: str

    @property
    def unit(self) -> str:
        """`ms`, or empty for a count."""
        return "ms" if self.name.endswith("-ms") else ""


def all_thresholds() -> list[Threshold]:
    """All thresholds with defaults, least values and reasons, in field order."""
    hints: dict[str, Any] = get_type_hints(Thresholds, include_extras=True)
    usual = msgspec.to_builtins(Thresholds())
    return [
        Threshold(name.replace("_", "-"), usual[name], meta.ge, meta.description)
        for name, meta in ((name, hint.__metadata__[0]) for name, hint in hints.items())
    ]


class BadThreshold(ReplayError):
    """Unknown threshold or invalid value. The message lists the names, or gives the least value."""


def thresholds(changes: Mapping[str, str | int]) -> Thresholds:
    """Default thresholds with the given changes: `{"stall-ms": "60000"}`, or numbers.

    Raises:
        BadThreshold: unknown name, no number, or a value that is too small.
    """
    by_name = {threshold.name: threshold for threshold in all_thresholds()}
    fields = {}
    for name, value in changes.items():
        if name not in by_name:
            raise BadThreshold(f"{name} is no threshold: choose from {', '.join(sorted(by_name))}")
        least, number = by_name[name].least, _number(str(value))
        if number is None or number < least:
            raise BadThreshold(f"{name} cannot be {value!r}: give a whole number from {least} on")
        fields[name.replace("-", "_")] = number
    return Thresholds(**fields)


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else None


_DIGITS = 15
"""Greatest number of digits of a plausible value: 30,000 years in ms."""
