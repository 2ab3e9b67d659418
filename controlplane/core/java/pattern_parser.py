"""Parser of Java's regular expressions."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from controlplane.core.java.character_sets import (
    ESCAPED,
    LINE_ENDS,
    CharacterSet,
    property_set,
)
from controlplane.core.java.pattern_nodes import (
    Alternatives,
    Anchor,
    Atomic,
    Character,
    CharacterRepetition,
    Concatenation,
    LookAround,
    PatternNode,
    Repetition,
)


class UnsupportedPattern(ValueError):
    """A pattern is invalid, or `JavaPattern` does not support it. The message says why."""


_DEPTH_MAX: Final = 50
"""Limit of nesting, the pattern itself included: a deeper one would exceed Python's stack."""

LENGTH_MAX: Final = 20_000
"""Limit of the characters of a pattern: enough for the names of 1,000 topics."""

_SIZE_MAX: Final = 100_000
"""Limit of the nodes of a pattern, and of the ranges read for its classes. `\\pL` has hundreds."""

_REPEATS_MAX: Final = 2**31 - 1

_W: Final = "[a-zA-Z0-9_]"
_WORD_EDGE: Final = f"(?:(?<={_W})(?!{_W})|(?<!{_W})(?={_W}))"

_START: Final = Anchor(r"\A")
_END: Final = Anchor(r"(?=\Z|\r\n\Z|[\r\x85\u2028\u2029]\Z|(?<!\r)\n\Z)")
_LINE_START: Final = Anchor(r"(?=[\s\S])(?:\A|(?<=[\n\x85\u2028\u2029])|(?<=\r)(?!\n))")
_LINE_END: Final = Anchor(r"(?=\Z|(?<!\r)\n|[\r\x85\u2028\u2029])")

_ANCHORS: Final = {
    "A": _START,
    "z": Anchor(r"\Z"),
    "Z": _END,
    "b": Anchor(_WORD_EDGE),
    "B": Anchor(f"(?!{_WORD_EDGE})"),
}
"""Anchors by the letter of their escape."""

