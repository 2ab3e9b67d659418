"""Lenient JSON parser with Jackson's rules, as Kafka's JsonDeserializer uses them.

It reads one value from the front of a document and leaves the rest unread. `json_converter` passes
on only what ordinary parsers refuse or read otherwise. The parser keeps its own stack, so that no
input overflows Python's.

Not reproduced, as no JSON writer produces it: Jackson's table of names, shared between documents,
in which a name with a stray `FF` byte may equal another one; defects of UTF-16 and UTF-32 at buffer
boundaries; UTF-32 cut off within a character before Jackson 2.9 (refused there, read here if the
value was complete).
"""

import re
from typing import Final

from controlplane.core.java.jackson_numbers import floating, integer, number_rules
from controlplane.core.java.jackson_text import DocumentText, StringDecoder, read_text
from controlplane.core.java.java_library import is_identifier_part, utf16_units
from controlplane.core.java.json_errors import StackOverflow, Undecodable
from controlplane.core.releases.profiles import Profile

MAX_DEPTH: Final = 1000
MAX_NAME_BYTES: Final = 50_000
MAX_STRING_UNITS: Final = 20_000_000
"""StreamReadConstraints of Jackson 2.15 and later."""

_CONVERTER_STACK: Final = 2000
_PARSER_STACK: Final = 4000
"""Nesting at which Java's stack (1 MiB) counts as overflown. JsonConverter overflows when it walks
over a whole value (measured at 1800 to 2400 levels); a recursive parser overflows before that (at
3500 to 4900)."""

_STRING = r'"([^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})[^"\\\x00-\x1f]*+)*+)"'
SPACE = re.compile(r"[ \t\n\r]*+")
STRING = re.compile(_STRING)
NAME = re.compile(rf"{_STRING}[ \t\n\r]*+:[ \t\n\r]*+")
VALUE = re.compile(
    rf"(?P<open>[\[{{])|{_STRING.replace('(', '(?P<string>', 1)}"
    r"|(?P<number>-?[0-9]++(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+)|(?P<literal>true|false|null)"
)
_LEADING_ZEROS = re.compile(r"^(-?)0+(?=[0-9])")
_LITERALS: Final = {"true": True, "false": False, "null": None}
_CLOSING: Final = {list: "]", dict: "}"}
_AFTER_NUMBER: Final = " \t\r\n"

Container = list[object] | dict[str, object]


def is_deeper(value: object, levels: int) -> bool:
    """True if containers are nested more than `levels` deep."""
    layer = _containers([value])
    for _ in range(levels):
        layer = [inner for outer in layer for inner in _containers(outer)]
    return bool(layer)


def _containers(container: Container) -> list[Container]:
    elements = container.values() if isinstance(container, dict) else container
    return [element for element in elements if isinstance(element, (list, dict))]


class _JacksonParser:
    """Parser of one document, used once."""

    def __init__(self, text: DocumentText, profile: Profile) -> None:
        self._text = text
        self._units = text.units
        self._at = 0
        self._profile = profile
        surrogates = profile.json_encoded_surrogates
        self._strings = StringDecoder(text.in_bytes, False, surrogates)
        self._names = StringDecoder(text.in_bytes, True, surrogates)
        self._open: list[Container] = []
        self._deepest = 0

    def read(self) -> object:
        """Parse the value at the front of the document."""
        self._skip_space()
        if self._at == len(self._units) and not self._text.broken:
            self._check_empty()
            return None
        root = self._value()
        if not self._open:
            self._check_follower(root)
        while self._open:
            self._step(self._open[-1])
        if self._deepest > _CONVERTER_STACK and is_deeper(root, _CONVERTER_STACK):
            raise StackOverflow(f"more than {_CONVERTER_STACK} levels")
        return root

    def _check_empty(self) -> None:
        if not self._profile.json_empty_is_null:
            raise Undecodable("no value")

    def _step(self, container: Container) -> None:
        """Read the next element of a container, or its end."""
        self._skip_space()
        if self._units[self._at : self._at + 1] == _CLOSING[type(container)]:
            self._at += 1
            self._open.pop()
            return
        if container:
            self._expect_comma()
        if isinstance(container, list):
            container.append(self._value())
        else:
            name = self._name()
            container[name] = self._value()

    def _value(self) -> object:
        found = VALUE.match(self._units, self._at)
        if not found:
            raise self._unexpected("a value")
        self._at = found.end()
        match found.lastgroup:
            case "open":
                return self._opened(found[0])
            case "string":
                return self._string(found["string"])
            case "number":
                return self._number(found[0])
            case _:
                return _LITERALS[found[0]]

    def _opened(self, bracket: str) -> Container:
        container: Container = [] if bracket == "[" else {}
        self._open.append(container)
        if self._profile.json_limits and len(self._open) > MAX_DEPTH:
            raise Undecodable(f"more than {MAX_DEPTH} levels")
        self._deepest = max(self._deepest, len(self._open))
        if self._profile.json_parser_recurses and len(self._open) > _PARSER_STACK:
            raise StackOverflow(f"more than {_PARSER_STACK} levels")
        return container

    def _string(self, body: str) -> str:
        text = self._strings.decode(body)
        if self._profile.json_limits and len(body) > MAX_STRING_UNITS < len(utf16_units(text)):
            raise Undecodable(f"a string of more than {MAX_STRING_UNITS} characters")
        return text

    def _name(self) -> str:
        found = NAME.match(self._units, self._at)
        if not found:
            raise self._unexpected("a name")
        self._at = found.end()
        body = found[1]
        if self._profile.json_limits and len(body) > MAX_NAME_BYTES < self._names.size(body):
            raise Undecodable(f"a name of more than {MAX_NAME_BYTES} bytes")
        return self._names.decode(body)

    def _number(self, token: str) -> int | float:
        token, padded = _LEADING_ZEROS.subn(r"\1", token)
        if padded and not self._profile.json_leading_zeros:
            raise Undecodable("a number with leading zeros")
        if token.removeprefix("-").isdigit():
            return integer(token, limited=self._profile.json_limits)
        return floating(token, number_rules(self._profile))

    def _check_follower(self, root: object) -> None:
        """Check the unit after a top-level scalar: Jackson looks at it without reading it."""
        following = self._units[self._at : self._at + 1]
        if (not following and not self._text.broken) or isinstance(root, str):
            return
        if isinstance(root, bool) or root is None:
            if following and (following < "0" or following in "]}" or not self._is_part(following)):
                return
        elif following and following in _AFTER_NUMBER:
            return
        raise self._unexpected("the end of the value")

    def _is_part(self, unit: str) -> bool:
        """True if a unit could continue a word."""
        return (self._text.in_bytes and not unit.isascii()) or is_identifier_part(unit)

    def _skip_space(self) -> None:
        found = SPACE.match(self._units, self._at)
        self._at = found.end() if found else self._at

    def _expect_comma(self) -> None:
        if self._units[self._at : self._at + 1] != ",":
            raise self._unexpected("a comma or the end of the container")
        self._at += 1
        self._skip_space()

    def _unexpected(self, wanted: str) -> Undecodable:
        return Undecodable(f"no JSON: {wanted} is missing at position {self._at}")


def parse(value: bytes, profile: Profile) -> object:
    """Decode bytes as JsonConverter (schemas off) of a release does; see `json_converter.decode`.

    Raises:
        Undecodable: the release throws a DataException.
        StackOverflow: the release overflows its stack.
    """
    return _JacksonParser(read_text(value), profile).read()
