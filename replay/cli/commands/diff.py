"""`replay diff`: differences between two moments, two releases, or two clusters."""

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import click

from controlplane.core import views
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState
from controlplane.core.text.record_text import place
from controlplane.core.text.safe_text import count
from controlplane.core.text.value_text import change, item
from controlplane.core.views.diff import Change
from controlplane.core.views.diff import diff as differences
from controlplane.terminal.option_names import named_option
from replay.archive.archived_cluster import ArchivedCluster
from replay.cli.execution import engine_choice
from replay.cli.execution.plan_output import explain, explain_option
from replay.cli.options.archives import (
    NONE,
    ArchiveInput,
    archive_argument,
    check_connectors,
    connectors_option,
    file_option,
    gaps_of,
    moment_option,
    planned,
    tell,
)
from replay.cli.options.engines import EngineChoice, engine_options
from replay.cli.output.printer import output_option, print_json, say, table
from replay.engine.query import StateQuery
from replay.engine.read_plan import ReadPlan
from replay.fleet.archive_source import EVERY
from replay.timeline.difference_rows import DiffSide, change_document, change_rows
from replay.timeline.timeline_rows import CHANGES, write

FOUND = 1
"""Exit code: a difference was found."""


class _QueriedSide(NamedTuple):
    """Side of a comparison: cluster, moment and release."""

    archive: ArchiveInput
    cluster: ArchivedCluster
    moment: str | None
    profile: Profile

    def question(self) -> StateQuery:
        """Query for the state of this side."""
        local = self.archive.local(self.cluster)
        return StateQuery(local, planned(local, self.moment, [self.profile]), [self.profile])


class _SideStates(NamedTuple):
    """State of one side, and the plan by which it was read."""

    side: _QueriedSide
    plan: ReadPlan
    state: ClusterState

    @property
    def row_side(self) -> DiffSide:
        """The side as rows name it."""
        return DiffSide(self.side.cluster.name, self.side.profile.release, self.plan.ends)


class _Comparison(NamedTuple):
    """Two sides and their differences."""

    before: _SideStates
    after: _SideStates
    changes: list[Change]


class _SideNames(NamedTuple):
    """Options that name the two sides; None: not given."""

    begin: str | None
    end: str | None
    moment: str | None
    profile: str | None
    cluster: str | None

    def check(self, archive: ArchiveInput) -> None:
        """Raise `UsageError` unless the options name two sides."""
        if self == (None,) * len(self):
            raise click.UsageError(
                "name a second side: --from MOMENT, --to-release or --to-cluster"
            )
        if self.end is not None and self.moment is not None:
            raise click.UsageError("--as-of and --to mean the same here: leave one out")
        if self.cluster is not None and len(archive.clusters) != 1:
            raise click.UsageError(
                "--to-cluster needs a cluster to compare with: name it with --cluster"
            )

    @property
    def moments(self) -> tuple[str | None, str | None]:
        """Moment of each side; None is the end of the archive."""
        begin, end, moment, profile, cluster = self
        if moment is not None:
            is_for_both = begin is None and (profile is not None or cluster is not None)
            return (moment if is_for_both else begin), moment
        return begin, (begin if end is None and profile is not None else end)


