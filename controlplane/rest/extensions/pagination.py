"""Pagination of long answers: `limit=` rows per page, `after=` the last known row."""

import re
from collections.abc import Callable
from itertools import count
from typing import Any, Generic, NamedTuple, TypeVar

from controlplane.rest.errors import InvalidParameter
from controlplane.rest.requests import Call

T = TypeVar("T")

PAGE_CHARACTERS = 1 << 22
"""Maximum characters of a page: it ends after the row that exceeds this."""

LIMIT_DEFAULT = 1_000
"""Rows per page without `limit=`."""


_COUNTED = re.compile(r"(.*)#([0-9]+)", re.DOTALL)
"""Cursor such as `config@57#12`: the client has 12 of the rows with the key `config@57`."""


class Page(Generic[T]):
    """A page of a row stream; rows before it are not kept.

    Each row has a key, such as the position of its record or the id of a command. `after=` is the
    key of the last row that the client has.

    With `shared_keys`, consecutive rows may share a key, and the page may end between them. Then
    `after=` may also say how many rows with this key the client has: `config@57#12`. The number is
    always given if the key itself ends in `#` and digits. So no cursor has two meanings.

    Without `shared_keys`, `x#1` is a key like any other, because clients may choose keys. A row
    with the key of an earlier row gets a key that no earlier row has.
    """

    def __init__(
        self,
        call: Call,
        key: Callable[[T], str],
        normalized: Callable[[str], str] = str,
        is_known: Callable[[T], bool] | None = None,
        *,
        shared_keys: bool = False,
    ) -> None:
        """`normalized` converts a key that a client sent to the form that answers use.

        `is_known` returns True for the rows before the page. It is needed only if `after=` is not
        the key of a row.
        """
        self.rows: list[Any] = []
        self._key = key
        self._shared_keys = shared_keys
        self._earlier_keys: set[str] = set()
        """Keys of all rows so far; empty with `shared_keys`."""
        self._limit = limit_of(call)
        self._requested = call.parameter("after")
        self._after = self._cursor(normalized)
        self._is_known = is_known
        self._begun = self._after is None or is_known is not None
        """True once the stream has passed `after=`."""
        self._last, self._count = "", 0
        self._characters = 0
        self.next: str | None = None
        """Cursor for the next page's `after=`; None on the last page."""

    def is_in(self, row: T) -> bool:
        """Return True if the next row is on the page; sets `next` at the first row beyond it."""
        key = self._key(row) if self._shared_keys else self._distinct(self._key(row))
        previous, number = self._last, self._count
        self._count = number + 1 if key == previous else 1
        self._last = key
        if self._after in (_PageCursor(key), _PageCursor(key, str(self._count))):
            self._begun = True
            return False
        if not self._begun or (self._is_known is not None and self._is_known(row)):
            return False
        if len(self.rows) < self._limit and self._characters < PAGE_CHARACTERS:
            return True
        is_counted = self._shared_keys and (key == previous or _COUNTED.fullmatch(previous))
        self.next = f"{previous}#{number}" if is_counted else previous
        return False

    def _distinct(self, key: str) -> str:
        """Return the key, with a number if an earlier row has the same key."""
        keys = (f"{key}#{number}" if number > 1 else key for number in count(1))
        distinct = next(key for key in keys if key not in self._earlier_keys)
        self._earlier_keys.add(distinct)
        return distinct

    def end_key(self, key: str) -> None:
        """Note that no further row has this key: a page may begin after it."""
        self._begun = self._begun or self._after == _PageCursor(key)

    def put(self, row: Any, characters: int) -> None:
        """Put a row on the page, in its JSON form and with its length."""
        self.rows.append(row)
        self._characters += characters

    def _cursor(self, normalized: Callable[[str], str]) -> "_PageCursor | None":
        """Parse `after=`; None if it is missing."""
        if self._requested is None:
            return None
        counted = _COUNTED.fullmatch(self._requested) if self._shared_keys else None
        if counted is None:
            return _PageCursor(normalized(self._requested))
        return _PageCursor(normalized(counted[1]), counted[2])

    def check_after(self) -> None:
        """Refuse an `after=` that no row has. Raises `InvalidParameter`."""
        if not self._begun:
            raise InvalidParameter(
                f"after={self._requested} is the key of no row: leave it out for the first page"
            )


class _PageCursor(NamedTuple):
    """Parsed `after=`, with the key in the form that answers use."""

    key: str
    number: str = ""
    """Number of rows with this key that the client has; empty: all of them."""


def limit_of(call: Call) -> int:
    """Return the number of rows per page; `query_parameters` has checked it."""
    limit = call.parameter("limit")
    return LIMIT_DEFAULT if limit is None else int(limit)
