"""Source offsets that go back, and offsets that are taken away.

An offset is a map, and which of its fields counts only its connector knows. It has gone back where
a number in it fell (or the number at the end of a name, as in `binlog.000004`) and nothing else in
it moved on: a position may fall when the file is a new one.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from controlplane.core.records import SourcePartition, Target
from controlplane.core.redact import redacted_value
from controlplane.core.safe_text import count
from controlplane.core.shown import json_line
from replay.audit.about import About, Words, at
from replay.audit.bursts import Burst, Episodes
from replay.audit.reading import Previous, Told
from replay.audit.trail.trail import Verb
from replay.audit.who import who
from replay.findings import Finding, Severity

_NUMBERED = re.compile(r"(.*?)(\d{1,18})", re.ASCII | re.DOTALL)


class Movements:
    """Regressions and resets: one finding for all that happen to a connector at once."""

    concerns = (SourcePartition,)

    def __init__(self, about: About) -> None:
        self._about = about
        self._episodes: Episodes[tuple[str, str, bool]] = Episodes(about.thresholds.episode_ms)

    def see(self, told: Told) -> Iterator[Finding]:
        """Only a change of one key in one partition says what happened first and what then."""
        previous = told.previous
        if previous is None or previous.entry.partition != told.entry.partition:
            return
        kind = _kind(previous, told)
        if kind is not None:
            key = told.connector, kind, _at_rest(told)
            over = self._episodes.add(key, told)
            if over is not None:
                yield self._finding(key, over)

    def end(self) -> Iterator[Finding]:
        """The episodes that nothing followed."""
        for key, burst in self._episodes.end():
            yield self._finding(key, burst)

    def _finding(self, key: tuple[str, str, bool], burst: Burst) -> Finding:
        connector, kind, at_rest = key
        severity = Severity.INFO if at_rest else Severity.WARNING
        by = who(self._about, burst.last, Verb.OFFSETS)
        number = count(burst.count, "source offset")
        when = f"at {at(burst.last.time_ms)}"
        if kind == "offsets-reset":
            happened = f"{connector} lost {number}{by} {when}"
        else:
            happened = f"{connector} went back{by} {when} in {number}, {_example(burst.last)}"
        told, advice = _JUDGED[kind, at_rest]
        words = Words(f"{happened}: {told}", advice)
        return self._about.finding(kind, severity, connector, burst.evidence, words)


def _kind(previous: Previous, told: Told) -> str | None:
    if told.entry.value is None:
        return None if previous.entry.value is None else "offsets-reset"
    was, now = previous.offset, told.offset
    if not isinstance(was, Mapping) or not isinstance(now, Mapping):
        return None
    return "offsets-regressed" if goes_back(was, now) else None


def _example(told: Told) -> str:
    assert told.previous is not None  # or nothing would have gone back
    shown = (told.record.partition, told.previous.offset, told.offset)
    partition, was, now = (json_line(redacted_value("", one)) for one in shown)
    return f"in that of {partition} from {was} to {now}"


_MEANT = Words("it did not run then, so that was most likely meant")

_JUDGED = {
    ("offsets-reset", True): _MEANT,
    ("offsets-regressed", True): _MEANT,
    ("offsets-reset", False): Words(
        "nobody had stopped it, so its tasks went on from what they had in memory, and a restart "
        "begins at the start",
        "Stop the connector before its offsets are reset (PUT /connectors/…/stop), then look "
        "whether they are what you want.",
    ),
    ("offsets-regressed", False): Words(
        "nobody had stopped it, so what lies in between is most likely read twice",
        "Look who else writes under this name: a worker that was believed dead, a second cluster, "
        "a restored backup. Expect duplicates behind this point.",
    ),
}
"""Why it is as bad as it is, by whether the connector was at rest."""


def _at_rest(told: Told) -> bool:
    """Whether the connector was stopped or gone, so that its offsets may be changed (KIP-875)."""
    name = told.connector
    return name not in told.config.connectors or told.config.targets.get(name) is Target.STOPPED


def goes_back(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether a field of an offset fell and none moved on."""
    if before.keys() != after.keys():
        return False
    moves = {_move(before[name], after[name]) for name in before}
    return -1 in moves and 1 not in moves


def _move(before: Any, after: Any) -> int:
    """-1: fell; 0: stayed; 1: moved on, or became something else."""
    if type(before) is bool or type(after) is bool or before == after:
        return int(before != after)
    if isinstance(before, int | float) and isinstance(after, int | float):
        return 1 if after > before else -1
    if isinstance(before, str) and isinstance(after, str):
        was, now = _NUMBERED.fullmatch(before), _NUMBERED.fullmatch(after)
        if was and now and was[1] == now[1]:
            return 1 if int(now[2]) >= int(was[2]) else -1
    return 1
