"""`replay state`: states of workers of any release, at any moment of an archive."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec
import pyarrow.parquet as pq

from controlplane.core.state import ClusterState
from controlplane.core.text.record_text import place
from controlplane.core.text.safe_text import count
from replay.archive.archived_cluster import ArchivedCluster
from replay.atomic_file import atomic_write
from replay.cli.execution import engine_choice
from replay.cli.execution.plan_output import explain, explain_option
from replay.cli.options.archives import (
    NONE,
    ArchiveInput,
    UnknownConnector,
    archive_argument,
    connectors_option,
    moment_option,
    planned,
    profiles_option,
    tell,
    to_option,
)
from replay.cli.options.engines import EngineChoice, engine_options
from replay.cli.output.printer import output_option, print_json, say, table
from replay.engine.query import StateQuery
from replay.engine.read_plan import ReadPlan
from replay.engine.state_digest import digest
from replay.engine.state_rows import ConnectorRow, rows, table_of, unreadable

UNREADABLE_SHOWN = 5
"""Unreadable records that a table lists per state; JSON lists more."""


class _ClusterStates(NamedTuple):
    """States of one cluster, one per release."""

    cluster: str
    plan: ReadPlan
    states: Sequence[ClusterState]


@click.command()
@archive_argument
@moment_option()
@profiles_option
@connectors_option
@engine_options
@click.option(
    "--from-segments", is_flag=True, help="Read segments only, no snapshots and no winners."
)
@explain_option
@output_option("parquet", about="Print tables or JSON, or write Parquet.")
@to_option
def state(  # noqa: PLR0913 - click passes every option by name
    archive: ArchiveInput,
    moment: str | None,
    releases: tuple[str, ...],
    connectors: tuple[str, ...],
    *,
    engine: EngineChoice,
    from_segments: bool,
    is_explained: bool,
    output: str,
    file: Path | None,
) -> None:
    """Show the state of the clusters in ARCHIVE at a moment. Secrets are hidden.

    A moment selects a prefix of the order in which records are folded; it is no filter on
    timestamps. Exit code 2: a cluster has no state, for instance because it begins later.
    """
    profiles = archive.profiles(releases)

    def question(cluster: ArchivedCluster) -> StateQuery:
        local = archive.local(cluster, derived=not from_segments)
        return StateQuery(local, planned(local, moment, profiles), profiles)

    questions = archive.each(question)
    tell([asked_state.plan for asked_state in questions])
    if is_explained:
        explain(engine_choice.plans(engine, questions), output)
        return
    with engine_choice.engine(engine, questions) as opened:
        found_states = opened.states(questions)
    answers = [
        _ClusterStates(query.local.cluster.name, query.plan, states)
        for query, states in zip(questions, found_states, strict=True)
    ]
    connector_rows = [
        row
        for answer in answers
        for cluster_state in answer.states
        for row in rows(answer.cluster, cluster_state, connectors)
    ]
    _check_found(connectors, connector_rows)
    if file is not None:
        _write(file, connector_rows)
    elif output == "json":
        print_json([_document(answer, connector_rows) for answer in answers])
    else:
        _print(answers, connector_rows)


def _check_found(names: tuple[str, ...], connector_rows: list[ConnectorRow]) -> None:
    missing = [name for name in names if name not in {row.connector for row in connector_rows}]
    if missing:
        raise UnknownConnector(
            f"no cluster had a connector {missing[0]!r} at that moment: check the name"
        )


# --- printing -------------------------------------------------------------------------------


def _write(file: Path, connector_rows: list[ConnectorRow]) -> None:
    with atomic_write(file) as draft:
        pq.write_table(table_of(connector_rows), draft, compression="zstd")


def _document(answer: _ClusterStates, connector_rows: list[ConnectorRow]) -> dict[str, Any]:
    return {
        "cluster": answer.cluster,
        "as_of": answer.plan.ends,
        "gaps": [gap.sentence for gap in answer.plan.gaps],
        "states": [
            {
                "profile": cluster_state.profile.release,
                "exactly_once": cluster_state.exactly_once,
                "digest": digest(cluster_state),
                "unreadable": _unreadable(cluster_state),
                "connectors": [
                    msgspec.structs.asdict(row)
                    for row in connector_rows
                    if (row.cluster, row.profile) == (answer.cluster, cluster_state.profile.release)
                ],
            }
            for cluster_state in answer.states
        ],
    }


def _unreadable(state: ClusterState) -> dict[str, Any]:
    listed = unreadable(state)
    records = [{"position": at._asdict(), "reason": why} for at, why in listed.records]
    return {"count": listed.number, "records": records}


def _print(answers: list[_ClusterStates], connector_rows: list[ConnectorRow]) -> None:
    heads = ("CLUSTER", "RELEASE", "CONNECTOR", "TARGET", "TASKS", "STATUS", "TASK STATES")
    table((*heads, "OFFSETS", "REMARKS"), [_cells(row) for row in connector_rows])
    for answer in answers:
        for cluster_state in answer.states:
            _print_unreadable(answer.cluster, cluster_state)
        vector = msgspec.json.encode(answer.plan.ends).decode()
        say(f"{answer.cluster}: {count(len(answer.states), 'state')} as of {vector}")


def _print_unreadable(cluster: str, state: ClusterState) -> None:
    unusable = unreadable(state)
    if not unusable.number:
        return
    records = count(unusable.number, "record")
    say(f"{cluster}: {records} that a worker of {state.profile.release} cannot use:")
    for at, why in unusable.records[:UNREADABLE_SHOWN]:
        say(f"  {place(at, state.topics)}  {why}")
    if unusable.number > UNREADABLE_SHOWN:
        say(
            f"  … and {unusable.number - UNREADABLE_SHOWN} more; `replay audit` counts them by "
            "reason"
        )


def _cells(row: ConnectorRow) -> tuple[str, ...]:
    states = Counter(task["state"] for task in row.task_status.values()).most_common()
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
