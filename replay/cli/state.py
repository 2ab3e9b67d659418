"""`replay state`: what workers of any release knew, at any point of an archive."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec
import pyarrow.parquet as pq

from controlplane.core.moments import UnknownMoment
from controlplane.core.profiles import PROFILES, Profile, check_support
from controlplane.core.safe_text import count
from controlplane.core.state import ClusterState
from replay.archive.cluster import Cluster, open_clusters
from replay.archive.integrity import Checked
from replay.archive.store import open_store
from replay.cli.engines import Choice, engine_options
from replay.cli.printing import output_option, print_json, read_profile, say, table
from replay.engine.asked import Asked
from replay.engine.digest import digest
from replay.engine.explain import Explained
from replay.engine.local import Local, Options
from replay.engine.plan import Plan
from replay.engine.rows import Row, rows, table_of
from replay.errors import ReplayError

EVERY = "all"
NONE = "-"
"""Shown where there is nothing."""


class BadOutput(ReplayError):
    """What was asked for cannot be written there."""


class _Asked(NamedTuple):
    """What is to be told of each cluster."""

    moment: str | None
    profiles: Sequence[Profile]
    options: Options


class _Answer(NamedTuple):
    """What was known of a cluster."""

    cluster: str
    plan: Plan
    states: Sequence[ClusterState]


@click.command()
@click.argument("archive")
@click.option(
    "--as-of",
    "moment",
    metavar="MOMENT",
    help="A time, a record (config@57), or a vector of end offsets. [default: the end]",
)
@click.option(
    "--profile",
    "releases",
    metavar="RELEASE",
    multiple=True,
    help="Whose eyes: a release, kip, or all (each distinct one once); repeat. [default: kip]",
)
@click.option("--cluster", "names", metavar="NAME", multiple=True, help="Only this one; repeat.")
@click.option("--connector", "connectors", metavar="NAME", multiple=True, help="Only it; repeat.")
@click.option(
    "--exactly-once", is_flag=True, help="As workers see it that read no aborted records."
)
@engine_options
@click.option("--from-segments", is_flag=True, help="Read no snapshots and no winners.")
@click.option("--trust", "trusting", is_flag=True, help="Do not compare the hashes of files.")
@click.option("--explain", is_flag=True, help="Tell what would be read, and read nothing.")
@output_option("parquet", about="Tables for people, JSON or Parquet for machines.")
@click.option("--to", "file", type=click.Path(path_type=Path), help="The file, for Parquet.")
def state(  # noqa: PLR0913 - click passes every option by name
    archive: str,
    moment: str | None,
    releases: tuple[str, ...],
    names: tuple[str, ...],
    connectors: tuple[str, ...],
    *,
    exactly_once: bool,
    engine: Choice,
    from_segments: bool,
    trusting: bool,
    explain: bool,
    output: str,
    file: Path | None,
) -> None:
    """What was known in the clusters of ARCHIVE at a moment. Secrets are hidden.

    A moment is a prefix of the one order in which records are folded, never a filter on times.
    Exit code 2: nothing can be told, for instance because the archive begins later.
    """
    if (output == "parquet") is not (file is not None):
        raise click.UsageError("-o parquet and --to FILE belong together")
    asked = _Asked(
        moment,
        _profiles(releases, exactly_once=exactly_once),
        Options(exactly_once, derived=not from_segments),
    )
    clusters = open_clusters(open_store(archive), names)
    if not trusting:
        clusters = [_checked(cluster) for cluster in clusters]
    questions = [_planned(cluster, asked) for cluster in clusters]
    if explain:
        _explain(engine.explained(questions), output)
        return
    with engine.opened(questions) as opened:
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


def _profiles(releases: tuple[str, ...], *, exactly_once: bool) -> list[Profile]:
    found: dict[str, Profile] = {}
    for name in releases or ("kip",):
        every = [one for one in PROFILES if one.exactly_once_support or not exactly_once]
        for profile in every if name == EVERY else [read_profile(name)]:
            check_support(profile, exactly_once=exactly_once)
            found[profile.release] = profile
    return list(found.values())


def _checked(cluster: Cluster) -> Cluster:
    """The same, of which no file is read that was altered."""
    files = (stored for manifest in cluster.chain.manifests for stored in manifest.files)
    return cluster._replace(store=Checked(cluster.store, files))


def _planned(cluster: Cluster, asked: _Asked) -> Asked:
    local = Local(cluster, asked.options)
    try:
        plan = local.plan(asked.moment, asked.profiles)
    except UnknownMoment as error:
        raise UnknownMoment(f"{cluster.name}: {error}") from None
    for notice in plan.notices:
        click.echo(f"{cluster.name}: {notice}", err=True)
    return Asked(local, plan, asked.profiles)


def _check_found(wanted: tuple[str, ...], found: list[Row]) -> None:
    missing = [name for name in wanted if name not in {row.connector for row in found}]
    if missing:
        raise UnknownMoment(f"no cluster had a connector {missing[0]!r} then: look without it")


# --- printing -------------------------------------------------------------------------------


def _write(file: Path, found: list[Row]) -> None:
    try:
        pq.write_table(table_of(found), file, compression="zstd")
    except OSError as error:
        raise BadOutput(f"{file} cannot be written ({error.strerror or error})") from None


def _document(answer: _Answer, found: list[Row]) -> dict[str, Any]:
    return {
        "cluster": answer.cluster,
        "as_of": answer.plan.ends,
        "states": [
            {
                "profile": one.profile.release,
                "exactly_once": one.exactly_once,
                "digest": digest(one),
                "connectors": [
                    msgspec.structs.asdict(row)
                    for row in found
                    if (row.cluster, row.profile) == (answer.cluster, one.profile.release)
                ],
            }
            for one in answer.states
        ],
    }


def _print(answers: list[_Answer], found: list[Row]) -> None:
    heads = ("CLUSTER", "PROFILE", "CONNECTOR", "TARGET", "TASKS", "STATUS", "TASK STATES")
    table((*heads, "OFFSETS", "REMARKS"), [_cells(row) for row in found])
    for answer in answers:
        vector = msgspec.json.encode(answer.plan.ends).decode()
        say(f"{answer.cluster}: {count(len(answer.states), 'state')} as of {vector}")


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


def _explain(plans: list[Explained], output: str) -> None:
    if output == "json":
        print_json([plan._asdict() for plan in plans])
        return
    heads = ("CLUSTER", "ENGINE", "SNAPSHOT", "FILES", "ROWS READ", "OF", "TASKS", "SHUFFLES")
    table(heads, [_explained(plan) for plan in plans])
    for plan in plans:
        kinds = ", ".join(f"{rows} of {kind}" for kind, rows in plan.rows_by_kind.items())
        say(f"{plan.cluster}: {plan.why}; rows {kinds or 'none'}")


def _explained(plan: Explained) -> tuple[str, ...]:
    numbers = (plan.files, plan.rows, plan.rows_archived, plan.tasks, plan.shuffles)
    return (plan.cluster, plan.backend, plan.snapshot or NONE, *map(str, numbers))
