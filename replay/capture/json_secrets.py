"""Replacement of secrets in a JSON value; all other bytes stay unchanged.

Releases differ in the JSON that they accept, and compatibility depends on it. Values are therefore
never re-encoded: only the token of a secret is replaced. Exactly the releases that could read the
value before can still read it. The grammar is Jackson's (`core.java.jackson_tokens`), without its
limits.

The remainder of a value begins where the value stops being valid JSON. Secrets in it cannot be
located, so it is replaced as a whole. It stays only if it is plain text without a trace of a
secret, and no secret came before it. The same holds for text after a complete value, which no
release reads.

Exception to the rule about releases: the newest ones may read a value that they refused before.
They refuse a string of more than 20 million characters, and a name of more than 50,000 bytes.
Without the secret in it, the string or name may be short enough.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final

import msgspec

from controlplane.core.java import json_codec
from controlplane.core.java.jackson_text import (
    DocumentText,
    StringDecoder,
    read_text,
    unread_bytes,
    write_text,
)
from controlplane.core.java.jackson_tokens import NAME, SPACE, VALUE
from controlplane.core.java.java_library import utf16_units
from controlplane.core.java.json_errors import Undecodable
from controlplane.core.releases.profiles import PROFILES, Profile
from controlplane.core.text import redaction
from replay.capture import encoded_text

SecretMask = Callable[[bytes], str]
"""Maps the bytes of a secret to the replacing text."""

FieldRules = Mapping[str, Callable[[str], str]]
"""Members of the outermost object that are always secret, with functions from old to new text."""

_BYTE_ORDER: Final = 4
"""Number of bytes at the beginning by which Jackson detects the encoding."""

_is_secret = lru_cache(maxsize=4096)(redaction.is_secret)


def without_secrets(value: bytes, hide: SecretMask, special: FieldRules) -> bytes:
    """Hide every secret of a value; without secrets the bytes are unchanged."""
    if not special and _is_plain(value):
        return value
    try:
        text = read_text(value)
    except Undecodable:
        return value[:_BYTE_ORDER] + hide(value).encode()
    units = _JsonScan(value, text, hide, special).walked()
    return value if units == text.units else write_text(text._replace(units=units), value)


def without_secrets_in_header(name: str, value: bytes, hide: SecretMask) -> bytes:
    """Hide every secret of a header's value.

    The header's name is judged like the key of a config. Text that is no JSON, such as principals
    and command ids, is searched for secrets.
    """
    if redaction.is_secret(name):
        return hide(value).encode()
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return without_secrets(value, hide, {})
    if "\0" in text or text.lstrip()[:1] in ("{", "[", '"', "\ufeff"):
        return without_secrets(value, hide, {})
    return _text_without(text, lambda part: hide(part.encode())).encode()


def _text_without(text: str, hide: Callable[[str], str]) -> str:
    """Hide secrets in a text, including those in base64 and hex."""
    return redaction.text_without(encoded_text.without_secrets(text, hide), hide)


def _is_plain(value: bytes) -> bool:
    """True if a value is JSON in UTF-8 without a trace of a secret."""
    try:
        _SYNTAX.decode(value)
        text = value.decode()
        return not (redaction.may_hold_secrets(text) or encoded_text.may_hold_secrets(text))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


_SYNTAX: Final = msgspec.json.Decoder(msgspec.Raw)
"""Checks syntax without decoding values."""


@dataclass(slots=True)
class _OpenContainer:
    """An object or array that is still open."""

    closing: str
    secret: bool
    empty: bool = True


class _JsonScan:
    """Single pass over a document, up to the first place that no release reads as JSON."""

    def __init__(
        self, value: bytes, text: DocumentText, hide: SecretMask, special: FieldRules
    ) -> None:
        self._raw = value
        self._text = text
        self._units = text.units
        self._in_bytes = text.in_bytes
        self._hide = hide
        self._special = special
        self._names = StringDecoder(text.in_bytes, is_name=True, encoded_surrogates=True)
        self._strings = StringDecoder(text.in_bytes, is_name=False, encoded_surrogates=True)
        self._at = 0
        self._open: list[_OpenContainer] = []
        self._secret = False
        """True while inside the value of a secret."""
        self._met = bool(special)
        """True if a secret may have occurred."""
        self._number = (0, 0)
        """Span of the last number.

        If the text stops being valid directly after a number, the number belongs to the remainder
        (`_rest`).
        """
        self._pieces: list[str] = []
        self._copied = 0

    def walked(self) -> str:
        """The document without secrets, in the units of `DocumentText`: bytes or UTF-16."""
        self._skip_space()
        goes_on = self._value("")
        while goes_on and self._open:
            goes_on = self._step(self._open[-1])
        self._skip_space()
        start = self._number[0] if self._number[1] == self._at else self._at
        start = max(start, self._copied)
        self._pieces += self._units[self._copied : start], self._rest(start)
        return "".join(self._pieces)

    def _step(self, container: _OpenContainer) -> bool:
        """Process the next member of a container, or its end; False if neither follows."""
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
        is_comma = self._units[self._at : self._at + 1] == ","
        self._at += is_comma
        self._skip_space()
        return is_comma

    def _name(self) -> str | None:
        """Process the next name; a secret within it is replaced."""
        match = NAME.match(self._units, self._at)
        name = self._decoded(self._names, match[1]) if match else None
        if match is None or name is None:
            return None
        self._at = match.end()
        # `strict` refuses surrogate halves, which `self._names` accepts (see `_hidden`).
        strict = self._names._replace(encoded_surrogates=False)
        halves = self._decoded(strict, match[1]) is None
        hidden = _text_without(name, lambda part: self._hidden_part(part, halves=halves))
        if hidden != name:
            self._put(_quoted(hidden, halves=halves), match.start(1) - 1, match.end(1) + 1)
        return name

    def _value(self, name: str) -> bool:
        match = VALUE.match(self._units, self._at)
        if not match:
            return False
        if match.lastgroup == "string":
            return self._string(match, name)
        self._at = match.end()
        if match.lastgroup == "number":
            self._number = match.span()
        if match.lastgroup == "open":
            self._open.append(_OpenContainer("]" if match[0] == "[" else "}", self._secret))
        elif self._secret and match[0] != "null":
            self._put(_of_number(match[0], self._hide), *match.span())
        return True

    def _string(self, match: re.Match[str], name: str) -> bool:
        body = match["string"]
        text = self._decoded(self._strings, body)
        if text is None:
            return False
        self._at = match.end()
        # `strict` refuses encoded surrogate halves, which `self._strings` accepts (see `_hidden`).
        strict = self._strings._replace(encoded_surrogates=False)
        halves = self._decoded(strict, body) is None
        hidden = self._hidden(text, name, halves=halves)
        if hidden != text:
            self._put(_quoted(hidden, halves=halves), *match.span())
        return True

    def _hidden(self, text: str, name: str, *, halves: bool) -> str:
        """Hide the secrets of a text.

        `halves` means that the text encodes surrogate halves, which not every release reads. If a
        secret contains halves, its replacement ends with a half (`_HALF`). So only the releases
        that read the secret also read the replacement.
        """
        if self._special and len(self._open) == 1 and name in self._special:
            return text and self._special[name](text) + (_HALF if halves else "")
        without = redaction.replaced if self._secret else _text_without
        return without(text, lambda part: self._hidden_part(part, halves=halves))

    def _hidden_part(self, part: str, *, halves: bool) -> str:
        return self._hide(_utf8(part)) + (_HALF if halves and _has_halves(part) else "")

    def _put(self, token: str, start: int, end: int) -> None:
        if self._in_bytes:
            token = _utf8(token).decode("latin-1")
        self._pieces += self._units[self._copied : start], token
        self._copied = end

    def _rest(self, start: int) -> str:
        """Return the remainder, which begins at `start`; it is hidden unless it is harmless.

        If other text directly follows a number, no release reads the number either. So the number
        belongs to the remainder.

        The method puts one unit (a byte or a UTF-16 unit) before the hidden text. Each release's
        parser stops at this unit, as it stopped at the first unit of the remainder (`_stopping`).
        """
        remainder = self._units[start:]
        unread = unread_bytes(self._text, self._raw)
        if self._at == len(self._units) and not unread:
            return remainder
        # The bytes of the remainder are known only if the units are bytes. Otherwise the bytes of
        # the whole record are hidden.
        raw = remainder.encode("latin-1") + unread if self._in_bytes else self._raw
        if not self._met and is_harmless(raw):
            return remainder
        return _stopping(remainder[:1]) + self._hide(raw)

    def _skip_space(self) -> None:
        match = SPACE.match(self._units, self._at)
        self._at = match.end() if match else self._at

    @staticmethod
    def _decoded(strings: StringDecoder, body: str) -> str | None:
        try:
            return strings.decode(body)
        except Undecodable:
            return None


def _stopping(unit: str) -> str:
    """Unit at which each release's parser stops, as it stops at `unit`.

    `unit` is empty if only unreadable bytes are left. A zero at the beginning would change the
    detected encoding. A surrogate half would be read differently without its other half.
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
    """True if the text has surrogates, which may be encoded as two halves."""
    return any(_HALF <= chr(unit) <= "\udfff" for unit in utf16_units(text))


