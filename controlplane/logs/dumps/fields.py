"""Fields of dumps in JSON: bounds of numbers, and conversion of text to the original bytes."""

import json
import re
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from controlplane.core.topic_names import PATTERN
from controlplane.logs.dumps.dump import DumpLineError

PARTITIONS_MAX = 100_000
"""Upper bound of partition numbers, above any Kafka cluster's: an error in a file must not create
billions of partitions."""

_LONG_MAX = 2**63 - 1

TopicField = Annotated[str, Meta(pattern=PATTERN)]

PartitionField = Annotated[int, Meta(ge=0, lt=PARTITIONS_MAX)]
OffsetField = Annotated[int, Meta(ge=0, le=_LONG_MAX)]
TimestampField = Annotated[int, Meta(ge=-_LONG_MAX, le=_LONG_MAX)]
"""Milliseconds since 1970; -1: unknown."""

T = TypeVar("T")

_RAW_BYTES = re.compile("[\udc80-\udcff]")
"""Surrogates that represent bytes that are not UTF-8 (`surrogateescape`)."""


def parse(line: bytes, shape: type[T], *, raw: bool = False) -> T:
    """Parse a line of JSON as a struct. The caller converts its texts with `to_bytes`.

    With `raw`, texts may contain bytes that are not UTF-8. Some tools copy such bytes into their
    JSON unchanged, which no JSON parser accepts.

    Raises:
        DumpLineError: the line is no JSON, or does not have this shape.
    """
    try:
        return msgspec.json.decode(line, type=shape)
    except UnicodeDecodeError as error:
        if not raw:
            raise DumpLineError("is not UTF-8") from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise DumpLineError(f"is no record of this format ({error})") from error
    try:
        return msgspec.convert(_loads(line.decode("utf-8", "surrogateescape")), shape)
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        raise DumpLineError(f"is no record of this format ({error})") from error


def _loads(text: str) -> Any:
    """Parse JSON; raise `ValueError` for an escaped surrogate that would look like a raw byte."""
    content = json.loads(text)
    escaped = json.dumps(content, ensure_ascii=False)
    if len(_RAW_BYTES.findall(escaped)) != len(_RAW_BYTES.findall(text)):
        raise ValueError("half a surrogate pair")
    return content


def to_bytes(text: str | None) -> bytes | None:
    """Return the original bytes of a text from `parse`.

    Raises:
        DumpLineError: the text holds half a surrogate pair, which represents no bytes.
    """
    if text is None:
        return None
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise DumpLineError("holds half a surrogate pair, which represents no bytes") from error
