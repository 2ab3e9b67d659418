"""Binding of tokens to the shapes of Connect's requests, with Jackson's error texts.

A shape is a function of the reader and the value's first token. Fields are bound in document order,
so the first of several faults is reported, as a worker does.
"""

import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, NoReturn

import msgspec

from controlplane.core.java.jackson import value_of
from controlplane.core.java.jackson_tokens import Token, TokenKind
from controlplane.core.java.java_library import fits
from controlplane.core.releases.profiles import Profile
from controlplane.rest.bodies.body_errors import ENTITIES, Fault, Link
from controlplane.rest.bodies.body_tokens import BodyTokens

Shape = Callable[["BodyReader", Token], Any]

TEXT = "java.lang.String"
MAP = "java.util.LinkedHashMap"
LIST = "java.util.ArrayList"
TEXTS = f"{MAP}<{TEXT},{TEXT}>"
ANYTHING = f"{MAP}<{TEXT},java.lang.Object>"
_RAW = f"{MAP}<java.lang.Object,java.lang.Object>"


class BodyReader(NamedTuple):
    """Reading position in a body, and the release that reads it."""

    tokens: BodyTokens
    profile: Profile

    def next(self) -> Token:
        """Return the next token of an open value. Raises `Fault` if there is none."""
        token = self.tokens.next()
        assert token is not None
        return token

    def within(self, link: Link, fault: Fault) -> Fault:
        """Extend a fault by the link to the enclosing value."""
        if self.profile.jackson.points_at_token and fault.syntax and not fault.chain:
            fault.pointing_at(self.tokens.last_at)
        return fault.within(link)

    def mismatch(self, java_type: str, token: Token) -> NoReturn:
        """Raise the fault for a value of another shape."""
        name, description = token.kind.value
        if self.profile.rest_body_out_of_token:
            raw = _RAW if java_type.startswith(MAP) else java_type
            text = f"Cannot deserialize instance of `{raw}` out of {name} token"
        else:
            text = f"Cannot deserialize value of type `{java_type}` from {description}"
            text += f" (token `JsonToken.{name}`)"
        raise Fault(text, token.at)


# --- scalars ------------------------------------------------------------------------------------


def text(reader: BodyReader, token: Token) -> str | None:
    """Read a text; numbers and booleans become their spelling."""
    if token.kind is TokenKind.NULL:
        return None
    if token.kind in (TokenKind.OBJECT, TokenKind.ARRAY):
        reader.mismatch(TEXT, token)
    return reader.tokens.text_of(token)


LEVELS_MAX = 250
"""Maximum nesting of a value in an offset. Connect refuses every list and map there, but only after
further checks. Without this limit, deeper values would overflow Python's stack in a command."""


def anything(reader: BodyReader, token: Token, deepest: int = LEVELS_MAX) -> Any:
    """Read any value of at most `deepest` levels."""

    def number(token: Token) -> int | float:
        reader.tokens.check_number(token)
        return int(token.text) if token.kind is TokenKind.INTEGER else float(token.text)

    def check_depth(depth: int) -> None:
        if depth > deepest:
            raise Fault(f"A value in an offset has more than {deepest} levels", None, syntax=True)

    return value_of(reader.tokens, token, number, check_depth)


# --- containers ---------------------------------------------------------------------------------


def map_of(shape: Shape, java_type: str) -> Shape:
    """Return the shape of a map whose values have this shape; JSON's null becomes None."""

    def read(reader: BodyReader, token: Token) -> dict[str, Any] | None:
        if token.kind is TokenKind.NULL:
            return None
        if token.kind is TokenKind.STRING:
            _fail_at_text(reader, token, java_type)
        if token.kind is not TokenKind.OBJECT:
            reader.mismatch(java_type, token)
        members: dict[str, Any] = {}
        while (name := reader.next()).kind is TokenKind.NAME:
            value = reader.next()
            try:
                members[name.text] = shape(reader, value)
            except Fault as fault:
                # Jackson does not name the key in a syntax error.
                raise (
                    fault if fault.syntax else reader.within(Link(MAP, name.text), fault)
                ) from None
        return members

    return read


