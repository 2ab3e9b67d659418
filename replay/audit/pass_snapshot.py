"""Snapshots of audit passes: all that a pass needs to go on with the next record.

A pass holds many kinds of records by many kinds of keys, so pickle stores it. Other users may be
able to write a snapshot. The unpickler therefore finds no functions. The only classes that it finds
are Python's containers in `_CONTAINERS`, and classes of the modules in `_PARTS`. A user who can
write a snapshot can change later findings, but cannot run code. Such a user can change the tables
of the change feed (`replay.fleet.feed`) anyway.
"""

import io
import pickle
from functools import cache
from importlib import import_module
from importlib.metadata import version
from types import MappingProxyType
from typing import Any

import msgspec

from controlplane.core.fold.snapshot_codec import DamagedSnapshot, SnapshotDecoder, freeze
from controlplane.core.state import Topics
from replay.audit.audit_pass import AuditPass, AuditSubject, PassState
from replay.audit.context import AuditContext

_CONTAINERS = ("builtins.dict", "builtins.set", "collections.Counter", "collections.deque")
_PARTS = (
    "controlplane.core.entry.",
    "controlplane.core.records.",
    "controlplane.core.state.",
    "replay.audit.",
)
"""Prefixes of the full names of the classes that a pass consists of, without containers."""


class UnusableSnapshot(ValueError):
    """A snapshot of another version, or a damaged one; the records must be read again."""


class FrozenPass(msgspec.Struct, frozen=True):
    """Content of a stored snapshot of a pass."""

    version: str
    """Version of `controlplane` that wrote it; others do not read it."""
    config: list[bytes]
    """Folded config topic (`snapshot_codec`)."""
    now_ms: int
    rest: bytes
    """Pickled `PassState`, greatest timestamps, and last records of the keys."""


_DECODER = msgspec.msgpack.Decoder(FrozenPass)


def frozen(running: AuditPass) -> bytes:
    """Freeze a pass.

    If values are nested too deeply for pickle, the result is empty: an unusable snapshot.
    """
    sink = io.BytesIO()
    log = running.log
    try:
        _Pickler(sink, pickle.HIGHEST_PROTOCOL).dump((running.state, log.latest_ms, log.last))
    except RecursionError:
        return b""
    return msgspec.msgpack.encode(
        FrozenPass(
            version("controlplane"),
            list(freeze(log.config)),
            running.about.clock.now_ms,
            sink.getvalue(),
        )
    )


def thawed(content: bytes, subject: AuditSubject) -> AuditPass:
    """Thaw a pass of the same subject.

    Raises:
        UnusableSnapshot: another version has written it, or it is damaged.
    """
    running = AuditPass(subject)
    try:
        stored = _DECODER.decode(content)
        if stored.version != version("controlplane"):
            raise UnusableSnapshot(f"version {stored.version} has written it")
        running.log.adopt(_config(stored.config, subject.topics))
        rest = _unpickled(stored.rest, running.about)
        state, running.log.latest_ms, running.log.last = rest
        running.state = PassState(*state)
    except (msgspec.MsgspecError, DamagedSnapshot, TypeError, ValueError) as error:
        raise UnusableSnapshot(str(error)) from None
    running.about.clock.now_ms = stored.now_ms
    return running


def _unpickled(rest: bytes, about: AuditContext) -> Any:
    try:
        return _Unpickler(io.BytesIO(rest), about).load()
    except Exception as error:  # noqa: BLE001 - damaged bytes may raise any error
        raise UnusableSnapshot(str(error)) from None


def _config(pieces: list[bytes], topics: Topics) -> Any:
    decoder = SnapshotDecoder(topics, topics.config)
    for piece in pieces:
        decoder.add(piece)
    return decoder.part()


class _Pickler(pickle.Pickler):
    """Pickles a pass. Leaves its context out, and stores immutable views of dicts as dicts."""

    def persistent_id(self, stored: Any) -> str | None:
        """Leave out the context: the thawed pass has its own."""
        return "context" if isinstance(stored, AuditContext) else None

    def reducer_override(self, stored: Any) -> Any:
        """Reduce an immutable view to a dict."""
        if isinstance(stored, MappingProxyType):
            return dict, (dict(stored),)
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    """Creates nothing but parts of a pass."""

    def __init__(self, source: io.BytesIO, about: AuditContext) -> None:
        super().__init__(source)
        self._about = about

    def persistent_load(self, _: Any) -> AuditContext:
        """Return the context of the thawed pass."""
        return self._about

    def find_class(self, module: str, name: str) -> Any:
        """Find a class that a pass may hold. Raises `UnpicklingError` for any other."""
        named = _class_named(module, name)
        if named is None:
            raise pickle.UnpicklingError(f"{module}.{name} is no part of an audit")
        return named


@cache
def _class_named(module: str, name: str) -> type | None:
    full = f"{module}.{name}"
    if full not in _CONTAINERS and not full.startswith(_PARTS):
        return None
    named = getattr(import_module(module), name, None)
    is_defined_there = isinstance(named, type) and named.__module__ == module
    return named if is_defined_there else None
