"""Tokens → values of the shapes that Connect's requests have, with Jackson's words for others.

A shape is a function of the reader and the value's first token. Fields are bound in the order in
which they stand, so that of several faults the one is told that a worker meets first.
"""

import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, NoReturn

import msgspec

from controlplane.core.profiles import Profile
from controlplane.rest.bodies.faults import ENTITIES, Fault, Link
from controlplane.rest.bodies.tokens import DEPTH_MAX, Kind, Token, Tokens

Shape = Callable[["Reader", Token], Any]

TEXT = "java.lang.String"
MAP = "java.util.LinkedHashMap"
LIST = "java.util.ArrayList"
TEXTS = f"{MAP}<{TEXT},{TEXT}>"
ANYTHING = f"{MAP}<{TEXT},java.lang.Object>"
_RAW = f"{MAP}<java.lang.Object,java.lang.Object>"

_INT, _LONG = range(-(2**31), 2**31), range(-(2**63), 2**63)
_ENDS = (Kind.END_OBJECT, Kind.END_ARRAY)


class Reader(NamedTuple):
    """A body under way, and the release that reads it."""

    tokens: Tokens
    profile: Profile

    def next(self) -> Token:
        """The next token of a value that has begun: there always is one, or a fault."""
        token = self.tokens.next()
        assert token is not None
        return token

    def within(self, link: Link, fault: Fault) -> Fault:
        """A fault of something that is part of something."""
        if self.profile.jackson.points_at_token and fault.syntax and not fault.chain:
            fault.pointing_at(self.tokens.last_at)
        return fault.within(link)

    def mismatch(self, wanted: str, token: Token) -> NoReturn:
        """Complain of a value of another shape."""
        name, spoken = token.kind.value
        if self.profile.rest_body_out_of_token:
            raw = _RAW if wanted.startswith(MAP) else wanted
            text = f"Cannot deserialize instance of `{raw}` out of {name} token"
        else:
            text = f"Cannot deserialize value of type `{wanted}` from {spoken}"
            text += f" (token `JsonToken.{name}`)"
        raise Fault(text, token.at)


# --- scalars ------------------------------------------------------------------------------------


def text(reader: Reader, token: Token) -> str | None:
    """A text; numbers and booleans count as they are spelled."""
    if token.kind is Kind.NULL:
        return None
    if token.kind in (Kind.OBJECT, Kind.ARRAY):
        reader.mismatch(TEXT, token)
    return reader.tokens.text_of(token)


def anything(reader: Reader, token: Token, deepest: int = DEPTH_MAX) -> Any:
    """Any value, of `deepest` levels at most. Containers are filled here, not by calls."""
    root: list[Any] = []
    opened: list[Any] = [root]
    names = [""]
    while True:
        if token.kind in _ENDS:
            opened.pop()
            names.pop()
        elif token.kind is Kind.NAME:
            names[-1] = token.text
        else:
            value = _scalar(reader, token)
            _put(opened[-1], names[-1], value)
            if token.kind in (Kind.OBJECT, Kind.ARRAY):
                if len(opened) > deepest:
                    reader.tokens.fail_at_depth()
                opened.append(value)
                names.append("")
        if len(opened) == 1:
            return root[0]
        token = reader.next()


def _scalar(reader: Reader, token: Token) -> Any:
    match token.kind:
        case Kind.OBJECT:
            return {}
        case Kind.ARRAY:
            return []
        case Kind.STRING:
            return reader.tokens.text_of(token)
        case Kind.INTEGER | Kind.FLOAT:
            reader.tokens.check_number(token)
            return int(token.text) if token.kind is Kind.INTEGER else float(token.text)
    return {Kind.TRUE: True, Kind.FALSE: False}.get(token.kind)


def _put(container: Any, name: str, value: Any) -> None:
    if isinstance(container, list):
        container.append(value)
    else:
        container[name] = value


# --- containers ---------------------------------------------------------------------------------


def map_of(shape: Shape, wanted: str) -> Shape:
    """A map from names to values of a shape."""

    def read(reader: Reader, token: Token) -> dict[str, Any] | None:
        if token.kind is Kind.NULL:
            return None
        if token.kind is Kind.STRING:
            _from_text(reader, token, wanted)
        if token.kind is not Kind.OBJECT:
            reader.mismatch(wanted, token)
        found: dict[str, Any] = {}
        while (name := reader.next()).kind is Kind.NAME:
            value = reader.next()
            try:
                found[name.text] = shape(reader, value)
            except Fault as fault:
                # Where the JSON itself is broken, Jackson does not name the key.
                raise (
                    fault if fault.syntax else reader.within(Link(MAP, name.text), fault)
                ) from None
        return found

    return read


def list_of(shape: Shape, wanted: str) -> Shape:
    """A list of values of a shape, or None."""

    def read(reader: Reader, token: Token) -> list[Any] | None:
        if token.kind is Kind.NULL:
            return None
        if token.kind is Kind.STRING and reader.profile.rest_body_out_of_token:
            _check_empty(reader, token)
        elif token.kind is Kind.STRING and not reader.profile.rest_body_switches:
            _check_blank(reader, token, f"element of `{LIST}<{wanted}>`")
        if token.kind is not Kind.ARRAY:
            reader.mismatch(f"{LIST}<{wanted}>", token)
        found: list[Any] = []
        while (value := reader.next()).kind is not Kind.END_ARRAY:
            try:
                found.append(shape(reader, value))
            except Fault as fault:
                raise reader.within(Link(LIST, len(found)), fault) from None
        return found

    return read


texts: Shape = map_of(text, TEXTS)
"""A map of texts: a config."""

