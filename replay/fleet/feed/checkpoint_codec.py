"""Checkpoints as JSON in ASCII: names in a log may hold half surrogate pairs."""

import json
from typing import Any, TypeVar

import msgspec

StructT = TypeVar("StructT", bound=msgspec.Struct)


class NoCheckpoint(ValueError):
    """The content is no checkpoint, or one of another version."""


def encoded(checkpoint: msgspec.Struct) -> bytes:
    """Encode a checkpoint as JSON in ASCII."""
    return json.dumps(msgspec.to_builtins(checkpoint)).encode("ascii")


def decoded(content: bytes, kind: type[StructT]) -> StructT:
    """Decode a checkpoint.

    Raises: NoCheckpoint: the content is no checkpoint of this kind.
    """
    try:
        document: Any = json.loads(content)
        return msgspec.convert(document, kind)
    except (ValueError, RecursionError) as error:
        raise NoCheckpoint(str(error)) from None
