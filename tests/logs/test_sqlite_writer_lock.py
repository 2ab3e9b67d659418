"""Lock of the one control plane of an embedded log; a crash releases it."""

import asyncio
import errno
import fcntl
import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from controlplane import ControlPlane
from controlplane.logs.log import LogNotUsable
from controlplane.logs.sqlite import SqliteLog
from controlplane.logs.sqlite.writer_lock import writer_lock
from tests.cli.command_calls import call, refusal, shell
from tests.file_modes import modes
from tests.logs.unprivileged_process import output_of_unprivileged_process

HOLDING = """
import sys, time
from pathlib import Path
from controlplane.logs.sqlite.writer_lock import writer_lock
with writer_lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def make_shared_log(path: Path) -> None:
    """Create a log that every user may write."""

    async def make() -> None:
        await (await SqliteLog.open(path)).close()

    asyncio.run(make())
    path.chmod(0o666)


def test_another_process_is_refused(tmp_path: Path) -> None:
    """The error names the owner; after the owner's death the log can be opened."""
    path = tmp_path / "state.db"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDING, path], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        message = f"process {other.pid} is the control plane of"
        with pytest.raises(LogNotUsable, match=message), writer_lock(path):
            pass
        other.kill()
    with writer_lock(path):
        pass
    assert list(tmp_path.iterdir()) == []


FORKING = """
import os, sys
from pathlib import Path
from controlplane.logs.sqlite.writer_lock import writer_lock
with writer_lock(Path(sys.argv[1])):
    if child := os.fork():
        os.waitpid(child, 0)
        print("held", flush=True)
        sys.stdin.read()
"""


