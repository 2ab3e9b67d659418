"""The characters of a body: where one is, and what Jackson says of one that must not be there."""

import re
import unicodedata
from typing import Final, NoReturn

from controlplane.core.jackson_text import StringDecoder, read_text
from controlplane.core.java import is_identifier_part
from controlplane.core.profiles import Profile
from controlplane.core.undecodable import Undecodable
from controlplane.rest.bodies.faults import Fault, place

NAME_MAX: Final = 50_000
STRING_MAX: Final = 20_000_000
"""StreamReadConstraints of Jackson: bytes of a name, characters of a string."""

_WORD_SHOWN: Final = 256
"""Characters of a word that is no token, as they are repeated."""

_MARK: Final = b"\xef\xbb\xbf"
"""The byte order mark of UTF-8; columns count it."""

_STRING = re.compile(
    r'"([^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})[^"\\\x00-\x1f]*+)*+)"'
)
_SPACE = re.compile(r"[ \t\r\n]*+")
_BEGINS_WORDS = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Sc", "Pc"})
_LEADS: Final = ((0b110, 2), (0b1110, 3), (0b11110, 4))
"""The first bits of a UTF-8 sequence of so many bytes."""

TOKENS: Final = "(JSON String, Number, Array, Object or token 'null', 'true' or 'false')"


