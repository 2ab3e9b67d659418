"""Rows of differences between two states, without secrets."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from controlplane.core.java import json_codec
from controlplane.core.text.value_text import change, item, json_value
from controlplane.core.views.diff import Change
from replay.tables.cells import RowDocument


class DiffSide(NamedTuple):
    """Side of a comparison: cluster, release and end offsets."""

    cluster: str
    release: str
    as_of: dict[str, list[int]]

    @property
    def row(self) -> RowDocument:
        """The side with its offsets as JSON text, for a table."""
        return self._asdict() | {"as_of": json_codec.encode(self.as_of).decode()}


def change_rows(
    before: DiffSide, after: DiffSide, changes: Iterable[Change]
) -> Iterator[RowDocument]:
    """Rows of the differences between two sides."""
    sides = {"from": before.row, "to": after.row}
    for difference in changes:
        yield sides | change_document(difference)


def change_document(difference: Change) -> dict[str, Any]:
    """One difference as a JSON document."""
    return {
        "connector": difference.connector,
        "aspect": difference.aspect.value,
        "item": item(difference.aspect, difference.item),
        "before": json_value(difference.aspect, difference.item, difference.before),
        "after": json_value(difference.aspect, difference.item, difference.after),
        "words": change(difference.aspect, difference.item, difference.before, difference.after),
        "cause": None if difference.cause is None else difference.cause._asdict(),
    }