def list_of(shape: Shape, java_type: str) -> Shape:
    """Return the shape of a list whose items have this shape; JSON's null becomes None."""

    def read(reader: BodyReader, token: Token) -> list[Any] | None:
        if token.kind is TokenKind.NULL:
            return None
        if token.kind is TokenKind.STRING and reader.profile.rest_body_out_of_token:
            _check_empty(reader, token)
        elif token.kind is TokenKind.STRING and not reader.profile.rest_body_switches:
            _check_blank(reader, token, f"element of `{LIST}<{java_type}>`")
        if token.kind is not TokenKind.ARRAY:
            reader.mismatch(f"{LIST}<{java_type}>", token)
        items: list[Any] = []
        while (value := reader.next()).kind is not TokenKind.END_ARRAY:
            try:
                items.append(shape(reader, value))
            except Fault as fault:
                raise reader.within(Link(LIST, len(items)), fault) from None
        return items

    return read


texts: Shape = map_of(text, TEXTS)
"""Shape of a map of texts: a config."""

values: Shape = map_of(anything, ANYTHING)
"""Shape of a map of any values: a partition, an offset."""


# --- objects with known fields ------------------------------------------------------------------


class Bean(msgspec.Struct, frozen=True):
    """An object of known fields, bound by its constructor. `name` is the name of Kafka's class."""

    name: str
    fields: Mapping[str, Shape]

    def __call__(self, reader: BodyReader, token: Token) -> dict[str, Any] | None:
        """Return the fields that the body has.

        Jackson creates the object as soon as it has every field, or at the end of the object. Until
        then it collects unknown fields, and reports them at the creation. Afterwards it reports an
        unknown field at once.
        """
        if token.kind is TokenKind.NULL:
            return None
        if token.kind is not TokenKind.OBJECT:
            _fail_at_scalar(reader, token, self.class_name)
        bound: dict[str, Any] = {}
        unknown: list[str] = []
        while (name := reader.next()).kind is TokenKind.NAME:
            value = reader.next()
            if name.text in self.fields:
                missing = len(self.fields) - len(bound)
                bound[name.text] = self._field(reader, name.text, value)
                if unknown and missing == 1 and len(bound) == len(self.fields):
                    reader.next()
                    self._unknown(reader, unknown[0])
            elif len(bound) == len(self.fields):
                self._unknown(reader, name.text)
            else:
                anything(reader, value, sys.maxsize)
                unknown.append(name.text)
        if unknown:
            self._unknown(reader, unknown[0])
        return bound

    @property
    def class_name(self) -> str:
        """Fully qualified name of the Java class, as Jackson's errors show it."""
        return f"{ENTITIES}.{self.name}"

    def _field(self, reader: BodyReader, name: str, token: Token) -> Any:
        try:
            return self.fields[name](reader, token)
        except Fault as fault:
            raise reader.within(Link(self.class_name, name), fault) from None

    def _unknown(self, reader: BodyReader, name: str) -> NoReturn:
        names = ", ".join(f'"{field}"' for field in self.fields)
        number = len(self.fields)
        heading = "one known property: " if number == 1 else f"{number} known properties: "
        end = "]" if reader.profile.rest_body_stray_bracket else ""
        text = (
            f'Unrecognized field "{name}" (class {self.class_name}), '
            f"not marked as ignorable ({heading}{names}{end})"
        )
        raise Fault(text, reader.tokens.at).within(Link(self.class_name, name))


