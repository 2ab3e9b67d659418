"""Serialises a topic's snapshot, so that start-up need not read the folded records again.

Bytes come in pieces of at most `PIECE_ROWS` rows. So neither the writer nor the reader holds all
bytes at once. The state is restored exactly, including arbitrary bytes from foreign writers.

A decoded snapshot must equal what folding would give. So `kind_of` names everything that affects
the fold. This is the release's way of folding, the records that it sees, and the version of our
fold.
"""

import zlib
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Any, get_type_hints

import msgspec

from controlplane.core.fold import Fold
from controlplane.core.fold.flat_values import flat, unflat
from controlplane.core.fold.topic_state import CommandState, TopicSnapshot, TopicState
from controlplane.core.state import ConfigState, OffsetState, StatusState, Topics

FOLD_VERSION = 4
"""Version of the fold. Raise it whenever the same records fold to another state, or a state encodes
to other bytes. Older snapshots are then ignored, and the log is read instead. A test enforces this
for the recorded clusters."""

PIECE_ROWS = 128
"""Maximum rows of a piece; 128 MiB with the largest records that Kafka accepts by default."""


class DamagedSnapshot(ValueError):
    """The bytes are no snapshot that this project wrote. The message gives the cause."""


_STATES: Mapping[str, type[TopicState]] = {
    "config": ConfigState,
    "status": StatusState,
    "offsets": OffsetState,
    "commands": CommandState,
}
_OWN_OFFSETS = "offsets of connectors"


def _role(topics: Topics, topic: str) -> str:
    """Role of a topic in the fold; any but the four holds offsets of connectors."""
    return {getattr(topics, role): role for role in _STATES}.get(topic, _OWN_OFFSETS)


def kind_of(fold: Fold, topic: str) -> str:
    """Text that is equal only for folds that read the topic to the same state."""
    profile_crc = zlib.crc32(msgspec.json.encode(fold.profile))
    visible = "all" if fold.sees_aborted(topic) else "committed"
    traced = ", traced" if fold.trace else ""
    release = f"{fold.profile.release} ({profile_crc:08x})"
    return f"{_role(fold.topics, topic)} by fold {FOLD_VERSION} as {release}, {visible}{traced}"


class _TableChunk(msgspec.Struct, array_like=True):
    """Some rows of a table, or the value of a field that is no table.

    `flat`: the content was flattened (`flat_values`), because MessagePack cannot hold it.
    """

    field: str
    flat: bool
    content: msgspec.Raw


_ENCODER = msgspec.msgpack.Encoder()
_PIECES = msgspec.msgpack.Decoder(_TableChunk)


def _content_types(record: type[msgspec.Struct]) -> dict[str, Any]:
    """Type of the content of a piece, by field; rows of a table are (key, value) pairs."""
    hints = get_type_hints(record)
    return {
        field: _content_type(hints[field]) for field in record.__struct_fields__ if field != "state"
    }


def _content_type(hint: Any) -> Any:
    if getattr(hint, "__origin__", None) is not Mapping:
        return hint
    key, value = hint.__args__
    return list[tuple[key, value]]  # type: ignore[valid-type]


_CONTENT_TYPES = {record: _content_types(record) for record in (TopicSnapshot, *_STATES.values())}


def freeze(part: TopicSnapshot) -> Iterator[bytes]:
    """Encode a snapshot as pieces. An empty table has none, and is decoded to its default."""
    for record in (part.state, part):
        for field in _CONTENT_TYPES[type(record)]:
            value = getattr(record, field)
            if not isinstance(value, Mapping):
                yield _piece(field, value)
                continue
            rows = iter(value.items())
            while piece_rows := list(islice(rows, PIECE_ROWS)):
                yield _piece(field, piece_rows)


def _piece(field: str, content: Any) -> bytes:
    try:
        return _ENCODER.encode((field, False, content))
    except (UnicodeEncodeError, OverflowError, RecursionError):
        return _ENCODER.encode((field, True, flat(content)))


class SnapshotDecoder:
    """Rebuilds a snapshot: `add` all of its pieces, then call `part`."""

    def __init__(self, topics: Topics, topic: str) -> None:
        self._state = _STATES.get(_role(topics, topic), OffsetState)
        self._content_types = _CONTENT_TYPES[self._state] | _CONTENT_TYPES[TopicSnapshot]
        self._fields: dict[str, Any] = {}

    def add(self, piece: bytes) -> None:
        """Add one piece.

        Raises:
            DamagedSnapshot: the bytes are no piece of such a snapshot.
        """
        try:
            field, is_flat, raw = msgspec.structs.astuple(_PIECES.decode(piece))
            expected = self._content_types[field]
            if is_flat:
                content = msgspec.convert(unflat(msgspec.msgpack.decode(raw)), expected)
            else:
                content = _decoder(expected).decode(raw)
            if isinstance(content, list):
                self._fields.setdefault(field, {}).update(content)
            else:
                self._fields[field] = content
        except (msgspec.MsgspecError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise DamagedSnapshot(f"a piece of the snapshot cannot be decoded: {error}") from error

    def part(self) -> TopicSnapshot:
        """Build the snapshot of the topic from the pieces that were added."""
        state, positions = (
            {name: self._fields[name] for name in _CONTENT_TYPES[record] if name in self._fields}
            for record in (self._state, TopicSnapshot)
        )
        return TopicSnapshot(self._state(**state), **positions)


@cache
def _decoder(expected: Any) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(expected)
