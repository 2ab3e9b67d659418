"""Random regular expressions of Java, with texts that they may match."""

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

_LITERALS: tuple[str, ...] = (
    *"abAB01_.- ",
    "\\.",
    "\\-",
    "\\\\",
    "\\x41",
    "\\u0062",
    "\\x{61}",
    "\\0101",
    "é",
)
_SETS = ("\\d", "\\D", "\\w", "\\W", "\\s", "\\S", "\\h", "\\v", "\\V", ".")
_PROPERTIES = tuple(
    f"\\{letter}{{{name}}}"
    for letter in "pP"
    for name in (
        *("Lower", "Upper", "Alpha", "Digit", "Alnum", "Punct", "Graph", "Print", "Blank", "Cntrl"),
        *("XDigit", "Space", "ASCII", "L", "Lu", "Nd", "IsL", "P", "Zs"),
    )
)
_ANCHORS = ("^", "$", "\\b", "\\B", "\\A", "\\z", "\\Z")
_QUANTIFIERS = ("", "", "", "?", "*", "+", "{0,1}", "{2}", "{1,}", "{2,3}", "{0}")
_LOOKS = ("(?=", "(?!", "(?<=", "(?<!")
_GROUPS = ("(", "(", "(?:", "(?:", "(?>", "(?<n>", "(?i:", "(?s-i:", *_LOOKS)
_FLAGS = ("(?i)", "(?s)", "(?m)", "(?-i)", "(?im-s)")
_WILD = (
    *("(", ")", "[", "]", "{", "}", "*", "+", "?", "|", "^", "$", "\\", "-", "&&", "&", "[^", "]["),
    *("\\Q", "\\E", "\\Qa+\\E", "\\Q]\\E", "{2}", "{,2}", "{3,1}", "++", "??", "(?", "(?<", "(?x)"),
    *("\\1", "\\k<n>", "\\R", "\\X", "\\G", "\\N", "\\cA", "\\07", "\\x4", "\\u00", "\\p{", "\\pL"),
    *("[]", "[^]", "a-", "[a-", "-z]", "[:alpha:]", "~~", "--", "||", "#", "(?#a)", "(?P<a>b)"),
)
_CHARS = ("a", "b", "A", "B", "0", "1", "_", ".", "-", " ", "\n", "\r", "\\", "]", "+")
_RARE_CHARS = ("\t", "\x0b", "\x85", "\u2028", "\u2029", "\xa0", "é", "É", "ß", "\u0130", "😀", "^")


class PatternCase(NamedTuple):
    """A pattern and texts to match."""

    pattern: str
    texts: tuple[str, ...]


def pattern_cases(seed: str, count: int) -> Iterator[PatternCase]:
    """Cases of which a fifth have a random piece, which is often an error."""
    random = Random(seed)
    for number in range(count):
        pattern = _alternatives(random, 3)
        if number % 5 == 0:
            for _ in range(random.choice((1, 1, 2, 3))):
                at = random.randrange(len(pattern) + 1)
                pattern = pattern[:at] + random.choice(_WILD) + pattern[at:]
        yield PatternCase(pattern, tuple({"", *(_text(random, pattern) for _ in range(25))}))


def _text(random: Random, pattern: str) -> str:
    """A short text, of characters of the pattern and of others."""
    own = [char for char in pattern if char.isalnum()] or ["a"]
    return "".join(
        random.choice(own if random.random() < 0.4 else _CHARS)
        if random.random() < 0.95
        else random.choice(_RARE_CHARS)
        for _ in range(random.choice((1, 1, 2, 2, 3, 3, 4, 5, 6)))
    )


def _alternatives(random: Random, depth: int) -> str:
    parts = [
        "".join(_item(random, depth) for _ in range(random.choice((0, 1, 1, 2, 2, 3))))
        for _ in range(random.choice((1, 1, 1, 2, 2, 3)))
    ]
    return "|".join(parts)


def _item(random: Random, depth: int) -> str:
    kind = random.random()
    if kind < 0.05:
        return random.choice(_FLAGS)
    if kind < 0.1:
        return random.choice(_ANCHORS)
    if kind < 0.14:
        return f"\\Q{random.choice(('a', 'a.b', '[', '0', ']a', ''))}\\E{_quantifier(random)}"
    if kind < 0.4 and depth:
        start = random.choice(_GROUPS)
        quantifier = "" if start in _LOOKS else _quantifier(random)
        return f"{start}{_alternatives(random, depth - 1)}){quantifier}"
    return _single(random) + _quantifier(random)


def _single(random: Random) -> str:
    """An item that matches one character."""
    kind = random.random()
    if kind < 0.5:
        return random.choice(_LITERALS)
    if kind < 0.6:
        return random.choice(_SETS)
    if kind < 0.7:
        return random.choice(_PROPERTIES)
    return _class(random, 2)


def _quantifier(random: Random) -> str:
    quantifier = random.choice(_QUANTIFIERS)
    return quantifier + random.choice(("", "", "", "?", "+")) if quantifier else ""


def _class(random: Random, depth: int) -> str:
    operands = [_operand(random, depth) for _ in range(random.choice((1, 1, 1, 2, 3)))]
    return f"[{random.choice(('', '', '^'))}{'&&'.join(operands)}]"


def _operand(random: Random, depth: int) -> str:
    elements: list[str] = []
    for _ in range(random.choice((1, 1, 2, 3))):
        kind = random.random()
        if kind < 0.15 and depth:
            elements.append(_class(random, depth - 1))
        elif kind < 0.4:
            elements.append(random.choice(("a-z", "A-Z", "0-9", "a-b", "^-b", "!-a", "é-ÿ", "Z-a")))
        elif kind < 0.5:
            elements.append(random.choice((*_SETS[:-1], *_PROPERTIES)))
        else:
            elements.append(random.choice((*_LITERALS, "^", "&", "$", "|", "(", "*", "]", "\\]")))
    return "".join(elements)
