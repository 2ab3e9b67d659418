"""Speed of a fold, and memory per offset, compared with a fold with the json module.

    python -m benchmarks.fold [--records 1000000] [--quick]

The peer is the obvious program. It decodes key and value of every record with `json`, and keeps the
last in a dict. All figures come from one run on one machine; the best of several rounds counts.
"""

import asyncio
import gc
import json
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import click
from rich.console import Console
from rich.table import Table

from benchmarks.inputs.sample_logs import CONFIG, OFFSETS, PARTITIONS, STATUS, mix, only_offsets
from controlplane.core.entry import Batch
from controlplane.core.fold import Fold
from controlplane.core.fold.bulk import load
from controlplane.core.releases.profiles import Profile
from controlplane.logs.sqlite import SqliteLog, reader
from controlplane.projection.loader import load as load_log

PROFILE = Profile.of("3.9")
KEYS = 200_000


class FoldFigure(NamedTuple):
    """Row of the table: values of this fold and of its peer, with ratio and goal."""

    what: str
    ours: str
    peer: str
    ratio: str
    goal: str


def json_fold(batches: Iterable[Batch]) -> dict[Any, Any]:
    """Peer: decode everything; the last record of a key wins."""
    state: dict[Any, Any] = {}
    for batch in batches:
        offsets = batch.topic == OFFSETS
        for raw_key, raw_value in zip(batch.keys, batch.values, strict=True):
            key: Any = (raw_key or b"").decode()
            if offsets:
                connector, partition = json.loads(key)
                key = connector, json.dumps(partition, sort_keys=True)
            state[key] = json.loads(raw_value or b"null")
    return state


def our_fold(batches: Sequence[Batch]) -> Fold:
    """Fold as a worker of a release."""
    fold = Fold(PROFILE)
    load(fold, batches)
    return fold


def seconds(work: Callable[[], object]) -> float:
    """Seconds of one run; garbage is collected before it."""
    gc.collect()
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def best(rounds: int, *contestants: Callable[[], object]) -> list[float]:
    """Best time of each contestant; they take turns, so noise affects all alike."""
    times = [[seconds(work) for work in contestants] for _ in range(rounds)]
    return [min(column) for column in zip(*times, strict=True)]


def _rates(title: str, records: int, ours: float, peer: float, goal: str) -> FoldFigure:
    rates = [f"{records / elapsed / 1e6:.2f} M/s" for elapsed in (ours, peer)]
    return FoldFigure(title, rates[0], rates[1], f"{peer / ours:.1f}×", goal)


def bytes_per_key(records: int) -> FoldFigure:
    """Memory of folded offsets per key (dict, keys and values), and of the peer."""
    sizes = []
    contestants: tuple[Callable[[Sequence[Batch]], Fold | dict[Any, Any]], ...]
    contestants = our_fold, json_fold
    for work in contestants:
        tracemalloc.start()
        batches = list(only_offsets(records, KEYS))
        state: Fold | dict[Any, Any] = work(batches)
        # Only the entries that the state references remain allocated.
        del batches
        gc.collect()
        sizes.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
        keys = _keys(state)
        del state
    ours, peer = (size / keys for size in sizes)
    ratio = f"{peer / ours:.1f}×"
    return FoldFigure("bytes per offset key", f"{ours:.0f} B", f"{peer:.0f} B", ratio, "≤ 210 B")


def _keys(state: Fold | dict[Any, Any]) -> int:
    return len(state) if isinstance(state, dict) else len(state.snapshot().offsets[OFFSETS].values)


async def from_sqlite(batches: Sequence[Batch], folder: Path, rounds: int) -> tuple[float, float]:
    """Seconds to fold an embedded log, with and without checking checksums."""
    log = await SqliteLog.open(folder / "log.db")
    for topic in (OFFSETS, STATUS, CONFIG):
        await log.create_topic(topic, PARTITIONS[topic])
    for batch in batches:
        await log.put(list(batch.entries()))
    elapsed: dict[bool, list[float]] = {True: [], False: []}
    for checked in (True, False) * rounds:
        gc.collect()
        with nullcontext() if checked else patch.object(reader, "check", lambda *_: None):
            started = time.perf_counter()
            await load_log(log, PROFILE)
            elapsed[checked].append(time.perf_counter() - started)
    await log.close()
    return min(elapsed[True]), min(elapsed[False])


def figures(records: int, rounds: int) -> list[FoldFigure]:
    """Throughput on every generated log, and memory per key, compared with the peer's."""
    lines = []
    for kind, make, goal in (("offsets", only_offsets, "≥ 2 M/s"), ("mix", mix, "≥ 20×")):
        batches = list(make(records, KEYS))
        count = sum(map(len, batches))
        ours, peer = best(rounds, partial(our_fold, batches), partial(json_fold, batches))
        lines.append(_rates(f"{kind}, from memory", count, ours, peer, goal))
        with tempfile.TemporaryDirectory() as folder:
            ours, unchecked = asyncio.run(from_sqlite(batches, Path(folder), rounds))
        lines.append(_rates(f"{kind}, from SQLite", count, ours, peer, ""))
        lines.append(_rates(f"{kind}, from SQLite, checksums ignored", count, unchecked, peer, ""))
    return [*lines, bytes_per_key(records)]


@click.command(help=__doc__)
@click.option("--records", default=1_000_000, show_default=True)
@click.option("--rounds", default=5, show_default=True)
@click.option("--quick", is_flag=True, help="A small run that only shows that it works.")
def main(records: int, rounds: int, *, quick: bool) -> None:
    """Measure the folds of this project and of the peer, and print the table."""
    if quick:
        records, rounds = 20_000, 1
    table = Table("", "ours", "json fold", "ratio", "to reach", title=f"{records:,} records")
    for line in figures(records, rounds):
        table.add_row(*line)
    Console().print(table)


if __name__ == "__main__":
    main()
