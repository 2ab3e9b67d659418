"""Offsets file on a disk: it is replaced as a whole, and never if it cannot be read."""

import stat
from pathlib import Path

import pytest

from controlplane.logs.log import LogNotUsable
from controlplane.worker.standalone import offset_file
from controlplane.worker.standalone.offset_file import OffsetFile
from controlplane.worker.standalone.offset_file_format import encode_offsets


@pytest.fixture
def file(tmp_path: Path) -> OffsetFile:
    """Path of a missing file."""
    return OffsetFile(tmp_path / "connect.offsets")


def test_a_missing_file_has_no_offsets(file: OffsetFile) -> None:
    """The first commit makes the file, readable by its owner alone."""
    assert file.load() == {}
    assert file.changed_ms == 0
    file.save({b"key": b"value"})
    assert file.load() == {b"key": b"value"}
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600


def test_an_empty_file_has_no_offsets(file: OffsetFile) -> None:
    """An empty file has no offsets, as in Java."""
    file.path.touch()
    assert file.load() == {}


def test_access_rights_stay(file: OffsetFile) -> None:
    """A Java worker of another user can read the file as before."""
    file.path.touch(mode=0o644)
    file.path.chmod(0o644)
    file.save({})
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o644


def test_a_link_stays(file: OffsetFile) -> None:
    """A commit replaces the file to which a link points."""
    target = file.path.with_name("target")
    target.write_bytes(encode_offsets({}))
    file.path.symlink_to(target)
    file.save({b"key": b"value"})
    assert file.path.is_symlink()
    assert OffsetFile(target).load() == {b"key": b"value"}


def test_nothing_else_is_left_in_the_folder(file: OffsetFile) -> None:
    """A commit renames its draft to the file and leaves no other file."""
    file.save({})
    file.save({b"key": b"value"})
    assert [*file.path.parent.iterdir()] == [file.path]


def test_offsets_to_a_device_are_discarded(file: OffsetFile) -> None:
    """`/dev/null` discards all offsets, as in Java."""
    nowhere = OffsetFile(Path("/dev/null"))
    assert nowhere.load() == {}
    nowhere.save({b"key": b"value"})
    assert nowhere.load() == {}
    assert not file.path.exists()


@pytest.mark.parametrize(
    "content", [b"{}", encode_offsets({b"key": b"value"})[:-5], b"\xac\xed\0\5"], ids=str
)
def test_a_file_of_anything_else_is_refused(file: OffsetFile, content: bytes) -> None:
    """The error for another kind of file names the file, the place and the remedy."""
    file.path.write_bytes(content)
    with pytest.raises(LogNotUsable, match=r"connect\.offsets is no offsets file .* at byte \d+"):
        file.load()
    assert file.path.read_bytes() == content


def test_a_file_that_is_too_large_is_refused(
    file: OffsetFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An oversized file is refused before it is read into memory."""
    monkeypatch.setattr(offset_file, "LARGEST_BYTES", 1 << 20)
    file.path.write_bytes(bytes((1 << 20) + 1))
    with pytest.raises(LogNotUsable, match="more than 1 MiB"):
        file.load()


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    """The worker does not start without the folder, because no commit could write."""
    with pytest.raises(LogNotUsable, match="there is no folder"):
        OffsetFile(tmp_path / "nowhere" / "connect.offsets").load()


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    """A folder in place of the file raises `LogNotUsable`."""
    with pytest.raises(LogNotUsable, match="cannot be read"):
        OffsetFile(tmp_path).load()
