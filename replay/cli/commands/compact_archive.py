"""`replay compact-archive`: merge of small segments and of manifests."""

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import click

from controlplane.core.text.safe_text import count, safe
from controlplane.terminal.shell_completion import complete_files
from replay.archive import layout
from replay.archive.hadoop_settings import settings
from replay.archive.merge import Merger, MergeResult
from replay.archive.replaced_files import Removal, remove_replaced
from replay.archive.store import ArchiveStore, open_store
from replay.cli.exit_codes import REFUSED
from replay.cli.options.archives import clusters_option
from replay.cli.options.engines import SparkConf, conf_option
from replay.cli.output.printer import output_option, print_json, say, table
from replay.cli.output.progress_bar import ProgressBar, bar
from replay.cluster_problem import ClusterProblem, attempted, problem_lines


class _CompactionResult(NamedTuple):
    """Merge of one cluster, and the removal of replaced files."""

    merge: MergeResult
    removal: Removal


@click.command("compact-archive")
@click.argument("archive", shell_complete=complete_files)
@clusters_option("Merge")
@click.option(
    "--grace",
    "grace_s",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=0,
    help="Keep replaced files this long for commands that are reading them; a later run removes "
    "them. [default: 0]",
)
@conf_option
@output_option()
def compact_archive(
    archive: str, names: tuple[str, ...], grace_s: float, conf: SparkConf, output: str
) -> None:
    """Merge the small files of ARCHIVE: a folder, or s3a://bucket/folder.

    Segments are merged up to a million records, and all manifests to one that continues their
    chain. No answer changes. Captures may run meanwhile. A killed run leaves the archive whole; the
    next run removes the replaced files. Exit code 0: merged, or nothing to merge; 2: a cluster is
    damaged, is being merged by another process, or cannot be written. The others are merged.
    """
    store = open_store(archive, settings(dict(conf)))
    results: list[_CompactionResult] = []
    failed: dict[str, str] = {}
    clusters = layout.selected_clusters(store, names)
    with bar() as shown:
        for name in clusters:
            result = attempted(name, partial(_compacted, store, name, grace_s, shown))
            if isinstance(result, ClusterProblem):
                failed[name] = result.problem
            else:
                results.append(result)
    if output == "json":
        print_json(_documents(results, failed))
    elif results:
        _print(results)
    for sentence in problem_lines(failed, len(clusters)):
        click.echo(f"Error: {safe(sentence)}", err=True)
    if failed:
        raise SystemExit(REFUSED)


def _compacted(
    store: ArchiveStore, name: str, grace_s: float, shown: ProgressBar
) -> _CompactionResult:
    """Remove what earlier merges have replaced, then merge."""
    earlier = remove_replaced(store, name, grace_s)
    merger = Merger(store, name)
    shown.begin(f"merging {name}", merger.work)
    merge = merger.run(shown.advance)
    later = remove_replaced(store, name, grace_s)
    return _CompactionResult(merge, Removal(earlier.removed + later.removed, later.remaining))


def _documents(
    results: list[_CompactionResult], failed: Mapping[str, str]
) -> list[Mapping[str, object]]:
    return [
        *({**merge._asdict(), **removal._asdict()} for merge, removal in results),
        *({"cluster": name, "failed": sentence} for name, sentence in failed.items()),
    ]


def _print(results: list[_CompactionResult]) -> None:
    heads = ("CLUSTER", "MANIFESTS", "SEGMENTS", "FILES", "BYTES", "REMOVED", "HEAD")
    table(heads, [_row(result) for result in results])
    for merge, removal in results:
        if removal.remaining:
            files = count(removal.remaining, "replaced file")
            say(f"{merge.cluster}: {files} remain for --grace; a later run removes them")


def _row(result: _CompactionResult) -> tuple[str, ...]:
    merge, removal = result
    numbers = (merge.manifests, merge.segments, merge.files, merge.bytes)
    return (merge.cluster, *map(_change, numbers), str(removal.removed), merge.head)


def _change(numbers: tuple[int, int]) -> str:
    before, after = numbers
    return f"{before} → {after}" if before != after else str(after)
