"""Safe text: foreign text made printable and bounded, counts, and lists of names.

Names in a log may come from anyone. Control characters, terminal sequences and marks that change
the direction of text become escapes.
"""

import json
import re
from collections.abc import Sequence

ELLIPSIS = "…"

LONG_CHARACTERS = 400
"""Length beyond which a text is cut for display, such as a stack trace or a config."""

NAMED = 8
"""Greatest number of names in a sentence, so that it stays readable; further ones are counted."""

_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)


def safe(text: str) -> str:
    """A text on one line, with escapes for characters that would control the terminal."""
    return _UNSAFE.sub(lambda match: _escape(match.group()), text)


def _escape(character: str) -> str:
    return json.dumps(character)[1:-1] if character < "\x7f" else f"\\u{ord(character):04x}"


def bytes_text(raw: bytes) -> str:
    """Decode UTF-8; any other byte becomes an escape of its hexadecimal digits."""
    return raw.decode("utf-8", "backslashreplace")


def utf8_text(text: str) -> str:
    """A text that UTF-8 can hold: half surrogate pairs, which a log may hold, become escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


def short(text: str, characters: int = LONG_CHARACTERS) -> str:
    """A safe text of at most `characters` characters; a cut one ends with `…`."""
    return cut(safe(text), characters)


def cut(line: str, characters: int = LONG_CHARACTERS) -> str:
    """The first characters of a safe text; a cut one ends with `…`."""
    return line if len(line) <= characters else line[: characters - 1] + ELLIPSIS


def count(number: int, what: str) -> str:
    """A number with its noun: `1 record`, `2 records`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def names_text(names: Sequence[str]) -> str:
    """List names: `a, b and c`. After `NAMED` names, the others are counted: `… and 3 more`."""
    if len(names) == 1:
        return names[0]
    unlisted = len(names) - NAMED
    first, last = (names[:NAMED], f"{unlisted} more") if unlisted > 0 else (names[:-1], names[-1])
    return f"{', '.join(first)} and {last}"
