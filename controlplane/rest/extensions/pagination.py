"""Pagination of long answers: `limit=` rows per page, `after=` the last known row."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from controlplane.rest.errors import BadQuestion
from controlplane.rest.service import Call

T = TypeVar("T")

PAGE_CHARACTERS = 1 << 22
"""Maximum characters of a page: it ends behind the row that exceeds this, whatever its limit."""

LIMIT_USUAL = 1_000


class Page(Generic[T]):
    """A page of a row stream; rows before it are not kept.

    Several rows may share a position, and the page may end between them. `after=` is a position,
    optionally with the number of its known rows: `config@57#12`.
    """

    def __init__(
        self,
        call: Call,
        place: Callable[[T], str],
        read: Callable[[str], str] = str,
        known: Callable[[T], bool] | None = None,
    ) -> None:
        """`read` normalizes the spelling of a position to that of `place`.

        `known` tells which rows lie before an `after=` that is no row's position.
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
        """Cursor for the next page's `after=`; None on the last page."""

    def is_in(self, row: T) -> bool:
        """Return True if the next row is on the page; sets `next` at the first row beyond it."""
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
        """Note that no further row has this position: a page may begin behind it."""
        self._found = self._found or self._after == place

    def put(self, row: Any, characters: int) -> None:
        """Put a row on the page, in its JSON form and with its length."""
        self.rows.append(row)
        self._characters += characters

    def check_begun(self) -> None:
        """Refuse an `after=` that no row has. Raises `BadQuestion`."""
        if not self._found:
            raise BadQuestion(f"after={self._asked} names nothing here: leave it out to begin anew")


def _cursor(after: str, read: Callable[[str], str]) -> str:
    """Return a cursor with its position in the spelling of answers: `config@57#12`."""
    place, mark, count = after.rpartition("#")
    return f"{read(place)}#{count}" if mark and count.isdecimal() else read(after)


def limit_of(call: Call) -> int:
    """Return the number of rows per page; `query_parameters` has checked it."""
    given = call.asked("limit")
    return LIMIT_USUAL if given is None else int(given)
