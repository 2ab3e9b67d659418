"""The snapshot from which a fold can begin with a topic, if there is one."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from controlplane.core.entry import Batch
from controlplane.core.evolve import Fold, Part
from controlplane.core.evolve.freezing import Damaged, Thawing, kind_of
from controlplane.core.order import Ends
from controlplane.event_loop import sliced_parts
from controlplane.logs.log import LogCorrupt
from controlplane.logs.snapshots import Kept, Shelf, shelf_of

DIGEST_BYTES = 16


class About(msgspec.Struct, frozen=True, array_like=True):
    """What is told of a snapshot; each sequence by partition."""

    ends: Sequence[int]
    """It stands for the records before these offsets."""
    latest: Sequence[int]
    """The running maximum of their timestamps, in ms since 1970."""
    seen: Sequence[int]
    """The ends of the topic when it was made: behind its own, by what was too young then."""
    rows: int
    """How many rows the tables in it have."""
    digest: bytes
    """Of all pieces."""


_ABOUT = msgspec.msgpack.Decoder(About)


def digest_of(*pieces: bytes) -> blake2b:
    """The digest of pieces, to which further ones may be added."""
    return blake2b(b"".join(pieces), digest_size=DIGEST_BYTES)


def sealed(topic: str, kind: str, about: About) -> bytes:
    """What is told of a snapshot as bytes, behind a digest of them and of whose they are."""
    told = msgspec.msgpack.encode(about)
    return _seal(topic, kind, told) + told


def _unsealed(topic: str, kept: Kept) -> About | None:
    """What is told of a snapshot; None if that is damaged, or told of another one."""
    seal, told = kept.about[:DIGEST_BYTES], kept.about[DIGEST_BYTES:]
    return _ABOUT.decode(told) if seal == _seal(topic, kept.kind, told) else None


def _seal(topic: str, kind: str, told: bytes) -> bytes:
    return digest_of(msgspec.msgpack.encode((topic, kind)), told).digest()


class Found(NamedTuple):
    """What a fold can begin with, and where reading goes on."""

    part: Part
    about: About


Beginnings = Mapping[str, Found]
"""By topic."""


async def beginnings(log: object, fold: Fold, stop: Ends) -> dict[str, Found]:
    """For each topic the snapshot nearest to where it is read up to, where there is one.

    The fold is only asked how it reads.
    """
    shelf, found = shelf_of(log), {}
    if shelf is not None:
        for topic, ends in stop.items():
            nearest = await _nearest(shelf, fold, topic, ends)
            if nearest is not None:
                found[topic] = nearest
    return found


async def abouts(shelf: Shelf, topic: str, kind: str | None = None) -> list[tuple[int, About]]:
    """What is told of each snapshot of a topic (and kind), with its number, the newest first."""
    with suppress(LogCorrupt):
        every = ((one.number, _unsealed(topic, one)) for one in await shelf.kept(topic, kind))
        return [(number, about) for number, about in every if about is not None]
    return []


async def _nearest(shelf: Shelf, fold: Fold, topic: str, stop: Sequence[int]) -> Found | None:
    kind = kind_of(fold, topic)
    within = [
        (number, about)
        for number, about in await abouts(shelf, topic, kind)
        if all(end <= upto for end, upto in zip(about.ends, stop, strict=False))
    ]
    for number, about in sorted(within, key=lambda one: sum(one[1].ends), reverse=True):
        digest, thawing = digest_of(), Thawing(fold.topics, topic)
        with suppress(Damaged, LogCorrupt):
            async for piece in sliced_parts((one,) async for one in shelf.pieces(number)):
                digest.update(piece)
                thawing.add(piece)
            if digest.digest() == about.digest:
                return Found(thawing.part(), about)
    return None


def starts_of(begun: Beginnings) -> Ends:
    """Where reading goes on, by topic."""
    return {topic: found.about.ends for topic, found in begun.items()}


def overtakes(batch: Batch, begun: Beginnings) -> bool:
    """Whether a snapshot stands for records that come behind the first one of this batch.

    To be asked of the first batch of each partition: if none overtakes, no later one does. Ranks
    are as in `order.Placed`.
    """
    found = begun.get(batch.topic)
    if found is None:
        return False
    latest = dict(enumerate(found.about.latest))
    time_ms = max(batch.timestamps[0], latest.get(batch.partition, batch.timestamps[0]))
    return (time_ms, batch.partition) < max((ms, at) for at, ms in latest.items())
