r"""Java's regular expressions (`java.util.regex.Pattern` of Java 17), matched in bounded time.

A pattern must match the whole text (`Matcher.matches`). Invalid patterns are refused. So are
patterns with parts that this module does not support:

- back-references, `\R`, `\X`, `\G`, `\N`
- properties of characters other than POSIX classes and general categories
- classes such as `\p{Lower}` and `\p{Lu}` under the flag i
- the flags c, d, u, x and U
- quantifiers in a look-behind, and repeated anchors
- characters after a nested class on the right of `&&`: `[a&&[b]c]`
- more than 20,000 characters, more than 49 nested groups, or too many ranges in classes

Java misses some matches of a repeated group, if it contains an anchor, a look-around or another
repeated group. They are found here: `(\A|aa){2}` matches `aa`.

`\b` and `\w` know ASCII letters only. Java 17 also knows others at `\b`, Java 19 does not.
Names of topics have no other letters.
"""

from functools import lru_cache
from typing import Final

from controlplane.core.java.pattern_nodes import PatternMatch, PatternNode
from controlplane.core.java.pattern_parser import PatternParser


class JavaPattern:
    """Compiled regular expression; `JavaPattern.of` makes it."""

    def __init__(self, root: PatternNode) -> None:
        self._root = root
        self._matches = lru_cache(maxsize=_ANSWERS_KEPT)(self._match)

    @classmethod
    def of(cls, text: str) -> "JavaPattern":
        """Return the compiled pattern; the last ones are kept.

        Raises:
            UnsupportedPattern: see the module.
        """
        return _compiled(text)

    def matches(self, text: str) -> bool:
        """Return True if the pattern matches the whole text.

        Raises:
            MatchLimitExceeded: it takes too many steps to know.
        """
        return self._matches(text) if len(text) <= _KEPT_LENGTH_MAX else self._match(text)

    def _match(self, text: str) -> bool:
        return bool(self._root.ends(PatternMatch(text), 1) >> len(text) & 1)


_ANSWERS_KEPT: Final = 10_000
"""Limit of answers that a pattern keeps.

A predicate asks about the topic of each record, so it asks about the same topics again and again.
"""

_KEPT_LENGTH_MAX: Final = 249
"""Longest text of a kept answer: the longest name of a topic."""


@lru_cache(maxsize=200)
def _compiled(text: str) -> JavaPattern:
    return JavaPattern(PatternParser(text).result())
