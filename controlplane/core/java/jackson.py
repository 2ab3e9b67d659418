"""Lenient JSON parser with Jackson's rules, as Kafka's JsonDeserializer uses them.

It reads one value from the front of a document and leaves the rest unread. `json_codec` calls
it only for documents that msgspec refuses or may read differently. The parser keeps its own stack,
so that no input overflows Python's.

Three defects of Jackson are not reproduced, because no JSON writer causes them:

- Jackson keeps the names of all documents in one table. There a name with a stray `FF` byte may be
  mistaken for another name.
- UTF-16 and UTF-32 are misread at some buffer boundaries.
- Before 2.9, UTF-32 that is cut off within a character is refused. Here it is read if the value is
  complete.
"""

from collections.abc import Callable
from typing import Any, Final

from controlplane.core.java.jackson_numbers import (
    big_decimal,
    floating,
    integer,
    number_rules,
)
from controlplane.core.java.jackson_text import read_text
from controlplane.core.java.jackson_tokens import Token, TokenKind, Tokens
from controlplane.core.java.json_errors import StackOverflow, Undecodable
from controlplane.core.releases.profiles import Profile

_CONVERTER_STACK: Final = 2000
_PARSER_STACK: Final = 4000
"""Levels beyond which Java's stack (1 MiB) counts as overflowed.

JsonConverter overflows when it walks over the parsed value (measured at 1800 to 2400 levels). With
more levels, a recursive parser overflows while it reads (measured at 3500 to 4900 levels).
"""

_NAME, _STRING, _INTEGER = TokenKind.NAME, TokenKind.STRING, TokenKind.INTEGER
_OBJECT, _ARRAY = TokenKind.OBJECT, TokenKind.ARRAY
_NUMBERS: Final = (TokenKind.INTEGER, TokenKind.FLOAT)
_ENDS: Final = (TokenKind.END_OBJECT, TokenKind.END_ARRAY)
_LITERALS: Final = {TokenKind.TRUE: True, TokenKind.FALSE: False, TokenKind.NULL: None}


def parse(value: bytes, profile: Profile) -> object:
    """Decode bytes as JsonConverter (schemas off) of a release does; see `json_codec.decode`.

    Raises:
        Undecodable: the release throws a DataException.
        StackOverflow: the release overflows its stack.
    """
    tokens = Tokens(read_text(value), profile, leading_zeros=profile.json_leading_zeros)
    first = tokens.next()
    if first is None:
        if not profile.json_empty_is_null:
            raise Undecodable("no value")
        return None
    rules = number_rules(profile)
    deepest = 0

    def number(token: Token) -> int | float:
        return integer(token.text) if token.kind is _INTEGER else floating(token.text, rules)

    def check_depth(depth: int) -> None:
        nonlocal deepest
        deepest = max(deepest, depth)
        if profile.json_parser_recurses and depth > _PARSER_STACK:
            raise StackOverflow(f"more than {_PARSER_STACK} levels")

    root = value_of(tokens, first, number, check_depth)
    # The deepest value may have been replaced by a later field of the same name.
    if deepest > _CONVERTER_STACK and is_deeper(root, _CONVERTER_STACK):
        raise StackOverflow(f"more than {_CONVERTER_STACK} levels")
    return root


def parse_tree(value: bytes, profile: Profile) -> object:
    """Decode bytes as Jackson's tree model with big decimals; see `json_codec.decode_tree`.

    Raises:
        Undecodable: the release throws a DataException.
    """
    tokens = Tokens(read_text(value), profile, leading_zeros=profile.json_leading_zeros)
    first = tokens.next()
    if first is None:
        return None

    def number(token: Token) -> Any:
        return int(token.text) if token.kind is _INTEGER else big_decimal(token.text)

    return value_of(tokens, first, number, lambda _depth: None)


def value_of(
    tokens: Tokens,
    token: Token,
    number: Callable[[Token], Any],
    check_depth: Callable[[int], None],
) -> Any:
    """Read the value that begins with a token; the last of equal names wins.

    `check_depth` gets the depth of each container, and may raise.
    """
    root: list[Any] = []
    container: Any = root
    enclosing: list[Any] = []
    name = ""
    while True:
        kind = token.kind
        if kind is _NAME:
            name = token.text
        elif kind in _ENDS:
            container = enclosing.pop()
        else:
            if kind is _STRING:
                value: Any = tokens.text_of(token)
            elif kind in _NUMBERS:
                value = number(token)
            else:
                value = {} if kind is _OBJECT else [] if kind is _ARRAY else _LITERALS[kind]
            if type(container) is dict:
                container[name] = value
            else:
                container.append(value)
            if kind is _OBJECT or kind is _ARRAY:
                enclosing.append(container)
                container = value
                check_depth(len(enclosing))
        if container is root:
            return root[0]
        following = tokens.next()
        assert following is not None
        token = following


def is_deeper(value: object, levels: int) -> bool:
    """True if containers are nested more than `levels` deep."""
    layer = _containers([value])
    for _ in range(levels):
        layer = [inner for outer in layer for inner in _containers(outer)]
    return bool(layer)


def _containers(container: list[object] | dict[str, object]) -> list[Any]:
    elements = container.values() if isinstance(container, dict) else container
    return [element for element in elements if isinstance(element, (list, dict))]
