"""Which record explains why a recorded answer and the folded one differ."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from controlplane.core.entry import Entry, Position
from controlplane.core.state import Topics
from controlplane.scenario.story import Difference, Step

_LISTING = "/connectors"


class Evidence:
    """The records of a log, and up to where they had been written at each step of a story."""

    def __init__(
        self, topics: Topics, known: Mapping[Position, Entry], steps: Iterable[Step]
    ) -> None:
        self.topics = topics
        self._known = known
        self._ends = {step.n: step.positions for step in steps}

    def cause(self, difference: Difference) -> Entry | None:
        """The last record with a say in an answer; None: no record has any.

        A listing of all connectors differs because of single ones: then a record of the first of
        these is meant.
        """
        path, _, _ = difference.path.partition("?")
        if path == _LISTING:
            recorded, folded = difference.recorded.answer, difference.folded.answer
            for topic, key in self._suspects(recorded, folded):
                found = self._last(topic, key, self._ends.get(difference.step, {}))
                if found is not None:
                    return found
        return None if difference.cause is None else self._known.get(difference.cause)

    def _suspects(self, recorded: Any, folded: Any) -> Iterable[tuple[str, bytes]]:
        """Topic and key of records that may make a listing differ, the likeliest first."""
        for name in _differing(recorded, folded):
            raw = name.encode("utf-8", "surrogatepass")
            parts = _differing(_part(recorded, name), _part(folded, name))
            if parts == ["status"]:
                yield self.topics.status, b"status-connector-" + raw
                yield self.topics.status, b"status-task-" + raw + b"-0"
            elif parts == ["info"]:
                yield self.topics.config, b"commit-" + raw
            yield self.topics.config, b"connector-" + raw

    def _last(self, topic: str, key: bytes, ends: Mapping[str, Sequence[int]]) -> Entry | None:
        seen = [
            entry
            for entry in self._known.values()
            if (entry.topic, entry.key) == (topic, key)
            and entry.partition < len(ends.get(topic, ()))
            and entry.offset < ends[topic][entry.partition]
        ]
        return max(seen, key=lambda entry: entry.offset, default=None)


def _differing(one: Any, other: Any) -> list[str]:
    """Names that only one of two listings has, or that each says something else about."""
    if isinstance(one, dict) and isinstance(other, dict):
        return [name for name in sorted({**one, **other}) if one.get(name) != other.get(name)]
    if isinstance(one, list) and isinstance(other, list):
        return [str(name) for name in one + other if (name in one) is not (name in other)]
    return []


def _part(listing: Any, name: str) -> Any:
    return listing.get(name) if isinstance(listing, dict) else None
