"""`replay verify`: integrity of an archive, and its gaps."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import click

from controlplane.core.entry import Position
from controlplane.core.moments import time_text
from controlplane.core.state import Topics
from controlplane.core.text.record_text import place
from controlplane.core.text.safe_text import count
from controlplane.terminal.exit_codes import FOUND, REFUSED
from controlplane.terminal.output import note, print_json, say
from controlplane.terminal.shell_completion import complete_files
from controlplane.terminal.tables import table
from replay.archive import layout
from replay.archive.archived_cluster import ArchivedCluster, open_cluster
from replay.archive.integrity import NEW_COPY, new_capture
from replay.archive.merges.retention_proof import RetentionRun
from replay.archive.stores.hadoop_settings import settings
from replay.archive.stores.store import ArchiveStore, open_store
from replay.archive.verification import Verification, as_document, verified
from replay.cli.execution.compactions import removed_numbers
from replay.cli.options.archives import clusters_option
from replay.cli.options.engines import SparkConf, store_conf_option
from replay.cli.options.formats import output_option
from replay.cli.output.progress_bar import bar
from replay.cluster_problem import answers_of_each, problem_sentences
from replay.doubts import UNKNOWN_KINDS, EndVector, certain_sentence
from replay.engine.coverage.archive_coverage import PartitionCoverage, coverage

SHOWN = 20
"""Flaws, gaps, unknown spans and removals that are printed per cluster; JSON has all."""


class _VerifyResults(NamedTuple):
    """Clusters that were verified, and those that could not be."""

    opened: dict[str, ArchivedCluster]
    results: dict[str, Verification]
    failed: dict[str, str]
    """Reason, for each cluster that cannot be verified."""
    coverage: dict[str, list[PartitionCoverage]]
    """Archived and missing offsets of each sound cluster."""

    @property
    def wrong(self) -> Iterator[str]:
        """Problems of the clusters, one sentence each."""
        flawed = {name: _flawed(result) for name, result in self.results.items()}
        problems = {name: flaw for name, flaw in (self.failed | flawed).items() if flaw}
        return problem_sentences(problems)


@click.command()
@click.argument("archive", shell_complete=complete_files)
@clusters_option("Verify")
@click.option(
    "--head",
    "heads",
    metavar="[NAME=]SHA256",
    multiple=True,
    help="Hash of a manifest that the chain of NAME, or of any cluster, must contain. "
    "May be repeated.",
)
@click.option(
    "--per-partition",
    "is_by_partition",
    is_flag=True,
    help="Also print archived and missing offsets per partition, and the moment from which each "
    "key's last record is known.",
)
@store_conf_option
@output_option()
def verify(  # noqa: PLR0913 - click passes every option by name
    archive: str,
    names: tuple[str, ...],
    heads: tuple[str, ...],
    conf: SparkConf,
    output: str,
    *,
    is_by_partition: bool,
) -> None:
    """Verify every byte of ARCHIVE: a folder, or s3a://bucket/folder.

    Manifests must form a chain, and files must match their manifests. A problem of one cluster does
    not affect the others. The hash of each cluster's last manifest is printed. Stored elsewhere and
    given as --head, it proves that the end of the chain was not cut off. Exit code 0: complete; 1:
    complete but for the listed gaps; 2: files are missing or altered. Offsets that compaction had
    removed are counted as missing, and are no error.
    """
    _check_heads(heads)
    verified_clusters = _verify_all(open_store(archive, settings(dict(conf))), names)
    if output == "json":
        print_json(_documents(verified_clusters))
    elif verified_clusters.results:
        _print(verified_clusters)
        if is_by_partition:
            say()
            _print_partitions(verified_clusters)
    for name, cluster in verified_clusters.opened.items():
        for advice in cluster.merge_advice:
            note(f"{name}: {advice}")
    wrong = [*verified_clusters.wrong, *_cut_off(heads, verified_clusters)]
    for sentence in wrong:
        note(f"Error: {sentence}")
    if wrong:
        raise SystemExit(REFUSED)
    if any(result.gaps for result in verified_clusters.results.values()):
        raise SystemExit(FOUND)


def _verify_all(store: ArchiveStore, names: tuple[str, ...]) -> _VerifyResults:
    """Verify the named clusters; without names, all."""
    failed: dict[str, str] = {}
    clusters = layout.selected_clusters(store, names)
    opened = answers_of_each(clusters, lambda name: open_cluster(store, name), failed)
    with bar() as shown:
        shown.begin("verifying", sum(_bytes(cluster) for cluster in opened.values()))
        results = answers_of_each(
            opened, lambda name: verified(opened[name], shown.advance), failed
        )
    sound = [name for name, result in results.items() if not result.flaws]
    covered = answers_of_each(sound, lambda name: list(coverage(opened[name])), failed)
    results = {name: result for name, result in results.items() if name not in failed}
    return _VerifyResults(opened, results, failed, covered)


def _flawed(result: Verification) -> str:
    """Problem of a cluster as a sentence; empty if there is none."""
    if not result.flaws:
        return ""
    suffix = f" (and {len(result.flaws) - 1} more)" if len(result.flaws) > 1 else ""
    # Only damaged winners and snapshots can be replaced without a copy.
    is_derived = all(layout.is_derived(flaw.partition(" ")[0]) for flaw in result.flaws)
    advice = NEW_COPY if is_derived else new_capture(layout.folder(result.cluster))
    return f"{result.flaws[0]}{suffix}: restore what was altered from a copy. {advice}"


def _check_heads(heads: Iterable[str]) -> None:
    for head in heads:
        if not head.rpartition("=")[2]:
            raise click.UsageError(f"--head {head!r} has no hash: give NAME=SHA256")


def _cut_off(heads: Iterable[str], verified_clusters: _VerifyResults) -> Iterator[str]:
    """Yield a sentence for each required hash that no manifest has.

    The hashes of a failed cluster are not all known: a merge may have replaced its manifests.
    """
    hashes = {name: _hashes(cluster) for name, cluster in verified_clusters.opened.items()}
    for name, result in verified_clusters.results.items():
        hashes[name].update(result.earlier_heads)
    for head in heads:
        name, names_cluster, sha256 = head.rpartition("=")
        if not names_cluster and not any(sha256 in file_hash for file_hash in hashes.values()):
            unread = ", ".join(verified_clusters.failed)
            advice = f"{unread} could not be read, so restore that first" if unread else _RESTORE
            yield f"no manifest has the hash {sha256[:64]}: {advice}"
        elif not names_cluster or name in verified_clusters.failed:
            continue
        elif name in hashes and sha256 not in hashes[name]:
            yield f"no manifest of {name} has the hash {sha256[:64]}: {_RESTORE}"
        elif name not in hashes:
            verified_names = ", ".join(hashes) or "none"
            why = f"was not verified (verified: {verified_names})"
            yield f"cluster {name} {why}: restore it, or select it with --cluster"


_RESTORE = "the end of the archive was cut off, restore it (or correct the hash)"


def _hashes(cluster: ArchivedCluster) -> set[str]:
    """Hashes of the manifests that the chain has, from the last merge on."""
    _, *previous = (manifest.previous for manifest in cluster.chain.manifests)
    return {cluster.chain.head, *previous}


def _bytes(cluster: ArchivedCluster) -> int:
    return sum(file.bytes for file in cluster.chain.files)


def _documents(verified_clusters: _VerifyResults) -> list[Mapping[str, object]]:
    failed = verified_clusters.failed.items()
    return [
        *(
            as_document(result) | _coverage_documents(verified_clusters.coverage.get(name, ()))
            for name, result in verified_clusters.results.items()
        ),
        *({"cluster": name, "sound": False, "failed": why} for name, why in failed),
    ]


def _coverage_documents(parts: Sequence[PartitionCoverage]) -> dict[str, object]:
    return {
        "partitions": [part.document for part in parts],
        "doubts": [doubt.document for part in parts for doubt in part.doubts],
        "certain_from": _vector(parts),
    }


def _print(verified_clusters: _VerifyResults) -> None:
    heads = ("CLUSTER", "SEGMENTS", "RECORDS", "BYTES", "FLAWS", "GAPS", "HEAD")
    results = verified_clusters.results.values()
    table(heads, [_row(result) for result in results])
    for result in results:
        _print_some(result.cluster, "flaw", result.flaws)
        _print_some(result.cluster, "gap", result.gaps)
        parts = verified_clusters.coverage.get(result.cluster, ())
        missing = sum(part.missing for part in parts)
        if missing:
            holes = count(sum(part.holes for part in parts), "hole")
            say(f"{result.cluster}: {count(missing, 'offset')} in {holes} not archived")
        doubts = [doubt for part in parts for doubt in (*part.unknown, *part.doubts)]
        unknown = dict.fromkeys(doubt.sentence for doubt in doubts if doubt.kind in UNKNOWN_KINDS)
        _print_some(result.cluster, "unknown", tuple(unknown))
        _print_some(result.cluster, "removed", tuple(map(_removed, result.retentions[::-1])))
        if unknown or any(part.removed for part in parts):
            say(f"{result.cluster}: {certain_sentence(_vector(parts))}")
        if result.leftovers:
            files = count(len(result.leftovers), "file")
            say(
                f"{result.cluster}: {files} that no manifest names: an append or a merge died or "
                "is in progress, or a manifest was removed (--head detects that): "
                f"{result.leftovers[0]} …"
            )
        if result.replaced:
            files = count(result.replaced, "file")
            say(f"{result.cluster}: {files} replaced by a merge: compact-archive removes them")
        if result.thinned:
            segments = count(result.thinned, "replaced segment")
            say(
                f"{result.cluster}: retention removed records of {segments}. Give a --head from "
                "after the removal to prove that their other records are intact"
            )
        if result.unproven:
            segments = count(result.unproven, "replaced segment")
            say(
                f"{result.cluster}: an earlier version of replay stored no hash of the records of "
                f"{segments}. Give a --head from after the merge to prove that these records are "
                "intact"
            )


def _removed(run: RetentionRun) -> str:
    records, size = removed_numbers(run.retention.expired)
    day, cut = time_text(run.written_at_ms)[:10], time_text(run.retention.cut_ms)
    return (
        f"on {day}, {count(records, 'record')} ({count(size, 'byte')}) that were superseded before "
        f"{cut} (manifest {run.number})"
    )


def _row(result: Verification) -> tuple[str, ...]:
    numbers = (result.segments, result.records, result.bytes, len(result.flaws), len(result.gaps))
    return (result.cluster, *map(str, numbers), result.head)


def _print_partitions(verified_clusters: _VerifyResults) -> None:
    rows = [
        _partition_row(name, part, verified_clusters.opened[name].topics)
        for name, parts in verified_clusters.coverage.items()
        for part in parts
    ]
    if len(verified_clusters.coverage) == 1:
        table(_PARTITION_HEADS, [row[1:] for row in rows])
    else:
        table(("CLUSTER", *_PARTITION_HEADS), rows)


_NUMBERS = ("RECORDS", "FIRST", "TIME", "LAST", "TIME", "MISSING")
_PARTITION_HEADS = ("PARTITION", *_NUMBERS, "CERTAIN FROM")


def _partition_row(cluster: str, part: PartitionCoverage, topics: Topics) -> tuple[str, ...]:
    return (
        cluster,
        f"{part.topic} {part.partition}",
        str(part.records),
        *_record_cells(part.first_offset, part.first_ms),
        *_record_cells(part.last_offset, part.latest_ms),
        str(part.missing),
        _certain_from(part, topics),
    )


def _record_cells(offset: int | None, ms: int | None) -> tuple[str, str]:
    """Offset and time of a record."""
    return "-" if offset is None else str(offset), "-" if ms is None else time_text(ms)


def _certain_from(part: PartitionCoverage, topics: Topics) -> str:
    """First moment at which the last record of each key is known, or `never`."""
    if part.known_from is None:
        return "never"
    position = Position(part.topic, part.partition, part.known_from - 1)
    return place(position, topics) if part.known_from else "the beginning"


def _vector(parts: Iterable[PartitionCoverage]) -> EndVector | None:
    """Smallest end offsets from which on each key's last record is known, by topic.

    None: a partition has no such offset.
    """
    vector: dict[str, list[int]] = {}
    for part in parts:
        if part.known_from is None:
            return None
        vector.setdefault(part.topic, []).append(part.known_from)
    return vector


def _print_some(cluster: str, heading: str, sentences: tuple[str, ...]) -> None:
    for sentence in sentences[:SHOWN]:
        say(f"{cluster}: {heading}: {sentence}")
    if len(sentences) > SHOWN:
        say(f"{cluster}: … and {len(sentences) - SHOWN} more; -o json lists all")
