"""Limits of Kafka's config providers: readable paths, and names of environment variables.

As in Kafka's `AllowedPaths`, paths are compared without `.` and `..`, and symbolic links within an
allowed path are followed. A pattern is a regular expression of Java, and matches as in Java.
"""

import os
from functools import cached_property
from pathlib import Path

from controlplane.core.configdef.regex_errors import matching_error
from controlplane.core.java.regular_expressions import JavaPattern
from controlplane.settings.errors import BadValue


class PathLimit:
    """Paths that a provider may read: `allowed.paths`; an empty text allows all paths."""

    def __init__(self, key: str, text: str) -> None:
        self.key = key
        """Name of the setting with the limit."""
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
                    self.key,
                    f"has the path {path!r}, which is not absolute: write absolute paths, with"
                    " commas and without blanks between them",
                )
            if not os.path.exists(_normalised(path)):  # noqa: PTH110 - Path raises PermissionError
                raise BadValue(
                    self.key, f"has the path {path}, which does not exist: create it or omit it"
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
        self.key = key
        """Name of the setting with the limit."""
        self._text = text

    def check(self) -> None:
        """Refuse an invalid pattern.

        Raises:
            BadValue: the pattern is invalid, or `JavaPattern` does not support it.
        """
        _ = self._pattern

    def allows(self, name: str) -> bool:
        """True if the pattern matches the whole name.

        Raises:
            BadValue: see `check`.
        """
        return self._pattern is None or self._pattern.matches(name)

    @cached_property
    def _pattern(self) -> JavaPattern | None:
        if self._text is None:
            return None
        reason = matching_error(self._text)
        if reason is not None:
            raise BadValue(self.key, f"is {self._text}, an unusable pattern: {reason}")
        return JavaPattern.of(self._text)


def _normalised(path: str) -> Path:
    """Return an absolute path without `.`, `..` and repeated slashes; links are not resolved."""
    return Path("/" + os.path.normpath(path).lstrip("/"))
