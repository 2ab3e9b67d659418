"""Scanner of a body's characters, with Jackson's faults for invalid ones."""

import unicodedata
from typing import Final, NoReturn

from controlplane.core.java.jackson import MAX_NAME_BYTES, MAX_STRING_UNITS, SPACE, STRING
from controlplane.core.java.jackson_text import StringDecoder, read_text
from controlplane.core.java.java_library import is_identifier_part
from controlplane.core.java.json_errors import Undecodable
from controlplane.core.releases.profiles import Profile
from controlplane.rest.bodies.body_errors import Fault, place

_WORD_SHOWN: Final = 256
"""Maximum characters of an unknown word that a message repeats."""

_MARK: Final = b"\xef\xbb\xbf"
"""The byte order mark of UTF-8; columns count it."""

_BEGINS_WORDS = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Sc", "Pc"})
_LEADS: Final = ((0b110, 2), (0b1110, 3), (0b11110, 4))
"""Leading bits of a UTF-8 sequence, with its length in bytes."""

TOKENS: Final = "(JSON String, Number, Array, Object or token 'null', 'true' or 'false')"


class Scanner:
    """Cursor that moves forward through a body. Every error is raised as `Fault`."""

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
        """Number of times that the end was met inside an element."""
        surrogates = profile.json_encoded_surrogates
        self._strings = StringDecoder(text.in_bytes, False, surrogates)
        self._names = StringDecoder(text.in_bytes, True, surrogates)

    @property
    def unit(self) -> str:
        """The next unit; empty at the end."""
        return self.units[self.at : self.at + 1]

    def skip_space(self) -> bool:
        """Skip white space; return True if anything follows."""
        found = SPACE.match(self.units, self.at)
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
        """Read exactly this word, of which `known` units have been read."""
        for length in range(known, len(word)):
            if self.unit != word[length]:
                self.ends += not self.unit
                self.no_token(word[:length])
            self.at += 1
        unit = self.unit
        if unit >= "0" and unit not in "]}" and is_identifier_part(self._decoded_unit()):
            self.no_token(word)

    def begins_word(self) -> bool:
        """True if the next unit can begin a word (`Character.isJavaIdentifierStart`)."""
        return unicodedata.category(self.unit) in _BEGINS_WORDS

    def no_token(self, begun: str) -> NoReturn:
        """Raise the fault for an unknown word, of which `begun` has been read."""
        word, start = begun, self.at - len(begun)
        while self.unit and len(word) < _WORD_SHOWN:
            unit = self._decoded_unit()
            if not is_identifier_part(unit):
                break
            self.at += self._size_of_unit()
            word += unit
        shown = word if len(word) < _WORD_SHOWN else f"{word}..."
        # The byte parser has also read the unit behind the word.
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
        """Return the characters of a string whose quote is at `at`; move behind it."""
        found = STRING.match(self.units, at)
        if found is None:
            self._broken(at, "string value")
        try:
            text = self._strings.decode(found[1])
        except Undecodable:
            self._broken(at, "string value")
        self.at = found.end()
        if len(text) > MAX_STRING_UNITS and self.profile.json_limits:
            self.limit("String value length", len(text), MAX_STRING_UNITS, "StringLength")
        return text

    def name(self) -> str:
        """Return the characters of a name; its quote comes next."""
        at = self.at
        found = STRING.match(self.units, at)
        if found is None:
            self._broken(at, "name")
        size = self._names.size(found[1])
        if size > MAX_NAME_BYTES and self.profile.json_limits:
            self.limit("Name length", size, MAX_NAME_BYTES, "NameLength")
        try:
            text = self._names.decode(found[1])
        except Undecodable:
            self._broken(at, "name", found.end())
        self.at = found.end()
        return text

    def _broken(self, at: int, what: str, end: int | None = None) -> NoReturn:
        """Find the fault in a string, unit by unit.

        Jackson decodes a name at its end, and reports its faults there.
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
        """Return the end of the escape that begins here."""
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
        """Return the end of the UTF-8 sequence at `at`. `end`: where a fault is reported."""
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
        """Raise the fault for a unit that is not allowed here."""
        self.fail_at_unit(f"Unexpected character ({described(self.unit)}): {comment}")

    def fail_at_unit(self, text: str) -> NoReturn:
        """Raise a fault at the next unit; older Jacksons point behind it."""
        self.fail(text, behind=not self.profile.rest_body_error_placed_before)

    def fail(self, text: str, *, behind: bool = False) -> NoReturn:
        """Raise a syntax fault here, or right behind the next unit."""
        fault = Fault(text, self.at, behind=behind, syntax=True)
        if self.profile.jackson.counts_end_again and not self.unit:
            fault.ends = self.ends + 1
        raise fault

    def limit(self, what: str, size: int, most: int, name: str) -> NoReturn:
        """Raise the fault for a value over Jackson's limit; it has no location."""
        ground = f"from `StreamReadConstraints.getMax{name}()`"
        text = f"{what} ({size}) exceeds the maximum allowed ({most}, {ground})"
        raise Fault(text, None, syntax=True)

    def shown(self, at: int) -> str:
        """Return a location as messages embed it."""
        line, column = place(self.units, at)
        return f"[Source: {self.source}; line: {line}, column: {column}]"


def described(unit: str) -> str:
    """Return a character in Jackson's notation."""
    code = ord(unit)
    if code < 0x20 or 0x7F <= code < 0xA0:
        return f"(CTRL-CHAR, code {code})"
    return f"'{unit}' (code {code})" if code <= 0xFF else f"'{unit}' (code {code} / 0x{code:x})"
