"""Tokenizer with Jackson's rules: reads the tokens of a document one by one.

`jackson` makes values of the tokens. `rest/bodies/` reads request bodies from the tokens directly.
A worker reports the first of several faults, so the order of reading is Jackson's:

- The beginning of a value is read together with the name before it.
- The rest of a string is read only when its text is needed.

A subclass with error texts of its own overrides `malformed` and `exceeded`.
"""

import re
from enum import Enum
from typing import Final, NamedTuple, NoReturn

import msgspec

from controlplane.core.java.jackson_numbers import MAX_DIGITS, TOO_MANY_DIGITS
from controlplane.core.java.jackson_text import DocumentText, StringDecoder
from controlplane.core.java.java_library import is_identifier_part, utf16_units
from controlplane.core.java.json_errors import Undecodable
from controlplane.core.releases.profiles import Profile

# Possessive quantifiers never backtrack, so matching takes linear time.
_STRING = r'"([^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})[^"\\\x00-\x1f]*+)*+)"'
_COLON = r"[ \t\n\r]*+:[ \t\n\r]*+"
SPACE = re.compile(r"[ \t\n\r]*+")
STRING = re.compile(_STRING)
COLON = re.compile(_COLON)
NAME = re.compile(_STRING + _COLON)
VALUE = re.compile(
    rf"(?P<open>[\[{{])|{_STRING.replace('(', '(?P<string>', 1)}"
    r"|(?P<number>-?[0-9]++(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+)|(?P<literal>true|false|null)"
)
_LEADING_ZEROS = re.compile(r"(-?)0+(?=[0-9])")
_AFTER_NUMBER: Final = " \t\r\n"


class Limit(NamedTuple):
    """Limit of Jackson's StreamReadConstraints. `error` is our text for it.

    `subject` and `getter` are Jackson's names in its own message.
    """

    maximum: int
    subject: str
    getter: str
    error: str


DEPTH: Final = Limit(1000, "Document nesting depth", "getMaxNestingDepth", "more than 1000 levels")
DIGITS: Final = Limit(MAX_DIGITS, "Number value length", "getMaxNumberLength", TOO_MANY_DIGITS)
NAME_BYTES: Final = Limit(
    50_000, "Name length", "getMaxNameLength", "a name of more than 50000 bytes"
)
STRING_UNITS: Final = Limit(
    20_000_000,
    "String value length",
    "getMaxStringLength",
    "a string of more than 20000000 characters",
)


class TokenKind(Enum):
    """Kind of a token: Jackson's name for it, and Jackson's description of such a value."""

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


class Token(msgspec.Struct, frozen=True, gc=False):
    """Token and the index of its first unit. A string's `text` is empty: use `Tokens.text_of`."""

    kind: TokenKind
    at: int
    text: str = ""


class Scope(msgspec.Struct, frozen=True, gc=False):
    """An open object, an open array, or the document. `at`: index of its first unit."""

    kind: TokenKind | None
    at: int
    closing: str


class SyntaxPart(Enum):
    """Part of a document that is missing or malformed.

    Each member holds a number and the part's name in our errors. The number distinguishes members
    with the same name.
    """

    VALUE = 1, "a value"
    VALUE_END = 2, "the end of the value"
    """A number or a literal is followed by a unit that cannot follow it."""
    STRING = 3, "a value"
    NAME = 4, "a name"
    COLON = 5, "a name"
    COMMA = 6, "a comma or the end of the container"


# In Python 3.11 each access to an Enum member costs a call. A token would need a dozen calls.
_OBJECT, _ARRAY, _NAME = TokenKind.OBJECT, TokenKind.ARRAY, TokenKind.NAME
_STRING_VALUE, _INTEGER, _FLOAT = TokenKind.STRING, TokenKind.INTEGER, TokenKind.FLOAT

_ROOT: Final = Scope(None, 0, "")
_OPENING: Final = (_OBJECT, _ARRAY)
_CLOSING: Final = {"[": "]", "{": "}"}
_ENDS: Final = {"]": TokenKind.END_ARRAY, "}": TokenKind.END_OBJECT}
_KINDS: Final = {
    "{": _OBJECT,
    "[": _ARRAY,
    "true": TokenKind.TRUE,
    "false": TokenKind.FALSE,
    "null": TokenKind.NULL,
}


