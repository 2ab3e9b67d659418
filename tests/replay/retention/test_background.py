"""Compaction during a running capture: looks continue, and failures are reported.

A look is one round of the capture, up to the present end of the log.
"""

import asyncio
import signal
from hashlib import sha256
from pathlib import Path
from shutil import copytree
from subprocess import Popen

import click
import pytest
from click.testing import CliRunner
from msgspec import UNSET
from msgspec.structs import replace

from controlplane.logs.log import Record
from controlplane.logs.sqlite import SqliteLog
from controlplane.terminal.exit_codes import INTERRUPTED
from replay.archive import layout
from replay.archive.manifest import encoded, read_chain
from replay.archive.merges.merge import Merger
from replay.archive.merges.unnamed_files import unnamed_files
from replay.archive.stores.store import FolderStore
from replay.archive.verification import verified
from replay.cli.execution import background_compaction
from replay.cli.execution.background_compaction import BackgroundCompaction
from replay.cli.options.background import (
    DEFAULT_EVERY_S,
    BackgroundOptions,
    background_options,
)
from tests.patience import LOOK_S, PATIENCE_S, wait_until
from tests.recorded_requests import recorded_entries
from tests.replay.archive.archives import NAME, cluster_in
from tests.replay.archive.merges import looks
from tests.replay.cli.replay_calls import call, started, wait_for

pytestmark = pytest.mark.slow

ENTRIES = recorded_entries("aborted-3.9")
LOOKS = 3
EVERY_S = 1
"""Interval of compactions: the first one is due when the first manifest is this old."""


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archive of three looks (captures of a growing log); no test changes it."""
    folder = tmp_path_factory.mktemp("sound")
    looks(folder, ENTRIES, LOOKS)
    return folder


@pytest.fixture
def folder(sound: Path, tmp_path: Path) -> Path:
    """Copy of that archive."""
    return copytree(sound, tmp_path / "archive")


async def compacted(
    folder: Path, printed: pytest.CaptureFixture[str], every_s: int = EVERY_S
) -> str:
    """Run background compactions until one prints a report; return the report."""
    compaction = BackgroundCompaction(FolderStore(str(folder)), BackgroundOptions(every_s, 3_600))
    compaction.note(NAME)
    report = ""
    async with compaction.running():
        for _ in range(int(PATIENCE_S / LOOK_S)):
            report += printed.readouterr().err
            if report:
                return report
            await asyncio.sleep(LOOK_S)
    raise AssertionError("nothing was reported")


@pytest.mark.prove
def test_a_captured_cluster_is_compacted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A cluster that was never merged is compacted; the replaced files stay at first."""
    aged(folder, NAME)
    report = asyncio.run(compacted(folder, capsys, every_s=DEFAULT_EVERY_S))
    assert f"{NAME}: compacted from " in report
    assert "superseded before" in report
    left = verified(cluster_in(folder))
    assert (left.manifests, left.flaws) == (1, ())
    assert left.records < len(ENTRIES)
    assert left.replaced > 0


