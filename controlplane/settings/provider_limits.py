"""Limits of Kafka's config providers: readable paths, and names of environment variables.

As in Kafka's `AllowedPaths`, paths are compared without `.` and `..`, and symbolic links within an
allowed path are followed. A pattern has only the syntax that Java and Python read alike.
"""

import os
import re
from functools import cached_property
from pathlib import Path

from controlplane.settings.errors import BadValue

_SHARED_SYNTAX = re.compile(
    r"""(?:\(\?i\))?                              # at the beginning only
    (?:
        [^\\\[({]                                # a literal, a dot, a quantifier, an end
        | \\(?:[dDwWsS]|[^a-zA-Z0-9])            # an escape
        | \{[0-9]+(?:,[0-9]*)?\}                 # a quantifier
        | \((?:\?(?:[:=!>]|<[=!])|(?!\?))        # the beginning of a group
        | \[\^?+                                 # a class: no class within, no operator
          (?:(?!&&|--|\|\||~~)(?:[^\\\[\]]|\\(?:[dDwWsS]|[^a-zA-Z0-9])))+
          \]
    )*""",
    re.VERBOSE | re.DOTALL,
)
"""Patterns that mean the same in Java and Python. Python would accept others and misread them, for
example the intersection `[a-z&&[^b]]`."""

_LINE_BREAK = re.compile("[\n\r\x85\u2028\u2029]")
"""Characters that `.` and `$` of Java and of Python treat differently."""


class PathLimit:
    """Paths that a provider may read: `allowed.paths`; an empty text allows all paths."""

    def __init__(self, key: str, text: str) -> None:
        """`key`: the setting with this text, for errors."""
        self._key = key
        # Java's split omits empty texts at the end: "," allows no path.
        listed = text.rstrip(",")
        self._paths = None if not text else listed.split(",") if listed else []

    def check(self) -> None:
        """Refuse paths that are relative or missing, as Kafka does at the start of a worker.

        Raises:
            BadValue: a path is relative or missing.
        """
        for path in self._paths or ():
            if not Path(path).is_absolute():
                raise BadValue(
                    self._key,
                    f"has the path {path!r}, which is not absolute: write absolute paths, with"
                    " commas and without blanks between them",
                )
            if not os.path.exists(_normalised(path)):  # noqa: PTH110 - Path raises PermissionError
                raise BadValue(
                    self._key, f"has the path {path}, which does not exist: create it or omit it"
                )

    def allowed(self, path: str) -> str | None:
        """Return the path to read in place of a path in a reference; None: it is not allowed."""
        if self._paths is None:
            return path
        if not Path(path).is_absolute():
            return None
        normalised = _normalised(path)
        limits = (_normalised(limit) for limit in self._paths if Path(limit).is_absolute())
        if any(normalised.is_relative_to(limit) for limit in limits):
            return str(normalised)
        return None


class NameLimit:
    """Names of variables that a provider may read: `allowlist.pattern`; None allows all names."""

    def __init__(self, key: str, text: str | None) -> None:
        """`key`: the setting with this text, for errors."""
        self._key = key
        self._text = text

    def check(self) -> None:
        """Refuse an invalid pattern.

        Raises:
            BadValue: the pattern is invalid, or Java may read it differently.
        """
        _ = self._pattern

    def allows(self, name: str) -> bool:
        """True if the pattern matches the whole name; a name with a line break never matches.

        Raises:
            BadValue: see `check`.
        """
        if self._pattern is None:
            return True
        return not _LINE_BREAK.search(name) and self._pattern.fullmatch(name) is not None

    @cached_property
    def _pattern(self) -> re.Pattern[str] | None:
        if self._text is None:
            return None
        if not _SHARED_SYNTAX.fullmatch(self._text):
            raise BadValue(
                self._key,
                f"is {self._text}, which cannot be read here: use literals,"
                r" classes such as [A-Z_], groups, quantifiers, \d, \s and \w",
            )
        try:
            # Classes such as \w, and (?i), are for ASCII only in Java.
            return re.compile(self._text, re.ASCII)
        except (re.error, OverflowError, RecursionError) as failure:
            raise BadValue(self._key, f"is {self._text}, an invalid pattern: {failure}") from None


def _normalised(path: str) -> Path:
    """Return an absolute path without `.`, `..` and repeated slashes; links are not resolved."""
    return Path("/" + os.path.normpath(path).lstrip("/"))
