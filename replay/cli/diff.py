"""`replay diff`: what differs between two moments, two releases, or two clusters."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from controlplane.core import javajson, views
from controlplane.core.diff import Change
from controlplane.core.diff import diff as differences
from controlplane.core.profiles import Profile
from controlplane.core.safe_text import count
from controlplane.core.shown import change, item, shown
from controlplane.core.shown_records import place
from controlplane.core.state import ClusterState
from controlplane.option_names import named_option
from replay.archive.cluster import Cluster
from replay.cli import answering
from replay.cli.asking import (
    EVERY,
    NONE,
    Asked,
    archive_argument,
    check_connectors,
    connectors_option,
    file_option,
    gaps_of,
    moment_option,
    planned,
    tell,
)
from replay.cli.engines import Choice, engine_options
from replay.cli.explaining import explain, explain_option
from replay.cli.printing import output_option, print_json, say, table
from replay.engine.asked import Asked as Question
from replay.engine.plan import Plan
from replay.timeline.rows import CHANGES, Row, write

FOUND = 1
"""Exit code: something differs."""


class _Side(NamedTuple):
    """What is compared: a cluster at a moment, through somebody's eyes."""

    asked: Asked
    cluster: Cluster
    moment: str | None
    profile: Profile

    def question(self) -> Question:
        """What was known then?"""
        local = self.asked.local(self.cluster)
        return Question(local, planned(local, self.moment, [self.profile]), [self.profile])


class _Known(NamedTuple):
    """What was known on one side."""

    side: _Side
    plan: Plan
    state: ClusterState

    @property
    def document(self) -> dict[str, Any]:
        """Which side this is, as JSON."""
        about = {"cluster": self.side.cluster.name, "profile": self.side.profile.release}
        return about | {"as_of": self.plan.ends}


class _Compared(NamedTuple):
    """Two sides, and what differs between them."""

    before: _Known
    after: _Known
    changes: list[Change]


class _Named(NamedTuple):
    """What the two sides are named by, as it was given."""

    begin: str | None
    end: str | None
    moment: str | None
    profile: str | None
    cluster: str | None

    def check(self, asked: Asked) -> None:
        """Refuse what does not name two sides."""
        if self == (None,) * len(self):
            raise click.UsageError(
                "say what to compare: --from MOMENT, --to-release or --to-cluster"
            )
        if self.end is not None and self.moment is not None:
            raise click.UsageError("--as-of and --to mean the same here: leave one out")
        if self.cluster is not None and len(asked.clusters) != 1:
            raise click.UsageError("--to-cluster is compared with one: name it with --cluster")

    @property
    def moments(self) -> tuple[str | None, str | None]:
        """Of either side; None: the end of the archive."""
        begin, end, moment, profile, cluster = self
        if moment is not None:
            is_for_both = begin is None and (profile is not None or cluster is not None)
            return (moment if is_for_both else begin), moment
        return begin, (begin if end is None and profile is not None else end)


