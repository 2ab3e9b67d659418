"""`controlplane backup` makes a whole copy, or prints one sentence with the reason."""

import asyncio
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from controlplane.core.entry import Entry
from controlplane.logs.log import Record
from controlplane.logs.sqlite import SqliteLog, backup
from controlplane.logs.sqlite.reader import check_all
from tests.cli.command_calls import ROOT, CommandResult, call, embedded, refusal
from tests.logs.folder import names
from tests.logs.reading_contract import everything

CONFIG, STATUS = "connect-configs", "connect-status"

ENTRIES = [
    Entry(CONFIG, 0, 0, 1, b"connector-c", b'{"properties":{}}'),
    Entry(CONFIG, 0, 4, 2, b"connector-d", b'{"properties":{}}'),
    Entry(STATUS, 1, 0, 3, b"status-connector-c", b"x" * 200_000),
]

PRINTED = """\
TOPIC            PARTITIONS  COPIED UP TO
─────────────────────────────────────────
connect-configs  1           5
connect-status   2           0, 1

LOG copied to TARGET: SIZE MiB, checked
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Embedded log with two configs and a status."""
    return embedded(tmp_path / "log.db", ENTRIES)


def entries_in(path: Path) -> list[Entry]:
    """Read all entries of the embedded log in a file."""

    async def read() -> list[Entry]:
        log = await SqliteLog.open(path, create=False)
        try:
            return await everything(log)
        finally:
            await log.close()

    return asyncio.run(read())


def test_a_copy_is_a_usable_log(log: Path, tmp_path: Path) -> None:
    """The copy is a usable log, and the output describes it."""
    target = tmp_path / "copy.db"
    result = call("backup", log, target)
    assert (result.code, result.err) == (0, "")
    size = f"{target.stat().st_size / 2**20:.1f}"
    expected = PRINTED.replace("LOG", str(log)).replace("TARGET", str(target)).replace("SIZE", size)
    assert result.out == expected
    assert entries_in(target) == ENTRIES
    assert call("inspect", target, "--rest").out == call("inspect", log, "--rest").out
    assert call("backup", f"sqlite:///{target}", tmp_path / "second.db").code == 0


def test_json_has_the_ends_of_the_copy(log: Path, tmp_path: Path) -> None:
    """JSON has the ends of the copy, by topic and partition."""
    target = tmp_path / "copy.db"
    document = call("backup", log, target, "-o", "json").json
    assert document["ends"] == {CONFIG: [5], STATUS: [0, 1]}
    assert document["size_bytes"] == target.stat().st_size
    assert (document["log"], document["target"]) == (str(log), str(target))


def test_a_file_is_never_overwritten(log: Path, tmp_path: Path) -> None:
    """An existing target is refused: another file, the log itself, or an earlier copy."""
    other, copy = tmp_path / "other.db", tmp_path / "copy.db"
    other.write_text("precious")
    assert call("backup", log, copy).code == 0
    targets = (other, log, copy)
    before = [target.read_bytes() for target in targets]
    for target in targets:
        assert "already" in refusal(call("backup", log, target))
    assert [target.read_bytes() for target in targets] == before
    assert names(tmp_path) == ["copy.db", "log.db", "other.db"]


@pytest.mark.parametrize(
    ("source", "target", "why"),
    [
        ("log.db", "no-such/copy.db", "cannot be created (No such file or directory)"),
        ("log.db", "kafka://broker:9092", "name a new file as TARGET"),
        ("log.db", "", "no log is named"),
        ("kafka://broker:9092", "copy.db", "`controlplane import`"),
        ("kafka://me:secret@broker:9092", "copy.db", "kafka://broker:9092 is no embedded log"),
        ("dump.jsonl", "copy.db", "`controlplane import`"),
        ("no-such.db", "copy.db", "does not exist"),
        ("sqlite:///no-such.db", "copy.db", "does not exist"),
        ("folder", "copy.db", "is a directory"),
    ],
)
def test_unusable_sources_and_targets_are_refused(
    log: Path, monkeypatch: pytest.MonkeyPatch, source: str, target: str, why: str
) -> None:
    """The error is one sentence with exit code 2; no file is created."""
    monkeypatch.chdir(log.parent)
    Path("dump.jsonl").write_text("{}\n")
    Path("folder").mkdir()
    message = refusal(call("backup", source, target))
    assert why in message
    assert "secret" not in message
    assert names(log.parent) == ["dump.jsonl", "folder", "log.db"]


def test_a_damaged_log_is_not_copied(log: Path, tmp_path: Path) -> None:
    """A damaged log is refused: its copy could replace a better one."""
    pages = bytearray(log.read_bytes())
    pages[-100_000:-50_000] = b"\xa5" * 50_000
    log.write_bytes(pages)
    message = refusal(call("backup", log, tmp_path / "copy.db"))
    assert "is damaged" in message
    assert str(log) in message
    assert names(tmp_path) == ["log.db"]


def test_a_full_disk_leaves_no_partial_copy(log: Path, tmp_path: Path) -> None:
    """The error concerns the copy, and no partial file remains."""
    command = f"ulimit -f 100; {sys.executable} -m controlplane backup {log} {tmp_path / 'copy.db'}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, env={**os.environ}, capture_output=True, check=False
    )
    message = refusal(CommandResult(done.returncode, done.stdout.decode(), done.stderr.decode()))
    assert message.startswith(f"The backup {tmp_path / 'copy.db'} cannot be created")
    assert names(tmp_path) == ["log.db"]


KILLED = """
import os, signal, sqlite3, sys
from controlplane.cli.main import main
from controlplane.logs.sqlite import backup

def killed(*_):
    os.kill(os.getpid(), signal.SIGKILL)

backup._check = killed
main(["backup", *sys.argv[1:]])
"""


def test_leftovers_of_a_killed_backup_are_removed(log: Path, tmp_path: Path) -> None:
    """The next backup removes the leftovers, even if its own file has another name."""
    subprocess.run([sys.executable, "-c", KILLED, log, tmp_path / "one.db"], check=False)
    assert any("one.db" in name for name in names(tmp_path))
    assert call("backup", log, tmp_path / "two.db").code == 0
    left = {name for name in names(tmp_path) if not name.startswith("log.db")}  # SQLite's own
    assert left == {"two.db"}


async def test_a_copy_during_appends_has_one_moment(log: Path, tmp_path: Path) -> None:
    """A copy during appends has one moment: each append is in it whole or not at all."""
    writing = await SqliteLog.open(log)
    target = tmp_path / "copy.db"
    done = asyncio.create_task(asyncio.to_thread(call, "backup", log, target))
    while not done.done():
        await writing.append([Record(topic, 0, 9, b"k", b"v") for topic in (CONFIG, STATUS)])
    assert (await done).code == 0
    await writing.close()
    copy = await SqliteLog.open(target, read_only=True)
    appended = [entry.topic for entry in await everything(copy) if entry.key == b"k"]
    await copy.close()
    assert appended.count(CONFIG) == appended.count(STATUS)


def test_a_copy_from_another_moment_does_not_appear(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TARGET appears after the check of the end offsets; a copy that fails it is removed."""

    def check_and_lose(copy: sqlite3.Connection) -> None:
        check_all(copy)
        copy.execute('UPDATE partition SET "end" = 4 WHERE topic = ?', [CONFIG])

    monkeypatch.setattr(backup, "check_all", check_and_lose)
    message = refusal(call("backup", log, tmp_path / "copy.db"))
    assert message.startswith(f"The copy of {log} does not end where the log did")
    assert names(tmp_path) == ["log.db"]
