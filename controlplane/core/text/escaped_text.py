r"""Unescapes text: JSON in strings, percent-encoding, character references.

Escapes can disguise a secret: `{\"password\":\"…\"}` in a string, `password%3D…` in a URL.
`escape_levels` removes one level of escapes at a time. Each level maps its characters to positions
in the original text, so that a match can be replaced there.
"""

import re
from bisect import bisect_right
from collections.abc import Callable
from html.entities import html5
from typing import Final, NamedTuple

MAX_LEVELS: Final = 6
"""Maximum levels to remove. Each level of JSON in JSON doubles the backslashes, so few occur."""

_SHORT: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_NAMED: Final = {
    name.removesuffix(";"): character
    for name, character in html5.items()
    if name.endswith(";") and character.isascii()
}
"""Character references of HTML that stand for ASCII; those of XML are among them."""

_ESCAPE: Final = re.compile(
    r"\\(?:u+(?P<unit>[0-9A-Fa-f]{4})|x(?P<byte>[0-9A-Fa-f]{2})|(?P<short>[^ux]))"
    r"|%(?:25)*(?P<percent>[0-9A-Fa-f]{2})"
    r"|&(?:amp;)*(?:#0*(?P<decimal>[0-9]{1,7});?|#[xX]0*(?P<hex>[0-9A-Fa-f]{1,6});?"
    rf"|(?P<name>{'|'.join(_NAMED)});)",
    re.DOTALL,
)
"""One escape; the name of its group selects the decoder. An escape character that is itself escaped
again and again (`%2525…`, `&amp;amp;…`) counts as one level."""
_ZERO: Final = re.compile(r"(?P<zero>\x00)")
"""A zero byte. ASCII in UTF-16, read as bytes, has one per character.

Zeros may split other escapes, so removing them is a level of its own."""

_LAST_CODE: Final = 0x10FFFF


class EscapeLevel(NamedTuple):
    """A text without its outer levels of escapes, and a map of positions to the original text."""

    text: str
    ends: list[int]
    """Positions just after each former escape, ascending."""
    original_ends: list[int]
    """Positions of these `ends` in the text of the next outer level."""
    above: "EscapeLevel | None"
    """The next outer level; None: the original text."""

    def original(self, position: int) -> int:
        """Map a position in `text` to the original text."""
        before = bisect_right(self.ends, position) - 1
        if before >= 0:
            position += self.original_ends[before] - self.ends[before]
        return self.above.original(position) if self.above else position


def has_escapes(text: str) -> bool:
    """True if a text has escapes, which may disguise a secret, its name, or what separates them."""
    if "\0" in text:
        return True
    # Most texts have none of these three characters. Testing for them is faster than the search.
    may_have = "\\" in text or "%" in text or "&" in text
    return may_have and _ESCAPE.search(text) is not None


def escape_levels(text: str) -> list[EscapeLevel]:
    """The text without one level of escapes, without two, and so on; empty if it has none."""
    levels: list[EscapeLevel] = []
    while len(levels) < MAX_LEVELS and has_escapes(text):
        levels.append(_next_level(text, levels[-1] if levels else None))
        text = levels[-1].text
    return levels


def _next_level(text: str, above: EscapeLevel | None) -> EscapeLevel:
    """Remove one level of escapes from the text of the level `above`."""
    pieces: list[str] = []
    ends: list[int] = []
    original_ends: list[int] = []
    copied = length = 0
    escape = _ZERO if "\0" in text else _ESCAPE
    for match in escape.finditer(text):
        kind = str(match.lastgroup)
        character = _DECODERS[kind](match[kind])
        pieces += text[copied : match.start()], character
        length += match.start() - copied + len(character)
        copied = match.end()
        ends.append(length)
        original_ends.append(copied)
    return EscapeLevel("".join(pieces) + text[copied:], ends, original_ends, above)


def _character(code: int) -> str:
    return chr(code) if code <= _LAST_CODE else "\ufffd"


_DECODERS: Final[dict[str, Callable[[str], str]]] = {
    "unit": lambda digits: chr(int(digits, 16)),
    "byte": lambda digits: chr(int(digits, 16)),
    "percent": lambda digits: chr(int(digits, 16)),
    "short": lambda letter: _SHORT.get(letter, letter),
    "decimal": lambda digits: _character(int(digits)),
    "hex": lambda digits: _character(int(digits, 16)),
    "name": lambda name: _NAMED[name],
    "zero": lambda _zero: "",
}
"""Decoders of escapes, by the name of their group."""