values: Shape = map_of(anything, ANYTHING)
"""A map of anything: a partition, an offset."""


# --- objects with known fields ------------------------------------------------------------------


class Bean(msgspec.Struct, frozen=True):
    """An object of known fields, bound by its constructor. `name` is that of Kafka's class."""

    name: str
    fields: Mapping[str, Shape]

    def __call__(self, reader: Reader, token: Token) -> dict[str, Any] | None:
        """The fields that are given.

        The object is made as soon as it has every field; if it lacks some, at the end. Only then
        is a strange field complained of, and at once if it comes later still.
        """
        if token.kind is Kind.NULL:
            return None
        if token.kind is not Kind.OBJECT:
            _no_object(reader, token, self.class_name)
        found: dict[str, Any] = {}
        strange: list[str] = []
        while (name := reader.next()).kind is Kind.NAME:
            value = reader.next()
            if name.text in self.fields:
                missing = len(self.fields) - len(found)
                found[name.text] = self._field(reader, name.text, value)
                if strange and missing == 1 and len(found) == len(self.fields):
                    reader.next()
                    self._unknown(reader, strange[0])
            elif len(found) == len(self.fields):
                self._unknown(reader, name.text)
            else:
                anything(reader, value, sys.maxsize)
                strange.append(name.text)
        if strange:
            self._unknown(reader, strange[0])
        return found

    @property
    def class_name(self) -> str:
        """The class with its package."""
        return f"{ENTITIES}.{self.name}"

    def _field(self, reader: Reader, name: str, token: Token) -> Any:
        try:
            return self.fields[name](reader, token)
        except Fault as fault:
            raise reader.within(Link(self.class_name, name), fault) from None

    def _unknown(self, reader: Reader, name: str) -> NoReturn:
        names = ", ".join(f'"{field}"' for field in self.fields)
        number = len(self.fields)
        known = "one known property: " if number == 1 else f"{number} known properties: "
        end = "]" if reader.profile.rest_body_stray_bracket else ""
        text = (
            f'Unrecognized field "{name}" (class {self.class_name}), '
            f"not marked as ignorable ({known}{names}{end})"
        )
        raise Fault(text, reader.tokens.scanner.at).within(Link(self.class_name, name))


def choice(name: str, names: tuple[str, ...]) -> Shape:
    """One of the names of an enum, whatever its case."""
    class_name = f"{ENTITIES}.{name}"

    def read(reader: Reader, token: Token) -> str | None:
        if token.kind is Kind.NULL:
            return None
        if token.kind in (Kind.OBJECT, Kind.ARRAY):
            spelled, spoken = token.kind.value
            creator = f"[method {class_name}#forValue({TEXT})]"
            raise Fault(
                f"Input mismatch reading Enum `{class_name}`: properties-based `@JsonCreator` "
                f"({creator}) expects String Value, got {spoken} (`JsonToken.{spelled}`)",
                token.at,
            )
        given = reader.tokens.text_of(token).upper()
        if given not in names:
            constant = f"{class_name.replace('$', '.')}.{given}"
            problem = f"problem: No enum constant {constant}"
            raise Fault(f"Cannot construct instance of `{class_name}`, {problem}", token.at)
        return given

    return read


# --- a scalar where an object is wanted ---------------------------------------------------------


def _no_object(reader: Reader, token: Token, wanted: str) -> NoReturn:
    if token.kind is Kind.ARRAY:
        reader.mismatch(wanted, token)
    if token.kind is Kind.STRING:
        _from_text(reader, token, wanted)
    argument, spoken = _SCALARS.get(token.kind) or _integer(token.text)
    _no_creator(wanted, argument, f"{spoken} ({token.text})", token)


_SCALARS = {
    Kind.TRUE: ("boolean/Boolean", "boolean value"),
    Kind.FALSE: ("boolean/Boolean", "boolean value"),
    Kind.FLOAT: ("double/Double", "Number value"),
}


def _integer(digits: str) -> tuple[str, str]:
    number = int(digits) if len(digits) <= _LONG_DIGITS else None
    kind = "int/Int" if number in _INT else "long/Long" if number in _LONG else "BigInteger"
    return kind, "Number value"


_LONG_DIGITS = 20
"""Characters of a number that may be a `long`."""


def _check_empty(reader: Reader, token: Token) -> None:
    """Complain of an empty text in the place of a list, as Jackson did before 2.12."""
    if not reader.tokens.text_of(token):
        _no_creator(LIST, "String", "String value ('')", token)


def _from_text(reader: Reader, token: Token, wanted: str) -> NoReturn:
    raw, _, _ = wanted.partition("<")
    given = reader.tokens.text_of(token)
    if not reader.profile.rest_body_out_of_token:
        whole = raw if reader.profile.rest_body_switches else wanted
        _check_blank(reader, token, f"element of `{whole}`" if raw == MAP else f"`{raw}` value")
        given = given.strip()
    _no_creator(raw, "String", f"String value ('{given}')", token)


def _check_blank(reader: Reader, token: Token, wanted: str) -> None:
    """A text without anything in it is not even tried."""
    if not reader.tokens.text_of(token).strip():
        hint = "(but could if coercion was enabled using `CoercionConfig`)"
        raise Fault(f'Cannot coerce empty String ("") to {wanted} {hint}', token.at)


def _no_creator(wanted: str, argument: str, given: str, token: Token) -> NoReturn:
    raise Fault(
        f"Cannot construct instance of `{wanted}` (although at least one Creator exists): "
        f"no {argument}-argument constructor/factory method to deserialize from {given}",
        token.at,
    )