def choice(name: str, names: tuple[str, ...]) -> Shape:
    """Return the shape of the name of an enum constant, in upper or lower case."""
    class_name = f"{ENTITIES}.{name}"

    def read(reader: BodyReader, token: Token) -> str | None:
        if token.kind is TokenKind.NULL:
            return None
        if token.kind in (TokenKind.OBJECT, TokenKind.ARRAY):
            spelled, description = token.kind.value
            creator = f"[method {class_name}#forValue({TEXT})]"
            raise Fault(
                f"Input mismatch reading Enum `{class_name}`: properties-based `@JsonCreator` "
                f"({creator}) expects String Value, got {description} (`JsonToken.{spelled}`)",
                token.at,
            )
        constant_name = reader.tokens.text_of(token).upper()
        if constant_name not in names:
            constant = f"{class_name.replace('$', '.')}.{constant_name}"
            problem = f"problem: No enum constant {constant}"
            raise Fault(f"Cannot construct instance of `{class_name}`, {problem}", token.at)
        return constant_name

    return read


# --- a scalar where an object is expected -------------------------------------------------------


def _fail_at_scalar(reader: BodyReader, token: Token, java_type: str) -> NoReturn:
    if token.kind is TokenKind.ARRAY:
        reader.mismatch(java_type, token)
    if token.kind is TokenKind.STRING:
        _fail_at_text(reader, token, java_type)
    argument, description = _SCALARS.get(token.kind) or (_integer_type(token.text), "Number value")
    value_words = f"{description} ({token.text})"
    if argument == _BIG_INTEGER and reader.profile.rest_body_out_of_token:
        _fail_to_construct(java_type, "no suitable creator method found", value_words, token)
    _fail_without_creator(java_type, argument, value_words, token)


_SCALARS = {
    TokenKind.TRUE: ("boolean/Boolean", "boolean value"),
    TokenKind.FALSE: ("boolean/Boolean", "boolean value"),
    TokenKind.FLOAT: ("double/Double", "Number value"),
}


def _integer_type(digits: str) -> str:
    if len(digits) > _LONG_DIGITS:
        return _BIG_INTEGER
    number = int(digits)
    return next((name for name, bits in _INTEGERS.items() if fits(number, bits)), _BIG_INTEGER)


_INTEGERS = {"int/Int": 32, "long/Long": 64}
"""Bits of Java's integers, the smallest first."""

_BIG_INTEGER = "BigInteger"
"""Argument type of a creator. Jackson 2.10 knows no creator for this type."""

_LONG_DIGITS = 20
"""Maximum characters of a number that may be a `long`."""


def _check_empty(reader: BodyReader, token: Token) -> None:
    """Raise a fault for an empty text in place of a list, as Jackson did before 2.12."""
    if not reader.tokens.text_of(token):
        _fail_without_creator(LIST, "String", "String value ('')", token)


def _fail_at_text(reader: BodyReader, token: Token, java_type: str) -> NoReturn:
    raw, _, _ = java_type.partition("<")
    text = reader.tokens.text_of(token)
    if not reader.profile.rest_body_out_of_token:
        whole = raw if reader.profile.rest_body_switches else java_type
        _check_blank(reader, token, f"element of `{whole}`" if raw == MAP else f"`{raw}` value")
        text = text.strip()
    _fail_without_creator(raw, "String", f"String value ('{text}')", token)


def _check_blank(reader: BodyReader, token: Token, target: str) -> None:
    """Refuse a blank text before any conversion."""
    if not reader.tokens.text_of(token).strip():
        hint = "(but could if coercion was enabled using `CoercionConfig`)"
        raise Fault(f'Cannot coerce empty String ("") to {target} {hint}', token.at)


def _fail_without_creator(
    java_type: str, argument: str, value_words: str, token: Token
) -> NoReturn:
    missing = f"no {argument}-argument constructor/factory method"
    _fail_to_construct(java_type, missing, value_words, token)


def _fail_to_construct(java_type: str, missing: str, value_words: str, token: Token) -> NoReturn:
    raise Fault(
        f"Cannot construct instance of `{java_type}` (although at least one Creator exists): "
        f"{missing} to deserialize from {value_words}",
        token.at,
    )
