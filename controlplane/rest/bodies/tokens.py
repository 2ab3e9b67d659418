"""A body as Jackson's tokens, read one by one, with Jackson's words for broken JSON.

One by one, because a body can be broken in one place and of a wrong shape in another, and a worker
tells what it meets first. What comes behind a name is looked at together with the name, but a
string is read only when its text is wanted: that decides which field a message names.

Kafka's bodies are read by Jackson's `UTF8StreamJsonParser` (`ReaderBasedJsonParser` for UTF-16 and
UTF-32, whose own words for a few faults are left out). The limits of Jackson 2.15 hold for
releases that bundle it, and for every release in what is kept of partitions and offsets.
"""

import re
from enum import Enum
from typing import Final, NamedTuple, NoReturn

from controlplane.core.profiles import Profile
from controlplane.rest.bodies.scanner import TOKENS, Scanner, described

DEPTH_MAX: Final = 1_000
NUMBER_MAX: Final = 1_000
"""StreamReadConstraints of Jackson: levels of nesting, digits of a number."""


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
    """One token and the unit at which it begins. Of a string `text` is not known yet."""

    kind: Kind
    at: int
    text: str = ""


class _Scope(NamedTuple):
    """An object, an array or the document."""

    kind: Kind | None
    at: int
    word: str


_ROOT: Final = _Scope(None, 0, "root")
_OPENING: Final = {"{": Kind.OBJECT, "[": Kind.ARRAY}
_WORDS: Final = {Kind.OBJECT: "Object", Kind.ARRAY: "Array"}
_CLOSING: Final = {"}": (Kind.OBJECT, Kind.END_OBJECT), "]": (Kind.ARRAY, Kind.END_ARRAY)}
_LITERALS: Final = {"t": ("true", Kind.TRUE), "f": ("false", Kind.FALSE), "n": ("null", Kind.NULL)}
_STRANGE: Final = {"N": "NaN", "I": "Infinity"}
_DIGITS: Final = "0123456789"
_NO_MINUS: Final = "expected digit (0-9) to follow minus sign, for valid numeric value"
_OLD_SWITCH: Final = "JsonParser.Feature.{}"
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(\.[0-9]++)?+([eE][+-]?[0-9]++)?+")