def _quoted(text: str, *, halves: bool = False) -> str:
    r"""Token of a string. By default, surrogate halves are written as escapes, such as `\uD800`.

    With `halves`, each half is written as itself: 3 bytes in UTF-8, or one UTF-16 unit.
    """
    written = json_codec.encode(text).decode()
    if not halves:
        return written
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else match[0], written)


def _of_number(token: str, hide: SecretMask) -> str:
    """Replacement for a number, `true` or `false`.

    Releases that do not read the number do not read its replacement either.
    """
    readers = _readers(token)
    if all(readers):
        return _quoted(hide(token.encode()))
    return _odd_numbers().get(readers, _UNREAD)


def _readers(token: str) -> tuple[bool, ...]:
    return tuple(_reads(token.encode(), profile) for profile in PROFILES)


def _reads(token: bytes, profile: Profile) -> bool:
    try:
        json_codec.decode(token, profile)
    except Undecodable:
        return False
    return True


@cache
def _odd_numbers() -> Mapping[tuple[bool, ...], str]:
    """Map each set of releases to the shortest number that exactly these releases read.

    A set is a tuple of flags, one for each of `PROFILES` (`_readers`).
    """
    tokens = sorted((a + b for a in _MANTISSAS for b in _TAILS), key=len, reverse=True)
    return {_readers(token): token for token in tokens}


_MANTISSAS: Final = ("0", "1", "00", "01")
_TAILS: Final = ("", "e2147483648", f".{'0' * 600}e2147483648", f"e{'9' * 1001}")
_UNREAD: Final = "00" + _TAILS[-1]

# --- remainders that are no JSON ------------------------------------------------------------

_SHORTEST: Final = 2
"""Length in bytes below which text holds no secret."""

_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufeff\ufffe\uffff]")


def is_harmless(raw: bytes) -> bool:
    """True if a piece of a record that is no JSON can be archived unchanged.

    No release reads such text, so secrets in it cannot be located. It is harmless only as plain
    UTF-8 without a trace of a secret. Such a trace is a secret word, an escape, or an encoded text
    with such a word. UTF-16, compressed and other binary values are never harmless.
    """
    if len(raw) < _SHORTEST:
        return True
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return False
    if _CONTROLS.search(text) or redaction.may_hold_secrets(text):
        return False
    return not encoded_text.may_hold_secrets(text)
