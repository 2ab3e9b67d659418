r"""Notation of keys and values in a scenario: bytes as text on one line, and back.

Text stands for itself. There are three signs:

* `∅` alone is null: the value of a tombstone, or the key of a record without a key;
* `(empty)` alone is the empty text;
* `\xNN` is one byte. JSON has no escape of this form.

Characters that a terminal or an editor would hide are printed as `\xNN`. They are control and
format characters, bytes that are not UTF-8, and white space at the ends. A second space in a key is
printed as `\x20`, because two spaces end a key. Text that looks like one of the three signs is
escaped at its first character.
"""

import re

NULL = "∅"
EMPTY = "(empty)"

_BYTE = re.compile(rb"\\x([0-9A-Fa-f]{2})")
_SWALLOWED = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\udc80-\udcff]"
    r"|\\(?=x[0-9A-Fa-f]{2})|^\s|\s$"
)
_SECOND_SPACE = re.compile("(?<= ) ")


def bytes_of(text: str) -> bytes | None:
    """The bytes that a text stands for; None is null."""
    if text == NULL:
        return None
    if text == EMPTY:
        return b""
    return _BYTE.sub(lambda match: bytes.fromhex(match[1].decode()), text.encode())


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
    """The text that stands for a key: a second space in a row is escaped."""
    return _SECOND_SPACE.sub(_escape, text_of(raw))


def printable(text: str) -> str:
    """Text with escapes for characters that are invisible or break the line."""
    return _SWALLOWED.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    return _escaped(match[0])


def _escaped(char: str) -> str:
    return "".join(rf"\x{byte:02X}" for byte in char.encode("utf-8", "surrogateescape"))
