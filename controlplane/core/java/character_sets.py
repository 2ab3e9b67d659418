r"""Sets of characters in classes of Java's regular expressions: `[a-z]`, `\d`, `\p{Lu}`."""

import sys
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final

_LAST: Final = sys.maxunicode
_CASE_GAP: Final = ord("a") - ord("A")


class CharacterSet:
    """Immutable set of code points; `ranges` are sorted, and no two of them touch."""

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        """`ranges`: pairs of first and last code point, in any order."""
        joined: list[tuple[int, int]] = []
        for first, last in sorted(ranges):
            if joined and first <= joined[-1][1] + 1:
                joined[-1] = joined[-1][0], max(last, joined[-1][1])
            else:
                joined.append((first, last))
        self.ranges = tuple(joined)
        self._firsts = [first for first, _ in joined]

    @classmethod
    def of(cls, *parts: str) -> "CharacterSet":
        """Build the set of single characters, and of ranges as pairs of characters: `az`."""
        return cls((ord(part[0]), ord(part[-1])) for part in parts)

    def __or__(self, other: "CharacterSet") -> "CharacterSet":
        return CharacterSet((*self.ranges, *other.ranges))

    def __and__(self, other: "CharacterSet") -> "CharacterSet":
        return ~(~self | ~other)

    def __invert__(self) -> "CharacterSet":
        gaps, start = list[tuple[int, int]](), 0
        for first, last in self.ranges:
            if start < first:
                gaps.append((start, first - 1))
            start = last + 1
        return CharacterSet(gaps if start > _LAST else [*gaps, (start, _LAST)])

    def __contains__(self, char: str) -> bool:
        code = ord(char)
        at = bisect_right(self._firsts, code) - 1
        return at >= 0 and code <= self.ranges[at][1]

    def in_any_case(self) -> "CharacterSet":
        """Return the set, extended by the other case of each of its ASCII letters."""
        if all(last < ord("A") or first > ord("z") for first, last in self.ranges):
            return self  # a shortcut for sets without ASCII letters, which are frequent
        lower, upper = (self & CharacterSet.of(letters) for letters in ("az", "AZ"))
        return (
            self
            | CharacterSet((first - _CASE_GAP, last - _CASE_GAP) for first, last in lower.ranges)
            | CharacterSet((first + _CASE_GAP, last + _CASE_GAP) for first, last in upper.ranges)
        )


LINE_ENDS: Final = CharacterSet.of("\n", "\r", "\x85", "\u2028\u2029")
"""Characters that `.` excludes."""

WORD: Final = CharacterSet.of("az", "AZ", "09", "_")

_HORIZONTAL: Final = CharacterSet.of(
    *("\t", " ", "\xa0", "\u1680", "\u180e", "\u2000\u200a", "\u202f", "\u205f", "\u3000")
)

ESCAPED: Final[Mapping[str, CharacterSet]] = {
    "d": CharacterSet.of("09"),
    "s": CharacterSet.of("\t\r", " "),
    "w": WORD,
    "h": _HORIZONTAL,
    "v": CharacterSet.of("\n\r", "\x85", "\u2028\u2029"),
}
"""Sets by the letter of their escape; the capital letter means the complement."""

_GRAPH: Final = CharacterSet.of("!~")
_ALNUM: Final = CharacterSet.of("az", "AZ", "09")

_POSIX: Final[Mapping[str, CharacterSet]] = {
    "ASCII": CharacterSet.of("\x00\x7f"),
    "Alnum": _ALNUM,
    "Alpha": CharacterSet.of("az", "AZ"),
    "Blank": CharacterSet.of("\t", " "),
    "Cntrl": CharacterSet.of("\x00\x1f", "\x7f"),
    "Digit": ESCAPED["d"],
    "Graph": _GRAPH,
    "Lower": CharacterSet.of("az"),
    "Print": CharacterSet.of(" ~"),
    "Punct": _GRAPH & ~_ALNUM,
    "Space": ESCAPED["s"],
    "Upper": CharacterSet.of("AZ"),
    "XDigit": CharacterSet.of("09", "af", "AF"),
}

_OF_ONE_CASE: Final = frozenset(("Lower", "Upper", "Ll", "Lu", "Lt"))
"""Classes that `(?i)` widens in newer releases of Java only."""


def property_set(name: str, *, any_case: bool) -> CharacterSet | None:
    r"""Return the set of `\p{name}`: a POSIX class or a general category of Unicode.

    None: the name is unknown, or `any_case` is set for a class of one case (`Lu`). Releases of Java
    read such a class differently under `(?i)`. The version of Unicode is that of Python.
    """
    if name in _POSIX:
        return None if any_case and name in _OF_ONE_CASE else _POSIX[name]
    category = name.removeprefix("Is")
    if any_case and category in _OF_ONE_CASE:
        return None
    return _categories().get(category)


@cache
def _categories() -> Mapping[str, CharacterSet]:
    """Return the general categories (`Lu`) and their groups (`L`); it takes 0.3 s."""
    ranges: dict[str, list[tuple[int, int]]] = {}
    start, category = 0, unicodedata.category("\x00")
    for code in range(1, _LAST + 2):
        following = unicodedata.category(chr(code)) if code <= _LAST else ""
        if following != category:
            for name in (category, category[0]):
                ranges.setdefault(name, []).append((start, code - 1))
            start, category = code, following
    return {name: CharacterSet(pairs) for name, pairs in ranges.items()}
