"""Faults of a body, in Jackson's words, with their locations."""

import re
from typing import NamedTuple, Self

from controlplane.core.releases.profiles import Profile

ENTITIES = "org.apache.kafka.connect.runtime.rest.entities"
"""Package of the classes that Connect binds bodies to; its messages name them."""


class Link(NamedTuple):
    """One step from a value to its container: `CreateConnectorRequest["config"]`."""

    owner: str
    field: str | int

    def __str__(self) -> str:
        quoted = f'"{self.field}"' if isinstance(self.field, str) else self.field
        return f"{self.owner}[{quoted}]"


class Fault(Exception):
    """A body cannot be read.

    Jackson's message points at the unit `at`. If `behind` is set, it points right after that unit.
    If `at` is None, the message has no location. A unit is one byte of a UTF-8 body. In another
    encoding, a unit is one UTF-16 code unit.
    """

    def __init__(
        self, text: str, at: int | None, *, behind: bool = False, syntax: bool = False
    ) -> None:
        super().__init__(text)
        self.text = text
        self.at = at
        self.behind = behind
        self.syntax = syntax
        """True for a syntax fault, False for valid JSON of another shape."""
        self.ends = 0
        """Number of times that Jackson has met the end of the body. Some releases add the whole
        length to the column each time."""
        self.chain: tuple[Link, ...] = ()

    def within(self, link: Link) -> Self:
        """Return the same fault, extended by the link to the enclosing value."""
        self.chain = (link, *self.chain)
        return self

    def pointing_at(self, at: int) -> Self:
        """Return the same fault at another unit."""
        self.at, self.behind, self.ends = at, False, 0
        return self

    def place(self, units: str) -> "BodyPosition | None":
        """Return the fault's line and column in a body; None if the fault has no location."""
        if self.at is None:
            return None
        line, column = place(units, self.at)
        return BodyPosition(line, column + self.behind + self.ends * len(units))


class BodyPosition(NamedTuple):
    """A location in a body, counted from 1. Columns are bytes, or UTF-16 units."""

    line: int
    column: int


_BREAK = re.compile(r"\r\n?|\n")


def place(units: str, at: int) -> BodyPosition:
    """Return the line and column of a unit."""
    breaks = [line_break.end() for line_break in _BREAK.finditer(units, 0, at)]
    return BodyPosition(1 + len(breaks), at - (breaks[-1] if breaks else 0) + 1)


def source(profile: Profile, shown: bytes | None = None) -> str:
    """Return the source of a body as a release's Jackson names it.

    `shown`: the body, if Connect passes bytes to Jackson. None: a stream, whose content Jackson
    does not repeat.
    """
    if profile.rest_body_source_hidden:
        return "REDACTED (`StreamReadFeature.INCLUDE_SOURCE_IN_LOCATION` disabled)"
    if shown is None:
        return f"({_STREAM})"
    text, omitted = shown[:SHOWN_MAX].decode("utf-8", "replace"), len(shown) - SHOWN_MAX
    return f'(byte[])"{text}"' + (f"[truncated {omitted} bytes]" if omitted > 0 else "")


SHOWN_MAX = 500
"""Maximum bytes of a body that a message repeats."""


_STREAM = "org.glassfish.jersey.message.internal.ReaderInterceptorExecutor$UnCloseableInputStream"
