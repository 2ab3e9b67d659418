"""Vectors of end offsets given by a caller, fitted to a log.

A vector taken from a cluster seldom fits a dump of that cluster exactly. The ends of the vector
count transaction markers, which a dump lacks. The vector has an end for each partition, while a
dump shows only partitions with records. An unambiguous vector is accepted, with a notice per
deviation; others are refused.
"""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from controlplane.core.moments import UnknownMoment, check_offset
from controlplane.core.order import Ends
from controlplane.core.text.safe_text import count


class FittedEnds(NamedTuple):
    """An end for each partition of a log, and notices for the caller."""

    ends: Ends
    notices: tuple[str, ...] = ()


def fitted(vector: Ends, ends: Ends, config_topic: str) -> FittedEnds:
    """Fit a vector to a log with these ends.

    Topics and partitions that the vector does not name get the end 0.

    Raises:
        UnknownMoment: the vector lacks the end of the config topic, or has an impossible offset, or
            an end in a missing partition.
    """
    if config_topic not in vector:
        raise UnknownMoment(
            f"the vector lacks {config_topic}, the topic that names the connectors: "
            "add its end offset"
        )
    for topic, offsets in vector.items():
        _check(topic, offsets, len(ends[topic]))
    cut = {topic: padded(vector.get(topic, ()), topic_ends) for topic, topic_ends in ends.items()}
    notices = (
        notice
        for topic, topic_ends in ends.items()
        for notice in _notices(topic, vector, topic_ends)
    )
    return FittedEnds(cut, tuple(notices))


def padded(cut: Sequence[int], ends: Sequence[int]) -> list[int]:
    """Return one offset per partition: that of `cut`, limited to the end; 0 if `cut` has none."""
    return [min(at, end) for at, end in zip_longest(cut, ends, fillvalue=0)][: len(ends)]


def _check(topic: str, offsets: Sequence[int], partitions: int) -> None:
    if any(at < 0 for at in offsets):
        raise UnknownMoment(
            f"the vector has a negative end of {topic} ({[*offsets]}): give offsets from 0 on"
        )
    for at in offsets:
        check_offset(at)
    if any(offsets[partitions:]):
        raise UnknownMoment(
            f"the vector has {len(offsets)} ends of {topic}, which has "
            f"{count(partitions, 'partition')}: "
            "give one end per partition"
        )


def _notices(topic: str, vector: Ends, ends: Sequence[int]) -> Iterator[str]:
    offsets = vector.get(topic)
    if offsets is None:
        if any(ends):
            yield f"the vector does not name {topic}: that topic is not read"
        return
    if any(ends[len(offsets) :]):
        counted = f"{len(offsets)} of {len(ends)} partitions of {topic}"
        yield f"the vector names {counted}: the others are not read"
    for partition, (at, end) in enumerate(zip(offsets, ends, strict=False)):
        if at > end:
            partition_name = f"{topic} partition {partition}" if len(ends) > 1 else topic
            yield f"{partition_name} ends at {end}: it is read to its end, not to {at}"
