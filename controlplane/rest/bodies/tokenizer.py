"""Tokenizer: reads a body as Jackson's tokens, with Jackson's words for broken JSON.

Tokens are read one by one, because a body can have a syntax fault and a shape fault in different
places. A worker reports the first one that it meets. The value behind a name is looked at together
with the name. A string is read only when its text is needed: that decides which field a message
names.

Kafka's bodies are read by Jackson's `UTF8StreamJsonParser`. UTF-16 and UTF-32 use
`ReaderBasedJsonParser`; its own words for a few faults are left out. The limits of Jackson 2.15
hold for releases that bundle it, and for stored partitions and offsets in every release.
"""

import re
from enum import Enum
from typing import Final, NamedTuple, NoReturn

from controlplane.core.java.jackson import MAX_DEPTH
from controlplane.core.java.jackson_numbers import MAX_DIGITS
from controlplane.core.releases.profiles import Profile
from controlplane.rest.bodies.scanner import TOKENS, Scanner, described


class TokenKind(Enum):
    """Kind of a token: Jackson's name, and its description of such a value."""

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
    """A token and the unit at which it begins. The `text` of a string is read later."""

    kind: TokenKind
    at: int
    text: str = ""


class _Scope(NamedTuple):
    """An open object, an open array or the document."""

    kind: TokenKind | None
    at: int
    word: str


_ROOT: Final = _Scope(None, 0, "root")
_OPENING: Final = {"{": TokenKind.OBJECT, "[": TokenKind.ARRAY}
_WORDS: Final = {TokenKind.OBJECT: "Object", TokenKind.ARRAY: "Array"}
_CLOSING: Final = {
    "}": (TokenKind.OBJECT, TokenKind.END_OBJECT),
    "]": (TokenKind.ARRAY, TokenKind.END_ARRAY),
}
_LITERALS: Final = {
    "t": ("true", TokenKind.TRUE),
    "f": ("false", TokenKind.FALSE),
    "n": ("null", TokenKind.NULL),
}
_STRANGE: Final = {"N": "NaN", "I": "Infinity"}
_DIGITS: Final = "0123456789"
_NO_MINUS: Final = "expected digit (0-9) to follow minus sign, for valid numeric value"
_OLD_SWITCH: Final = "JsonParser.Feature.{}"
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(\.[0-9]++)?+([eE][+-]?[0-9]++)?+")


class Tokens:
    """Pass over one body. Every error is raised as `Fault`."""

    def __init__(self, body: bytes, profile: Profile, source: str) -> None:
        self.scanner = Scanner(body, profile, source)
        self._scopes = [_ROOT]
        self._entries = [0]
        self._unread: Token | None = None
        self._text = ""
        self._value: Token | None = None
        self._last: TokenKind | None = None
        self._value_at = self._name_at = 0

    def next(self) -> Token | None:
        """Return the next token; None at the end of the body."""
        token = self._next()
        self._last = token and token.kind
        return token

    @property
    def last_at(self) -> int:
        """Start of Jackson's current token, even if a later one fails."""
        return self._name_at if self._last is TokenKind.NAME else self._value_at

    def text_of(self, token: Token) -> str:
        """Return the text of the last token: a string's characters, a number's spelling."""
        if token is self._unread:
            self._unread, self._text = None, self.scanner.string(token.at)
        return self._text if token.kind is TokenKind.STRING else token.text

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
        return self._name() if self._scope.kind is TokenKind.OBJECT else self._enter(self._begun())

    def fail_at_depth(self) -> NoReturn:
        """Raise the fault for nesting beyond Jackson's limit."""
        self.scanner.limit("Document nesting depth", MAX_DEPTH + 1, MAX_DEPTH, "NestingDepth")

    def check_number(self, token: Token) -> None:
        """Raise a fault for a number with more digits than Jackson reads."""
        size = sum(map(str.isdigit, token.text))
        if size > MAX_DIGITS:
            self.scanner.limit("Number value length", size, MAX_DIGITS, "NumberLength")

    # --- structure ----------------------------------------------------------------------------

    @property
    def _scope(self) -> _Scope:
        return self._scopes[-1]

    def _enter(self, token: Token) -> Token:
        """Return a value; a container becomes the open scope."""
        if token.kind in _WORDS:
            if len(self._scopes) > MAX_DEPTH and self.scanner.profile.json_limits:
                self.fail_at_depth()
            self._scopes.append(_Scope(token.kind, token.at, _WORDS[token.kind]))
            self._entries.append(0)
        elif token.kind is TokenKind.STRING:
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

    def _mismatch(self, unit: str, opened: TokenKind) -> NoReturn:
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
        """Return the name of an entry; its value is looked at as well."""
        scanner = self.scanner
        at = self._name_at = scanner.at
        if scanner.unit != '"':
            scanner.unexpected("was expecting double-quote to start field name")
        name = Token(TokenKind.NAME, at, scanner.name())
        self._last = TokenKind.NAME
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
        """Return a scalar, or the beginning of a container. A string is read later."""
        scanner = self.scanner
        at, unit = scanner.at, scanner.unit
        self._value_at = at
        if unit == '"':
            scanner.at += 1
            return Token(TokenKind.STRING, at)
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
        token = Token(TokenKind.FLOAT if found[1] or found[2] else TokenKind.INTEGER, at, found[0])
        if scanner.profile.json_limits:
            self.check_number(token)
        return token

    def _no_number(self) -> NoReturn:
        """Raise the fault for a minus sign without a digit."""
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
        if unit in "}," or (unit == "]" and self._scope.kind is TokenKind.ARRAY):
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
