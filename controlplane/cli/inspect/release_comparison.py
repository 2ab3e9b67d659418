"""`--compare 3.4,3.9,kip`: the state of workers of several releases, side by side."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from controlplane.cli.inspect.connector_facts import NONE, ConnectorFacts, all_facts, states
from controlplane.cli.inspect.connector_view import check_connector
from controlplane.cli.inspect.overview import vector
from controlplane.cli.opened_log import InputLog
from controlplane.core.entry import Entry, Position
from controlplane.core.plugins import Plugins
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState
from controlplane.core.text import record_text
from controlplane.core.text.safe_text import count
from controlplane.core.text.value_text import item, json_value, text
from controlplane.core.views.diff import Aspect, Change, diff
from controlplane.terminal.output import print_json, say
from controlplane.terminal.tables import table

DIFFERENCES_SHOWN = 100
"""Number of differences below the table; JSON has them all."""

MARK, SAME = "≠", "="


class ReleaseDifference(msgspec.Struct):
    """Fact on which releases disagree: the value in each, and the record that caused it."""

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
    """Releases to compare, known classes, and a connector (None: all)."""

    profiles: Sequence[Profile]
    plugins: Plugins
    connector: str | None = None


async def show(source: InputLog, scope: ComparisonScope, output: str) -> None:
    """Print the connectors with a column per release, then the differences with their causes.

    Raises:
        InputRefused: `scope` names a connector about which no release finds anything.
    """
    by_release, every = await _compared(source, scope.profiles)
    differences = [
        difference for difference in every if scope.connector in (None, difference.connector)
    ]
    causes = await source.records(
        difference.cause for difference in differences if difference.cause is not None
    )
    rows = _rows(by_release, scope, differences)
    if scope.connector is not None and not rows:
        check_connector(scope.connector, list(by_release.values()))
    if output == "json":
        print_json(source.document_fields | _document(by_release, rows, differences, causes))
        return
    _print_rows(by_release, rows, differences)
    say()
    if differences:
        _print_differences(differences, causes, source)
    else:
        subject = "in everything" if scope.connector is None else f"about {scope.connector}"
        say(f"{' and '.join(by_release)} agree {subject}", style="green")
    say(f"read up to {vector(source)}")


async def _compared(
    source: InputLog, profiles: Sequence[Profile]
) -> tuple[dict[str, ClusterState], list[ReleaseDifference]]:
    """State by release, and the differences.

    Tracing the causes of offsets is slow. A second pass does it if a difference has no cause yet.
    """
    for trace in (False, True):
        by_release = {
            profile.release: await source.state(profile, trace=trace) for profile in profiles
        }
        differences = compare(by_release)
        if all(difference.cause is not None for difference in differences):
            break
    return by_release, differences


def compare(by_release: Mapping[str, ClusterState]) -> list[ReleaseDifference]:
    """Every fact on which the releases disagree, in the order of `diff`."""
    (_, base), *others = by_release.items()
    differences: dict[tuple[str, Aspect, str], ReleaseDifference] = {}
    for release, state in others:
        for change in diff(base, state):
            fact = change.connector, change.aspect, change.item
            difference = differences.setdefault(fact, _agreed(change, by_release))
            difference.values[release] = change.after
            difference.cause = difference.cause or change.cause
    facts = sorted(differences, key=lambda fact: (fact[0], list(Aspect).index(fact[1]), fact[2]))
    return [differences[fact] for fact in facts]


def _agreed(change: Change, by_release: Mapping[str, ClusterState]) -> ReleaseDifference:
    """New difference with the first release's value for all; `compare` sets the differing ones."""
    values = dict.fromkeys(by_release, change.before)
    return ReleaseDifference(change.connector, change.aspect, change.item, values, change.cause)


FactsByRelease = dict[str, dict[str, ConnectorFacts]]
"""Connector → release → facts about it in that release."""


