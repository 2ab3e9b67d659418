"""What releases know of a topic in which every record may count, as a snapshot keeps it."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import pyarrow as pa

from controlplane.core.evolve import Fold, Part
from controlplane.core.evolve.freezing import Damaged, Thawing, freeze, kind_of
from controlplane.core.profiles import PROFILES, Profile, first_alike
from controlplane.core.state import Topics
from replay.archive.integrity import read_whole
from replay.archive.manifest import Stored
from replay.archive.store import Store
from replay.errors import ArchiveCorrupt


class Folded(msgspec.Struct, frozen=True):
    """Frozen parts, each once, and which reader has which of them."""

    parts: list[list[bytes]]
    kinds: dict[str, dict[str, int]]
    """By topic and kind (`freezing.kind_of`), the number of the part."""


_DECODER = msgspec.msgpack.Decoder(Folded)


class Known(NamedTuple):
    """What releases know of one topic, with or without aborted records."""

    exactly_once: bool
    parts: Mapping[Profile, Part]


def frozen(topics: Topics, known: Mapping[str, Sequence[Known]]) -> bytes:
    """What is known of each topic as bytes; parts that are one and the same come once."""
    numbers: dict[int, int] = {}
    pieces: list[list[bytes]] = []
    kinds: dict[str, dict[str, int]] = {}
    for topic, readers in known.items():
        for exactly_once, parts in readers:
            for profile, part in parts.items():
                if id(part) not in numbers:
                    numbers[id(part)] = len(pieces)
                    pieces.append(list(freeze(part)))
                kind = _kind(profile, topics, topic, exactly_once=exactly_once)
                kinds.setdefault(topic, {})[kind] = numbers[id(part)]
    return _packed(msgspec.msgpack.encode(Folded(pieces, kinds)))


def thawed(
    store: Store, stored: Stored, topics: Topics, profiles: Sequence[Profile], *, exactly_once: bool
) -> dict[str, dict[Profile, Part]]:
    """What these releases knew, by topic; a topic of which one of them is not there is left out.

    Raises:
        ArchiveCorrupt: the file is missing or altered.
    """
    content = read_whole(store, stored)
    try:
        folded = _DECODER.decode(_unpacked(content))
        found = {}
        for topic, kinds in folded.kinds.items():
            wanted = [_kind(one, topics, topic, exactly_once=exactly_once) for one in profiles]
            if all(kind in kinds for kind in wanted):
                numbers = [kinds[kind] for kind in wanted]
                parts = {one: _thaw(topics, topic, folded.parts[one]) for one in set(numbers)}
                found[topic] = {
                    profile: parts[number]
                    for profile, number in zip(profiles, numbers, strict=True)
                }
    except (msgspec.MsgspecError, Damaged, IndexError, OSError) as error:
        raise ArchiveCorrupt(f"{stored.file} holds no states ({error}): restore it") from None
    return found


def _packed(content: bytes) -> bytes:
    """A tenth of it, for releases know much the same."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as packing:
        packing.write(content)
    return bytes(sink.getvalue())


def _unpacked(content: bytes) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(content), "zstd") as unpacking:
        return bytes(unpacking.read())


def _thaw(topics: Topics, topic: str, pieces: Sequence[bytes]) -> Part:
    thawing = Thawing(topics, topic)
    for piece in pieces:
        thawing.add(piece)
    return thawing.part()


def _kind(profile: Profile, topics: Topics, topic: str, *, exactly_once: bool) -> str:
    fold = Fold(first_alike(profile), topics=topics, exactly_once=exactly_once)
    return kind_of(fold, topic)


READERS = {False: PROFILES, True: tuple(one for one in PROFILES if one.exactly_once_support)}
"""Who may read a log, without and with exactly-once support."""
