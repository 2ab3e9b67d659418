"""Digest of a state: equal states have equal digests, however they were folded.

Each row of each table has a hash of 32 bytes; the digest is their sum modulo 2^256. So the digests
of parts that were folded in different processes add up to the digest of the whole state. A digest
serves comparisons. It is no protection against an attacker who constructs rows.
"""

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any

import msgspec

from controlplane.core.fold.flat_values import flat
from controlplane.core.state import ClusterState, OffsetState

BYTES = 32
"""Length of a digest."""

_BEGUN_HASHES = 4_096
"""Limit of hashes that are kept with their first bytes: some 2 MB."""

_ALL = (1 << 8 * BYTES) - 1


def digest(state: ClusterState) -> str:
    """Digest of a state's content, raw offsets included; positions of records are excluded."""
    return digest_text(sum_without_offsets(state) + offsets_sum(state.offsets))


def digest_text(total: int) -> str:
    """Digest of a whole state in hexadecimal digits, from the sum of its parts."""
    return (total & _ALL).to_bytes(BYTES).hex()


def sum_without_offsets(state: ClusterState) -> int:
    """Sum of the hashes of all rows except offsets."""
    total = 0
    for part in (state.config, state.status):
        for field in part.__struct_fields__:
            total += _table_sum(field, getattr(part, field))
    return total + _table_sum("commands", state.commands)


def offsets_sum(offsets: Mapping[str, OffsetState]) -> int:
    """Sum of the hashes of all rows of some offsets topics, or of some of their keys."""
    return sum(
        _values_sum(f"offsets of {topic}", part.values)
        + _table_sum(f"hidden in {topic}", part.hidden)
        for topic, part in offsets.items()
    )


def _values_sum(table: str, values: Mapping[bytes | None, bytes | None]) -> int:
    """Sum of the hashes of raw offsets: a million rows, so without a general encoder.

    Each hash begins with the lengths of the key and the value. Few pairs of lengths are frequent,
    and a copy of a begun hash takes less time than a new one.
    """
    named = _named(table)
    begun: dict[tuple[int, int], blake2b] = {}
    total = 0
    for key, value in values.items():
        lengths = -1 if key is None else len(key), -1 if value is None else len(value)
        head = begun.get(lengths)
        if head is None:
            head = named.copy()
            head.update(b"%d:%d:" % lengths)
            if len(begun) < _BEGUN_HASHES:
                begun[lengths] = head
        row = head.copy()
        row.update(key or b"")
        row.update(value or b"")
        total += int.from_bytes(row.digest())
    return total


def _table_sum(table: str, value: Any) -> int:
    named = _named(table)
    total = 0
    for content in _rows(value):
        row = named.copy()
        row.update(content)
        total += int.from_bytes(row.digest())
    return total


def _named(table: str) -> "blake2b":
    """Create a hash that begins with the name of a table."""
    name = table.encode("utf-8", "surrogatepass")
    return blake2b(len(name).to_bytes(4) + name, digest_size=BYTES)


def _rows(value: Any) -> Iterator[bytes]:
    """Rows of a table; a value that is no table is one row."""
    if isinstance(value, Mapping):
        yield from (_bytes([key, _ordered(row)]) for key, row in value.items())
    else:
        yield _bytes(value)


def _ordered(row: Any) -> Any:
    """A nested table (tasks, active topics) in a fixed order."""
    return dict(sorted(row.items())) if isinstance(row, Mapping) else row


def _bytes(value: Any) -> bytes:
    return msgspec.msgpack.encode(flat(value))
