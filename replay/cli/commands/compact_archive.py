"""`replay compact-archive`: merge of small segments and of manifests, and removal by age."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from controlplane.core.moments import time_text
from controlplane.terminal.exit_codes import REFUSED
from controlplane.terminal.number_options import Number
from controlplane.terminal.output import note, print_json, say
from controlplane.terminal.shell_completion import complete_files
from controlplane.terminal.tables import table
from replay.archive import layout
from replay.archive.stores.hadoop_settings import settings
from replay.archive.stores.store import open_store
from replay.cli.execution.compactions import (
    CompactionOptions,
    CompactionResult,
    ExpectedRemoval,
    compact,
    expected,
    removed_numbers,
)
from replay.cli.options.archives import NONE, clusters_option
from replay.cli.options.durations import retain_option
from replay.cli.options.engines import SparkConf, store_conf_option
from replay.cli.options.formats import output_option
from replay.cli.output.progress_bar import bar
from replay.cluster_problem import answers_of_each, problem_sentences

T = TypeVar("T", CompactionResult, ExpectedRemoval)


@click.command("compact-archive")
@click.argument("archive", shell_complete=complete_files)
@clusters_option("Merge")
@retain_option
@click.option(
    "--dry-run",
    "is_rehearsal",
    is_flag=True,
    help="Show what --retain would remove, and change nothing.",
)
@click.option(
    "--grace",
    "grace_s",
    metavar="SECONDS",
    type=Number(min=0),
    default=0,
    help="Keep replaced files this long for commands that are reading them; a later run removes "
    "them. [default: 0]",
)
@store_conf_option
@output_option()
def compact_archive(  # noqa: PLR0913 - click passes every option by name
    archive: str,
    names: tuple[str, ...],
    *,
    retain_s: int | None,
    is_rehearsal: bool,
    grace_s: float,
    conf: SparkConf,
    output: str,
) -> None:
    """Merge the small files of ARCHIVE: a folder, or s3a://bucket/folder.

    A merged segment has up to a million records. One manifest replaces all others and continues
    their chain. Without --retain no answer changes. --retain DURATION also removes each record that
    a later record replaced at least DURATION ago. Answers about more recent moments stay the same.
    Captures may run meanwhile. A killed run leaves the archive whole; a later run removes
    its files. Exit code 0: merged, or nothing to merge; 2: a cluster is damaged, is being merged by
    another process, or cannot be written. The others are merged. Damage is found by the sizes of
    all files and the hashes of the segments to merge; `replay verify` finds all of it.
    """
    store = open_store(archive, settings(dict(conf)))
    options = CompactionOptions(retain_s, grace_s)
    clusters = layout.selected_clusters(store, names)
    failed: dict[str, str] = {}
    if is_rehearsal:
        plans = answers_of_each(clusters, lambda name: expected(store, name, options), failed)
        _show([*plans.values()], failed, output, _print_plans)
    else:
        with bar() as shown:
            results = answers_of_each(
                clusters, lambda name: compact(store, name, options, shown), failed
            )
        _show([*results.values()], failed, output, _print_results)
    for sentence in problem_sentences(failed):
        note(f"Error: {sentence}")
    if failed:
        raise SystemExit(REFUSED)


def _show(
    results: list[T], failed: Mapping[str, str], output: str, show: Callable[[list[T]], None]
) -> None:
    if output == "json":
        documents: list[Any] = [result.document for result in results]
        print_json(documents + [{"cluster": name, "failed": why} for name, why in failed.items()])
    elif results:
        show(results)


def _print_results(results: list[CompactionResult]) -> None:
    heads = ("CLUSTER", "MANIFESTS", "SEGMENTS", "FILES", "BYTES", "REMOVED", "HEAD")
    table(heads, [_row(result) for result in results])
    for result in results:
        for sentence in result.sentences:
            say(sentence)


def _row(result: CompactionResult) -> tuple[str, ...]:
    merge = result.merge
    numbers = (merge.manifests, merge.segments, merge.files, merge.bytes)
    removed = result.removal.removed + result.leftovers
    return (merge.cluster, *map(_change, numbers), str(removed), merge.head)


def _change(numbers: tuple[int, int]) -> str:
    before, after = numbers
    return f"{before} → {after}" if before != after else str(after)


def _print_plans(plans: list[ExpectedRemoval]) -> None:
    heads = ("CLUSTER", "SUPERSEDED BEFORE", "RECORDS", "OF", "BYTES")
    table(heads, [_plan_row(plan) for plan in plans])
    for plan in plans:
        for sentence in plan.sentences:
            say(sentence)


def _plan_row(plan: ExpectedRemoval) -> tuple[str, ...]:
    records, size = removed_numbers(plan.expired)
    cut = NONE if plan.cut_ms is None or plan.cut_ms < 0 else time_text(plan.cut_ms)
    return (plan.cluster, cut, str(records), str(plan.records), str(size))