@click.command("diff")
@archive_argument
@click.option(
    "--from",
    "begin",
    metavar="MOMENT",
    help="First moment: a record (config@57), a time, or a vector.",
)
@click.option("--to", "end", metavar="MOMENT", help="Second moment. [default: the end]")
@moment_option("Same as --to; the moment of both releases or clusters.")
@named_option(
    "--release",
    former=("--profile",),
    metavar="RELEASE",
    default="kip",
    help="Release of the first side. [default: kip]",
)
@named_option(
    "--to-release",
    former=("--to-profile",),
    metavar="RELEASE",
    help="Release of the second side. [default: release of the first]",
)
@click.option(
    "--to-cluster",
    metavar="NAME",
    help="Cluster of the second side. [default: cluster of the first]",
)
@connectors_option
@engine_options
@explain_option
@file_option()
@output_option("parquet", about="Print tables or JSON, or write Parquet.")
def command(  # noqa: PLR0913 - click passes every option by name
    archive: ArchiveInput,
    *,
    begin: str | None,
    end: str | None,
    moment: str | None,
    release: str,
    to_release: str | None,
    to_cluster: str | None,
    connectors: tuple[str, ...],
    engine: EngineChoice,
    is_explained: bool,
    output: str,
    file: Path | None,
) -> None:
    """Compare the connectors in ARCHIVE between two moments. Secrets are hidden.

    --release and --to-release compare two releases at one moment (--to then defaults to --from);
    --cluster and --to-cluster compare two clusters. Exit code 1: a difference was found; 2: bad
    input.
    """
    if EVERY in (release, to_release):
        raise click.UsageError("only two releases can be compared: --release A --to-release B")
    named = _SideNames(begin, end, moment, to_release, to_cluster)
    named.check(archive)
    since, until = named.moments
    profiles = archive.profiles([release, to_release or release])
    sides = []
    for cluster in archive.opened():
        (other,) = archive._replace(clusters=(to_cluster,)).opened() if to_cluster else (cluster,)
        before = _QueriedSide(archive, cluster, since, profiles[0])
        sides.append((before, _QueriedSide(archive, other, until, profiles[-1])))
    questions = [side.question() for both in sides for side in both]
    tell([question.plan for question in questions])
    if is_explained:
        explain(engine_choice.plans(engine, questions), output)
        return
    states = _known([side for both in sides for side in both], questions, engine)
    comparisons = [_compared(next(states), next(states), connectors) for _ in sides]
    check_connectors(
        connectors, {name for comparison in comparisons for name in _names(comparison)}
    )
    if file is not None:
        rows = (
            change_rows(before.row_side, after.row_side, changes)
            for before, after, changes in comparisons
        )
        write(file, CHANGES, chain.from_iterable(rows))
    elif output == "json":
        print_json([_document(comparison) for comparison in comparisons])
    else:
        _print(comparisons)
    if any(comparison.changes for comparison in comparisons):
        raise SystemExit(FOUND)


def _known(
    sides: Sequence[_QueriedSide], questions: Sequence[StateQuery], engine: EngineChoice
) -> Iterator[_SideStates]:
    """State of each side."""
    with engine_choice.engine(engine, questions) as opened:
        answers = opened.states(questions)
    for side, question, (state,) in zip(sides, questions, answers, strict=True):
        yield _SideStates(side, question.plan, state)


def _compared(before: _SideStates, after: _SideStates, connectors: Sequence[str]) -> _Comparison:
    changes = differences(before.state, after.state)
    if connectors:
        changes = [difference for difference in changes if difference.connector in connectors]
    return _Comparison(before, after, changes)


def _names(compared: _Comparison) -> Iterator[str]:
    """Connectors that at least one side knows."""
    for _, _, state in compared[:2]:
        config, status = state.config, state.status
        for table_ in (config.connectors, config.targets, config.task_counts, config.inconsistent):
            yield from table_
        yield from (*status.connectors, *status.tasks, *status.active_topics)
        yield from views.offset_owners(state)


def _document(compared: _Comparison) -> dict[str, Any]:
    return {
        "from": compared.before.row_side._asdict(),
        "to": compared.after.row_side._asdict(),
        "gaps": gaps_of([queried.plan for queried in (compared.before, compared.after)]),
        "changes": [change_document(difference) for difference in compared.changes],
    }


def _print(comparisons: Sequence[_Comparison]) -> None:
    rows = [
        (compared.after.side.cluster.name, *_row(compared, difference))
        for compared in comparisons
        for difference in compared.changes
    ]
    if rows:
        table(("CLUSTER", "CONNECTOR", "WHAT", "CHANGE", "CAUSE"), rows)
    for compared in comparisons:
        number = len(compared.changes)
        number_text = count(number, "difference") if number else "no differences"
        say(f"{compared.after.side.cluster.name}: {number_text}")


def _row(compared: _Comparison, difference: Change) -> tuple[str, ...]:
    return (
        difference.connector,
        f"{difference.aspect.value} {item(difference.aspect, difference.item)}".strip(),
        change(difference.aspect, difference.item, difference.before, difference.after),
        NONE
        if difference.cause is None
        else place(difference.cause, compared.after.side.cluster.topics),
    )
