"""`view`: the state that workers fold from the log; workers that read alike share a column."""

from collections.abc import Callable, Mapping, Sequence

from controlplane.core.entry import Entry
from controlplane.core.state import ClusterState
from controlplane.scenario.folds import Refold
from controlplane.scenario.scenario_file import ScenarioStep
from controlplane.scenario.transcript import NONE, TranscriptRow, naturally, table
from controlplane.scenario.verbs import step_options
from controlplane.scenario.verbs.step_options import BadStep
from controlplane.scenario.views import VIEW_DEFINITIONS, SharedColumn, ViewDefinition, WorkerView
from controlplane.scenario.world import World

Cells = dict[str, tuple[str, ...]]


async def view(world: World, step: ScenarioStep) -> list[str]:
    """Fold the whole log once per column, as a worker does that starts now, and print a table.

    Workers of the same release and exactly-once support share a column.
    A row for which another fold gives a different result is printed again, with the fold's name.

        view connectors
        ----
        connector   tasks  3.4 (w2)  3.7 (w1 w3)
        orders      0      PAUSED    STOPPED
    """
    step_options.started(world)
    step_options.only(step, words=1)
    definition = VIEW_DEFINITIONS.get(step.words[0])
    if definition is None:
        raise BadStep(f"there is no view {step.words[0]}: use {', '.join(VIEW_DEFINITIONS)}")
    entries = await world.entries()

    def cells_by(refold: Refold) -> Cells:
        states = _states(world, entries, refold)
        return cells_of(definition, [WorkerView(state, entries) for state in states])

    cells = cells_by(world.folds.main)
    other_cells = {name: cells_by(refold) for name, refold in world.folds.others.items()}
    rows = _rows(cells, other_cells)
    world.disagreed = any(row.via for row in rows)
    return table(header_of(definition, [column.title for column in world.columns]), rows)


def header_of(definition: ViewDefinition, titles: Sequence[str]) -> TranscriptRow | None:
    """The first line, where there is one; `titles` are those of the workers' columns."""
    if definition.bare and len(titles) == 1:
        return None
    first = (definition.first.title,) if definition.first else ()
    last = (definition.last.title,) if definition.last else ()
    return TranscriptRow(definition.subject, (*first, *titles, *last))


def _states(world: World, entries: Sequence[Entry], refold: Refold) -> list[ClusterState]:
    """State of each column, computed by one fold."""
    return [
        refold(entries, column.profile, topics=world.topics, exactly_once=column.exactly_once)
        for column in world.columns
    ]


def cells_of(definition: ViewDefinition, readers: Sequence[WorkerView]) -> Cells:
    """The cells of each row, one for the workers of each column."""
    columns = [definition.cells(reader) for reader in readers]
    first, last = _shared(definition.first, readers), _shared(definition.last, readers)
    return {
        label: (*first(label), *(column.get(label, NONE) for column in columns), *last(label))
        for label in {label for column in columns for label in column}
        if any(column.get(label) != definition.omitted_cell for column in columns)
    }


def _shared(
    shared: SharedColumn | None, readers: Sequence[WorkerView]
) -> Callable[[str], tuple[str, ...]]:
    """The cell of a row in a shared column; no cell where there is no such column."""
    if shared is None:
        return lambda _: ()
    columns = [shared.cells(reader) for reader in readers]
    return lambda label: (shared.merge([column.get(label, "") for column in columns]),)


def _rows(main: Cells, other_cells: Mapping[str, Cells]) -> list[TranscriptRow]:
    rows = []
    for label in naturally({*main, *(label for cells in other_cells.values() for label in cells)}):
        columns = {"": main, **other_cells}
        width = max(len(cells[label]) for cells in columns.values() if label in cells)
        absent = (NONE,) * width
        if label in main:
            rows.append(TranscriptRow(label, main[label]))
        for name, cells in other_cells.items():
            if cells.get(label) != main.get(label):
                rows.append(TranscriptRow(label, cells.get(label, absent), name))
    return rows
