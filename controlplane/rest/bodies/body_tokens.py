"""Tokens of a body, with Jackson's words for broken JSON.

Jackson reads UTF-8 by `UTF8StreamJsonParser`, and UTF-16 and UTF-32 by `ReaderBasedJsonParser`. The
second parser words a few faults differently; this module does not. Jackson's limits, new in 2.15,
hold for releases that bundle this version or a later one. In partitions and offsets, the limit of
digits in a number holds in every release.
"""

import re
import unicodedata
from typing import Final, NoReturn

from controlplane.core.java.jackson_text import read_text, utf32_error
from controlplane.core.java.jackson_tokens import STRING, Limit, SyntaxPart, TokenKind, Tokens
from controlplane.core.java.java_library import is_identifier_part
from controlplane.core.java.json_errors import Undecodable
from controlplane.core.releases.profiles import Profile
from controlplane.rest.bodies.body_errors import Fault, place

_MARK: Final = b"\xef\xbb\xbf"
"""The byte order mark of UTF-8; columns count it."""

_WORD_SHOWN: Final = 256
"""Maximum characters of an unknown word that a message repeats."""

_BEGINS_WORDS = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Sc", "Pc"})
"""Unicode categories of the characters that may begin a word (`isJavaIdentifierStart`)."""
_LEADS: Final = ((0b110, 2), (0b1110, 3), (0b11110, 4))
"""Leading bits of a UTF-8 sequence, with its length in bytes."""

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(\.[0-9]++)?+([eE][+-]?[0-9]++)?+")
_DIGITS: Final = "0123456789"
_NUMBERS: Final = (TokenKind.INTEGER, TokenKind.FLOAT)
_OPENING: Final = (TokenKind.OBJECT, TokenKind.ARRAY)
_LITERALS: Final = {"t": "true", "f": "false", "n": "null"}
_NON_NUMBERS: Final = {"N": "NaN", "I": "Infinity"}
_SCOPES: Final = {None: "root", TokenKind.OBJECT: "Object", TokenKind.ARRAY: "Array"}
_OPENED_BY: Final = {"}": "Object", "]": "Array"}

_TOKENS: Final = "(JSON String, Number, Array, Object or token 'null', 'true' or 'false')"
_AFTER_MINUS: Final = "expected digit (0-9) to follow minus sign, for valid numeric value"
_OLD_SWITCH: Final = "JsonParser.Feature.{}"


