"""Tokens → values of the shapes that Connect's requests have, with Jackson's words for others.

A shape is a function of the reader and the value's first token. Fields are bound in the order in
which they stand, so that of several faults the one is told that a worker meets first.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, NoReturn

import msgspec

from controlplane.core.profiles import Profile
from controlplane.rest.bodies.faults import ENTITIES, Fault, Link
from controlplane.rest.bodies.tokens import Kind, Token, Tokens

Shape = Callable[["Reader", Token], Any]

TEXT = "java.lang.String"
MAP = "java.util.LinkedHashMap"
LIST = "java.util.ArrayList"
TEXTS = f"{MAP}<{TEXT},{TEXT}>"
ANYTHING = f"{MAP}<{TEXT},java.lang.Object>"

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

    def mismatch(self, wanted: str, token: Token) -> NoReturn:
        """Complain of a value of another shape."""
        name, spoken = token.kind.value
        if self.profile.rest_body_out_of_token:
            text = f"Cannot deserialize instance of `{wanted}` out of {name} token"
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


def anything(reader: Reader, token: Token) -> Any:
    """Any value. Containers are filled here, not by calls: nothing is too deep."""
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
        case Kind.INTEGER:
            return int(token.text)
        case Kind.FLOAT:
            return float(token.text)
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
            _from_text(reader, token, MAP)
        if token.kind is not Kind.OBJECT:
            reader.mismatch(wanted, token)
        found: dict[str, Any] = {}
        while (name := reader.next()).kind is Kind.NAME:
            value = reader.next()
            found[name.text] = _part(reader, shape, value, Link(MAP, name.text))
        return found

    return read


def list_of(shape: Shape, wanted: str) -> Shape:
    """A list of values of a shape, or None."""

    def read(reader: Reader, token: Token) -> list[Any] | None:
        if token.kind is Kind.NULL:
            return None
        if token.kind is not Kind.ARRAY:
            reader.mismatch(f"{LIST}<{wanted}>", token)
        found: list[Any] = []
        while (value := reader.next()).kind is not Kind.END_ARRAY:
            found.append(_part(reader, shape, value, Link(LIST, len(found))))
        return found

    return read


def _part(reader: Reader, shape: Shape, token: Token, link: Link) -> Any:
    """A member of a container. Where the JSON itself is broken, Jackson does not name the place."""
    try:
        return shape(reader, token)
    except Fault as fault:
        raise (fault if fault.syntax else fault.within(link)) from None


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

        One that is not known is complained of at the end, unless all that are known stand before
        it: then the object is there already, and the complaint comes at once.
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
                found[name.text] = self._field(reader, name.text, value)
            else:
                anything(reader, value)
                strange.append(name.text)
            if strange and len(found) == len(self.fields):
                break
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
            raise fault.within(Link(self.class_name, name)) from None

    def _unknown(self, reader: Reader, name: str) -> NoReturn:
        names = ", ".join(f'"{field}"' for field in self.fields)
        number = len(self.fields)
        known = "one known property: " if number == 1 else f"{number} known properties: "
        end = "]" if reader.profile.rest_body_stray_bracket else ""
        text = (
            f'Unrecognized field "{name}" (class {self.class_name}), '
            f"not marked as ignorable ({known}{names}{end})"
        )
        raise Fault(text, reader.tokens.at).within(Link(self.class_name, name))


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
    argument, spoken = _SCALARS.get(token.kind) or _integer(int(token.text))
    _no_creator(wanted, argument, f"{spoken} ({token.text})", token)


_SCALARS = {
    Kind.TRUE: ("boolean/Boolean", "boolean value"),
    Kind.FALSE: ("boolean/Boolean", "boolean value"),
    Kind.FLOAT: ("double/Double", "Number value"),
}


def _integer(number: int) -> tuple[str, str]:
    kind = "int/Int" if number in _INT else "long/Long" if number in _LONG else "BigInteger"
    return kind, "Number value"


def _from_text(reader: Reader, token: Token, wanted: str) -> NoReturn:
    given = reader.tokens.text_of(token)
    if not given.strip():
        what = 'empty String ("")' if not given else "blank String (all whitespace)"
        raise Fault(
            f"Cannot coerce {what} to element of `{wanted}` "
            "(but could if coercion was enabled using `CoercionConfig`)",
            token.at,
        )
    _no_creator(wanted, "String", f"String value ('{given.strip()}')", token)


def _no_creator(wanted: str, argument: str, given: str, token: Token) -> NoReturn:
    raise Fault(
        f"Cannot construct instance of `{wanted}` (although at least one Creator exists): "
        f"no {argument}-argument constructor/factory method to deserialize from {given}",
        token.at,
    )
