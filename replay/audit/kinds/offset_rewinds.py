"""Rewinds and resets of source offsets.

An offset is a map, and only its connector knows which fields matter. The offset counts as rewound
if a number in it fell and no other field advanced. So a new file is no rewind. The position in the
file falls, but the file's name advances, for example from `binlog.000003` to `binlog.000004`. A
number at the end of a text is compared as a number. Any other changed value counts as advanced.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from controlplane.core.records import SourcePartition, Target
from controlplane.core.text.redaction import redacted_value
from controlplane.core.text.safe_text import count
from controlplane.core.text.value_text import json_line
from replay.audit.attribution import author
from replay.audit.bursts import Burst, Episodes
from replay.audit.context import AuditContext, at
from replay.audit.decoded_log import DecodedRecord, PreviousRecord
from replay.audit.trail.request_trail import TrailVerb
from replay.findings import Finding, FindingText, Severity

_NUMBERED = re.compile(r"(.*?)(\d{1,18})", re.ASCII | re.DOTALL)


class OffsetRewinds:
    """Rewinds and resets of a connector; close ones (`episode_ms`) make one finding."""

    concerns = (SourcePartition,)

    def __init__(self, about: AuditContext) -> None:
        self._about = about
        self._episodes: Episodes[tuple[str, str, bool]] = Episodes(about.thresholds.episode_ms)

    def see(self, decoded: DecodedRecord) -> Iterator[Finding]:
        """Report changes of a key within a partition; across partitions the order is undefined."""
        previous = decoded.previous
        if previous is None or previous.entry.partition != decoded.entry.partition:
            return
        kind = _kind(previous, decoded)
        if kind is not None:
            key = decoded.connector, kind, _at_rest(decoded)
            over = self._episodes.add(key, decoded)
            if over is not None:
                yield self._finding(key, over)

    def end(self) -> Iterator[Finding]:
        """Report episodes that last until the end of the log."""
        for key, burst in self._episodes.end():
            yield self._finding(key, burst)

    def _finding(self, key: tuple[str, str, bool], burst: Burst) -> Finding:
        connector, kind, at_rest = key
        severity = Severity.INFO if at_rest else Severity.WARNING
        by = author(self._about, burst.last, TrailVerb.OFFSETS)
        change = "reset" if kind == "offsets-reset" else "rewound"
        example = "" if kind == "offsets-reset" else f", {_example(burst.last)}"
        happened = (
            f"{count(burst.count, 'source offset')} of {connector} "
            f"{'was' if burst.count == 1 else 'were'} {change}{by} at {at(burst.last.time_ms)}"
            f"{example}"
        )
        explanation, advice = _EXPLANATIONS[kind, at_rest]
        words = FindingText(f"{happened}: {explanation}", advice)
        return self._about.finding(kind, severity, connector, burst.evidence, words)


def _kind(previous: PreviousRecord, decoded: DecodedRecord) -> str | None:
    if decoded.entry.value is None:
        return None if previous.entry.value is None else "offsets-reset"
    was, now = previous.offset, decoded.offset
    if not isinstance(was, Mapping) or not isinstance(now, Mapping):
        return None
    return "offsets-regressed" if goes_back(was, now) else None


def _example(decoded: DecodedRecord) -> str:
    assert decoded.previous is not None  # a rewind has a previous record
    shown = (decoded.record.partition, decoded.previous.offset, decoded.offset)
    partition, was, now = (json_line(redacted_value("", value)) for value in shown)
    return f"most recently that of {partition} from {was} to {now}"


_INTENDED = FindingText("the connector was stopped or absent, so this was most likely intended")

_EXPLANATIONS = {
    ("offsets-reset", True): _INTENDED,
    ("offsets-regressed", True): _INTENDED,
    ("offsets-reset", False): FindingText(
        "the connector was not stopped, so running tasks kept their offsets, and restarted tasks "
        "begin at the source's start",
        "Stop the connector (PUT /connectors/…/stop) and check its offsets. Always stop a "
        "connector before its offsets are reset.",
    ),
    ("offsets-regressed", False): FindingText(
        "the connector was not stopped, so the records in between are most likely read twice",
        "Search for another writer of this connector's offsets: a worker believed dead, a second "
        "cluster, a restored backup. Expect duplicates after this point.",
    ),
}
"""Explanation and advice, by the kind of finding and whether the connector was at rest."""


def _at_rest(decoded: DecodedRecord) -> bool:
    """True if the connector was stopped or absent, so that its offsets may be changed (KIP-875)."""
    name = decoded.connector
    return (
        name not in decoded.config.connectors or decoded.config.targets.get(name) is Target.STOPPED
    )


def goes_back(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """True if a field of an offset fell and none advanced."""
    if before.keys() != after.keys():
        return False
    fell = False
    for name, value in before.items():
        move = _move(value, after[name])
        if move > 0:
            return False
        fell = fell or move < 0
    return fell


def _move(before: Any, after: Any) -> int:
    """Direction of a change: -1 fell, 0 unchanged, 1 advanced or not comparable."""
    if type(before) is bool or type(after) is bool or before == after:
        return int(before != after)
    if isinstance(before, int | float) and isinstance(after, int | float):
        return 1 if after > before else -1
    if isinstance(before, str) and isinstance(after, str):
        was, now = _NUMBERED.fullmatch(before), _NUMBERED.fullmatch(after)
        if was and now and was[1] == now[1]:
            return 1 if int(now[2]) >= int(was[2]) else -1
    return 1