class Tokens:
    """Reads the tokens of one document in order; the caller may stop at any token."""

    def __init__(self, text: DocumentText, profile: Profile, *, leading_zeros: bool) -> None:
        """Begin at the first unit. `leading_zeros`: accept numbers such as `01`."""
        self.units = text.units
        self.profile = profile
        self.at = 0
        """Index of the next unit to read."""
        self.last: TokenKind | None = None
        """Jackson's current token: the last one that was read without a fault."""
        self.scopes = [_ROOT]
        self.in_bytes = text.in_bytes
        self._value_at = self._name_at = 0
        self._broken = text.broken
        self._leading_zeros = leading_zeros
        self._limited = profile.json_limits
        surrogates = profile.json_encoded_surrogates
        self._strings = StringDecoder(text.in_bytes, False, surrogates)
        self._names = StringDecoder(text.in_bytes, True, surrogates)
        self._pending_value: Token | None = None  # read with the name before it, not returned yet
        self._unread_string: Token | None = None  # last string, if its text is not read yet
        self._string_text = ""

    def next(self) -> Token | None:
        """The next token; None at the end of the document."""
        if self._pending_value is not None:
            token, self._pending_value = self._pending_value, None
            return self._enter(token)
        if self._unread_string is not None:
            self.text_of(self._unread_string)
        if (unit := self.units[self.at : self.at + 1]) <= " ":
            unit = self._skip_space()
        scope = self.scopes[-1]
        if unit == scope.closing and (unit or not self._broken):
            return self._close(scope)
        if scope.kind is not None and self.last not in _OPENING:
            if unit != ",":
                self.malformed(SyntaxPart.COMMA, self.at)
            self.at += 1
            if self.units[self.at : self.at + 1] <= " ":
                self._skip_space()
        return self._read_name() if scope.kind is _OBJECT else self._enter(self._begin_value())

    def text_of(self, token: Token) -> str:
        """The text of the last token: a string's characters, a number's spelling."""
        if token is self._unread_string:
            self._unread_string, self._string_text = None, self._read_string(token.at)
        return self._string_text if token.kind is _STRING_VALUE else token.text

    def check_number(self, token: Token) -> None:
        """Raise an error for a number with more digits than Jackson reads."""
        self._check_size(DIGITS, sum(map(str.isdigit, token.text)))

    @property
    def last_at(self) -> int:
        """Index of the first unit of the token `last`.

        A failure does not change `last`. After a failure within an array or at the root, the result
        is the index of the faulty value.
        """
        return self._name_at if self.last is _NAME else self._value_at

    @property
    def unit(self) -> str:
        """The next unit; empty at the end."""
        return self.units[self.at : self.at + 1]

    def malformed(self, part: SyntaxPart, at: int, reason: str = "") -> NoReturn:
        """Raise the error for a missing or malformed part that begins at the unit `at`."""
        if part is SyntaxPart.VALUE_END and len(self.scopes) > 1:
            part = SyntaxPart.COMMA
        raise Undecodable(reason or f"no JSON: {part.value[1]} is missing at position {at}")

    def exceeded(self, limit: Limit, size: int) -> NoReturn:  # noqa: ARG002 - for overriding
        """Raise the error for a value whose size is beyond a limit."""
        raise Undecodable(limit.error)

    def _check_size(self, limit: Limit, size: int) -> None:
        if size > limit.maximum:
            self.exceeded(limit, size)

    def _skip_space(self) -> str:
        """Move to the next unit that is no white space, and return it."""
        space = SPACE.match(self.units, self.at)
        assert space is not None
        self.at = space.end()
        return self.unit

    # --- structure ----------------------------------------------------------------------------

    def _enter(self, token: Token) -> Token:
        """Return a value; a container becomes the open scope."""
        kind = self.last = token.kind
        if kind is _STRING_VALUE:
            self._unread_string = token
        elif kind in _OPENING:
            if self._limited and len(self.scopes) > DEPTH.maximum:
                self.exceeded(DEPTH, len(self.scopes))
            self.scopes.append(Scope(kind, token.at, _CLOSING[token.text]))
        return token

    def _close(self, scope: Scope) -> Token | None:
        """Return the end of the open container; None at the end of the document."""
        if scope is _ROOT:
            self.last = None
            return None
        self._value_at = self.at
        self.scopes.pop()
        self.at += 1
        self.last = _ENDS[scope.closing]
        return Token(self.last, self._value_at)

    def _read_name(self) -> Token:
        """Return the name of an entry, and read the beginning of its value."""
        at = self.at
        name_match = STRING.match(self.units, at)
        if name_match is None:
            self.malformed(SyntaxPart.NAME, at)
        body = name_match[1]
        if self._limited and len(body) > NAME_BYTES.maximum:
            self._check_size(NAME_BYTES, self._names.size(body))
        try:
            name = self._names.decode(body)
        except Undecodable as error:
            self.malformed(SyntaxPart.NAME, at, str(error))
        self.last, self._name_at, self.at = _NAME, at, name_match.end()
        colon = COLON.match(self.units, self.at)
        if colon is None:
            self.malformed(SyntaxPart.COLON, at)
        self.at = colon.end()
        self._pending_value = self._begin_value()
        return Token(_NAME, at, name)

    # --- values -------------------------------------------------------------------------------

    def _begin_value(self) -> Token:
        """Read and return a scalar, or the beginning of a container or a string."""
        at = self.at
        if self.units[at : at + 1] == '"':
            self._value_at, self.at = at, at + 1
            return Token(_STRING_VALUE, at)
        value = VALUE.match(self.units, at)
        if value is None:
            self.malformed(SyntaxPart.VALUE, at)
        self._value_at, self.at = at, value.end()
        if value.lastgroup == "number":
            return self._read_number(value[0])
        if value.lastgroup == "literal" and self._fails_after_word(self.unit):
            self.malformed(SyntaxPart.VALUE_END, self.at)
        return Token(_KINDS[value[0]], at, value[0])

    def _read_string(self, at: int) -> str:
        """Read the string whose opening quote is at `at`, and return its characters."""
        string = STRING.match(self.units, at)
        if string is None:
            self.malformed(SyntaxPart.STRING, at)
        try:
            text = self._strings.decode(string[1])
        except Undecodable as error:
            self.malformed(SyntaxPart.STRING, at, str(error))
        self.at = string.end()
        if self._limited and len(string[1]) > STRING_UNITS.maximum:
            self._check_size(STRING_UNITS, len(utf16_units(text)))
        return text

    def _read_number(self, text: str) -> Token:
        """Check a number and the unit after it; leading zeros are left out of the token's text."""
        if padded := _LEADING_ZEROS.match(text):
            if not self._leading_zeros:
                self.malformed(SyntaxPart.VALUE, self._value_at, "a number with leading zeros")
            text = padded[1] + text[padded.end() :]
        is_integer = text.removeprefix("-").isdigit()
        if self._fails_after_number(self.unit, text, is_integer=is_integer):
            self.malformed(SyntaxPart.VALUE_END, self.at)
        kind = _INTEGER if is_integer else _FLOAT
        token = Token(kind, self._value_at, text)
        if self._limited and len(text) > DIGITS.maximum:
            self.check_number(token)
        return token

    def _fails_after_number(self, unit: str, text: str, *, is_integer: bool) -> bool:
        """True if Jackson, while it reads a number, fails at the unit after it.

        `text` is the number; at the root only white space may follow it.
        """
        if not unit or unit in _AFTER_NUMBER:
            return not unit and self._broken
        if len(self.scopes) == 1:
            return True
        return (unit == "." and is_integer) or (unit in "eE" and "e" not in text.lower())

    def _fails_after_word(self, unit: str) -> bool:
        """True if Jackson fails at the unit after a literal. A byte beyond ASCII always fails.

        Jackson decodes the character that begins with such a byte without moving past the byte. So
        it reads the byte again as the second byte of the character, which is invalid.
        """
        if not unit:
            return self._broken
        if unit < "0" or unit in "]}":
            return False
        return (self.in_bytes and not unit.isascii()) or is_identifier_part(unit)