class Scanner:
    """A place in a body that moves forward. Whatever is wrong is raised as `Fault`."""

    def __init__(self, body: bytes, profile: Profile, source: str) -> None:
        mark = _MARK if body.startswith(_MARK) else b""
        try:
            text = read_text(body)
        except Undecodable as error:
            raise Fault(str(error), None, syntax=True) from None
        self.units = mark.decode("latin-1") + text.units
        self.profile = profile
        self.source = source
        self.at = len(mark)
        self._in_bytes = text.in_bytes
        self.ends = 0
        """How often the end has been met by what need not end there."""
        surrogates = profile.json_encoded_surrogates
        self._strings = StringDecoder(text.in_bytes, False, surrogates)
        self._names = StringDecoder(text.in_bytes, True, surrogates)

    @property
    def unit(self) -> str:
        """The next unit; empty at the end."""
        return self.units[self.at : self.at + 1]

    def skip_space(self) -> bool:
        """Skip white space; whether anything follows."""
        found = _SPACE.match(self.units, self.at)
        self.at = found.end() if found else self.at
        unit = self.unit
        if unit and unit < " ":
            text = rf"Illegal character ({described(unit)}): only regular white space (\r, \n, \t)"
            self.fail(f"{text} is allowed between tokens", behind=True)
        if unit == "/":
            self.unexpected(
                "maybe a (non-standard) comment? (not recognized as one since Feature "
                "'ALLOW_COMMENTS' not enabled for parser)"
            )
        return bool(unit)

    # --- words --------------------------------------------------------------------------------

    def word(self, word: str, known: int = 0) -> None:
        """Read a word, whole and no more, of which some units have been read."""
        for length in range(known, len(word)):
            if self.unit != word[length]:
                self.ends += not self.unit
                self.no_token(word[:length])
            self.at += 1
        unit = self.unit
        if unit >= "0" and unit not in "]}" and is_identifier_part(self._decoded_unit()):
            self.no_token(word)

    def begins_word(self) -> bool:
        """Whether the next unit could begin a word (`Character.isJavaIdentifierStart`)."""
        return unicodedata.category(self.unit) in _BEGINS_WORDS

    def no_token(self, begun: str) -> NoReturn:
        """Complain of a word that is none of JSON's; what has been read of it is `begun`."""
        word, start = begun, self.at - len(begun)
        while self.unit and len(word) < _WORD_SHOWN:
            unit = self._decoded_unit()
            if not is_identifier_part(unit):
                break
            self.at += self._size_of_unit()
            word += unit
        shown = word if len(word) < _WORD_SHOWN else f"{word}..."
        # In bytes, the unit behind the word has been read as well.
        behind = bool(self.unit) and self._in_bytes and len(word) < _WORD_SHOWN
        if self.profile.rest_body_word_placed_before:
            self.at, behind = start, False
        self.fail(f"Unrecognized token '{shown}': was expecting {TOKENS}", behind=behind)

    def _size_of_unit(self) -> int:
        return self._sequence(self.at) - self.at if self._is_lead() else 1

    def _decoded_unit(self) -> str:
        if not self._is_lead():
            return self.unit
        lead, *rest = map(ord, self.units[self.at : self._sequence(self.at)])
        code_point = lead & (0x7F >> len(rest) + 1)
        for unit in rest:
            code_point = code_point << 6 | unit & 0x3F
        return chr(code_point & 0xFFFF)  # Jackson casts it to a `char`

    def _is_lead(self) -> bool:
        return self._in_bytes and self.unit >= "\x80"

    # --- strings ------------------------------------------------------------------------------

    def string(self, at: int) -> str:
        """The characters of a string whose quote stands at `at`; goes behind it."""
        found = _STRING.match(self.units, at)
        if found is None:
            self._broken(at, "string value")
        try:
            text = self._strings.decode(found[1])
        except Undecodable:
            self._broken(at, "string value")
        self.at = found.end()
        if len(text) > STRING_MAX and self.profile.json_limits:
            self.limit("String value length", len(text), STRING_MAX, "StringLength")
        return text

    def name(self) -> str:
        """The characters of a name, whose quote comes next."""
        at = self.at
        found = _STRING.match(self.units, at)
        if found is None:
            self._broken(at, "name")
        size = self._names.size(found[1])
        if size > NAME_MAX and self.profile.json_limits:
            self.limit("Name length", size, NAME_MAX, "NameLength")
        try:
            text = self._names.decode(found[1])
        except Undecodable:
            self._broken(at, "name", found.end())
        self.at = found.end()
        return text

    def _broken(self, at: int, what: str, end: int | None = None) -> NoReturn:
        """Find what is wrong with a string, unit by unit.

        A name is decoded when its end has been found, and that is where it is said to be broken.
        """
        at += 1
        while at < len(self.units):
            self.at = at
            unit = self.units[at]
            if unit == "\\":
                at = self._escape()
            elif unit < " ":
                text = f"Illegal unquoted character ({described(unit)})"
                hint = f"has to be escaped using backslash to be included in {what}"
                self.fail_at_unit(f"{text}: {hint}")
            elif self._is_lead() and (what != "name" or end is not None):
                at = self._sequence(at, end)
            else:
                at += 1
        self.at = at
        where = "in field name" if what == "name" else "in VALUE_STRING"
        self.fail(f"Unexpected end-of-input {where}")

    def _escape(self) -> int:
        """Where an escape ends that begins here."""
        self.at += 1
        unit = self.unit
        if unit == "u":
            for _ in range(4):
                self.at += 1
                self._check_escape()
                if self.unit not in "0123456789abcdefABCDEF":
                    self.unexpected("expected a hex-digit for character escape sequence")
            return self.at + 1
        self._check_escape()
        if unit not in '"\\/bfnrt':
            self.fail_at_unit(f"Unrecognized character escape {described(unit)}")
        return self.at + 1

    def _check_escape(self) -> None:
        if not self.unit:
            self.fail("Unexpected end-of-input in character escape sequence")

    def _sequence(self, at: int, end: int | None = None) -> int:
        """Where a UTF-8 sequence ends that begins at `at`. `end`: where it would be complained."""
        lead = ord(self.units[at])
        length = next((size for top, size in _LEADS if lead >> (7 - size) == top), 0)
        if not length:
            self._bad_byte(f"start byte 0x{lead:x}", at, end)
        for middle in range(at + 1, at + length):
            unit = self.units[middle : middle + 1]
            if not unit:
                self.at = middle
                self.fail("Unexpected end-of-input in VALUE_STRING")
            if ord(unit) & 0xC0 != 0x80:
                self._bad_byte(f"middle byte 0x{ord(unit):x}", middle, end)
        return at + length

    def _bad_byte(self, what: str, at: int, end: int | None) -> NoReturn:
        self.at = at if end is None else end
        self.fail(f"Invalid UTF-8 {what}", behind=end is None)

    # --- complaints ---------------------------------------------------------------------------

    def unexpected(self, comment: str) -> NoReturn:
        """The next unit must not stand there."""
        self.fail_at_unit(f"Unexpected character ({described(self.unit)}): {comment}")

    def fail_at_unit(self, text: str) -> NoReturn:
        """The next unit is wrong; Jackson points behind it, or lately at it."""
        self.fail(text, behind=not self.profile.rest_body_error_placed_before)

    def fail(self, text: str, *, behind: bool = False) -> NoReturn:
        """The JSON is broken here, or right behind the next unit."""
        fault = Fault(text, self.at, behind=behind, syntax=True)
        if self.profile.jackson.counts_end_again and not self.unit:
            fault.ends = self.ends + 1
        raise fault

    def limit(self, what: str, size: int, most: int, name: str) -> NoReturn:
        """Something is larger than Jackson reads; it does not say where."""
        ground = f"from `StreamReadConstraints.getMax{name}()`"
        text = f"{what} ({size}) exceeds the maximum allowed ({most}, {ground})"
        raise Fault(text, None, syntax=True)

    def shown(self, at: int) -> str:
        """A place as it stands within a message."""
        line, column = place(self.units, at)
        return f"[Source: {self.source}; line: {line}, column: {column}]"


def described(unit: str) -> str:
    """A character as Jackson describes it."""
    code = ord(unit)
    if code < 0x20 or 0x7F <= code < 0xA0:
        return f"(CTRL-CHAR, code {code})"
    return f"'{unit}' (code {code})" if code <= 0xFF else f"'{unit}' (code {code} / 0x{code:x})"
