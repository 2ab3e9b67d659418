"""Files that only their owner may read, written completely or not at all."""

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.private_files import (
    MODE,
    BadFileMode,
    draft_file,
    draft_folder,
    file_mode,
    folder_mode,
    make_folders,
    remove_abandoned,
    replacing,
)
from tests.file_modes import modes
from tests.patience import PATIENCE_S

KILLED = """
import os, signal, sys
from pathlib import Path
from controlplane.private_files import draft_file, draft_folder
with draft_folder(Path(sys.argv[1])) as folder, draft_file(Path(sys.argv[1])) as draft:
    (folder / "half").write_text("half")
    draft.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    """Set the umask to 0, so that only file modes count."""
    before = os.umask(0)
    yield
    os.umask(before)


def left_by_a_killed_process(place: Path) -> None:
    """Leave a draft file and a draft folder beside a place."""
    subprocess.run([sys.executable, "-c", KILLED, place], check=False)
    assert len(list(place.parent.iterdir())) >= 2


def test_a_new_file_is_private(tmp_path: Path) -> None:
    """New files and folders are private under any umask."""
    make_folders(tmp_path / "a" / "b")
    with replacing(tmp_path / "a" / "b" / "file") as draft:
        draft.write_text("secret")
        assert draft.stat().st_mode & 0o777 == 0o600
    assert modes(tmp_path) == {"a": 0o700, "a/b": 0o700, "a/b/file": 0o600}


@pytest.mark.parametrize("folder", ["file", "file/a/b"])
def test_a_file_is_no_folder(tmp_path: Path, folder: str) -> None:
    """A file in the place of a folder is an error, as it is for `os.mkdir` below a file."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(NotADirectoryError, match="file"):
        make_folders(tmp_path / folder)


def test_an_open_file_that_is_replaced_is_private(tmp_path: Path) -> None:
    """The old file's mode is ignored. A link stays a link; its target is replaced."""
    (tmp_path / "old").write_text("old")
    (tmp_path / "link").symlink_to("old")
    with replacing(tmp_path / "link") as draft:
        draft.write_text("new")
    assert (tmp_path / "old").read_text() == "new"
    assert modes(tmp_path)["old"] == 0o600
    assert (tmp_path / "link").is_symlink()


def test_a_failure_leaves_the_old_file(tmp_path: Path) -> None:
    """A failed replacement leaves the old file, and no other file beside it."""
    (tmp_path / "file").write_text("old")

    def failing() -> None:
        with replacing(tmp_path / "file") as draft:
            draft.write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("file", "old")]


@pytest.mark.parametrize(
    ("mode", "file", "folder"),
    [("", 0o600, 0o700), ("0640", 0o640, 0o750), ("664", 0o664, 0o775), ("0o644", 0o644, 0o755)],
)
def test_the_environment_sets_the_mode(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mode: str, file: int, folder: int
) -> None:
    """The environment can set the mode; users who may read files may enter folders."""
    monkeypatch.setenv(MODE, mode)
    assert (file_mode(), folder_mode()) == (file, folder)
    make_folders(tmp_path / "a")
    with replacing(tmp_path / "a" / "file") as draft:
        draft.write_text("x")
    assert modes(tmp_path) == {"a": folder, "a/file": file}


@pytest.mark.parametrize("mode", ["rw", "0755", "0440", "1", "0o9", "07777", "-600"])
def test_an_invalid_mode_is_refused(monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    """The error for an invalid mode names the environment variable."""
    monkeypatch.setenv(MODE, mode)
    with pytest.raises(BadFileMode, match=MODE):
        file_mode()


def test_a_draft_that_was_planted_is_not_followed(tmp_path: Path) -> None:
    """A file or link under a draft's name stays unchanged."""
    (tmp_path / "victim").write_text("victim")
    with draft_file(tmp_path / "file") as draft:
        name = draft.name
    (tmp_path / name).symlink_to("victim")
    with replacing(tmp_path / "file") as draft:
        assert draft.name != name
        draft.write_text("mine")
    assert (tmp_path / "victim").read_text() == "victim"
    assert (tmp_path / "file").read_text() == "mine"


def test_a_circle_of_links_is_refused(tmp_path: Path) -> None:
    """A link that leads to itself is an unusable file, and not a defect."""
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with (
        pytest.raises(OSError, match="Too many levels of symbolic links"),
        replacing(tmp_path / "loop"),
    ):
        raise AssertionError


def test_a_pipe_without_a_path_is_written() -> None:
    """`/dev/stdout` of a pipeline resolves to a path that does not exist."""
    reader, writer = os.pipe()
    try:
        with replacing(Path(f"/dev/fd/{writer}")) as draft:
            draft.write_text("written")
        assert os.read(reader, 100) == b"written"
    finally:
        os.close(reader)
        os.close(writer)


def test_drafts_of_killed_processes_are_removed(tmp_path: Path) -> None:
    """The next writer removes drafts of killed processes; drafts of living processes stay."""
    left_by_a_killed_process(tmp_path / "other")
    with draft_file(tmp_path / "mine") as mine, draft_folder(tmp_path / "mine") as folder:
        remove_abandoned(tmp_path)
        assert set(tmp_path.iterdir()) == {mine, folder}
    assert list(tmp_path.iterdir()) == []


def test_a_draft_that_another_process_removes_is_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A writer takes another draft if its first one is already locked for its removal."""
    real = fcntl.flock
    locked: list[Path] = []

    def flock_after_another_process(descriptor: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", real)
        locked.extend(tmp_path.iterdir())
        real(os.open(locked[0], os.O_RDONLY), operation)
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock_after_another_process)
    with draft_file(tmp_path / "file") as draft:
        locked[0].unlink()
        assert draft.exists()


def test_simultaneous_writers_have_separate_drafts(tmp_path: Path) -> None:
    """Simultaneous writers have separate drafts; the last one wins."""
    with replacing(tmp_path / "file") as draft, replacing(tmp_path / "file") as other:
        assert draft != other
        draft.write_text("one")
        other.write_text("other")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["one"]


def test_a_very_long_name_gets_a_shorter_draft(tmp_path: Path) -> None:
    """The draft of a file with a very long name has a shorter name."""
    path = tmp_path / ("ü" * 127)
    with replacing(path) as draft:
        draft.write_text("x")
    assert path.read_text() == "x"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")
def test_a_file_system_that_refuses_names_ends_the_writer() -> None:
    """`/proc` refuses each new name as if its folder were gone; the writer still ends."""
    command = (
        "from pathlib import Path; from controlplane.private_files import replacing;"
        "replacing(Path('/proc/file')).__enter__()"
    )
    result = subprocess.run(
        [sys.executable, "-c", command], capture_output=True, timeout=PATIENCE_S, check=False
    )
    assert result.returncode == 1
    assert b"FileNotFoundError" in result.stderr


def test_the_parent_of_a_new_folder_is_synced(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The parent folder is synced, so that a power failure does not lose the new name."""
    synced = []
    real = os.fsync

    def noting(number: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{number}").readlink()))
        real(number)

    monkeypatch.setattr(os, "fsync", noting)
    make_folders(tmp_path / "a" / "b" / "c")
    assert synced == [str(tmp_path), str(tmp_path / "a"), str(tmp_path / "a" / "b")]
