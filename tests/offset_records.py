"""Source offsets in the form that a connector's task writes."""

from collections.abc import Mapping
from typing import Any

from controlplane.core.java import json_codec


def encode_offset(
    connector: str, partition: Mapping[str, Any] | None, offset: Mapping[str, Any] | None
) -> tuple[bytes, bytes | None]:
    """Encode key and value, fields in the given order; None is a tombstone."""
    key = json_codec.encode([connector, partition])
    return key, None if offset is None else json_codec.encode(offset)
