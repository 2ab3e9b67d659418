"""A body as Jackson's tokens, read one by one, with Jackson's words for broken JSON.

One by one, because a body can be broken in one place and of a wrong shape in another, and a worker
tells what it meets first. A string is read when its text is wanted, a number before: that decides
which field a message names.

Kafka's bodies are read by Jackson's `UTF8StreamJsonParser` (`ReaderBasedJsonParser` for UTF-16 and
UTF-32, whose few other words are left out). Limits that came with Jackson 2.15 hold for every
release here: they keep a body from being more than anybody can handle.
"""

import re
from enum import Enum
from typing import Final, NamedTuple, NoReturn

from controlplane.core.jackson_text import StringDecoder, read_text
from controlplane.core.java import is_identifier_part
from controlplane.core.profiles import Profile
from controlplane.core.undecodable import Undecodable
from controlplane.rest.bodies.faults import Fault, place, source

DEPTH_MAX: Final = 1_000
NUMBER_MAX: Final = 1_000
NAME_MAX: Final = 50_000
STRING_MAX: Final = 20_000_000
"""StreamReadConstraints of Jackson."""

_WORD_SHOWN: Final = 256
"""Characters of a word that is no token, as they are repeated."""


class Kind(Enum):
    """Kinds of tokens: Jackson's name, and how it speaks of such a value."""

    OBJECT = "START_OBJECT", "Object value"
    END_OBJECT = "END_OBJECT", "Object value"
    ARRAY = "START_ARRAY", "Array value"
    END_ARRAY = "END_ARRAY", "Array value"
    NAME = "FIELD_NAME", "Object value"
    STRING = "VALUE_STRING", "String value"
    INTEGER = "VALUE_NUMBER_INT", "Integer value"
    FLOAT = "VALUE_NUMBER_FLOAT", "Floating-point value"
    TRUE = "VALUE_TRUE", "Boolean value"
    FALSE = "VALUE_FALSE", "Boolean value"
    NULL = "VALUE_NULL", "Null value"


class Token(NamedTuple):
    """One token and the unit at which it begins. Of a string `text` is not yet known."""

    kind: Kind
    at: int
    text: str = ""


class _Scope(NamedTuple):
    """An object, an array or the document, as far as it has been read."""

    kind: Kind | None
    at: int

    @property
    def word(self) -> str:
        return {Kind.OBJECT: "Object", Kind.ARRAY: "Array"}.get(self.kind or Kind.NULL, "root")


_ROOT = _Scope(None, 0)
_LITERALS: Final = {"t": ("true", Kind.TRUE), "f": ("false", Kind.FALSE), "n": ("null", Kind.NULL)}
_STRANGE_LITERALS: Final = {"N": "NaN", "I": "Infinity"}
_OPENING: Final = {"{": Kind.OBJECT, "[": Kind.ARRAY}
_CLOSING: Final = {"}": (Kind.OBJECT, Kind.END_OBJECT), "]": (Kind.ARRAY, Kind.END_ARRAY)}
_CLOSER: Final = {Kind.OBJECT: "}", Kind.ARRAY: "]", None: "}"}

_SPACE = re.compile(r"[ \t\r\n]*+")
_STRING = re.compile(
    r'"([^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})[^"\\\x00-\x1f]*+)*+)"'
)
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(\.[0-9]++)?+([eE][+-]?[0-9]++)?+")
_AFTER_WORD: Final = "]}"
_TOKENS: Final = "(JSON String, Number, Array, Object or token 'null', 'true' or 'false')"


