"""Codec of the offsets topics. Kafka: `OffsetUtils`, `OffsetStorageReaderImpl`.

The identity of an offset is its raw key. The decoded key is needed only to list the partitions of a
connector, so decoding is separate and lazy.
"""

from collections.abc import Mapping
from typing import Any

from controlplane.core.java import json_codec
from controlplane.core.records import Invalid, SourcePartition
from controlplane.core.releases.profiles import Profile

PartitionIdentity = tuple[str, tuple[Any, ...]]
"""A connector and one of its source partitions, equal under Java's equality."""


def decode_partition(key: bytes | None, profile: Profile) -> SourcePartition | Invalid:
    """Decode the key of an offset, `["<connector>",{...}]` (`OffsetUtils#processPartitionKey`)."""
    if key is None:
        return Invalid("null key")
    try:
        content = json_codec.decode(key, profile)
    except json_codec.Undecodable as error:
        thrown = "DataException" if profile.offset_key_loses_batch else None
        return Invalid(f"undecodable key: {error}", thrown)
    except json_codec.StackOverflow as error:
        return Invalid(str(error), "StackOverflowError")
    if not isinstance(content, list) or len(content) != 2:
        return Invalid("key is not a pair")
    connector, partition = content
    if not isinstance(connector, str):
        return Invalid("connector name is not a string")
    if not isinstance(partition, dict):
        silent = partition is None and not profile.offset_null_partition_warns
        return Invalid("partition is not an object", silent=silent)
    return SourcePartition(connector, partition)


def decode_offset(value: bytes | None, profile: Profile) -> Mapping[str, Any] | Invalid | None:
    """Decode a source offset; None: no offset.

    A nested value makes the offset invalid: a worker gives no task such an offset.
    """
    if value is None:
        return None
    try:
        content = json_codec.decode(value, profile)
    except (json_codec.Undecodable, json_codec.StackOverflow) as error:
        return Invalid(f"undecodable value: {error}")
    if content is None:
        return None
    if not isinstance(content, dict):
        return Invalid("value is not an object")
    if not is_flat(content):
        return Invalid("a field of the offset is not of a primitive type")
    return content


def is_flat(content: Mapping[str, Any]) -> bool:
    """True if no field is an object or a list. Connect itself writes no such field.

    A worker lists a partition that has such a field, but never looks up its offset
    (`OffsetUtils#validateFormat`).
    """
    for field in content.values():  # noqa: SIM110 - `all` would take twice as long
        if isinstance(field, _CONTAINERS):
            return False
    return True


_CONTAINERS = (dict, list)


def identity(subject: SourcePartition) -> PartitionIdentity:
    """Identity of a partition in Java: `1`, `1.0` and `true` differ, field order does not count."""
    return subject.connector, frozen(subject.partition)


def frozen(value: Any) -> tuple[Any, ...]:
    """Hashable form of a JSON value; two forms are equal exactly if Java's objects are.

    The form is flat, each container before its members. Keys may be nested so deeply that hashing
    or comparing a nested form would overflow the stack.
    """
    flat: list[Any] = []
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            names = sorted(item)
            flat += ("dict", len(names), *names)
            waiting += [item[name] for name in names]
        elif isinstance(item, list):
            flat += ("list", len(item))
            waiting += item
        else:
            # As text, -0.0 is not 0.0; Java's Double#equals agrees.
            # The type tells 1, 1.0 and true apart, which Python calls equal.
            flat += (type(item).__name__, str(item) if isinstance(item, float) else item)
    return tuple(flat)


def plain_fields(form: tuple[Any, ...]) -> dict[str, Any] | None:
    """Fields of a frozen map (`frozen`), sorted by name; None: no map, or one with containers."""
    if form[0] != "dict":
        return None
    size: int = form[1]
    names, members = form[2 : 2 + size], form[2 + size :]
    types = members[::2]
    if len(members) != 2 * size or "dict" in types or "list" in types:
        return None
    values = reversed(members[1::2])  # `frozen` visits the last field first
    return dict(zip(names, values, strict=True))


def encode_partition(connector: str, partition: Mapping[str, Any] | None) -> bytes:
    """Encode the key of a partition as a worker writes a decoded key: fields in HashMap order."""
    return json_codec.encode_hash_order([connector, partition])
