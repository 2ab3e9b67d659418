"""`view`: what workers make of the log, one column per release that is present."""

from collections.abc import Mapping, Sequence

from controlplane.core.entry import Entry
from controlplane.scenario.folds import Refold
from controlplane.scenario.looks import LOOKS, Look, Reader
from controlplane.scenario.parse import Step
from controlplane.scenario.show import NONE, Row, naturally, table
from controlplane.scenario.verbs import asking
from controlplane.scenario.verbs.asking import BadStep
from controlplane.scenario.world import World

Cells = dict[str, tuple[str, ...]]


async def view(world: World, step: Step) -> list[str]:
    """Fold the whole log once per release, as a worker does that starts now, and print a table.

    What is folded a second time and comes out differently is printed below, with the fold's name.

        view connectors
        ----
        connector   tasks  3.4 (w2)  3.7 (w1 w3)
        orders      0      PAUSED    STOPPED
    """
    asking.started(world)
    asking.only(step, words=1)
    look = LOOKS.get(step.words[0])
    if look is None:
        raise BadStep(f"there is no view {step.words[0]}: use {', '.join(LOOKS)}")
    entries = await world.entries()
    cells = _cells(world, look, entries, world.folds.main)
    others = {
        name: _cells(world, look, entries, refold) for name, refold in world.folds.others.items()
    }
    rows = [row for row in _rows(cells, others) if set(row.cells) != {look.dull}]
    world.disagreed = any(row.via for row in rows)
    return table(_header(world, look), rows)


def _header(world: World, look: Look) -> Row | None:
    titles = tuple(column.title for column in world.columns)
    if look.bare and len(titles) == 1:
        return None
    return Row(look.subject, ((look.shared.title,) if look.shared else ()) + titles)


def _cells(world: World, look: Look, entries: Sequence[Entry], refold: Refold) -> Cells:
    """The cells of each row as one fold gives them."""
    readers = [
        Reader(
            refold(entries, one.profile, topics=world.topics, exactly_once=one.exactly_once),
            entries,
        )
        for one in world.columns
    ]
    columns = [look.cells(reader) for reader in readers]
    shared = [look.shared.cells(reader) for reader in readers] if look.shared else []
    labels = {label for column in columns for label in column}
    return {
        label: (*_agreed(label, shared), *(column.get(label, NONE) for column in columns))
        for label in labels
    }


def _agreed(label: str, columns: Sequence[Mapping[str, str]]) -> tuple[str, ...]:
    """One cell for all readers; where they differ, one part each in the order of the columns."""
    if not columns:
        return ()
    parts = [column.get(label, "-") for column in columns]
    return (parts[0] if len(set(parts)) == 1 else "|".join(parts),)


def _rows(main: Cells, others: Mapping[str, Cells]) -> list[Row]:
    rows = []
    for label in naturally({*main, *(label for cells in others.values() for label in cells)}):
        given = {"": main, **others}
        width = max(len(cells[label]) for cells in given.values() if label in cells)
        absent = (NONE,) * width
        if label in main:
            rows.append(Row(label, main[label]))
        for name, cells in others.items():
            if cells.get(label) != main.get(label):
                rows.append(Row(label, cells.get(label, absent), name))
    return rows
