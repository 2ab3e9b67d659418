"""Frozen (encoded) states of topics in which every record may count, as snapshots store them."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import pyarrow as pa

from controlplane.core.fold import Fold, TopicSnapshot
from controlplane.core.fold.snapshot_codec import DamagedSnapshot, SnapshotDecoder, freeze, kind_of
from controlplane.core.releases.profiles import PROFILES, Profile, first_alike
from controlplane.core.state import Topics
from replay.archive.integrity import damaged, read_whole
from replay.archive.manifest import StoredFile
from replay.archive.stores.store import ArchiveStore


class FrozenTopics(msgspec.Struct, frozen=True):
    """Distinct frozen states, and the state of each kind of reader."""

    parts: list[list[bytes]]
    kinds: dict[str, dict[str, int]]
    """Index of the state, by topic and kind (`snapshot_codec.kind_of`)."""


_DECODER = msgspec.msgpack.Decoder(FrozenTopics)


class TopicStates(NamedTuple):
    """States of some releases for one topic, with or without exactly-once support."""

    exactly_once: bool
    parts: Mapping[Profile, TopicSnapshot]


def frozen(topics: Topics, known: Mapping[str, Sequence[TopicStates]]) -> bytes:
    """Freeze the states of topics; a state object that several releases share is stored once."""
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
    return _packed(msgspec.msgpack.encode(FrozenTopics(pieces, kinds)))


def thawed(
    store: ArchiveStore,
    stored: StoredFile,
    topics: Topics,
    profiles: Sequence[Profile],
    *,
    exactly_once: bool,
) -> dict[str, dict[Profile, TopicSnapshot]]:
    """Thaw the states of these releases, by topic.

    A topic is left out if the state of one of the releases is missing.

    Raises:
        ArchiveCorrupt: the file is missing or altered.
    """
    content = read_whole(store, stored)
    try:
        folded = _DECODER.decode(_unpacked(content))
        states = {}
        for topic, kinds in folded.kinds.items():
            reader_kinds = [
                _kind(profile, topics, topic, exactly_once=exactly_once) for profile in profiles
            ]
            if all(kind in kinds for kind in reader_kinds):
                numbers = [kinds[kind] for kind in reader_kinds]
                parts = {
                    number: _thaw(topics, topic, folded.parts[number]) for number in set(numbers)
                }
                states[topic] = {
                    profile: parts[number]
                    for profile, number in zip(profiles, numbers, strict=True)
                }
    except (msgspec.MsgspecError, DamagedSnapshot, IndexError, OSError) as error:
        raise damaged(stored.file, f"holds no states ({error})") from None
    return states


def _packed(content: bytes) -> bytes:
    """Compress; the states of releases are similar, so a tenth remains."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as packing:
        packing.write(content)
    return bytes(sink.getvalue())


def _unpacked(content: bytes) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(content), "zstd") as unpacking:
        return bytes(unpacking.read())


def _thaw(topics: Topics, topic: str, pieces: Sequence[bytes]) -> TopicSnapshot:
    thawing = SnapshotDecoder(topics, topic)
    for piece in pieces:
        thawing.add(piece)
    return thawing.part()


def _kind(profile: Profile, topics: Topics, topic: str, *, exactly_once: bool) -> str:
    fold = Fold(first_alike(profile), topics=topics, exactly_once=exactly_once)
    return kind_of(fold, topic)


Readers = Mapping[bool, Sequence[Profile]]
"""Releases that read a log, without (False) and with (True) exactly-once support."""

READERS: Readers = {
    False: PROFILES,
    True: tuple(release for release in PROFILES if release.exactly_once_support),
}
"""All releases that can read a log."""
