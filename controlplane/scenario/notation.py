r"""Bytes as text on one line, and back: how keys and values stand in a scenario.

Text is itself. Beyond that there are three signs, and none of them is needed often:

* `∅` alone is null: a tombstone as a value, no key as a key;
* `(empty)` alone is no bytes at all;
* `\xNN` is one byte. JSON knows no such escape, so nothing else has to be escaped.

What a terminal or an editor would swallow is printed as `\xNN`, too: control characters, bytes that
are not UTF-8, spaces at the ends, and in keys a second space, because two spaces end a key.
"""

import re

NULL = "∅"
EMPTY = "(empty)"

_BYTE = re.compile(rb"\\x([0-9A-Fa-f]{2})")
_SWALLOWED = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\udc80-\udcff]"
    r"|\\(?=x[0-9A-Fa-f]{2})|^ | $"
)
_SECOND_SPACE = re.compile("(?<= ) ")


def bytes_of(text: str) -> bytes | None:
    """The bytes that a text stands for; None is null."""
    if text == NULL:
        return None
    if text == EMPTY:
        return b""
    return _BYTE.sub(lambda found: bytes.fromhex(found[1].decode()), text.encode())


def text_of(raw: bytes | None) -> str:
    """The text that stands for these bytes, on one line."""
    if raw is None:
        return NULL
    if not raw:
        return EMPTY
    text = raw.decode("utf-8", "surrogateescape")
    if text in (NULL, EMPTY):
        return _escaped(text[0]) + text[1:]
    return printable(text)


def key_text_of(raw: bytes | None) -> str:
    """The same for a key: no two spaces stand side by side."""
    return _SECOND_SPACE.sub(_escape, text_of(raw))


def printable(text: str) -> str:
    """Text with everything that would not be seen, or break the line, escaped."""
    return _SWALLOWED.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    return _escaped(found[0])


def _escaped(char: str) -> str:
    return "".join(rf"\x{byte:02X}" for byte in char.encode("utf-8", "surrogateescape"))
