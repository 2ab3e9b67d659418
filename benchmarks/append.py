"""Durable records per second of concurrent appends to the embedded log, and of simpler programs.

    python -m benchmarks.append [--seconds 2] [--quick]

64 concurrent appenders share commits. One peer is the obvious program: one commit per record in the
same SQLite schema. The other peer is the least work that is durable at all. It writes a bare file,
with a checksum per record and one `fdatasync` per group of 64. Every figure is durable:
`synchronous=FULL`, or `fdatasync`. All come from one run on one disk. The contestants take turns;
the best of several rounds counts.
"""

import asyncio
import os
import random
import struct
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import click
from rich.console import Console
from rich.table import Table

from benchmarks.inputs.sample_logs import OFFSETS, START_MS, offset
from controlplane.logs.log import Record
from controlplane.logs.sqlite import SqliteLog, SqliteSettings, files
from controlplane.logs.sqlite.ledger import INSERT
from controlplane.logs.sqlite.rows import row_of

APPENDERS = 64
BATCH_RECORDS = 100
"""Records per append of a batching appender: a flush of source offsets."""

ROUNDS = 3
GOAL = 100_000
"""Durable records per second that the embedded log must reach."""

_CRC = struct.Struct(">II")


class AppendFigure(NamedTuple):
    """Result of one contestant in one round."""

    records: int
    seconds: float
    appends: int

    @property
    def rate(self) -> float:
        """Durable records per second in this round."""
        return self.records / self.seconds

    def append_ms(self, at_once: int) -> float:
        """Average time of one append with this number of concurrent appenders."""
        return self.seconds * 1_000 * at_once / self.appends


class AppendMethod(NamedTuple):
    """A way to make records durable: called with a new path and a duration in seconds."""

    name: str
    append: Callable[[Path, float], AppendFigure]
    at_once: int


def records() -> Iterator[Record]:
    """Offsets of source tasks, repeated forever."""
    chance = random.Random(1)
    pairs = [offset(chance, 200_000) for _ in range(10_000)]
    made = [Record(OFFSETS, 0, START_MS, key, value) for key, value in pairs]
    while True:
        yield from made


def batches(size: int) -> Iterator[Sequence[Record]]:
    """Group the records in batches of `size`, without end."""
    source = records()
    while True:
        yield [next(source) for _ in range(size)]


def embedded(batch_records: int) -> Callable[[Path, float], AppendFigure]:
    """The embedded log with concurrent appenders."""

    async def run(path: Path, seconds: float) -> AppendFigure:
        log = await SqliteLog.open(path)
        await log.create_topic(OFFSETS, 1)
        ready = [batch for _, batch in zip(range(1_000), batches(batch_records), strict=False)]
        started, appends = time.perf_counter(), 0

        async def append() -> None:
            nonlocal appends
            while time.perf_counter() - started < seconds:
                await log.append(ready[appends % len(ready)])
                appends += 1

        await asyncio.gather(*(append() for _ in range(APPENDERS)))
        took = time.perf_counter() - started
        await log.close()
        return AppendFigure(appends * batch_records, took, appends)

    return lambda path, seconds: asyncio.run(run(path, seconds))


def unchecked(
    append: Callable[[Path, float], AppendFigure],
) -> Callable[[Path, float], AppendFigure]:
    """The embedded log without checksums, as earlier versions wrote it."""

    def run(path: Path, seconds: float) -> AppendFigure:
        with patch("controlplane.logs.sqlite.rows.checksum", lambda *_: None):
            return append(path, seconds)

    return run


def commit_per_record(path: Path, seconds: float) -> AppendFigure:
    """Insert the records one after the other, each in its own transaction."""
    files.create(path)
    connection = files.connect_writer(path, SqliteSettings())
    started, appends, took = time.perf_counter(), 0, 0.0
    for appends, record in enumerate(records()):
        if (took := time.perf_counter() - started) > seconds:
            break
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(INSERT, row_of(appends, record))
        connection.execute("COMMIT")
    connection.close()
    return AppendFigure(appends, took, appends)


def bare_file(path: Path, seconds: float) -> AppendFigure:
    """Append with a checksum per record, one `fdatasync` per group."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    started, groups, took = time.perf_counter(), 0, 0.0
    for groups, group in enumerate(batches(APPENDERS)):  # noqa: B007 - read after the loop
        if (took := time.perf_counter() - started) > seconds:
            break
        os.write(file, b"".join(map(_framed, group)))
        os.fdatasync(file)
    os.close(file)
    return AppendFigure(groups * APPENDERS, took, groups * APPENDERS)


def _framed(record: Record) -> bytes:
    octets = b"%d" % record.timestamp + (record.key or b"") + (record.value or b"")
    return _CRC.pack(len(octets), zlib.crc32(octets)) + octets


CONTESTANTS = (
    AppendMethod("one commit per record", commit_per_record, 1),
    AppendMethod(f"{APPENDERS} appenders, 1 record each", embedded(1), APPENDERS),
    AppendMethod(f"{APPENDERS} appenders, {BATCH_RECORDS} records each", embedded(100), APPENDERS),
    AppendMethod("the same without checksums", unchecked(embedded(100)), APPENDERS),
    AppendMethod(f"bare file, groups of {APPENDERS}", bare_file, APPENDERS),
)


def measure(folder: Path, seconds: float, rounds: int) -> list[AppendFigure]:
    """Best round of each contestant; they take turns, so noise affects all alike."""
    figures: list[list[AppendFigure]] = [[] for _ in CONTESTANTS]
    for round_ in range(rounds):
        for index, contestant in enumerate(CONTESTANTS):
            path = folder / f"{round_}-{index}"
            figures[index].append(contestant.append(path, seconds))
            path.unlink()
    return [max(each, key=lambda figure: figure.rate) for each in figures]


def table(figures: Sequence[AppendFigure]) -> Table:
    """Figures, compared with one commit per record."""
    shown = Table("durable appends", title=f"goal: {GOAL:,} records/s by {APPENDERS} appenders")
    for column in ("records/s", "ms per append", "ratio"):
        shown.add_column(column, justify="right")
    for contestant, figure in zip(CONTESTANTS, figures, strict=True):
        shown.add_row(
            contestant.name,
            f"{figure.rate:,.0f}",
            f"{figure.append_ms(contestant.at_once):.2f}",
            f"{figure.rate / figures[0].rate:.1f}",
        )
    return shown


@click.command()
@click.option(
    "--seconds",
    default=2.0,
    show_default=True,
    help="Duration of each round of a contestant, in seconds.",
)
@click.option("--quick", is_flag=True, help="One short round, to check that it runs.")
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder to write to, on the disk to measure.",
)
def main(seconds: float, quick: bool, folder: Path | None) -> None:
    """Measure every contestant for `seconds` per round, and print the table."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        figures = measure(Path(name), *((0.05, 1) if quick else (seconds, ROUNDS)))
    Console().print(table(figures))


if __name__ == "__main__":
    main()
