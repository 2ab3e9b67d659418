"""Records of the offsets topics. Kafka: `OffsetUtils`, `OffsetStorageReaderImpl`.

The identity of an offset is its raw key. What the key *says* matters only to those who list the
partitions of a connector, so decoding is separate, and lazy.
"""

from collections.abc import Mapping
from typing import Any

from controlplane.core import javajson
from controlplane.core.profiles import Profile
from controlplane.core.records import Invalid, SourcePartition

Identity = tuple[str, tuple[Any, ...]]
"""A connector and one of its partitions, equal where Java's maps are equal."""


def decode_partition(key: bytes | None, profile: Profile) -> SourcePartition | Invalid:
    """Whose offset it is, for which source partition: `["<connector>",{...}]`."""
    if key is None:
        return Invalid("null key")
    try:
        content = javajson.decode(key, profile)
    except javajson.Undecodable as error:
        thrown = "DataException" if profile.offset_key_loses_batch else None
        return Invalid(f"undecodable key: {error}", thrown)
    except javajson.StackOverflow as error:
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
    """A source offset; None where there is none. Nested values are refused, as for a task."""
    if value is None:
        return None
    try:
        content = javajson.decode(value, profile)
    except (javajson.Undecodable, javajson.StackOverflow) as error:
        return Invalid(f"undecodable value: {error}")
    if content is None:
        return None
    if not isinstance(content, dict):
        return Invalid("value is not an object")
    if not is_flat(content):
        return Invalid("a field of the offset is not of a primitive type")
    return content


def is_flat(content: Mapping[str, Any]) -> bool:
    """Whether all fields are of primitive types, as in partitions and offsets that Connect writes.

    A worker looks for no offset of another partition, though it lists it
    (`OffsetUtils#validateFormat`).
    """
    return not any(isinstance(field, dict | list) for field in content.values())


def identity(subject: SourcePartition) -> Identity:
    """What Java compares: `1`, `1.0` and `true` differ, the order of fields does not count."""
    return subject.connector, frozen(subject.partition)


def frozen(value: Any) -> tuple[Any, ...]:
    """A hashable form of a JSON value that is equal where Java's objects are: kinds and values.

    It is flat (each object and list is followed by its parts) because keys may be nested so deeply
    that hashing or comparing a nested form would overflow the stack.
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
            flat += (type(item).__name__, str(item) if isinstance(item, float) else item)
    return tuple(flat)


def encode_partition(connector: str, partition: Mapping[str, Any] | None) -> bytes:
    """The key as a worker writes it of a partition that it has read: fields in HashMap order."""
    return javajson.encode_hash_order([connector, partition])


def encode_offset(
    connector: str, partition: Mapping[str, Any] | None, offset: Mapping[str, Any] | None
) -> tuple[bytes, bytes | None]:
    """Key and value as a task writes them, fields in the order given; None is a tombstone."""
    key = javajson.encode([connector, partition])
    return key, None if offset is None else javajson.encode(offset)