def _rows(
    by_release: Mapping[str, ClusterState],
    scope: ComparisonScope,
    differences: list[ReleaseDifference],
) -> FactsByRelease:
    rows: FactsByRelease = {difference.connector: {} for difference in differences}
    for release, state in by_release.items():
        for facts in all_facts(state, scope.plugins):
            if scope.connector in (None, facts.name):
                rows.setdefault(facts.name, {})[release] = facts
    return dict(sorted(rows.items()))


def _print_rows(
    by_release: Mapping[str, ClusterState],
    rows: FactsByRelease,
    differences: Sequence[ReleaseDifference],
) -> None:
    by_connector: dict[str, list[ReleaseDifference]] = {name: [] for name in rows}
    for difference in differences:
        by_connector[difference.connector].append(difference)
    lines = []
    for name, row in rows.items():
        first, *others = by_release
        cells = [_brief(row.get(first))]
        for left, release in zip(by_release, others, strict=False):
            agrees = all(each.values[left] == each.values[release] for each in by_connector[name])
            cells.append(SAME if agrees else _brief(row.get(release)))
        lines.append((MARK if by_connector[name] else "", name, *cells))
    marked = {number: "yellow" for number, line in enumerate(lines) if line[0]}
    table(("", "CONNECTOR", *by_release), lines, marked)


def _brief(facts: ConnectorFacts | None) -> str:
    """One cell: target state, status, tasks and remarks."""
    if facts is None:
        return NONE
    if not facts.configured:
        parts = [f"wants {facts.target_state}"] if facts.target_state else []
        return "; ".join((*parts, *facts.flags))
    words = f"{facts.target_state or NONE}: {facts.status or 'no status'}, {_tasks(facts)}"
    return "; ".join((words, *facts.flags))


def _tasks(facts: ConnectorFacts) -> str:
    """`2 tasks RUNNING`; if tasks differ or are not reported: `2 tasks, 1 RUNNING`."""
    if facts.tasks is None:
        return "? tasks"
    tasks, reported = count(facts.tasks, "task"), facts.task_states
    distinct = set(reported.values())
    if len(reported) == facts.tasks and len(distinct) <= 1:
        return f"{tasks} {''.join(distinct)}".strip()
    return f"{tasks}, {states(reported) if reported else 'none reported'}"


def _print_differences(
    differences: list[ReleaseDifference],
    causes: Mapping[Position, Entry],
    source: InputLog,
) -> None:
    for difference in differences[:DIFFERENCES_SHOWN]:
        say(f"{difference.connector}: {difference.fact}", style="bold")
        for release, value in difference.values.items():
            say(f"  {release:8} {text(difference.aspect, difference.item, value)}")
        cause = causes.get(difference.cause) if difference.cause else None
        record = record_text.record(cause, source.topics) if cause else None
        say("  no single record is the cause" if record is None else f"  because of {record}")
    unlisted = len(differences) - DIFFERENCES_SHOWN
    if unlisted > 0:
        say(f"… and {unlisted} more differences; -o json has them all")
    say()


def _document(
    by_release: Mapping[str, ClusterState],
    rows: FactsByRelease,
    differences: list[ReleaseDifference],
    causes: Mapping[Position, Entry],
) -> dict[str, Any]:
    differing = {difference.connector for difference in differences}
    return {
        "profiles": list(by_release),
        "connectors": [
            {
                "name": name,
                "differs": name in differing,
                "seen": {release: msgspec.to_builtins(row.get(release)) for release in by_release},
            }
            for name, row in rows.items()
        ],
        "differences": [_difference_document(difference, causes) for difference in differences],
    }


def _difference_document(
    difference: ReleaseDifference, causes: Mapping[Position, Entry]
) -> dict[str, Any]:
    cause = causes.get(difference.cause) if difference.cause else None
    return {
        "connector": difference.connector,
        "aspect": difference.aspect.value,
        "item": item(difference.aspect, difference.item),
        "values": {
            release: json_value(difference.aspect, difference.item, value)
            for release, value in difference.values.items()
        },
        "cause": record_text.document(cause) if cause else None,
    }