@pytest.mark.prove
def test_replaced_files_are_removed_after_the_grace_period(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The capture removes them itself: the next compaction is a day away."""
    monkeypatch.setattr(background_compaction, "GRACE_S", 1)
    monkeypatch.setattr(background_compaction, "CHECK_S", LOOK_S)
    aged(folder, NAME)

    async def removed() -> None:
        store = FolderStore(str(folder))
        compaction = BackgroundCompaction(store, BackgroundOptions(DEFAULT_EVERY_S))
        compaction.note(NAME)
        async with compaction.running():
            for _ in range(int(PATIENCE_S / LOOK_S)):
                chain = read_chain(store, NAME)
                if chain.base is not UNSET and not unnamed_files(store, NAME, chain).replaced:
                    return
                await asyncio.sleep(LOOK_S)
        raise AssertionError("replaced files remain")

    asyncio.run(removed())
    assert verified(cluster_in(folder)).flaws == ()


def test_a_failure_is_reported_and_retried(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A failed compaction is reported with the reason and the time until the next attempt."""
    (segment, *_) = folder.rglob("segment-*.parquet")
    segment.write_bytes(segment.read_bytes()[:-1] + b"?")
    report = asyncio.run(compacted(folder, capsys))
    assert report.startswith(f"{NAME}: not compacted: cluster={NAME}/topic=")
    assert report.endswith("; it is tried again in 1s\n")


def test_any_error_of_the_check_leaves_it_to_the_compaction(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unexpected error of the check ends no later compaction: the cluster counts as due."""

    def failing(*_: object) -> None:
        raise ValueError("an unexpected error")

    monkeypatch.setattr(background_compaction, "read_chain", failing)
    assert f"{NAME}: compacted from " in asyncio.run(compacted(folder, capsys))


def test_a_merge_in_progress_is_ended_with_the_capture(folder: Path) -> None:
    """A compaction that is stopped after 0.2 s leaves an undamaged archive."""
    aged(folder, NAME)

    async def ended_at_once() -> None:
        compaction = BackgroundCompaction(FolderStore(str(folder)), BackgroundOptions(60))
        compaction.note(NAME)
        async with compaction.running():
            await asyncio.sleep(0.2)

    asyncio.run(ended_at_once())
    assert verified(cluster_in(folder)).flaws == ()


def aged(folder: Path, name: str) -> None:
    """Change the time of the first manifest to 1970, and the links of the later ones."""
    store, head = FolderStore(str(folder)), ""
    for manifest in read_chain(store, name).manifests:
        ms = 0 if manifest.number == 1 else manifest.written_at_ms
        content = encoded(replace(manifest, previous=head, written_at_ms=ms))
        store.replace(layout.manifest(name, manifest.number), content)
        head = sha256(content).hexdigest()


def test_the_first_compaction_waits_for_the_interval(folder: Path) -> None:
    """The first is due a day after the first manifest, others a day after the last merge."""
    store, every_s = FolderStore(str(folder)), DEFAULT_EVERY_S

    def is_due() -> bool:
        compaction = BackgroundCompaction(store, BackgroundOptions(every_s))
        compaction.note(NAME)
        return compaction.is_due(NAME)

    assert not is_due()
    aged(folder, NAME)
    assert is_due()
    Merger(store, NAME).run()
    assert not is_due()


def waited_for(process: "Popen[str]", folder: Path, records: int) -> None:
    """Wait until the archive of the cluster `live` has at most this many records."""

    def is_compacted() -> bool:
        assert process.poll() is None, process.communicate()
        left = cluster_in(folder, "live")
        return sum(part.records for part in left.parts.values()) <= records

    wait_until(is_compacted, "a compaction")


@pytest.mark.prove
def test_a_running_capture_compacts(tmp_path: Path) -> None:
    """A capture with `--compact-every` archives records after a compaction; Ctrl-C ends it."""

    async def write_records(records: list[Record]) -> None:
        log = await SqliteLog.open(tmp_path / "live.db")
        for topic, partitions in (("connect-configs", 1), ("connect-offsets", 1)):
            if topic not in await log.topics():
                await log.create_topic(topic, partitions)
        await log.append(records)
        await log.close()

    def offsets(count: int) -> list[Record]:
        return [
            Record("connect-offsets", 0, 1_000 + at, b'["c",{"p":1}]', b'{"o":%d}' % at)
            for at in range(count)
        ]

    asyncio.run(write_records(offsets(20)))
    folder = tmp_path / "archive"
    words = ("--every", "0.2", "--compact-every", "1s", "--retain", "0s")
    with started("capture", f"live={tmp_path / 'live.db'}", folder, *words) as process:
        wait_for(folder / "cluster=live" / "_manifest" / "0000000001.json")
        waited_for(process, folder, 2)
        asyncio.run(write_records(offsets(1)))
        wait_until(
            lambda: cluster_in(folder, "live").ends["connect-offsets"] == [21], "another look"
        )
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == INTERRUPTED, errors
    assert "live: compacted from" in errors
    assert cluster_in(folder, "live").ends["connect-offsets"] == [21]
    assert verified(cluster_in(folder, "live")).flaws == ()


def test_a_running_capture_compacts_by_default(tmp_path: Path) -> None:
    """Without `--compact-every`, a capture merges an archive whose first look is a day old."""
    live, folder = tmp_path / "live.db", tmp_path / "archive"

    async def write_record() -> None:
        log = await SqliteLog.open(live)
        if "connect-configs" not in await log.topics():
            await log.create_topic("connect-configs", 1)
        await log.append([Record("connect-configs", 0, 1_000, b"connector-a", None)])
        await log.close()

    asyncio.run(write_record())
    assert call("capture", f"live={live}", folder, "--once").code == 0
    aged(folder, "live")
    asyncio.run(write_record())
    with started("capture", f"live={live}", folder) as process:
        wait_until(lambda: cluster_in(folder, "live").chain.base is not UNSET, "a merge")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == INTERRUPTED, errors
    assert cluster_in(folder, "live").ends == {"connect-configs": [2]}


@click.command()
@click.option("--once", is_flag=True)
@background_options
def print_options(*, once: bool, background: BackgroundOptions | None) -> None:
    """Print the options of the compaction."""
    click.echo((once, background and tuple(background)))


@pytest.mark.parametrize(
    ("words", "background"),
    [
        ((), (DEFAULT_EVERY_S, None)),
        (("--retain", "90d"), (DEFAULT_EVERY_S, 90 * 86_400)),
        (("--compact-every", "2h"), (7_200, None)),
        (("--compact-every", "never"), None),
        (("--once",), None),
        (("--once", "--compact-every", "never"), None),
    ],
)
def test_a_running_capture_compacts_unless_told_otherwise(
    words: tuple[str, ...], background: tuple[int, int | None] | None
) -> None:
    """Default: every 24 hours. `--once` and `--compact-every never` compact nothing."""
    result = CliRunner().invoke(print_options, words)
    assert result.output.strip() == str(("--once" in words, background))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--once", "--compact-every", "24h"), "leave out --once"),
        (("--once", "--retain", "90d"), "--retain needs a running capture that compacts"),
        (("--compact-every", "never", "--retain", "90d"), "--retain needs a running capture"),
        (("--compact-every", "0s"), "0s is too short: the least is 1s"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    tmp_path: Path, words: tuple[str, ...], sentence: str
) -> None:
    """The command refuses before it creates an archive."""
    result = call("capture", "any=log.db", tmp_path / "archive", *words)
    assert result.code == 2
    assert sentence in result.err
    assert not (tmp_path / "archive").exists()