class Tokens:
    """A pass over one body. Whatever is wrong is raised as `Fault`."""

    def __init__(self, body: bytes, profile: Profile, *, of_bytes: bool = False) -> None:
        try:
            text = read_text(body)
        except Undecodable as error:
            raise Fault(str(error), None, syntax=True) from None
        self.units = text.units
        self.source = source(profile, of_bytes=of_bytes)
        self._profile = profile
        surrogates = profile.json_encoded_surrogates
        self._strings = StringDecoder(text.in_bytes, False, surrogates)
        self._names = StringDecoder(text.in_bytes, True, surrogates)
        self._in_bytes = text.in_bytes
        self._at = 0
        self._scopes: list[_Scope] = []
        self._entries: list[int] = []
        self._unread: Token | None = None
        self._value: Token | None = None

    @property
    def at(self) -> int:
        """The unit up to which has been read."""
        return self._at

    def next(self) -> Token | None:
        """The next token; None at the end of the body."""
        if self._value is not None:
            value, self._value = self._value, None
            return self._enter(value)
        if self._unread is not None:
            self.text_of(self._unread)
        if not self._skip_space():
            self._check_closed()
            return None
        unit = self.units[self._at]
        if unit in _CLOSING:
            return self._close(unit)
        if self._scopes:
            self._separated(unit)
        if self._scope.kind is not Kind.OBJECT:
            return self._enter(self._scalar_or_open())
        return self._name()

    def text_of(self, token: Token) -> str:
        """The text of the token just read: a string's characters, a number as it is spelled."""
        if token.kind is not Kind.STRING or self._unread is None:
            return token.text
        self._unread = None
        found = _STRING.match(self.units, token.at)
        if found is None:
            self._broken_string(token.at, "string value")
        text = self._decoded(self._strings, found[1], token.at)
        self._at = found.end()
        if len(text) > STRING_MAX:
            self._limit("String value length", len(text), STRING_MAX, "String")
        return text

    # --- structure ----------------------------------------------------------------------------

    @property
    def _scope(self) -> _Scope:
        return self._scopes[-1] if self._scopes else _ROOT

    def _enter(self, token: Token) -> Token:
        """Hand out a value; a container is open from now on."""
        if token.kind in (Kind.OBJECT, Kind.ARRAY):
            if len(self._scopes) == DEPTH_MAX:
                self._limit("Document nesting depth", DEPTH_MAX + 1, DEPTH_MAX, "NestingDepth")
            self._scopes.append(_Scope(token.kind, token.at))
            self._entries.append(0)
        elif token.kind is Kind.STRING:
            self._unread = token
        return token

    def _close(self, unit: str) -> Token:
        opened, closed = _CLOSING[unit]
        scope = self._scope
        at = self._at
        self._at += 1
        if scope.kind is not opened:
            started = self._shown(scope.at) if scope.kind else f"[Source: {self.source}; line: 1]"
            text = f"Unexpected close marker '{unit}': expected '{_CLOSER[scope.kind]}'"
            self._fail(f"{text} (for {scope.word} starting at {started})", self._behind(at))
        self._scopes.pop()
        self._entries.pop()
        return Token(closed, at)

    def _separated(self, unit: str) -> None:
        """Read the comma before all entries but the first."""
        self._entries[-1] += 1
        if self._entries[-1] == 1:
            return
        if unit != ",":
            self._unexpected(f"was expecting comma to separate {self._scope.word} entries")
        self._at += 1
        self._skip_space_to_more()

    def _name(self) -> Token:
        """The name of an entry; its value is looked at as well, as Jackson does."""
        at = self._at
        if self.units[at] != '"':
            self._unexpected("was expecting double-quote to start field name")
        found = _STRING.match(self.units, at)
        if found is None:
            self._broken_string(at, "name")
        size = self._names.size(found[1])
        if size > NAME_MAX:
            self._limit("Name length", size, NAME_MAX, "Name")
        name = self._decoded(self._names, found[1], at)
        self._at = found.end()
        self._skip_space_to_more()
        if self.units[self._at] != ":":
            self._unexpected("was expecting a colon to separate field name and value")
        self._at += 1
        self._skip_space_to_more()
        self._value = self._scalar_or_open()
        return Token(Kind.NAME, at, name)

    def _check_closed(self) -> None:
        scope = self._scope
        if scope.kind is not None:
            started = self._shown(scope.at)
            text = f"expected close marker for {scope.word} (start marker at {started})"
            self._fail(f"Unexpected end-of-input: {text}", self._at)

    def _skip_space(self) -> bool:
        """Skip white space; whether something follows."""
        found = _SPACE.match(self.units, self._at)
        self._at = found.end() if found else self._at
        unit = self.units[self._at : self._at + 1]
        if unit and unit < " ":
            self._fail(
                f"Illegal character ({_described(unit)}): only regular white space "
                r"(\r, \n, \t) is allowed between tokens",
                self._behind(self._at),
            )
        if unit == "/":
            self._unexpected(
                "maybe a (non-standard) comment? (not recognized as one since Feature "
                "'ALLOW_COMMENTS' not enabled for parser)"
            )
        return bool(unit)

    def _skip_space_to_more(self) -> None:
        if not self._skip_space():
            word = self._scope.word
            self._fail(f"Unexpected end-of-input within/between {word} entries", self._at)

    # --- values -------------------------------------------------------------------------------

    def _scalar_or_open(self) -> Token:
        at, unit = self._at, self.units[self._at]
        if unit == '"':
            return Token(Kind.STRING, at)
        if unit in _OPENING:
            self._at += 1
            return Token(_OPENING[unit], at)
        if unit == "-" or unit in "0123456789":
            return self._number()
        if unit in _LITERALS:
            word, kind = _LITERALS[unit]
            self._word(word)
            return Token(kind, at, word)
        return self._no_value(unit)

    def _number(self) -> Token:
        at = self._at
        found = _NUMBER.match(self.units, at)
        if found is None:
            self._at += 1
            self._bad_digit("expected digit (0-9) to follow minus sign, for valid numeric value")
        self._at = found.end()
        follower = self.units[self._at : self._at + 1]
        if follower and follower in "0123456789":
            self._fail("Invalid numeric value: Leading zeroes not allowed", self._at)
        if follower == "." and not found[1] and not found[2]:
            self._at += 1
            self._bad_digit("Decimal point not followed by a digit")
        if follower and follower in "eE" and not found[2]:
            self._at += 1 + (self.units[self._at + 1 : self._at + 2] in ("+", "-"))
            self._bad_digit("Exponent indicator not followed by a digit")
        if not self._scopes and follower and follower not in " \t\r\n":
            self._unexpected("Expected space separating root-level values")
        size = sum(map(str.isdigit, found[0]))
        if size > NUMBER_MAX:
            self._limit("Number value length", size, NUMBER_MAX, "Number")
        return Token(Kind.FLOAT if found[1] or found[2] else Kind.INTEGER, at, found[0])

    def _bad_digit(self, comment: str) -> NoReturn:
        unit = self.units[self._at : self._at + 1]
        if not unit:
            self._fail("Unexpected end-of-input in a Number value", self._at)
        text = f"Unexpected character ({_described(unit)}) in numeric value: {comment}"
        self._fail(text, self._behind(self._at))

    def _word(self, word: str) -> None:
        """Read one of JSON's words, whole and no more."""
        begun = self._at
        for length, unit in enumerate(word):
            if self.units[self._at : self._at + 1] != unit:
                self._no_token(word[:length])
            self._at = begun + length + 1
        follower = self.units[self._at : self._at + 1]
        if follower >= "0" and follower not in _AFTER_WORD and is_identifier_part(follower):
            self._no_token(word)

    def _no_token(self, begun: str) -> NoReturn:
        """Complain of a word that is none of JSON's."""
        word, at = begun, self._at
        while at < len(self.units) and len(word) < _WORD_SHOWN:
            unit = self.units[at]
            at += 1
            if not is_identifier_part(unit):
                break
            word += unit
        shown = word if len(word) < _WORD_SHOWN else f"{word}..."
        self._fail(f"Unrecognized token '{shown}': was expecting {_TOKENS}", at)

    def _no_value(self, unit: str) -> NoReturn:
        if unit in "}," or (unit == "]" and self._scope.kind is Kind.ARRAY):
            self._unexpected("expected a value")
        if unit in _STRANGE_LITERALS:
            word = _STRANGE_LITERALS[unit]
            self._word(word)
            hint = "enable `JsonReadFeature.ALLOW_NON_NUMERIC_NUMBERS` to allow"
            self._fail(f"Non-standard token '{word}': {hint}", self._at)
        if unit == "+":
            self._plus()
        if is_identifier_part(unit) and not unit.isdigit():
            self._at += 1
            self._no_token(unit)
        self._unexpected(f"expected a valid value {_TOKENS}")

    def _plus(self) -> NoReturn:
        hint = "enable `JsonReadFeature.ALLOW_LEADING_PLUS_SIGN_FOR_NUMBERS` to allow"
        self._fail(
            f"Unexpected character ('+' (code 43)) in numeric value: "
            f"JSON spec does not allow numbers to have plus signs: {hint}",
            self._behind(self._at + 1),
        )

    # --- strings ------------------------------------------------------------------------------

    def _decoded(self, strings: StringDecoder, body: str, at: int) -> str:
        try:
            return strings.decode(body)
        except Undecodable:
            self._broken_string(at, "name" if strings.is_name else "string value")

    def _broken_string(self, at: int, what: str) -> NoReturn:
        """Find what is wrong with a string, unit by unit."""
        at += 1
        while at < len(self.units):
            unit = self.units[at]
            if unit == "\\":
                at = self._escape(at + 1)
            elif unit < " ":
                text = f"Illegal unquoted character ({_described(unit)})"
                hint = f"has to be escaped using backslash to be included in {what}"
                self._fail(f"{text}: {hint}", self._behind(at))
            elif unit >= "\x80" and self._in_bytes:
                at = self._sequence(at)
            else:
                at += 1
        where = "in field name" if what == "name" else "in VALUE_STRING"
        self._fail(f"Unexpected end-of-input {where}", len(self.units))

    def _escape(self, at: int) -> int:
        """Where an escape ends whose letter stands at `at`."""
        unit = self.units[at : at + 1]
        if unit == "u":
            for digit in range(at + 1, at + 5):
                self._check_hex(digit)
            return at + 5
        if not unit:
            self._fail("Unexpected end-of-input in character escape sequence", at)
        if unit not in '"\\/bfnrt':
            self._fail(f"Unrecognized character escape {_described(unit)}", self._behind(at))
        return at + 1

    def _check_hex(self, at: int) -> None:
        unit = self.units[at : at + 1]
        if not unit:
            self._fail("Unexpected end-of-input in character escape sequence", at)
        if unit not in "0123456789abcdefABCDEF":
            self._at = at
            self._unexpected("expected a hex-digit for character escape sequence")

    def _sequence(self, at: int) -> int:
        """Where a UTF-8 sequence ends that begins at `at`."""
        lead = ord(self.units[at])
        length = next((size for top, size in _LEADS if lead >> (7 - size) == top), 0)
        if not length:
            self._fail(f"Invalid UTF-8 start byte 0x{lead:x}", self._behind(at))
        for middle in range(at + 1, at + length):
            unit = self.units[middle : middle + 1]
            if not unit:
                self._fail("Unexpected end-of-input in VALUE_STRING", middle)
            if ord(unit) & 0xC0 != 0x80:
                self._fail(f"Invalid UTF-8 middle byte 0x{ord(unit):x}", self._behind(middle))
        return at + length

    # --- complaints ---------------------------------------------------------------------------

    def _behind(self, at: int) -> int:
        """Where Jackson points to when a unit is wrong: behind it, or lately at it."""
        return at if self._profile.rest_body_error_placed_before else at + 1

    def _unexpected(self, comment: str) -> NoReturn:
        described = _described(self.units[self._at])
        self._fail(f"Unexpected character ({described}): {comment}", self._behind(self._at))

    def _fail(self, text: str, at: int) -> NoReturn:
        raise Fault(text, at, syntax=True)

    def _limit(self, what: str, size: int, limit: int, name: str) -> NoReturn:
        ground = f"from `StreamReadConstraints.getMax{name}{'' if 'Depth' in name else 'Length'}()`"
        text = f"{what} ({size}) exceeds the maximum allowed ({limit}, {ground})"
        raise Fault(text, None, syntax=True)

    def _shown(self, at: int) -> str:
        line, column = place(self.units, at)
        return f"[Source: {self.source}; line: {line}, column: {column}]"


_LEADS: Final = ((0b110, 2), (0b1110, 3), (0b11110, 4))
"""The first bits of a UTF-8 sequence of so many bytes."""


def _described(unit: str) -> str:
    """A character as Jackson describes it."""
    code = ord(unit)
    if code < 0x20 or 0x7F <= code < 0xA0:
        return f"(CTRL-CHAR, code {code})"
    return f"'{unit}' (code {code})" if code <= 0xFF else f"'{unit}' (code {code} / 0x{code:x})"
