"""`replay verify`: is an archive still what it was, and what was never in it?"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar

import click

from controlplane.core.safe_text import count, safe
from controlplane.shell_completion import complete_files
from replay.archive import layout
from replay.archive.cluster import Cluster, open_cluster
from replay.archive.hadoop import settings
from replay.archive.store import Store, open_store
from replay.archive.verify import Verified, as_document, verified
from replay.cli.codes import REFUSED
from replay.cli.engines import Conf, conf_option
from replay.cli.printing import output_option, print_json, say, table
from replay.cli.progress import bar
from replay.errors import ReplayError

FOUND = 1
"""Exit code: the archive is sound, and something had been lost before it was archived."""

SHOWN = 20
"""Gaps and leftovers of a cluster that people are shown; JSON has all."""

T = TypeVar("T")


class _Looked(NamedTuple):
    """What came of looking at clusters, by their names."""

    opened: dict[str, Cluster]
    results: dict[str, Verified]
    failed: dict[str, str]
    """Why a cluster cannot be verified: a sentence."""

    @property
    def wrong(self) -> Iterator[str]:
        """What is wrong with the clusters, a sentence each."""
        alone = len(self.results) + len(self.failed) == 1
        sentences = self.failed | {name: _flawed(one) for name, one in self.results.items()}
        for name, sentence in sentences.items():
            if sentence:
                yield sentence if alone else f"{name}: {sentence}"


@click.command()
@click.argument("archive", shell_complete=complete_files)
@click.option("--cluster", "names", metavar="NAME", multiple=True, help="Only this one; repeat.")
@click.option(
    "--head",
    "heads",
    metavar="[NAME=]SHA256",
    multiple=True,
    help="The hash of a manifest that must be in the chain of that cluster, or of any; repeat.",
)
@conf_option
@output_option()
def verify(
    archive: str, names: tuple[str, ...], heads: tuple[str, ...], conf: Conf, output: str
) -> None:
    """Look at every byte of ARCHIVE: a folder, or s3a://bucket/folder.

    Manifests must be a chain, files must be what manifests tell. What is wrong with one cluster
    keeps no other from being looked at. The hash of the last manifest of each is printed: kept
    elsewhere and given as --head, it shows whether the end of that chain was cut off. Exit code 0:
    all is there; 1: offsets had been removed before they were archived, each gap is named; 2:
    something is missing or altered.
    """
    looked = _looked(open_store(archive, settings(dict(conf))), names)
    if output == "json":
        print_json(_documents(looked))
    elif looked.results:
        _print(looked.results.values())
    wrong = [*looked.wrong, *_cut_off(heads, looked)]
    for sentence in wrong:
        click.echo(f"Error: {safe(sentence)}", err=True)
    if wrong:
        raise SystemExit(REFUSED)
    if any(one.gaps for one in looked.results.values()):
        raise SystemExit(FOUND)


def _looked(store: Store, names: tuple[str, ...]) -> _Looked:
    """Look at each of these clusters, or at all there are."""
    failed: dict[str, str] = {}
    wanted = layout.asked_for(store, names)
    opened = _tried(lambda name: open_cluster(store, name), wanted, failed)
    with bar() as shown:
        shown.begin("verifying", sum(_bytes(cluster) for cluster in opened.values()))
        results = _tried(lambda name: verified(opened[name], shown.advance), opened, failed)
    return _Looked(opened, results, failed)


def _tried(
    attempt: Callable[[str], T], names: Iterable[str], failed: dict[str, str]
) -> dict[str, T]:
    """What came of an attempt, by name; where nothing did, why not."""
    done = {}
    for name in names:
        try:
            done[name] = attempt(name)
        except ReplayError as error:
            failed[name] = str(error)
    return done


def _flawed(result: Verified) -> str:
    """What is wrong with a cluster, as a sentence; empty: nothing."""
    if not result.flaws:
        return ""
    more = f" (and {len(result.flaws) - 1} more)" if len(result.flaws) > 1 else ""
    return f"{result.flaws[0]}{more}: restore what was altered"


def _cut_off(heads: Iterable[str], looked: _Looked) -> Iterator[str]:
    """A sentence for each hash that no manifest has of those that must."""
    hashes = {name: _hashes(cluster) for name, cluster in looked.opened.items()}
    for head in heads:
        name, of_one, sha256 = head.rpartition("=")
        if not of_one and not any(sha256 in one for one in hashes.values()):
            yield f"no manifest has the hash {sha256[:64]}: {_RESTORE}"
        elif of_one and name in hashes and sha256 not in hashes[name]:
            yield f"no manifest of {name} has the hash {sha256[:64]}: {_RESTORE}"
        elif of_one and name not in hashes and name not in looked.failed:
            there = ", ".join(hashes) or "none"
            yield f"no manifest of {name} is there (verified: {there}): restore it, or ask for it"


_RESTORE = "the end of the archive was cut off, restore it"


def _hashes(cluster: Cluster) -> set[str]:
    """The hashes of a cluster's manifests."""
    _, *previous = (one.previous for one in cluster.chain.manifests)
    return {cluster.chain.head, *previous}


def _bytes(cluster: Cluster) -> int:
    return sum(one.bytes for manifest in cluster.chain.manifests for one in manifest.files)


def _documents(looked: _Looked) -> list[Mapping[str, object]]:
    failed = looked.failed.items()
    return [
        *map(as_document, looked.results.values()),
        *({"cluster": name, "sound": False, "failed": why} for name, why in failed),
    ]


def _print(results: Iterable[Verified]) -> None:
    heads = ("CLUSTER", "SEGMENTS", "RECORDS", "BYTES", "FLAWS", "GAPS", "HEAD")
    table(heads, [_row(one) for one in results])
    for one in results:
        _print_some(one.cluster, "flaw", one.flaws)
        _print_some(one.cluster, "gap", one.gaps)
        if one.leftovers:
            files = count(len(one.leftovers), "file")
            say(
                f"{one.cluster}: {files} that no manifest names, of an append that died – or whose "
                f"manifest was removed, which --head tells: {one.leftovers[0]} …"
            )


def _row(one: Verified) -> tuple[str, ...]:
    numbers = (one.segments, one.records, one.bytes, len(one.flaws), len(one.gaps))
    return (one.cluster, *map(str, numbers), one.head)


def _print_some(cluster: str, what: str, sentences: tuple[str, ...]) -> None:
    for sentence in sentences[:SHOWN]:
        say(f"{cluster}: {what}: {sentence}")
    if len(sentences) > SHOWN:
        say(f"{cluster}: … and {len(sentences) - SHOWN} more; -o json names them all")