def test_a_forked_child_releases_nothing(tmp_path: Path) -> None:
    """A child that leaves the block of its parent does not remove the parent's lock file."""
    path = tmp_path / "state.db"
    with subprocess.Popen(
        [sys.executable, "-c", FORKING, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "held\n"
        with pytest.raises(LogNotUsable, match=f"process {parent.pid} is"), writer_lock(path):
            pass
    assert list(tmp_path.iterdir()) == []


def test_links_to_a_log_share_its_lock(tmp_path: Path) -> None:
    """A second writer is refused through a link, too; it would fence the control plane."""
    path, folder = tmp_path / "state.db", tmp_path / "folder"
    folder.mkdir()
    (link := folder / "link.db").symlink_to("../state.db")
    with writer_lock(path):
        message = f"process {os.getpid()} is the control plane of {link}"
        with pytest.raises(LogNotUsable, match=message), writer_lock(link):
            pass
    with writer_lock(link):
        assert (tmp_path / "state.db-writer").exists()


async def test_a_command_line_beside_an_embedded_plane_is_refused(tmp_path: Path) -> None:
    """A second writer, which would fence the program, is refused; reading is allowed.

    After `close` writing is allowed.
    """
    where = f"sqlite:///{tmp_path / 'state.db'}"
    config = tmp_path / "orders.json"
    config.write_text('{"name": "orders", "connector.class": "FileStreamSource", "topic": "t"}')
    words = ("apply", "-f", config, "-c", where)
    async with ControlPlane.open(where) as plane:
        message = refusal(await asyncio.to_thread(call, *words))
        assert "is the control plane of" in message
        assert message.endswith(": ask it (--cluster URL), or end that process first")
        message = refusal(await asyncio.to_thread(shell, "serve", where, "--port", "0"))
        assert message.endswith(": serve the log with --read-only, or end that process first")
        assert (await asyncio.to_thread(call, "get", "-c", where)).code == 0
        with pytest.raises(LogNotUsable, match="is the control plane of"):
            async with ControlPlane.open(where):
                pass
        assert plane.failure is None
    assert (await asyncio.to_thread(call, *words)).code == 0


def test_a_link_in_place_of_the_companion_is_not_followed(tmp_path: Path) -> None:
    """The link could lead to a foreign file, which the lock would overwrite."""
    (tmp_path / "victim").write_text("victim")
    (tmp_path / "state.db-writer").symlink_to("victim")
    symbolic = pytest.raises(LogNotUsable, match=r"state\.db-writer is a symbolic link")
    with symbolic, writer_lock(tmp_path / "state.db"):
        pass
    assert (tmp_path / "victim").read_text() == "victim"


@pytest.mark.parametrize("is_there", [True, False], ids=["companion", "folder"])
def test_a_writer_without_access_to_the_companion_is_refused(*, is_there: bool) -> None:
    """A user who may write the log, but cannot lock it, is refused; a reader is not."""
    with TemporaryDirectory() as name:
        folder, path = Path(name), Path(name, "state.db")
        make_shared_log(path)
        with closing(sqlite3.connect(path)) as connection:
            # While this connection is open, other users need not create `-wal` and `-shm`.
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            if is_there:
                Path(f"{path}-writer").touch(0o000)
            folder.chmod(0o755 if is_there else 0o555)
            sentence = output_of_unprivileged_process(path, "writing")
            assert sentence == (
                f"The lock file {path}-writer cannot be opened (Permission denied): "
                "check the access rights of the file and its directory"
            )
            assert output_of_unprivileged_process(path, "reading") == ""
            folder.chmod(0o700)


def test_the_companion_has_the_mode_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The companion has the mode of new files for any umask, so that other users can lock it."""
    monkeypatch.setenv("CONTROLPLANE_FILE_MODE", "0666")
    path = tmp_path / "state.db"
    before = os.umask(0o077)
    try:
        with writer_lock(path):
            assert modes(tmp_path) == {"state.db-writer": 0o666}
    finally:
        os.umask(before)


def test_a_companion_in_a_foreign_folder_stays() -> None:
    """A user who cannot remove the companion still holds and releases the lock without an error."""
    with TemporaryDirectory() as name:
        folder, path = Path(name), Path(name, "state.db")
        make_shared_log(path)
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            companion = Path(f"{path}-writer")
            companion.touch()
            companion.chmod(0o666)
            folder.chmod(0o555)
            assert output_of_unprivileged_process(path, "writing") == ""
            assert companion.exists()
            folder.chmod(0o700)
            with writer_lock(path):
                pass


def test_a_check_does_not_refuse_a_control_plane(tmp_path: Path) -> None:
    """A check by another process shares the lock for an instant; a control plane waits for it."""
    path = tmp_path / "state.db"
    companion = tmp_path / "state.db-writer"
    companion.touch()
    with companion.open("rb") as checked:
        fcntl.flock(checked, fcntl.LOCK_SH)
        ending = threading.Timer(0.02, fcntl.flock, (checked, fcntl.LOCK_UN))
        ending.start()
        with writer_lock(path):
            assert companion.read_text() == f"{os.getpid()}\n"
        ending.join()


def test_a_companion_that_cannot_be_removed_releases_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system that has become read-only keeps the companion, but not the lock."""
    path = tmp_path / "state.db"

    def fail(*_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", fail)
        with writer_lock(path):
            pass
    with writer_lock(path):
        pass


def test_a_missing_folder_is_not_locked(tmp_path: Path) -> None:
    """The lock ignores a missing folder: opening the log reports it."""
    with writer_lock(tmp_path / "none" / "state.db"):
        pass


def test_a_companion_without_room_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log that can be written is refused if its companion cannot be made; a reader needs none."""
    path = tmp_path / "state.db"

    def fail(*_: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "open", fail)
    refused = pytest.raises(
        LogNotUsable, match=r"state\.db-writer cannot be opened \(Too many open"
    )
    with refused, writer_lock(path):
        pass
    with writer_lock(path, read_only=True):
        pass


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EIO])
def test_a_file_system_without_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """A file system may have no locks; another failure to lock is refused, and leaves no file open.

    The descriptors of this process are counted.
    """

    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", fail)
    before = len([*Path("/dev/fd").iterdir()])
    no_locks = number == errno.ENOLCK
    refused = nullcontext() if no_locks else pytest.raises(LogNotUsable, match="cannot be opened")
    with refused, writer_lock(tmp_path / "state.db"):
        pass
    assert len([*Path("/dev/fd").iterdir()]) == before
