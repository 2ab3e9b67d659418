r"""Errors in a regular expression, worded like `java.util.regex.Pattern` of Java 17.

`pattern_error` detects unclosed or unopened groups and character classes, quantifiers with nothing
to repeat, and a backslash at the end. For other invalid patterns, `pattern_error` finds no error.
A flag `x` makes `#` begin a comment. If a `#` follows such a flag, the pattern is not checked from
the flag on.

Valid patterns have no error, with two exceptions. `pattern_error` may refuse a valid pattern in
which `\c` stands before a quotation (`\Q…\E`). With the flag `x`, `\c` before white space may have
the same effect.

`matching_error` also refuses patterns that this process cannot match.
"""

import re

from controlplane.core.java import java_library
from controlplane.core.java.pattern_nodes import MatchLimitExceeded
from controlplane.core.java.pattern_parser import UnsupportedPattern
from controlplane.core.java.regular_expressions import JavaPattern


def pattern_error(pattern: str) -> str | None:
    """The text of the `PatternSyntaxException`; None if no error is found."""
    scan = _PatternScanner(pattern)
    error = scan.error()
    if error is None:
        return None
    description, index = error
    lines = [description if index is None else f"{description} near index {index}", pattern]
    # Java counts the index in code points and the length of the pattern in UTF-16 units.
    if index is not None and index < java_library.length(pattern):
        lines.append(" " * index + "^")
    return "\n".join(lines)


def matching_error(pattern: str) -> str | None:
    """The reason why this process cannot match texts with a pattern; None: it can."""
    error = pattern_error(pattern)
    if error is not None:
        return error
    try:
        JavaPattern.of(pattern)
    except UnsupportedPattern as unsupported:
        return f"this worker cannot match it: {unsupported}"
    return None


def matches(pattern: str, text: str) -> bool:
    """`Pattern.matches`; a pattern that `matching_error` refuses matches nothing.

    Clients choose both pattern and text. A match that exceeds the limit of steps counts as none.
    """
    try:
        return JavaPattern.of(pattern).matches(text)
    except (UnsupportedPattern, MatchLimitExceeded):
        return False


_PLAIN = re.compile(r"[^\\\[()|*+?]+")
"""Characters that the scanner skips outside of a class: none affects the errors that it detects."""


def _may_have_comments(kind: str) -> bool:
    """True for a group such as `?ix:`; its flag `x` makes `#` begin a comment."""
    return kind.endswith((":", ")")) and "x" in kind.partition("-")[0]


class _PatternScanner:
    """Scanner of a pattern's groups, classes and quantifiers.

    `_repeatable`: a quantifier may follow.
    """

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._groups = 0
        self._repeatable = False
        self._last_hash = pattern.rfind("#")

    def error(self) -> tuple[str, int | None] | None:
        """The error and the index that Java reports; None: no error."""
        while self._at < len(self._pattern):
            error = self._step(self._pattern[self._at])
            if error is not None:
                return error
        return ("Unclosed group", len(self._pattern)) if self._groups else None

    def _step(self, unit: str) -> tuple[str, int | None] | None:
        """Scan one element that begins with this character; return as `error` does."""
        start = self._at
        self._at += 1
        match unit:
            case "\\":
                return self._escape(start)
            case "[":
                return self._class()
            case "(":
                self._groups += 1
                self._skip_group_kind()
                self._repeatable = False
            case ")":
                if not self._groups:
                    # Java reports the index before the bracket. A first bracket has no such index.
                    return "Unmatched closing ')'", start - 1 if start else None
                self._groups -= 1
                self._repeatable = True
            case "|":
                self._repeatable = False
            case "*" | "+" | "?":
                if not self._repeatable:
                    return f"Dangling meta character '{unit}'", start
                # A second quantifier, `?` or `+`, makes the first lazy or possessive. A third one
                # has nothing to repeat.
                self._at += self._pattern[self._at : self._at + 1] in {"?", "+"}
                self._repeatable = False
            case _:
                self._skip(_PLAIN)
                self._repeatable = True
        return None

    def _skip(self, characters: re.Pattern[str]) -> None:
        """Skip the characters that follow, if they match."""
        skipped = characters.match(self._pattern, self._at)
        if skipped is not None:
            self._at = skipped.end()

    def _escape(self, start: int) -> tuple[str, int | None] | None:
        """Skip an escape, or a quotation."""
        if self._at == len(self._pattern):
            return "Unexpected internal error", start + 1
        self._skip_escaped()
        self._repeatable = True
        return None

    def _skip_escaped(self) -> bool:
        r"""Skip what follows a backslash: the rest of `\Q…\E` or `\cX`, or one character.

        Return False for an empty quotation.
        """
        if not self._pattern.startswith("Q", self._at):
            self._at += 2 if self._pattern.startswith("c", self._at) else 1
            return True
        start = self._at + 1
        end = self._pattern.find("\\E", start)
        self._at = len(self._pattern) if end < 0 else end + len("\\E")
        return end != start

    def _skip_group_kind(self) -> None:
        """Skip the characters after `(` that mark the group's kind: their `?` is no quantifier.

        If comments may follow, skip the rest of the pattern.
        """
        kind = re.compile(r"\?(?:<[=!]|<\w+>|[=!>:]|[-a-zA-Z]*[:)]?)").match(
            self._pattern, self._at
        )
        if kind is None:
            return
        self._groups -= kind[0].endswith(")")
        self._at = kind.end()
        if self._at <= self._last_hash and _may_have_comments(kind[0]):
            self._at, self._groups = len(self._pattern), 0

    def _class(self) -> tuple[str, int | None] | None:
        """Skip to the bracket that closes a character class; classes nest."""
        depth, first = 1, True
        self._skip_negation()
        while depth and self._at < len(self._pattern):
            unit = self._pattern[self._at]
            self._at += 1
            if unit == "[":
                depth, first = depth + 1, True
                self._skip_negation()
                continue
            if unit == "\\":
                first = not self._skip_escaped() and first
                continue
            if unit == "]" and not first:
                depth -= 1
            first = False
        if depth:
            return "Unclosed character class", len(self._pattern) - 1
        self._repeatable = True
        return None

    def _skip_negation(self) -> None:
        self._at += self._pattern.startswith("^", self._at)
