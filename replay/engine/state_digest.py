"""Digest of a state: equal states have equal digests, however they were folded."""

from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

import msgspec

from controlplane.core.fold.flat_values import flat
from controlplane.core.state import ClusterState


def digest(state: ClusterState) -> str:
    """Sha256 of a state's content, raw offsets included; positions of records are excluded."""
    whole = sha256()
    for row in _rows(state):
        whole.update(len(row).to_bytes(8))
        whole.update(row)
    return whole.hexdigest()


def _rows(state: ClusterState) -> Iterator[bytes]:
    """Rows of all tables in a fixed order, each preceded by the name of its table."""
    for part in (state.config, state.status):
        for field in part.__struct_fields__:
            yield from _table(field, getattr(part, field))
    for topic in sorted(state.offsets):
        yield from _table(f"offsets of {topic}", state.offsets[topic].values)
        yield from _table(f"hidden in {topic}", state.offsets[topic].hidden)
    yield from _table("commands", state.commands)


def _table(name: str, value: Any) -> Iterator[bytes]:
    yield name.encode("utf-8", "surrogatepass")
    if isinstance(value, Mapping):
        yield from sorted(_bytes([key, _ordered(row)]) for key, row in value.items())
    else:
        yield _bytes(value)


def _ordered(row: Any) -> Any:
    """A nested table (tasks, active topics) in a fixed order."""
    return dict(sorted(row.items())) if isinstance(row, Mapping) else row


def _bytes(value: Any) -> bytes:
    return msgspec.msgpack.encode(flat(value))