@click.command("diff")
@archive_argument
@click.option(
    "--from", "begin", metavar="MOMENT", help="The first moment: config@57, a time, a vector."
)
@click.option("--to", "end", metavar="MOMENT", help="The second moment. [default: the end]")
@moment_option("The same as --to; of two releases or clusters the moment of both.")
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
    help="Release of the second side. [default: that of the first]",
)
@click.option("--to-cluster", metavar="NAME", help="The other side. [default: the same]")
@connectors_option
@engine_options
@explain_option
@file_option()
@output_option("parquet", about="Tables for people, JSON or Parquet for machines.")
def command(  # noqa: PLR0913 - click passes every option by name
    asked: Asked,
    *,
    begin: str | None,
    end: str | None,
    moment: str | None,
    release: str,
    to_release: str | None,
    to_cluster: str | None,
    connectors: tuple[str, ...],
    engine: Choice,
    is_explained: bool,
    output: str,
    file: Path | None,
) -> None:
    """What changed about the connectors in ARCHIVE between two moments. Secrets are hidden.

    Two releases at one moment are compared with --release and --to-release (then --to is --from,
    unless it is given), two clusters with --cluster and --to-cluster. Exit code 1: something
    differs; 2: nothing can be told.
    """
    if EVERY in (release, to_release):
        raise click.UsageError("two releases are compared, not all: --release A --to-release B")
    named = _Named(begin, end, moment, to_release, to_cluster)
    named.check(asked)
    since, until = named.moments
    profiles = asked.profiles([release, to_release or release])
    sides = []
    for cluster in asked.opened():
        (other,) = asked._replace(clusters=(to_cluster,)).opened() if to_cluster else (cluster,)
        before = _Side(asked, cluster, since, profiles[0])
        sides.append((before, _Side(asked, other, until, profiles[-1])))
    questions = [side.question() for both in sides for side in both]
    tell([one.plan for one in questions])
    if is_explained:
        explain(answering.plans(engine, questions), output)
        return
    known = _known([side for both in sides for side in both], questions, engine)
    found = [_compared(next(known), next(known), connectors) for _ in sides]
    check_connectors(connectors, {name for one in found for name in _names(one)})
    if file is not None:
        write(file, CHANGES, (row for one in found for row in _rows(one)))
    elif output == "json":
        print_json([_document(one) for one in found])
    else:
        _print(found)
    if any(one.changes for one in found):
        raise SystemExit(FOUND)


def _known(
    sides: Sequence[_Side], questions: Sequence[Question], engine: Choice
) -> Iterator[_Known]:
    """What was known on each side."""
    with answering.engine(engine, questions) as opened:
        answers = opened.states(questions)
    for side, question, (state,) in zip(sides, questions, answers, strict=True):
        yield _Known(side, question.plan, state)


def _compared(before: _Known, after: _Known, connectors: Sequence[str]) -> _Compared:
    changes = differences(before.state, after.state)
    if connectors:
        changes = [one for one in changes if one.connector in connectors]
    return _Compared(before, after, changes)


def _names(compared: _Compared) -> Iterator[str]:
    """The connectors of which anything is known on either side."""
    for _, _, state in compared[:2]:
        config, status = state.config, state.status
        for table_ in (config.connectors, config.targets, config.task_counts, config.inconsistent):
            yield from table_
        yield from (*status.connectors, *status.tasks, *status.active_topics)
        yield from views.offset_owners(state)


def _document(compared: _Compared) -> dict[str, Any]:
    return {
        "from": compared.before.document,
        "to": compared.after.document,
        "gaps": gaps_of([known.plan for known in (compared.before, compared.after)]),
        "changes": [_change(one) for one in compared.changes],
    }


def _rows(compared: _Compared) -> Iterator[Row]:
    """A row for each change, for a file."""
    sides = (known.document for known in (compared.before, compared.after))
    before, after = (side | {"as_of": javajson.encode(side["as_of"]).decode()} for side in sides)
    for one in compared.changes:
        yield {"from": before, "to": after} | _change(one)


def _change(one: Change) -> dict[str, Any]:
    return {
        "connector": one.connector,
        "aspect": one.aspect.value,
        "item": item(one.aspect, one.item),
        "before": shown(one.aspect, one.item, one.before),
        "after": shown(one.aspect, one.item, one.after),
        "words": change(one.aspect, one.item, one.before, one.after),
        "cause": None if one.cause is None else one.cause._asdict(),
    }


def _print(found: Sequence[_Compared]) -> None:
    rows = [
        (compared.after.side.cluster.name, *_row(compared, one))
        for compared in found
        for one in compared.changes
    ]
    if rows:
        table(("CLUSTER", "CONNECTOR", "WHAT", "CHANGE", "BECAUSE OF"), rows)
    for compared in found:
        number = len(compared.changes)
        told = count(number, "difference") if number else "no differences"
        say(f"{compared.after.side.cluster.name}: {told}")


def _row(compared: _Compared, one: Change) -> tuple[str, ...]:
    return (
        one.connector,
        f"{one.aspect.value} {item(one.aspect, one.item)}".strip(),
        change(one.aspect, one.item, one.before, one.after),
        NONE if one.cause is None else place(one.cause, compared.after.side.cluster.topics),
    )
