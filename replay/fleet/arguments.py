"""Checks of the arguments of the public Python API."""

from collections.abc import Iterable
from enum import Enum
from typing import Any, TypeVar

from replay.moments import archived_moment
from replay.tables.schemas import STATE_SCHEMAS

EnumT = TypeVar("EnumT", bound=Enum)


def names_in(
    names: str | Iterable[str], what: str = "a name", example: str = "orders"
) -> tuple[str, ...]:
    """Names of an argument that takes one name or several: a string is one name.

    Raises:
        TypeError: a name is no text.
    """
    is_one = isinstance(names, str) or not isinstance(names, Iterable)
    several: tuple[Any, ...] = (names,) if is_one else tuple(names)
    for name in several:
        check_text(name, what, example)
    return several


def filter_in(names: str | Iterable[str] | None, what: str = "connectors") -> tuple[str, ...]:
    """Names of an argument that restricts an answer to them; None restricts nothing.

    Raises:
        TypeError: a name is no text.
        ValueError: there is no name, such as after a query without a result.
    """
    chosen = () if names is None else names_in(names)
    if names is not None and not chosen:
        raise ValueError(f"{what} is empty: give a name, or leave it out for all")
    return chosen


def check_number(value: object, what: str) -> None:
    """Check an optional count.

    Raises:
        TypeError: it is no whole number.
        ValueError: it is less than 1.
    """
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{what} is a whole number, such as 4, not {value!r}")
    if value < 1:
        raise ValueError(f"{what} cannot be {value}: give 1 or more")


def check_text(value: object, what: str, example: str) -> None:
    """Raise `TypeError` for an argument that is no text, such as a list in place of a name."""
    if not isinstance(value, str):
        raise TypeError(f"{what} is a text, such as {example!r}, not {value!r}")


def moment_text(text: str | None) -> str | None:
    """Check the form of a moment, so that a typing error does not look like unreadable clusters.

    Raises:
        TypeError: it is no text.
        UnknownMoment: it is too long, or neither a record, a time nor a vector.
    """
    if text is not None:
        check_text(text, "a moment", "2026-03-01T00:00:00Z")
    return archived_moment(text)


def member(kind: type[EnumT], name: str, text: str) -> EnumT:
    """Value of an argument that has few values. Raises `ValueError` for any other value."""
    for each in kind:
        if each.value == text:
            return each
    raise ValueError(
        f"{name} cannot be {text!r}: choose from {', '.join(each.value for each in kind)}"
    )


def check_tables(tables: Iterable[str]) -> None:
    """Raise `ValueError` for a table that no state has, `TypeError` for no text."""
    for table in tables:
        check_text(table, "a table", "tasks")
        if table not in STATE_SCHEMAS:
            raise ValueError(f"{table!r} is no table: choose from {', '.join(STATE_SCHEMAS)}")
