"""Search for the record that explains why a recorded and a folded answer differ.

Each part of an answer comes from records with certain keys. A config comes from `connector-c`, the
tasks from the commit that made them visible, a status from status records. The last such record
that the worker had read is the likeliest cause.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from controlplane.core.codec.offsets import decode_partition
from controlplane.core.entry import Entry, Position
from controlplane.core.order import before, in_order
from controlplane.core.records import SourcePartition
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import Topics
from controlplane.rest.endpoints.pure_requests import endpoint_parts
from controlplane.scenario.json_equality import equal_json, unshared
from controlplane.scenario.story import AnswerDifference, RecordedAnswer, StoryStep

CONFIG = rb"connector-%(name)s"
TASKS = rb"(commit|connector)-%(name)s"
STATUS = rb"status-connector-%(name)s"
TASK_STATUSES = rb"status-(task-%(name)s-\d+|connector-%(name)s)"
ACTIVE_TOPICS = rb"status-topic-.*:connector-%(name)s"
"""Patterns of the keys of records that determine a part of an answer."""


class Suspects(NamedTuple):
    """Patterns of the keys that the cause may have, likeliest first."""

    name: str
    patterns: tuple[bytes, ...]


class Evidence:
    """Records of a log, with the end offsets at each step of a story."""

    def __init__(
        self, topics: Topics, known: Mapping[Position, Entry], steps: Iterable[StoryStep]
    ) -> None:
        self.topics = topics
        self._by_position = known
        self._entries = in_order(known.values())
        self._ends = {step.n: step.positions for step in steps}

    def cause(self, difference: AnswerDifference) -> Entry | None:
        """The last record that affects the differing part; None: there is none."""
        read = list(before(self._entries, self._ends.get(difference.step, {})))
        if endpoint_parts(difference.path).rest == ("offsets",):
            entry = self._last_offset(read, difference)
        else:
            entry = self._last(read, suspects(difference))
        if entry is None and difference.cause is not None:
            return self._by_position.get(difference.cause)
        return entry

    def _last(self, read: Sequence[Entry], suspected: Suspects) -> Entry | None:
        """Last record of `read` with a suspected key; a likelier key wins over a later record."""
        raw = re.escape(suspected.name.encode("utf-8", "surrogatepass"))
        for pattern in suspected.patterns:
            keys = re.compile(pattern % {b"name": raw}, re.DOTALL)
            topic = self.topics.status if pattern.startswith(b"status") else self.topics.config
            for entry in reversed(read):
                if entry.topic == topic and entry.key is not None and keys.fullmatch(entry.key):
                    return entry
        return None

    def _last_offset(self, read: Sequence[Entry], difference: AnswerDifference) -> Entry | None:
        """The last record of the first source partition that differs between the answers."""
        differing = unshared(listed_offsets(difference.recorded), listed_offsets(difference.folded))
        profile = Profile.of(difference.release)
        for entry in reversed(read):
            if differing and entry.topic not in (self.topics.config, self.topics.status):
                subject = decode_partition(entry.key, profile)
                if isinstance(subject, SourcePartition) and (
                    subject.connector == endpoint_parts(difference.path).connector
                    and equal_json(subject.partition, differing[0].get("partition"))
                ):
                    return entry
        return None


def suspects(difference: AnswerDifference) -> Suspects:
    """Patterns of the keys whose records may explain a difference."""
    recorded, folded = difference.recorded.answer, difference.folded.answer
    connector, rest = endpoint_parts(difference.path)
    if connector is not None:
        return Suspects(connector, tuple(_patterns(rest, recorded, folded)))
    name = next(iter(_differing(recorded, folded)), "")
    recorded_part, folded_part = _member(recorded, name), _member(folded, name)
    patterns: list[bytes] = []
    for part in _differing(recorded_part, folded_part):
        rest = ("status",) if part == "status" else ()
        patterns += _patterns(rest, _member(recorded_part, part), _member(folded_part, part))
    return Suspects(name, (*patterns, CONFIG))


def _patterns(rest: tuple[str, ...], recorded: Any, folded: Any) -> Iterator[bytes]:
    """Patterns by endpoint; the parts that differ come first.

    `rest`: segments of the path after the connector.
    """
    last = rest[-1] if rest else ""
    if last == "status" and len(rest) > 1:
        yield rb"status-task-%(name)s-" + re.escape(rest[1].encode())
    elif last in ("", "status"):
        parts = _differing(recorded, folded)
        yield from (_PARTS[last][part] for part in parts if part in _PARTS[last])
    yield _WHOLE.get(last, CONFIG)


_PARTS = {
    "": {"config": CONFIG, "tasks": TASKS},
    "status": {"connector": STATUS, "tasks": TASK_STATUSES, "type": CONFIG},
}
_WHOLE = {
    "tasks": TASKS,
    "tasks-config": TASKS,
    "status": TASK_STATUSES,
    "topics": ACTIVE_TOPICS,
}


def _differing(value: Any, other: Any) -> list[str]:
    """Names that only one of two listings has, or whose values differ."""
    if isinstance(value, dict) and isinstance(other, dict):
        return [name for name in sorted({**value, **other}) if not _agree(value, other, name)]
    if isinstance(value, list) and isinstance(other, list):
        return [name for name in unshared(value, other) if isinstance(name, str)]
    return []


def _agree(values: Mapping[str, Any], other: Mapping[str, Any], name: str) -> bool:
    return name in values and name in other and equal_json(values[name], other[name])


def _member(listing: Any, name: str) -> Any:
    return listing.get(name) if isinstance(listing, dict) else None


def listed_offsets(recorded: RecordedAnswer) -> list[dict[str, Any]]:
    """Elements of an offsets answer, in the form of the releases or of KIP-875's draft."""
    listed = recorded.answer.get("offsets") if isinstance(recorded.answer, dict) else None
    if isinstance(listed, dict):
        listed = listed.get("source")
    return [element for element in listed or [] if isinstance(element, dict)]
