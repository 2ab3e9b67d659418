"""Long answers page by page: `limit=` how many, `after=` the last one that is known already."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from controlplane.rest.calls import Call
from controlplane.rest.errors import BadQuestion

T = TypeVar("T")

PAGE_CHARACTERS = 1 << 22
"""A page ends behind the row with which it becomes longer than this, whatever its limit says."""

LIMIT_USUAL = 1_000


class Page(Generic[T]):
    """A page of rows that come one by one; nothing is kept of those in front of it.

    Several rows may share a place; the page may end between two of them. `after=` is a place, or a
    place and how many of its rows are known: `config@57#12`.
    """

    def __init__(
        self,
        call: Call,
        place: Callable[[T], str],
        read: Callable[[str], str] = str,
        known: Callable[[T], bool] | None = None,
    ) -> None:
        """`read` turns any spelling of a place into that of `place`.

        `known` tells which rows lie before an `after=` that is the place of no row.
        """
        self.rows: list[Any] = []
        self._place = place
        self._limit = limit_of(call)
        self._asked = call.asked("after")
        self._after = None if self._asked is None else _cursor(self._asked, read)
        self._known = known
        self._found = self._after is None or known is not None
        self._last, self._count = "", 0
        self._characters = 0
        self.next: str | None = None
        """What to give as `after=` for the next page; None: this is the last."""

    def is_in(self, row: T) -> bool:
        """True if the next row belongs on the page; `next` is set as soon as one comes too late."""
        place = self._place(row)
        before, count = self._last, self._count
        self._count = count + 1 if place == before else 1
        self._last = place
        if self._after in {place, f"{place}#{self._count}"}:
            self._found = True
            return False
        if not self._found or (self._known is not None and self._known(row)):
            return False
        if len(self.rows) < self._limit and self._characters < PAGE_CHARACTERS:
            return True
        self.next = f"{before}#{count}" if place == before else before
        return False

    def pass_by(self, place: str) -> None:
        """Note a place at which no further row lies: a page may begin behind it."""
        self._found = self._found or self._after == place

    def put(self, row: Any, characters: int) -> None:
        """Put a row on the page, as it is shown, and so long."""
        self.rows.append(row)
        self._characters += characters

    def check_begun(self) -> None:
        """Refuse an `after=` that no row has. Raises `BadQuestion`."""
        if not self._found:
            raise BadQuestion(f"after={self._asked} names nothing here: leave it out to begin anew")


def _cursor(after: str, read: Callable[[str], str]) -> str:
    """A cursor with its place spelled as in answers: `config@57#12`."""
    place, mark, count = after.rpartition("#")
    return f"{read(place)}#{count}" if mark and count.isdecimal() else read(after)


def limit_of(call: Call) -> int:
    """How many rows are wanted; `queries` has checked the number."""
    given = call.asked("limit")
    return LIMIT_USUAL if given is None else int(given)
