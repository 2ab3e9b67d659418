"""`replay verify`: is an archive still what it was, and what was never in it?"""

import click

from controlplane.core.safe_text import count
from replay.archive.cluster import Cluster, open_clusters
from replay.archive.hadoop import settings
from replay.archive.store import open_store
from replay.archive.verify import Verified, as_document, verified
from replay.cli.engines import Conf, conf_option
from replay.cli.printing import output_option, print_json, say, table
from replay.cli.progress import bar
from replay.errors import ArchiveCorrupt

FOUND = 1
"""Exit code: the archive is sound, and something had been lost before it was archived."""

SHOWN = 20
"""Gaps and leftovers of a cluster that people are shown; JSON has all."""


@click.command()
@click.argument("archive")
@click.option("--cluster", "names", metavar="NAME", multiple=True, help="Only this one; repeat.")
@click.option("--head", metavar="SHA256", help="The hash of a manifest that must be in the chain.")
@conf_option
@output_option()
def verify(archive: str, names: tuple[str, ...], head: str | None, conf: Conf, output: str) -> None:
    """Look at every byte of ARCHIVE: a folder, or s3a://bucket/folder.

    Manifests must be a chain, files must be what manifests tell. The hash of the last manifest is
    printed: kept elsewhere and given as --head, it shows whether the end was cut off. Exit code 0:
    all is there; 1: offsets had been removed before they were archived, each gap is named; 2:
    something is missing or altered.
    """
    clusters = open_clusters(open_store(archive, settings(dict(conf))), names)
    if head is not None:
        _check_head(clusters, head)
    with bar() as shown:
        shown.begin("verifying", sum(_bytes(cluster) for cluster in clusters))
        results = [verified(cluster, shown.advance) for cluster in clusters]
    if output == "json":
        print_json([as_document(one) for one in results])
    else:
        _print(results)
    flaws = [flaw for one in results for flaw in one.flaws]
    if flaws:
        more = f" (and {len(flaws) - 1} more)" if len(flaws) > 1 else ""
        raise ArchiveCorrupt(f"{flaws[0]}{more}: restore what was altered")
    if any(one.gaps for one in results):
        raise SystemExit(FOUND)


def _check_head(clusters: list[Cluster], head: str) -> None:
    """Raise `ArchiveCorrupt` unless some chain has a manifest with this hash."""
    hashes = {cluster.chain.head for cluster in clusters}
    hashes.update(one.previous for cluster in clusters for one in cluster.chain.manifests)
    if head not in hashes - {""}:
        raise ArchiveCorrupt(
            f"no manifest has the hash {head[:64]}: the end of the archive was cut off, restore it"
        )


def _bytes(cluster: Cluster) -> int:
    return sum(one.bytes for manifest in cluster.chain.manifests for one in manifest.files)


def _print(results: list[Verified]) -> None:
    heads = ("CLUSTER", "SEGMENTS", "RECORDS", "BYTES", "FLAWS", "GAPS", "HEAD")
    table(heads, [_row(one) for one in results])
    for one in results:
        _print_some(one.cluster, "flaw", one.flaws)
        _print_some(one.cluster, "gap", one.gaps)
        if one.leftovers:
            files = count(len(one.leftovers), "file")
            say(f"{one.cluster}: {files} of an append that died, of no use: {one.leftovers[0]} …")


def _row(one: Verified) -> tuple[str, ...]:
    numbers = (one.segments, one.records, one.bytes, len(one.flaws), len(one.gaps))
    return (one.cluster, *map(str, numbers), one.head)


def _print_some(cluster: str, what: str, sentences: tuple[str, ...]) -> None:
    for sentence in sentences[:SHOWN]:
        say(f"{cluster}: {what}: {sentence}")
    if len(sentences) > SHOWN:
        say(f"{cluster}: … and {len(sentences) - SHOWN} more; -o json names them all")