_CONTROLS: Final = {"a": "\a", "e": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_HEXADECIMAL: Final = frozenset("0123456789abcdefABCDEF")
_FLAGS: Final = frozenset("ims")
_SURROGATES: Final = range(0xD800, 0xE000)
_SIGNS: Final = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_QUANTIFIERS: Final = frozenset("*+?{")
_DIGITS: Final = frozenset("0123456789")
_OCTAL_DIGITS: Final = frozenset("01234567")


class _Symbols:
    r"""Cursor over the characters of a pattern; those between `\Q` and `\E` are literal."""

    def __init__(self, pattern: str) -> None:
        self._symbols: list[tuple[str, int, bool]] = []
        """Each with its index, and True if it is literal."""
        self._at = 0
        position, literal = 0, False
        while position < len(pattern):
            pair = pattern[position : position + 2]
            if pair == ("\\E" if literal else "\\Q"):
                literal = not literal
                position += 2
                continue
            # An escape is taken whole, so that `\\Q` begins no quotation.
            taken = pair if pair[0] == "\\" and not literal else pair[0]
            self._symbols += [(char, position + i, literal) for i, char in enumerate(taken)]
            position += len(taken)
        self._length = len(pattern)

    @property
    def index(self) -> int:
        """Index of the next character in the pattern."""
        at_end = self._at >= len(self._symbols)
        return self._length if at_end else self._symbols[self._at][1]

    def peek(self, ahead: int = 0) -> str:
        """Return the next character; an empty text if it is literal (quoted), or at the end."""
        at = self._at + ahead
        if at >= len(self._symbols):
            return ""
        char, _, literal = self._symbols[at]
        return "" if literal else char

    @property
    def is_literal(self) -> bool:
        """True if the next character is literal."""
        return self._at < len(self._symbols) and self._symbols[self._at][2]

    @property
    def is_at_end(self) -> bool:
        """True after the last character."""
        return self._at >= len(self._symbols)

    def take(self) -> str:
        """Return the next character, and move on; empty at the end."""
        if self.is_at_end:
            return ""
        self._at += 1
        return self._symbols[self._at - 1][0]

    def takes(self, text: str) -> bool:
        """Move on if this text follows, and none of it is literal."""
        if self.peek() == text[0] and all(
            self.peek(ahead) == char for ahead, char in enumerate(text)
        ):
            self._at += len(text)
            return True
        return False

    def refused(self, reason: str, place: str = "at") -> UnsupportedPattern:
        """Return the error with the index of the next character; at the end, of the last one.

        `place`: `at` that index, or `before` it if the faulty characters have been taken.
        """
        return UnsupportedPattern(f"{reason} {place} index {min(self.index, self._length - 1)}")


class PatternParser:
    """Recursive descent over a pattern; each method takes its part and returns the node."""

    def __init__(self, pattern: str) -> None:
        if len(pattern) > LENGTH_MAX:
            raise UnsupportedPattern(f"more than {LENGTH_MAX} characters")
        self._symbols = _Symbols(pattern)
        self._flags = frozenset[str]()
        self._depth = 0
        self._room = _SIZE_MAX
        self._names: set[str] = set()
        self._behind = False
        """True within a look-behind."""
        self._characters: dict[tuple[tuple[int, int], ...], Character] = {}
        """Nodes by their ranges; equal characters share one."""

    def result(self) -> PatternNode:
        """Return the node of the whole pattern.

        Raises:
            UnsupportedPattern: see `JavaPattern`.
        """
        node = self._alternatives()
        if not self._symbols.is_at_end:
            raise self._symbols.refused("a ')' without its '('")
        return node

    def _alternatives(self) -> PatternNode:
        """Parse up to the end of the group or pattern; flags end there, too."""
        flags, nodes = self._flags, list[PatternNode]()
        self._deeper()
        nodes.append(self._concatenation())
        while self._symbols.takes("|"):
            nodes.append(self._concatenation())
        self._flags = flags
        self._depth -= 1
        return nodes[0] if len(nodes) == 1 else Alternatives(nodes)

    def _concatenation(self) -> PatternNode:
        """Parse one alternative."""
        nodes: list[PatternNode] = []
        while not self._symbols.is_at_end and self._symbols.peek() not in {"|", ")"}:
            nodes += self._item()
        return nodes[0] if len(nodes) == 1 else Concatenation(nodes)

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise self._symbols.refused(f"{_DEPTH_MAX} or more nested groups and classes")

    def _count(self, size: int) -> None:
        """Count nodes or ranges."""
        self._room -= size
        if self._room < 0:
            raise self._symbols.refused("too many characters and ranges of classes")

    def _item(self) -> Sequence[PatternNode]:
        """Parse one character, class, anchor or group with its quantifier; flags have no node."""
        symbols = self._symbols
        if symbols.is_literal:
            return self._repeated(self._char(symbols.take()))
        match symbols.peek():
            case "(":
                return self._group()
            case "[":
                return self._repeated(self._character(self._class()))
            case "\\":
                return self._escape()
            case "." | "^" | "$" as operator:
                symbols.take()
                return self._operator(operator)
            case "*" | "+" | "?" | "{" as quantifier:
                raise symbols.refused(f"a '{quantifier}' that repeats nothing")
            case _:
                return self._repeated(self._char(symbols.take()))

    def _operator(self, operator: str) -> Sequence[PatternNode]:
        if operator == ".":
            excluded = CharacterSet() if "s" in self._flags else LINE_ENDS
            return self._repeated(self._character(~excluded))
        by_line = "m" in self._flags
        if operator == "^":
            return self._condition(_LINE_START if by_line else _START)
        return self._condition(_LINE_END if by_line else _END)

    def _condition(self, node: PatternNode) -> Sequence[PatternNode]:
        """Return a node that matches no character; a quantifier of it is refused."""
        if self._symbols.peek() in _QUANTIFIERS:
            raise self._symbols.refused("a repeated anchor")
        self._count(1)
        return (node,)

    def _char(self, char: str) -> PatternNode:
        return self._character(_range(char, char, any_case="i" in self._flags))

    def _character(self, characters: CharacterSet) -> PatternNode:
        self._count(1)
        return self._characters.setdefault(characters.ranges, Character(characters))

    # --- quantifiers ----------------------------------------------------------------------------

    def _repeated(self, atom: PatternNode) -> Sequence[PatternNode]:
        """Apply the quantifier that follows an atom."""
        if self._symbols.peek() not in _QUANTIFIERS:
            return (atom,)
        if self._behind:
            raise self._symbols.refused("a quantifier in a look-behind")
        least, most = self._quantifier()
        if self._symbols.takes("?"):
            repeated = _repetition(atom, least, most, is_lazy=True)
        elif self._symbols.takes("+"):
            # Java commits to each repetition.
            repeated = _atomic(_repetition(_atomic(atom), least, most, is_lazy=False))
        else:
            repeated = _repetition(atom, least, most, is_lazy=False)
        if self._symbols.peek() in _QUANTIFIERS:
            raise self._symbols.refused("a quantifier of a quantifier")
        self._count(1)
        return (repeated,)

    def _quantifier(self) -> tuple[int, int | None]:
        """Take a quantifier; return its least and most counts (None: without limit)."""
        sign = self._symbols.take()
        if sign in _SIGNS:
            return _SIGNS[sign]
        least = self._digits()
        most = self._digits() if self._symbols.takes(",") else least
        if not least or not self._symbols.takes("}"):
            raise self._symbols.refused("a count that is not like {2}, {2,} or {2,5}")
        if max(int(least), int(most or 0)) > _REPEATS_MAX or (most and int(most) < int(least)):
            raise self._symbols.refused("a count out of range", "before")
        return int(least), int(most) if most else None

    def _digits(self) -> str:
        digits = ""
        while self._symbols.peek() in _DIGITS:
            digits += self._symbols.take()
            if len(digits) > len(str(_REPEATS_MAX)):
                raise self._symbols.refused("a count out of range", "before")
        return digits

    # --- groups ---------------------------------------------------------------------------------

    def _group(self) -> Sequence[PatternNode]:
        symbols, outer = self._symbols, self._flags
        symbols.take()
        if symbols.takes("?:"):
            return self._repeated(self._closed(outer))
        if symbols.takes("?>"):
            return self._repeated(_atomic(self._closed(outer)))
        for start in ("?=", "?!", "?<=", "?<!"):
            if symbols.takes(start):
                return self._look_around(outer, is_behind="<" in start, is_negated="!" in start)
        if symbols.takes("?<"):
            self._name()
        elif symbols.takes("?") and self._set_flags():
            return ()
        return self._repeated(self._closed(outer))

    def _look_around(
        self, outer: frozenset[str], *, is_behind: bool, is_negated: bool
    ) -> Sequence[PatternNode]:
        behind, self._behind = self._behind, self._behind or is_behind
        node = self._closed(outer)
        self._behind = behind
        return self._condition(LookAround(node, is_behind=is_behind, is_negated=is_negated))

    def _closed(self, outer: frozenset[str]) -> PatternNode:
        """Parse the rest of a group; the flags outside of it hold again after it."""
        node = self._alternatives()
        self._flags = outer
        if not self._symbols.takes(")"):
            raise self._symbols.refused("a group without its ')'")
        return node

    def _name(self) -> None:
        name = ""
        while (char := self._symbols.peek()).isascii() and char.isalnum():
            name += self._symbols.take()
        if not name or name[0].isdigit() or name in self._names or not self._symbols.takes(">"):
            raise self._symbols.refused("an invalid or repeated name of a group")
        self._names.add(name)

    def _set_flags(self) -> bool:
        """Take flags; return True if they hold from here on, False if only within a group."""
        added: set[str] = set()
        removed: set[str] = set()
        target = added
        while (char := self._symbols.peek()) not in {":", ")"}:
            if char == "-" and target is added:
                target = removed
            elif char in _FLAGS:
                target.add(char)
            else:
                raise self._symbols.refused("a flag or group that is not supported")
            self._symbols.take()
        self._flags = (self._flags | added) - removed
        return self._symbols.take() == ")"

    # --- escapes --------------------------------------------------------------------------------

    def _escape(self) -> Sequence[PatternNode]:
        """Parse an escape outside of a class."""
        letter = self._symbols.peek(1)
        if letter and letter in _ANCHORS:
            self._symbols.take()
            self._symbols.take()
            return self._condition(_ANCHORS[letter])
        escaped = self._escaped()
        if isinstance(escaped, str):
            return self._repeated(self._char(escaped))
        return self._repeated(self._character(escaped))

    def _escaped(self) -> str | CharacterSet:
        """Take an escape; return its character, or the set of the characters that it matches."""
        symbols, start = self._symbols, self._symbols.refused("an escape that is not supported")
        symbols.take()
        letter = symbols.peek()
        if not letter:
            raise start
        symbols.take()
        if letter.lower() in ESCAPED:
            characters = ESCAPED[letter.lower()]
            return characters if letter.islower() else ~characters
        if letter in _CONTROLS:
            return _CONTROLS[letter]
        match letter:
            case "p" | "P":
                characters = self._property(start)
                self._count(len(characters.ranges))
                return characters if letter == "p" else ~characters
            case "0":
                return self._octal(start)
            case "x" | "u":
                return self._hexadecimal(letter, start)
            case "c" if symbols.peek():
                return chr(ord(symbols.take()) ^ 64)
        if letter.isascii() and letter.isalnum():
            raise start
        return letter

    def _property(self, refused: UnsupportedPattern) -> CharacterSet:
        symbols, name = self._symbols, ""
        if symbols.takes("{"):
            while symbols.peek() not in {"", "}"}:
                name += symbols.take()
            if not symbols.takes("}"):
                raise refused
        else:
            name = symbols.peek() and symbols.take()
        characters = property_set(name, any_case="i" in self._flags)
        if characters is None:
            raise refused
        return characters

    def _octal(self, refused: UnsupportedPattern) -> str:
        digits = ""
        while self._symbols.peek() in _OCTAL_DIGITS and len(digits) < 3:
            if len(digits) == 2 and digits[0] > "3":
                break
            digits += self._symbols.take()
        if not digits:
            raise refused
        return chr(int(digits, 8))

    def _hexadecimal(self, letter: str, refused: UnsupportedPattern) -> str:
        r"""Take the rest of `\x41`, `\x{41}` or `\u0041`."""
        symbols, digits = self._symbols, ""
        braced = letter == "x" and symbols.takes("{")
        most = 6 if braced else 2 if letter == "x" else 4
        while symbols.peek() in _HEXADECIMAL and len(digits) < most:
            digits += symbols.take()
        is_complete = bool(digits) and symbols.takes("}") if braced else len(digits) == most
        code = int(digits or "0", 16)
        if not is_complete or code > 0x10FFFF or code in _SURROGATES:
            raise refused
        return chr(code)

    # --- classes --------------------------------------------------------------------------------

    def _class(self) -> CharacterSet:
        """Take a class in brackets; operands of `&&` are unions of its elements."""
        symbols = self._symbols
        self._deeper()
        symbols.take()
        negated = symbols.takes("^")
        characters: CharacterSet | None = None
        while True:
            operand = self._operand(is_first=characters is None)
            self._count(len(operand.ranges))
            if characters is None:
                characters = operand
            else:
                # Each `&&` reads all ranges on its left again.
                self._count(len(characters.ranges))
                characters &= operand
            if symbols.takes("]"):
                break
            if not symbols.takes("&&") or symbols.peek() == "&":
                raise symbols.refused("a class without its ']', or an unclear '&&'")
        self._depth -= 1
        return ~characters if negated else characters

    def _operand(self, *, is_first: bool) -> CharacterSet:
        """Take the elements up to `]` or `&&`.

        Java reads `[a&&[b]c&&d]` as `[a&&[b[c&&d]]]`. So characters after a class are refused here,
        on the right of `&&`.
        """
        symbols, elements = self._symbols, list[CharacterSet]()
        has_class = False
        while symbols.is_literal or symbols.peek() not in {"", "]"} or (not elements and is_first):
            if symbols.peek() == "&" and symbols.peek(1) == "&":
                break
            if symbols.peek() == "[":
                elements.append(self._class())
                has_class = True
                continue
            if has_class and not is_first:
                raise symbols.refused("characters after a class in an operand of '&&'")
            elements.append(self._element())
        if not elements:
            raise symbols.refused("an empty operand in a class")
        self._count(sum(len(element.ranges) for element in elements))
        return CharacterSet(pair for element in elements for pair in element.ranges)

    def _element(self) -> CharacterSet:
        """Take a character, a range or an escape within a class."""
        symbols = self._symbols
        first = self._member()
        if isinstance(first, CharacterSet):
            return first
        last = first
        # A hyphen before a class or the end is a character.
        if symbols.peek() == "-" and symbols.peek(1) not in {"[", "]"}:
            symbols.take()
            end = self._member()
            if isinstance(end, CharacterSet) or end < first:
                raise symbols.refused("an invalid range", "before")
            last = end
        return _range(first, last, any_case="i" in self._flags)

    def _member(self) -> str | CharacterSet:
        if self._symbols.is_at_end:
            raise self._symbols.refused("a class without its ']'")
        if not self._symbols.is_literal and self._symbols.peek() == "\\":
            return self._escaped()
        return self._symbols.take()


@lru_cache(maxsize=1_000)
def _range(first: str, last: str, *, any_case: bool) -> CharacterSet:
    characters = CharacterSet([(ord(first), ord(last))])
    return characters.in_any_case() if any_case else characters


def _atomic(node: PatternNode) -> PatternNode:
    """Return an atomic node; a character has one end anyway."""
    return node if isinstance(node, Character) else Atomic(node)


def _repetition(node: PatternNode, least: int, most: int | None, *, is_lazy: bool) -> PatternNode:
    if isinstance(node, Character):
        return CharacterRepetition(node, least, most, is_lazy=is_lazy)
    return Repetition(node, least, most, is_lazy=is_lazy)
