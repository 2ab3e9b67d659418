"""A state as one number: equal for equal states, whoever folded them and in whatever order."""

from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

import msgspec

from controlplane.core.evolve.flat import flat
from controlplane.core.state import ClusterState


def digest(state: ClusterState) -> str:
    """The sha256 of what a state knows, raw bytes of offsets included; not of where from."""
    whole = sha256()
    for row in _rows(state):
        whole.update(len(row).to_bytes(8))
        whole.update(row)
    return whole.hexdigest()


def _rows(state: ClusterState) -> Iterator[bytes]:
    """Every row of every table in one order, each behind the name of its table."""
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
    """A row that is a table itself (tasks, active topics) in an order of its own."""
    return dict(sorted(row.items())) if isinstance(row, Mapping) else row


def _bytes(value: Any) -> bytes:
    return msgspec.msgpack.encode(flat(value))
