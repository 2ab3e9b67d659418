"""`replay state`: what workers of any release knew, at any point of an archive."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec
import pyarrow.parquet as pq

from controlplane.core.safe_text import count
from controlplane.core.shown_records import place
from controlplane.core.state import ClusterState
from replay.archive.cluster import Cluster
from replay.cli import answering
from replay.cli.asking import (
    NONE,
    Asked,
    UnknownConnector,
    archive_argument,
    connectors_option,
    moment_option,
    planned,
    profiles_option,
    tell,
    to_option,
)
from replay.cli.engines import Choice, engine_options
from replay.cli.explaining import explain, explain_option
from replay.cli.printing import output_option, print_json, say, table
from replay.engine import asked as engine_asked
from replay.engine.digest import digest
from replay.engine.plan import Plan
from replay.engine.rows import Row, rows, table_of, unreadable
from replay.whole import whole

UNREADABLE_SHOWN = 5
"""Records of no use that people are shown, of each state; JSON has more."""


class _Answer(NamedTuple):
    """What was known of a cluster."""

    cluster: str
    plan: Plan
    states: Sequence[ClusterState]


@click.command()
@archive_argument
@moment_option()
@profiles_option
@connectors_option
@engine_options
@click.option("--from-segments", is_flag=True, help="Read no snapshots and no winners.")
@explain_option
@output_option("parquet", about="Tables for people, JSON or Parquet for machines.")
@to_option
def state(  # noqa: PLR0913 - click passes every option by name
    asked: Asked,
    moment: str | None,
    releases: tuple[str, ...],
    connectors: tuple[str, ...],
    *,
    engine: Choice,
    from_segments: bool,
    is_explained: bool,
    output: str,
    file: Path | None,
) -> None:
    """What was known in the clusters of ARCHIVE at a moment. Secrets are hidden.

    A moment is a prefix of the one order in which records are folded, never a filter on times.
    Exit code 2: of some cluster nothing can be told, for instance because it begins later.
    """
    profiles = asked.profiles(releases)

    def question(cluster: Cluster) -> engine_asked.Asked:
        local = asked.local(cluster, derived=not from_segments)
        return engine_asked.Asked(local, planned(local, moment, profiles), profiles)

    questions = asked.each(question)
    tell([one.plan for one in questions])
    if is_explained:
        explain(answering.plans(engine, questions), output)
        return
    with answering.engine(engine, questions) as opened:
        found_states = opened.states(questions)
    answers = [
        _Answer(one.local.cluster.name, one.plan, states)
        for one, states in zip(questions, found_states, strict=True)
    ]
    found = [
        row
        for answer in answers
        for one in answer.states
        for row in rows(answer.cluster, one, connectors)
    ]
    _check_found(connectors, found)
    if file is not None:
        _write(file, found)
    elif output == "json":
        print_json([_document(answer, found) for answer in answers])
    else:
        _print(answers, found)


def _check_found(wanted: tuple[str, ...], found: list[Row]) -> None:
    missing = [name for name in wanted if name not in {row.connector for row in found}]
    if missing:
        raise UnknownConnector(f"no cluster had a connector {missing[0]!r} then: look without it")


# --- printing -------------------------------------------------------------------------------


def _write(file: Path, found: list[Row]) -> None:
    with whole(file) as draft:
        pq.write_table(table_of(found), draft, compression="zstd")


def _document(answer: _Answer, found: list[Row]) -> dict[str, Any]:
    return {
        "cluster": answer.cluster,
        "as_of": answer.plan.ends,
        "gaps": [gap.sentence for gap in answer.plan.gaps],
        "states": [
            {
                "profile": one.profile.release,
                "exactly_once": one.exactly_once,
                "digest": digest(one),
                "unreadable": _unreadable(one),
                "connectors": [
                    msgspec.structs.asdict(row)
                    for row in found
                    if (row.cluster, row.profile) == (answer.cluster, one.profile.release)
                ],
            }
            for one in answer.states
        ],
    }


def _unreadable(state: ClusterState) -> dict[str, Any]:
    found = unreadable(state)
    records = [{"position": at._asdict(), "reason": why} for at, why in found.records]
    return {"count": found.number, "records": records}


def _print(answers: list[_Answer], found: list[Row]) -> None:
    heads = ("CLUSTER", "RELEASE", "CONNECTOR", "TARGET", "TASKS", "STATUS", "TASK STATES")
    table((*heads, "OFFSETS", "REMARKS"), [_cells(row) for row in found])
    for answer in answers:
        for one in answer.states:
            _print_unreadable(answer.cluster, one)
        vector = msgspec.json.encode(answer.plan.ends).decode()
        say(f"{answer.cluster}: {count(len(answer.states), 'state')} as of {vector}")


def _print_unreadable(cluster: str, state: ClusterState) -> None:
    found = unreadable(state)
    if not found.number:
        return
    records = count(found.number, "record")
    say(f"{cluster}: {records} of no use to a worker of {state.profile.release}:")
    for at, why in found.records[:UNREADABLE_SHOWN]:
        say(f"  {place(at, state.topics)}  {why}")
    if found.number > UNREADABLE_SHOWN:
        say(f"  … and {found.number - UNREADABLE_SHOWN} more; `replay audit` counts them by reason")


def _cells(row: Row) -> tuple[str, ...]:
    states = Counter(one["state"] for one in row.task_status.values()).most_common()
    remarks = ("inconsistent",) if row.inconsistent else ()
    return (
        row.cluster,
        row.profile,
        row.connector,
        row.target_state or NONE,
        NONE if row.tasks is None else str(row.tasks),
        row.status["state"] if row.status else NONE,
        ", ".join(f"{number} {name}" for name, number in states) or NONE,
        str(len(row.offsets)) if row.offsets else NONE,
        "; ".join((*remarks, *row.remarks)),
    )
