"""Pagination of long answers: `limit=` rows per page, `after=` the last known row."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from controlplane.rest.errors import InvalidParameter
from controlplane.rest.requests import Call

T = TypeVar("T")

PAGE_CHARACTERS = 1 << 22
"""Maximum characters of a page: it ends after the row that exceeds this."""

LIMIT_DEFAULT = 1_000
"""Rows per page without `limit=`."""


class Page(Generic[T]):
    """A page of a row stream; rows before it are not kept.

    Each row has a key, such as the position of its record. Several rows may share a key, and the
    page may end between them. `after=` is a key, optionally with the number of its rows that the
    client has: `config@57#12`.
    """

    def __init__(
        self,
        call: Call,
        key: Callable[[T], str],
        normalized: Callable[[str], str] = str,
        is_known: Callable[[T], bool] | None = None,
    ) -> None:
        """`normalized` returns a key in the spelling of answers.

        `is_known` returns True for the rows before the page. It is needed only if `after=` is not
        the key of a row.
        """
        self.rows: list[Any] = []
        self._key = key
        self._limit = limit_of(call)
        self._requested = call.parameter("after")
        requested = self._requested
        self._after = None if requested is None else _cursor(requested, normalized)
        self._is_known = is_known
        self._begun = self._after is None or is_known is not None
        """True once the stream has passed `after=`."""
        self._last, self._count = "", 0
        self._characters = 0
        self.next: str | None = None
        """Cursor for the next page's `after=`; None on the last page."""

    def is_in(self, row: T) -> bool:
        """Return True if the next row is on the page; sets `next` at the first row beyond it."""
        key = self._key(row)
        previous, count = self._last, self._count
        self._count = count + 1 if key == previous else 1
        self._last = key
        if self._after in {key, f"{key}#{self._count}"}:
            self._begun = True
            return False
        if not self._begun or (self._is_known is not None and self._is_known(row)):
            return False
        if len(self.rows) < self._limit and self._characters < PAGE_CHARACTERS:
            return True
        self.next = f"{previous}#{count}" if key == previous else previous
        return False

    def end_key(self, key: str) -> None:
        """Note that no further row has this key: a page may begin after it."""
        self._begun = self._begun or self._after == key

    def put(self, row: Any, characters: int) -> None:
        """Put a row on the page, in its JSON form and with its length."""
        self.rows.append(row)
        self._characters += characters

    def check_after(self) -> None:
        """Refuse an `after=` that no row has. Raises `InvalidParameter`."""
        if not self._begun:
            raise InvalidParameter(
                f"after={self._requested} is the key of no row: leave it out for the first page"
            )


def _cursor(after: str, normalized: Callable[[str], str]) -> str:
    """Return a cursor with its key in the spelling of answers: `config@57#12`."""
    key, mark, count = after.rpartition("#")
    return f"{normalized(key)}#{count}" if mark and count.isdecimal() else normalized(after)


def limit_of(call: Call) -> int:
    """Return the number of rows per page; `query_parameters` has checked it."""
    limit = call.parameter("limit")
    return LIMIT_DEFAULT if limit is None else int(limit)