class Tokens:
    """A pass over one body. Whatever is wrong is raised as `Fault`."""

    def __init__(self, body: bytes, profile: Profile, source: str) -> None:
        self.scanner = Scanner(body, profile, source)
        self._scopes = [_ROOT]
        self._entries = [0]
        self._unread: Token | None = None
        self._text = ""
        self._value: Token | None = None
        self._last: Kind | None = None
        self._value_at = self._name_at = 0

    def next(self) -> Token | None:
        """The next token; None at the end of the body."""
        token = self._next()
        self._last = token and token.kind
        return token

    @property
    def last_at(self) -> int:
        """Where the token begins that Jackson takes for the last one, though a later one fails."""
        return self._name_at if self._last is Kind.NAME else self._value_at

    def text_of(self, token: Token) -> str:
        """The text of the token just read: a string's characters, a number as it is spelled."""
        if token is self._unread:
            self._unread, self._text = None, self.scanner.string(token.at)
        return self._text if token.kind is Kind.STRING else token.text

    def _next(self) -> Token | None:
        scanner = self.scanner
        if self._value is not None:
            value, self._value = self._value, None
            return self._enter(value)
        if self._unread is not None:
            self.text_of(self._unread)
        if not scanner.skip_space():
            self._check_closed()
            return None
        if scanner.unit in _CLOSING:
            return self._close()
        if len(self._scopes) > 1:
            self._separated()
        return self._name() if self._scope.kind is Kind.OBJECT else self._enter(self._begun())

    def fail_at_depth(self) -> NoReturn:
        """Complain of more levels than Jackson reads."""
        self.scanner.limit("Document nesting depth", DEPTH_MAX + 1, DEPTH_MAX, "NestingDepth")

    def check_number(self, token: Token) -> None:
        """Complain of a number of more digits than Jackson reads."""
        size = sum(map(str.isdigit, token.text))
        if size > NUMBER_MAX:
            self.scanner.limit("Number value length", size, NUMBER_MAX, "NumberLength")

    # --- structure ----------------------------------------------------------------------------

    @property
    def _scope(self) -> _Scope:
        return self._scopes[-1]

    def _enter(self, token: Token) -> Token:
        """Hand out a value; a container is open from now on."""
        if token.kind in _WORDS:
            if len(self._scopes) > DEPTH_MAX and self.scanner.profile.json_limits:
                self.fail_at_depth()
            self._scopes.append(_Scope(token.kind, token.at, _WORDS[token.kind]))
            self._entries.append(0)
        elif token.kind is Kind.STRING:
            self._unread = token
        return token

    def _close(self) -> Token:
        scanner, scope = self.scanner, self._scope
        opened, closed = _CLOSING[scanner.unit]
        self._value_at = scanner.at
        if scope.kind is not opened:
            self._mismatch(scanner.unit, opened)
        self._scopes.pop()
        self._entries.pop()
        scanner.at += 1
        return Token(closed, scanner.at - 1)

    def _mismatch(self, unit: str, opened: Kind) -> NoReturn:
        scanner, scope = self.scanner, self._scope
        text = f"Unexpected close marker '{unit}'"
        if scope is _ROOT and scanner.profile.rest_body_extra_end_known:
            scanner.fail_at_unit(f"{text}: no open {_WORDS[opened]} to close")
        started = scanner.shown(scope.at)
        if scope is _ROOT:
            column = "" if scanner.profile.rest_body_switches else ", column: 0"
            started = f"[Source: {scanner.source}; line: 1{column}]"
        other = "}" if unit == "]" else "]"
        scanner.fail_at_unit(f"{text}: expected '{other}' (for {scope.word} starting at {started})")

    def _separated(self) -> None:
        """Read the comma before all entries but the first."""
        self._entries[-1] += 1
        if self._entries[-1] == 1:
            return
        if self.scanner.unit != ",":
            self.scanner.unexpected(f"was expecting comma to separate {self._scope.word} entries")
        self.scanner.at += 1
        self._skip_to_more()

    def _name(self) -> Token:
        """The name of an entry; its value is looked at as well."""
        scanner = self.scanner
        at = self._name_at = scanner.at
        if scanner.unit != '"':
            scanner.unexpected("was expecting double-quote to start field name")
        name = Token(Kind.NAME, at, scanner.name())
        self._last = Kind.NAME
        self._skip_to_more()
        if scanner.unit != ":":
            scanner.unexpected("was expecting a colon to separate field name and value")
        scanner.at += 1
        self._skip_to_more()
        self._value = self._begun()
        return name

    def _check_closed(self) -> None:
        scope = self._scope
        if scope is not _ROOT:
            started = self.scanner.shown(scope.at)
            text = f"expected close marker for {scope.word} (start marker at {started})"
            self.scanner.fail(f"Unexpected end-of-input: {text}")

    def _skip_to_more(self) -> None:
        if not self.scanner.skip_space():
            where = f"within/between {self._scope.word} entries"
            self.scanner.fail(f"Unexpected end-of-input {where}")

    # --- values -------------------------------------------------------------------------------

    def _begun(self) -> Token:
        """A scalar, or the beginning of a container. A string ends later."""
        scanner = self.scanner
        at, unit = scanner.at, scanner.unit
        self._value_at = at
        if unit == '"':
            scanner.at += 1
            return Token(Kind.STRING, at)
        if unit in _OPENING:
            scanner.at += 1
            return Token(_OPENING[unit], at)
        if unit == "-" or unit in _DIGITS:
            return self._number()
        if unit not in _LITERALS:
            self._no_value()
        word, kind = _LITERALS[unit]
        scanner.word(word)
        return Token(kind, at, word)

    def _number(self) -> Token:
        scanner = self.scanner
        at = scanner.at
        found = _NUMBER.match(scanner.units, at)
        if found is None:
            self._no_number()
        scanner.at = found.end()
        unit = scanner.unit
        scanner.ends += not unit
        if unit and unit in _DIGITS:
            scanner.fail("Invalid numeric value: Leading zeroes not allowed")
        if unit == "." and not found[1] and not found[2]:
            scanner.at += 1
            self._no_digit("Decimal point not followed by a digit")
        if unit and unit in "eE" and not found[2]:
            scanner.at += 1
            scanner.at += scanner.unit in ("+", "-")
            self._no_digit("Exponent indicator not followed by a digit")
        if len(self._scopes) == 1 and unit and unit not in " \t\r\n":
            scanner.unexpected("Expected space separating root-level values")
        token = Token(Kind.FLOAT if found[1] or found[2] else Kind.INTEGER, at, found[0])
        if scanner.profile.json_limits:
            self.check_number(token)
        return token

    def _no_number(self) -> NoReturn:
        """A minus sign and no digit."""
        scanner = self.scanner
        scanner.at += 1
        if scanner.units.startswith("In", scanner.at):
            scanner.at += 2
            self._strange("-Infinity", 3)
        if scanner.unit == "." and scanner.profile.rest_body_switches:
            scanner.unexpected(f"expected a valid value {TOKENS}")
        self._no_digit(_NO_MINUS)

    def _no_digit(self, comment: str) -> NoReturn:
        scanner = self.scanner
        if not scanner.unit:
            last = "null" if self._last is None else self._last.value[0]
            scanner.fail(f"Unexpected end-of-input in {last}")
        text = f"Unexpected character ({described(scanner.unit)}) in numeric value: {comment}"
        scanner.fail_at_unit(text)

    def _no_value(self) -> NoReturn:
        scanner = self.scanner
        unit = scanner.unit
        if unit in "}," or (unit == "]" and self._scope.kind is Kind.ARRAY):
            scanner.unexpected("expected a value")
        if unit in _STRANGE:
            self._strange(_STRANGE[unit], 0)
        if unit == "+":
            self._plus()
        if scanner.begins_word():
            scanner.at += 1
            scanner.no_token(unit)
        scanner.unexpected(f"expected a valid value {TOKENS}")

    def _strange(self, word: str, known: int) -> NoReturn:
        self.scanner.word(word, known)
        known_as = (
            "`JsonReadFeature.{}`" if self.scanner.profile.rest_body_switches else _OLD_SWITCH
        )
        switch = known_as.format("ALLOW_NON_NUMERIC_NUMBERS")
        self.scanner.fail(f"Non-standard token '{word}': enable {switch} to allow")

    def _plus(self) -> NoReturn:
        self.scanner.at += 1
        if not self.scanner.profile.rest_body_switches:
            self._no_digit(_NO_MINUS)
        hint = "enable `JsonReadFeature.ALLOW_LEADING_PLUS_SIGN_FOR_NUMBERS` to allow"
        self.scanner.fail_at_unit(
            "Unexpected character ('+' (code 43)) in numeric value: "
            f"JSON spec does not allow numbers to have plus signs: {hint}"
        )
