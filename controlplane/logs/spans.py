"""Spans of offsets that a read covers."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from controlplane.core.order import Ends
from controlplane.logs.log import LogNotUsable

V = TypeVar("V")


class OffsetSpan(NamedTuple):
    """Offsets `start` (included) to `stop` (excluded) of one partition."""

    topic: str
    partition: int
    start: int
    stop: int


def spans(
    topics: Iterable[str], ends: Ends, start: Ends | None = None, stop: Ends | None = None
) -> list[OffsetSpan]:
    """Return the non-empty spans of a read from `start` to `stop`, limited by the current `ends`.

    Raises `LogNotUsable` for a topic that `ends` lacks, and for more offsets than a topic has
    partitions.
    """
    ranges = []
    for topic in dict.fromkeys(topics):
        topic_ends = topic_in(ends, topic)
        first = _padded(topic, (start or {}).get(topic, ()), [0] * len(topic_ends))
        last = _padded(topic, (stop or {}).get(topic, ()), topic_ends)
        for partition, end in enumerate(topic_ends):
            lower, upper = max(0, first[partition]), min(last[partition], end)
            if lower < upper:
                ranges.append(OffsetSpan(topic, partition, lower, upper))
    return ranges


def topic_in(topics: Mapping[str, V], topic: str) -> V:
    """Return the item of a topic. Raises `LogNotUsable` for a missing topic."""
    try:
        return topics[topic]
    except KeyError:
        existing = ", ".join(sorted(topics)) or "none"
        message = f"There is no topic {topic!r} in this log (there are: {existing})"
        raise LogNotUsable(message) from None


def below_ends(topic: str, ends: Sequence[int], below: Sequence[int]) -> list[int]:
    """Limit the offsets in `below` to the ends; a missing offset becomes the end."""
    return [min(pair) for pair in zip(_padded(topic, below, ends), ends, strict=True)]


def trim_limits(topic: str, ends: Sequence[int], below: Sequence[int]) -> list[int]:
    """Limit the offsets in `below` to the ends; a missing offset becomes 0."""
    return [min(pair) for pair in zip(_padded(topic, below, [0] * len(ends)), ends, strict=True)]


def _padded(topic: str, offsets: Sequence[int], default: Sequence[int]) -> Sequence[int]:
    """Return the offsets; missing partitions at the end get the default.

    Raises `LogNotUsable` for more offsets than partitions.
    """
    if len(offsets) > len(default):
        message = f"Topic {topic!r} has {len(default)} partitions, but {len(offsets)} offsets"
        raise LogNotUsable(f"{message} were given for it")
    return [*offsets, *default[len(offsets) :]]
