"""Secrets in a record's value, replaced where they stand; everything else stays byte for byte.

Releases differ in what JSON they read, and compatibility is about just that. So no value is written
anew: the token of a secret makes room for a string, and whoever could read the value still can,
whoever could not still cannot. The grammar is Jackson's (`core.jackson`) without any limits.

Where a value stops being JSON nobody can tell what is a secret. The remainder is replaced as a
whole, unless it is plain text that shows no trace of a secret (`unparsed_text`) and no secret came
before it. The same holds for the remainder behind the end of a value, which no release reads.

Left out: a secret of more than 20 million characters, and one in a name of more than 50,000 bytes:
the newest releases refuse these.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final

import msgspec

from controlplane.core import javajson, redact
from controlplane.core.jackson import NAME, SPACE, VALUE
from controlplane.core.jackson_text import (
    StringDecoder,
    Text,
    read_text,
    unread_bytes,
    write_text,
)
from controlplane.core.java import utf16_units
from controlplane.core.profiles import PROFILES, Profile
from controlplane.core.undecodable import Undecodable
from replay.capture import encoded_text, unparsed_text

Hide = Callable[[bytes], str]
"""A secret's bytes → the text in its place."""

Special = Mapping[str, Callable[[str], str]]
"""Members of the outermost object that are secrets by themselves: their text → the one in its
place."""

_BYTE_ORDER: Final = 4
"""Bytes by which Jackson knows an encoding."""

_is_secret = lru_cache(maxsize=4096)(redact.is_secret)


def without_secrets(value: bytes, hide: Hide, special: Special) -> bytes:
    """A value with every secret hidden; the same bytes where there is none."""
    if not special and _is_plain(value):
        return value
    try:
        text = read_text(value)
    except Undecodable:
        return value[:_BYTE_ORDER] + hide(value).encode()
    units = _Walk(value, text, hide, special).walked()
    return value if units == text.units else write_text(text._replace(units=units), value)


def without_secrets_in_header(name: str, value: bytes, hide: Hide) -> bytes:
    """The value of a header with every secret hidden.

    The name of the header judges it, as the key of a config does. A text that is no JSON is looked
    through for secrets: principals and ids of commands are such texts.
    """
    if redact.is_secret(name):
        return hide(value).encode()
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return without_secrets(value, hide, {})
    if "\0" in text or text.lstrip()[:1] in ("{", "[", '"', "\ufeff"):
        return without_secrets(value, hide, {})
    return _text_without(text, lambda part: hide(part.encode())).encode()


def _text_without(text: str, hide: Callable[[str], str]) -> str:
    """A text without the secrets in it, those in base64 and hex included."""
    return redact.text_without(encoded_text.without_secrets(text, hide), hide)


def _is_plain(value: bytes) -> bool:
    """Whether a value is JSON in UTF-8 without any trace of a secret."""
    try:
        _SYNTAX.decode(value)
        text = value.decode()
        return not (redact.may_hold_secrets(text) or encoded_text.may_hold_secrets(text))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


_SYNTAX: Final = msgspec.json.Decoder(msgspec.Raw)
"""Checks syntax and makes no values."""


@dataclass(slots=True)
class _Open:
    """An object or array whose end has not come yet."""

    closing: str
    secret: bool
    empty: bool = True


