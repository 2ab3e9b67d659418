"""`--compare 3.4,3.9,kip`: one log, seen by workers of several releases, side by side."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from controlplane.cli.inspect.connector_facts import NONE, ConnectorFacts, all_facts, states
from controlplane.cli.inspect.overview import vector
from controlplane.cli.opened_log import InputLog
from controlplane.core.entry import Entry, Position
from controlplane.core.plugins import Plugins
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState
from controlplane.core.text import record_text as records
from controlplane.core.text.safe_text import count
from controlplane.core.text.value_text import item, shown, text
from controlplane.core.views.diff import Aspect, Change, diff
from controlplane.terminal.output import print_json, say
from controlplane.terminal.tables import table

DIFFERENCES_SHOWN = 100
"""Differences that a table names; JSON has them all."""

MARK, SAME = "≠", "="


class ReleaseDifference(msgspec.Struct):
    """A fact on which releases disagree: the value in each, and the record that caused it."""

    connector: str
    aspect: Aspect
    item: str
    values: dict[str, Any]
    """Values by release; None: absent."""
    cause: Position | None

    @property
    def fact(self) -> str:
        """Name of the fact for people."""
        return f"{self.aspect.value} {item(self.aspect, self.item)}".strip()


class ComparisonScope(NamedTuple):
    """Releases to compare, the classes that are known, and the one connector, or None for all."""

    profiles: Sequence[Profile]
    plugins: Plugins
    connector: str | None = None


async def show(source: InputLog, about: ComparisonScope, output: str) -> None:
    """Print all connectors (or one) with a column per release, and why columns differ."""
    loaded, found = await _compared(source, about.profiles)
    differences = [one for one in found if about.connector in (None, one.connector)]
    causes = await source.records(one.cause for one in differences if one.cause is not None)
    rows = _rows(loaded, about, differences)
    if output == "json":
        print_json(source.about | _document(loaded, rows, differences, causes))
        return
    _print_rows(loaded, rows, {one.connector for one in differences})
    say()
    _print_differences(loaded, differences, causes, source)
    say(f"read up to {vector(source)}")


async def _compared(
    source: InputLog, profiles: Sequence[Profile]
) -> tuple[dict[str, ClusterState], list[ReleaseDifference]]:
    """State by release, and what differs. Offsets are traced only if some do: that is slow."""
    for trace in (False, True):
        loaded = {one.release: await source.state(one, trace=trace) for one in profiles}
        differences = compare(loaded)
        if all(one.cause is not None for one in differences):
            break
    return loaded, differences


def compare(loaded: Mapping[str, ClusterState]) -> list[ReleaseDifference]:
    """Every fact on which not all agree, in the order of `diff`."""
    (_, base), *others = loaded.items()
    found: dict[tuple[str, Aspect, str], ReleaseDifference] = {}
    for release, state in others:
        for one in diff(base, state):
            place = one.connector, one.aspect, one.item
            known = found.setdefault(place, _agreed(one, loaded))
            known.values[release] = one.after
            known.cause = known.cause or one.cause
    places = sorted(found, key=lambda place: (place[0], list(Aspect).index(place[1]), place[2]))
    return [found[place] for place in places]


def _agreed(change: Change, loaded: Mapping[str, ClusterState]) -> ReleaseDifference:
    values = dict.fromkeys(loaded, change.before)
    return ReleaseDifference(change.connector, change.aspect, change.item, values, change.cause)


FactsByRelease = dict[str, dict[str, ConnectorFacts]]
"""Connector → release → its facts there."""


def _rows(
    loaded: Mapping[str, ClusterState], about: ComparisonScope, differences: list[ReleaseDifference]
) -> FactsByRelease:
    rows: FactsByRelease = {one.connector: {} for one in differences}
    for release, state in loaded.items():
        for one in all_facts(state, about.plugins):
            if about.connector in (None, one.name):
                rows.setdefault(one.name, {})[release] = one
    return dict(sorted(rows.items()))


def _print_rows(
    loaded: Mapping[str, ClusterState], rows: FactsByRelease, differing: set[str]
) -> None:
    lines = []
    for name, seen in rows.items():
        cells = [_brief(seen.get(release)) for release in loaded]
        if name not in differing:
            cells[1:] = [SAME] * (len(cells) - 1)
        lines.append((MARK if name in differing else "", name, *cells))
    marked = {number: "yellow" for number, line in enumerate(lines) if line[0]}
    table(("", "CONNECTOR", *loaded), lines, marked)


def _brief(facts: ConnectorFacts | None) -> str:
    """A connector in one cell."""
    if facts is None:
        return NONE
    if not facts.configured:
        return "; ".join((f"wants {facts.target_state}", *facts.flags))
    words = f"{facts.target_state or NONE}: {facts.status or 'no status'}, {_tasks(facts)}"
    return "; ".join((words, *facts.flags))


def _tasks(facts: ConnectorFacts) -> str:
    """`2 tasks RUNNING`; where not every task is told of, or they differ, what there is of both."""
    if facts.tasks is None:
        return "? tasks"
    tasks, reported = count(facts.tasks, "task"), facts.task_states
    alike = set(reported.values())
    if len(reported) == facts.tasks and len(alike) <= 1:
        return f"{tasks} {''.join(alike)}".strip()
    return f"{tasks}, {states(reported) if reported else 'none reported'}"


def _print_differences(
    loaded: Mapping[str, ClusterState],
    differences: list[ReleaseDifference],
    causes: Mapping[Position, Entry],
    source: InputLog,
) -> None:
    if not differences:
        say(f"{' and '.join(loaded)} agree in everything", style="green")
        return
    for one in differences[:DIFFERENCES_SHOWN]:
        say(f"{one.connector}: {one.fact}", style="bold")
        for release, value in one.values.items():
            say(f"  {release:8} {text(one.aspect, one.item, value)}")
        cause = causes.get(one.cause) if one.cause else None
        say(f"  because of {records.record(cause, source.topics) if cause else 'no one record'}")
    more = len(differences) - DIFFERENCES_SHOWN
    if more > 0:
        say(f"… and {more} more differences; `-o json` has them all")
    say()


def _document(
    loaded: Mapping[str, ClusterState],
    rows: FactsByRelease,
    differences: list[ReleaseDifference],
    causes: Mapping[Position, Entry],
) -> dict[str, Any]:
    differing = {one.connector for one in differences}
    return {
        "profiles": list(loaded),
        "connectors": [
            {
                "name": name,
                "differs": name in differing,
                "seen": {release: msgspec.to_builtins(seen.get(release)) for release in loaded},
            }
            for name, seen in rows.items()
        ],
        "differences": [_shown(one, causes) for one in differences],
    }


def _shown(one: ReleaseDifference, causes: Mapping[Position, Entry]) -> dict[str, Any]:
    cause = causes.get(one.cause) if one.cause else None
    return {
        "connector": one.connector,
        "aspect": one.aspect.value,
        "item": item(one.aspect, one.item),
        "values": {
            release: shown(one.aspect, one.item, value) for release, value in one.values.items()
        },
        "cause": records.document(cause) if cause else None,
    }