class BodyTokens(Tokens):
    """Tokens of one body. Every error is raised as `Fault`."""

    def __init__(self, body: bytes, profile: Profile, source: str) -> None:
        try:
            text = read_text(body)
        except Undecodable as error:
            raise Fault(str(error), None, syntax=True) from None
        mark = _MARK.decode("latin-1") if body.startswith(_MARK) else ""
        text = text._replace(units=mark + text.units)
        super().__init__(text, profile, leading_zeros=False)
        self.at = len(mark)
        self._source = source
        self._unreadable = utf32_error(body) if text.broken else ""
        """UTF-32 decoding error right after the last readable unit; empty if all was decoded."""
        self._ends = 0
        """Number of times that Jackson has met the end within a word."""

    def exceeded(self, limit: Limit, size: int) -> NoReturn:
        """Raise the fault for a value over Jackson's limit; it has no location."""
        ground = f"from `StreamReadConstraints.{limit.getter}()`"
        text = f"{limit.subject} ({size}) exceeds the maximum allowed ({limit.maximum}, {ground})"
        raise Fault(text, None, syntax=True)

    def malformed(self, part: SyntaxPart, at: int, reason: str = "") -> NoReturn:  # noqa: ARG002
        """Read a part again, unit by unit, and raise Jackson's fault at the faulty unit."""
        match part:
            case SyntaxPart.STRING:
                self._fail_in_string(at, "string value")
            case SyntaxPart.VALUE_END:
                self.at = self._value_at
                self._fail_at_value()
            case SyntaxPart.COLON:
                self._skip_space()
                self._check_more(may_end=False)
                self._unexpected("was expecting a colon to separate field name and value")
        self.at = at
        is_first = self.last in _OPENING or len(self.scopes) == 1
        self._check_more(may_end=is_first or part is SyntaxPart.COMMA)
        if part is SyntaxPart.COMMA:
            self._unexpected(f"was expecting comma to separate {self._scope} entries")
        if part is SyntaxPart.VALUE:
            # Jackson up to 2.10.2 reports a faulty list element at its first unit. `BodyReader`
            # reads this index from `last_at`.
            self._value_at = at
            self._fail_at_value()
        if self.unit != '"':
            self._unexpected("was expecting double-quote to start field name")
        name = STRING.match(self.units, at)
        self._fail_in_string(at, "name", name and name.end())

    # --- structure ----------------------------------------------------------------------------

    @property
    def _scope(self) -> str:
        """Jackson's word for the open container."""
        return _SCOPES[self.scopes[-1].kind]

    def _check_more(self, *, may_end: bool) -> None:
        """Raise the fault for a unit that begins no token. `may_end`: a container may end here."""
        unit = self.unit
        if not unit:
            self._fail_at_end(may_end=may_end)
        if unit < " ":
            text = rf"Illegal character ({described(unit)}): only regular white space (\r, \n, \t)"
            self._fail(f"{text} is allowed between tokens", behind=True)
        if unit == "/":
            self._unexpected(
                "maybe a (non-standard) comment? (not recognized as one since Feature "
                "'ALLOW_COMMENTS' not enabled for parser)"
            )
        if may_end and unit in _OPENED_BY:
            self._fail_at_wrong_end(unit)

    def _fail_at_end(self, *, may_end: bool) -> NoReturn:
        if may_end:
            started = self._location_text(self.scopes[-1].at)
            marker = f"expected close marker for {self._scope} (start marker at {started})"
            self._fail(f"Unexpected end-of-input: {marker}")
        self._fail(f"Unexpected end-of-input within/between {self._scope} entries")

    def _fail_at_wrong_end(self, unit: str) -> NoReturn:
        scope = self.scopes[-1]
        self._value_at = self.at
        text = f"Unexpected close marker '{unit}'"
        if scope.kind is None and self.profile.rest_body_extra_end_known:
            self._fail_at_unit(f"{text}: no open {_OPENED_BY[unit]} to close")
        started = self._location_text(scope.at)
        if scope.kind is None:
            column = "" if self.profile.rest_body_switches else ", column: 0"
            started = f"[Source: {self._source}; line: 1{column}]"
        other = "}" if unit == "]" else "]"
        self._fail_at_unit(f"{text}: expected '{other}' (for {self._scope} starting at {started})")

    # --- values -------------------------------------------------------------------------------

    def _fail_at_value(self) -> NoReturn:
        unit = self.unit
        if unit == "-" or unit in _DIGITS:
            self._fail_at_number()
        if unit in _LITERALS:
            self._check_word(_LITERALS[unit])
        if unit in "}," or (unit == "]" and self._scope == "Array"):
            self._unexpected("expected a value")
        if unit in _NON_NUMBERS:
            self._fail_at_non_number(_NON_NUMBERS[unit], 0)
        if unit == "+":
            self._fail_at_plus()
        if unicodedata.category(unit) in _BEGINS_WORDS:  # Character.isJavaIdentifierStart
            self.at += 1
            self._fail_at_word(unit)
        self._unexpected(f"expected a valid value {_TOKENS}")

    def _fail_at_number(self) -> NoReturn:
        number = _NUMBER.match(self.units, self.at)
        if number is None:
            self._fail_at_minus()
        self.at = number.end()
        fraction, exponent = number.groups()
        if self.unit in _DIGITS:
            self._fail("Invalid numeric value: Leading zeroes not allowed")
        if self.unit == "." and not fraction and not exponent:
            self.at += 1
            self._fail_at_digit("Decimal point not followed by a digit")
        if self.unit in "eE" and not exponent:
            self.at += 1
            self.at += self.unit in ("+", "-")
            self._fail_at_digit("Exponent indicator not followed by a digit")
        self._unexpected("Expected space separating root-level values")

    def _fail_at_minus(self) -> NoReturn:
        """Raise the fault for a minus sign without a digit."""
        self.at += 1
        if self.units.startswith("In", self.at):
            self.at += 2
            self._fail_at_non_number("-Infinity", 3)
        if self.unit == "." and self.profile.rest_body_switches:
            self._unexpected(f"expected a valid value {_TOKENS}")
        self._fail_at_digit(_AFTER_MINUS)

    def _fail_at_digit(self, comment: str) -> NoReturn:
        if not self.unit:
            last = "null" if self.last is None else self.last.value[0]
            self._fail(f"Unexpected end-of-input in {last}")
        text = f"Unexpected character ({described(self.unit)}) in numeric value: {comment}"
        self._fail_at_unit(text)

    def _fail_at_non_number(self, word: str, units_read: int) -> NoReturn:
        self._check_word(word, units_read)
        known_as = "`JsonReadFeature.{}`" if self.profile.rest_body_switches else _OLD_SWITCH
        switch = known_as.format("ALLOW_NON_NUMERIC_NUMBERS")
        self._fail(f"Non-standard token '{word}': enable {switch} to allow")

    def _fail_at_plus(self) -> NoReturn:
        self.at += 1
        if not self.profile.rest_body_switches:
            self._fail_at_digit(_AFTER_MINUS)
        hint = "enable `JsonReadFeature.ALLOW_LEADING_PLUS_SIGN_FOR_NUMBERS` to allow"
        self._fail_at_unit(
            "Unexpected character ('+' (code 43)) in numeric value: "
            f"JSON spec does not allow numbers to have plus signs: {hint}"
        )

    # --- words --------------------------------------------------------------------------------

    def _check_word(self, word: str, units_read: int = 0) -> None:
        """Read exactly this word, of which `units_read` units have been read."""
        for length in range(units_read, len(word)):
            if self.unit != word[length]:
                self._ends += not self.unit
                self._fail_at_word(word[:length])
            self.at += 1
        unit = self.unit
        if self._fails_after_word(unit):
            if self._is_lead():
                # Jackson takes this byte as the first of a sequence, but does not move past it.
                # So the second byte that it reads is this byte again: a bad middle byte.
                begins = _sequence_size(unit) > 0
                byte_kind = "middle" if begins else "start"
                self._fail(f"Invalid UTF-8 {byte_kind} byte 0x{ord(unit):x}", behind=begins)
            self._fail_at_word(word)

    def _fail_at_word(self, begun: str) -> NoReturn:
        """Raise the fault for an unknown word, of which `begun` has been read."""
        word, start = begun, self.at - len(begun)
        while self.unit and len(word) < _WORD_SHOWN:
            unit = self._decoded_unit()
            if not is_identifier_part(unit):
                break
            self.at = self._sequence_end(self.at) if self._is_lead() else self.at + 1
            word += unit
        shown = word if len(word) < _WORD_SHOWN else f"{word}..."
        # The byte parser has also read the unit after the word.
        behind = bool(self.unit) and self.in_bytes and len(word) < _WORD_SHOWN
        if self.profile.rest_body_word_placed_before and (self.unit or not self._unreadable):
            self.at, behind = start, False
        self._fail(f"Unrecognized token '{shown}': was expecting {_TOKENS}", behind=behind)

    def _decoded_unit(self) -> str:
        if not self._is_lead():
            return self.unit
        lead, *rest = map(ord, self.units[self.at : self._sequence_end(self.at)])
        code_point = lead & (0x7F >> len(rest) + 1)
        for unit in rest:
            code_point = code_point << 6 | unit & 0x3F
        return chr(code_point & 0xFFFF)  # Jackson casts it to a `char`

    def _is_lead(self) -> bool:
        """Return True if the next byte is not ASCII: it should begin a UTF-8 sequence."""
        return self.in_bytes and self.unit >= "\x80"

    # --- strings ------------------------------------------------------------------------------

    def _fail_in_string(self, at: int, role: str, end: int | None = None) -> NoReturn:
        """Find the fault in a string, unit by unit.

        Jackson decodes the bytes of a name once it is complete, and reports bad bytes at its end.
        """
        at += 1
        while at < len(self.units):
            self.at = at
            unit = self.units[at]
            if unit == "\\":
                at = self._escape_end()
            elif unit < " ":
                text = f"Illegal unquoted character ({described(unit)})"
                hint = f"has to be escaped using backslash to be included in {role}"
                self._fail_at_unit(f"{text}: {hint}")
            elif self._is_lead() and (role != "name" or end is not None):
                begun, at = at, self._sequence_end(at, end)
                self._check_surrogate(self.units[begun:at], at if end is None else end)
            else:
                at += 1
        self.at = at
        where = "in field name" if role == "name" else "in VALUE_STRING"
        self._fail(f"Unexpected end-of-input {where}")

    def _escape_end(self) -> int:
        """Return the end of the escape that begins here."""
        self.at += 1
        unit = self.unit
        if unit == "u":
            for _ in range(4):
                self.at += 1
                self._check_escape()
                if self.unit not in "0123456789abcdefABCDEF":
                    self._unexpected("expected a hex-digit for character escape sequence")
            return self.at + 1
        self._check_escape()
        if unit not in '"\\/bfnrt':
            self._fail_at_unit(f"Unrecognized character escape {described(unit)}")
        return self.at + 1

    def _check_escape(self) -> None:
        if not self.unit:
            self._fail("Unexpected end-of-input in character escape sequence")

    def _sequence_end(self, at: int, end: int | None = None) -> int:
        """Return the end of the UTF-8 sequence at `at`.

        Faults are reported at `end`, or at the bad byte if `end` is None.
        """
        size = _sequence_size(self.units[at])
        if not size:
            self._bad_byte(f"start byte 0x{ord(self.units[at]):x}", at, end)
        for middle in range(at + 1, at + size):
            unit = self.units[middle : middle + 1]
            if not unit:
                self.at = middle
                self._fail("Unexpected end-of-input in VALUE_STRING")
            if ord(unit) & 0xC0 != 0x80:
                self._bad_byte(f"middle byte 0x{ord(unit):x}", middle, end)
        return at + size

    def _check_surrogate(self, sequence: str, at: int) -> None:
        """Raise the fault for an encoded surrogate, which Jackson refuses from 2.21 on."""
        is_surrogate = sequence[0] == "\xed" and sequence[1] >= "\xa0"
        if is_surrogate and not self.profile.json_encoded_surrogates:
            lead, middle, last = map(ord, sequence)
            code = (lead & 0x0F) << 12 | (middle & 0x3F) << 6 | last & 0x3F
            self.at = at
            self._fail(f"Invalid UTF-8: Illegal surrogate character 0x{code:x}")

    def _bad_byte(self, problem: str, at: int, end: int | None) -> NoReturn:
        self.at = at if end is None else end
        self._fail(f"Invalid UTF-8 {problem}", behind=end is None)

    # --- faults -------------------------------------------------------------------------------

    def _unexpected(self, comment: str) -> NoReturn:
        """Raise the fault for a unit that is not allowed here."""
        self._fail_at_unit(f"Unexpected character ({described(self.unit)}): {comment}")

    def _fail_at_unit(self, text: str) -> NoReturn:
        """Raise a fault at the next unit; older Jacksons point after it."""
        self._fail(text, behind=not self.profile.rest_body_error_placed_before)

    def _fail(self, text: str, *, behind: bool = False) -> NoReturn:
        """Raise a syntax fault here, or right after the next unit."""
        if self._unreadable and not self.unit:
            raise Fault(self._unreadable, None, syntax=True)
        fault = Fault(text, self.at, behind=behind, syntax=True)
        if self.profile.jackson.counts_end_again and not self.unit:
            fault.ends = 1 + self._ends + self._is_number_last()
        raise fault

    def _is_number_last(self) -> bool:
        """True if Jackson has met the end after a number: it reads one unit past a number."""
        number = _NUMBER.match(self.units, self._value_at) if self.last in _NUMBERS else None
        return number is not None and number.end() == len(self.units)

    def _location_text(self, at: int) -> str:
        """Return a location as messages embed it."""
        line, column = place(self.units, at)
        return f"[Source: {self._source}; line: {line}, column: {column}]"


def _sequence_size(unit: str) -> int:
    """Return the length of the UTF-8 sequence that a byte begins; 0: it begins none."""
    return next((size for top, size in _LEADS if ord(unit) >> (7 - size) == top), 0)


def described(unit: str) -> str:
    """Return a character in Jackson's notation."""
    code = ord(unit)
    if code < 0x20 or 0x7F <= code < 0xA0:
        return f"(CTRL-CHAR, code {code})"
    return f"'{unit}' (code {code})" if code <= 0xFF else f"'{unit}' (code {code} / 0x{code:x})"
