"""Fields that dumps written as JSON have in common: their bounds, and text as the bytes it was."""

import json
import re
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from controlplane.core.topic_names import PATTERN
from controlplane.logs.dumps.dump import Unreadable

PARTITIONS_MAX = 100_000
"""Kafka's own clusters end there; a slip in a file shall not make a log with billions of them."""

_LONG_MAX = 2**63 - 1

Topic = Annotated[str, Meta(pattern=PATTERN)]

Partition = Annotated[int, Meta(ge=0, lt=PARTITIONS_MAX)]
Offset = Annotated[int, Meta(ge=0, le=_LONG_MAX)]
Timestamp = Annotated[int, Meta(ge=-_LONG_MAX, le=_LONG_MAX)]
"""Milliseconds since 1970; -1: unknown."""

Shape = TypeVar("Shape")

_BROUGHT_IN = re.compile("[\udc80-\udcff]")
"""How Python notes a byte that is no UTF-8."""


def parse(line: bytes, shape: type[Shape], *, raw: bool = False) -> Shape:
    """A line of JSON as a struct. Its texts are turned into bytes by `to_bytes`.

    With `raw`, texts may hold bytes that are no UTF-8: some tools copy them into their JSON as
    they are, which no JSON parser accepts.

    Raises:
        Unreadable: it is no JSON, or not of this shape.
    """
    try:
        return msgspec.json.decode(line, type=shape)
    except UnicodeDecodeError as error:
        if not raw:
            raise Unreadable("is not UTF-8") from error
    except msgspec.DecodeError as error:
        raise Unreadable(f"is no such record ({error})") from error
    try:
        return msgspec.convert(_loads(line.decode("utf-8", "surrogateescape")), shape)
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        raise Unreadable(f"is no such record ({error})") from error


def _loads(text: str) -> Any:
    """Parse JSON; refuse half a surrogate pair, which could not be told from a raw byte."""
    content = json.loads(text)
    escaped = json.dumps(content, ensure_ascii=False)
    if len(_BROUGHT_IN.findall(escaped)) != len(_BROUGHT_IN.findall(text)):
        raise ValueError("half a surrogate pair")
    return content


def to_bytes(text: str | None) -> bytes | None:
    """The bytes that a text from `parse` stands for.

    Raises:
        Unreadable: it holds half a surrogate pair, which stands for no bytes.
    """
    if text is None:
        return None
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise Unreadable("holds half a surrogate pair, which stands for no bytes") from error