class _Walk:
    """One pass over one document, which stops where it stops being JSON for every release."""

    def __init__(self, value: bytes, text: Text, hide: Hide, special: Special) -> None:
        self._raw = value
        self._text = text
        self._units = text.units
        self._in_bytes = text.in_bytes
        self._hide = hide
        self._special = special
        self._names = StringDecoder(text.in_bytes, is_name=True, encoded_surrogates=True)
        self._strings = StringDecoder(text.in_bytes, is_name=False, encoded_surrogates=True)
        self._at = 0
        self._open: list[_Open] = []
        self._secret = False
        """Whether what comes next is, or stands within, the value of a secret."""
        self._met = bool(special)
        """Whether there may have been a secret."""
        self._number = (0, 0)
        """The place of the last number. What follows at once may be more of the same word."""
        self._pieces: list[str] = []
        self._copied = 0

    def walked(self) -> str:
        """The units of the document without secrets."""
        self._skip_space()
        goes_on = self._value("")
        while goes_on and self._open:
            goes_on = self._step(self._open[-1])
        self._skip_space()
        start = self._number[0] if self._number[1] == self._at else self._at
        start = max(start, self._copied)
        self._pieces += self._units[self._copied : start], self._rest(start)
        return "".join(self._pieces)

    def _step(self, container: _Open) -> bool:
        """Takes the next member of a container, or its end; False if neither stands there."""
        self._secret = container.secret
        self._skip_space()
        if self._units[self._at : self._at + 1] == container.closing:
            self._at += 1
            self._open.pop()
            return True
        if not container.empty and not self._comma():
            return False
        container.empty = False
        if container.closing == "]":
            return self._value("")
        name = self._name()
        if name is None:
            return False
        self._secret = container.secret or _is_secret(name)
        self._met |= self._secret
        return self._value(name)

    def _comma(self) -> bool:
        found = self._units[self._at : self._at + 1] == ","
        self._at += found
        self._skip_space()
        return found

    def _name(self) -> str | None:
        """The next name; a secret that is spelled out in it is replaced."""
        found = NAME.match(self._units, self._at)
        name = self._decoded(self._names, found[1]) if found else None
        if found is None or name is None:
            return None
        self._at = found.end()
        strict = self._names._replace(encoded_surrogates=False)
        halves = self._decoded(strict, found[1]) is None
        hidden = _text_without(name, lambda part: self._hidden_part(part, halves=halves))
        if hidden != name:
            self._put(_quoted(hidden, halves=halves), found.start(1) - 1, found.end(1) + 1)
        return name

    def _value(self, name: str) -> bool:
        found = VALUE.match(self._units, self._at)
        if not found:
            return False
        if found.lastgroup == "string":
            return self._string(found, name)
        self._at = found.end()
        if found.lastgroup == "number":
            self._number = found.span()
        if found.lastgroup == "open":
            self._open.append(_Open("]" if found[0] == "[" else "}", self._secret))
        elif self._secret and found[0] != "null":
            self._put(_of_number(found[0], self._hide), *found.span())
        return True

    def _string(self, found: re.Match[str], name: str) -> bool:
        body = found["string"]
        text = self._decoded(self._strings, body)
        if text is None:
            return False
        self._at = found.end()
        strict = self._strings._replace(encoded_surrogates=False)
        halves = self._decoded(strict, body) is None
        hidden = self._hidden(text, name, halves=halves)
        if hidden != text:
            self._put(_quoted(hidden, halves=halves), *found.span())
        return True

    def _hidden(self, text: str, name: str, *, halves: bool) -> str:
        """A text without the secrets in it.

        `halves` says that halves of pairs are encoded in it, which not every release reads: then
        one stays of those in a secret.
        """
        if self._special and len(self._open) == 1 and name in self._special:
            return text and self._special[name](text) + (_HALF if halves else "")
        without = redact.replaced if self._secret else _text_without
        return without(text, lambda part: self._hidden_part(part, halves=halves))

    def _hidden_part(self, part: str, *, halves: bool) -> str:
        return self._hide(_utf8(part)) + (_HALF if halves and _has_halves(part) else "")

    def _put(self, token: str, start: int, end: int) -> None:
        if self._in_bytes:
            token = _utf8(token).decode("latin-1")
        self._pieces += self._units[self._copied : start], token
        self._copied = end

    def _rest(self, start: int) -> str:
        """The remainder: as it is, or one unit that stops readers as before, and what hides it.

        No release reads a number with something else right behind it, so from `start` on the
        number belongs to the remainder.
        """
        rest = self._units[start:]
        unread = unread_bytes(self._text, self._raw)
        if self._at == len(self._units) and not unread:
            return rest
        # Only a document of bytes has a remainder of its own; else the whole record is sealed.
        raw = rest.encode("latin-1") + unread if self._in_bytes else self._raw
        if not self._met and unparsed_text.is_harmless(raw):
            return rest
        return _stopping(rest[:1]) + self._hide(raw)

    def _skip_space(self) -> None:
        found = SPACE.match(self._units, self._at)
        self._at = found.end() if found else self._at

    @staticmethod
    def _decoded(strings: StringDecoder, body: str) -> str | None:
        try:
            return strings.decode(body)
        except Undecodable:
            return None


def _stopping(unit: str) -> str:
    """A unit that stops each reader where this one does (empty: the end of a broken document).

    A zero at the beginning would change by which encoding the document is read. Half of a pair
    would be read differently without its other half.
    """
    if unit == "\0":
        return "!"
    return "x" if not unit or unit.isalnum() or _has_halves(unit) else unit


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


# --- tokens ----------------------------------------------------------------------------------

_HALF: Final = "\ud800"
_ESCAPE: Final = re.compile(r"\\(?:u(D[89A-F]..)|.)")


def _has_halves(text: str) -> bool:
    """Whether there is a half of a pair, or a whole one, which may be encoded as two halves."""
    return any(_HALF <= chr(unit) <= "\udfff" for unit in utf16_units(text))


def _quoted(text: str, *, halves: bool = False) -> str:
    """A string's token; with `halves`, halves of pairs are encoded, as they were, not escaped."""
    written = javajson.encode(text).decode()
    if not halves:
        return written
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else found[0], written)


def _of_number(token: str, hide: Hide) -> str:
    """What takes the place of a number, or of `true`.

    Of a number that some releases do not read that is one of a dozen, which the same do not read.
    """
    readers = _readers(token)
    if all(readers):
        return _quoted(hide(token.encode()))
    return _odd_numbers().get(readers, _UNREAD)


def _readers(token: str) -> tuple[bool, ...]:
    return tuple(_reads(token.encode(), profile) for profile in PROFILES)


def _reads(token: bytes, profile: Profile) -> bool:
    try:
        javajson.decode(token, profile)
    except Undecodable:
        return False
    return True


@cache
def _odd_numbers() -> Mapping[tuple[bool, ...], str]:
    """By who reads them, the shortest number of each sort."""
    tokens = sorted((a + b for a in _MANTISSAS for b in _TAILS), key=len, reverse=True)
    return {_readers(token): token for token in tokens}


_MANTISSAS: Final = ("0", "1", "00", "01")
_TAILS: Final = ("", "e2147483648", f".{'0' * 600}e2147483648", f"e{'9' * 1001}")
_UNREAD: Final = "00" + _TAILS[-1]
