"""Altered archives: `verify` finds each kind of damage and reports it in one sentence."""

import shutil
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from controlplane.core.entry import Entry, batch_of
from controlplane.core.releases.profiles import PROFILES
from replay.archive.segments import segment_writer
from replay.archive.segments.segment_files import SegmentSizes, encoded_rows, table_of
from replay.archive.segments.winners import winners as winners_of
from replay.archive.verification import verified
from replay.engine.local_engine import LocalOptions
from replay.errors import ArchiveCorrupt
from tests.recorded_requests import HISTORIES, recorded_entries
from tests.replay.archive.archives import (
    NAME,
    archive,
    archived,
    capture,
    cluster_in,
    lasting_days,
    log_of,
    replayed,
)
from tests.replay.cli.replay_calls import call, content, refusal

pytestmark = pytest.mark.slow

Damage = Callable[[Path], None]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archive that was written in two appends."""
    folder = tmp_path_factory.mktemp("sound")
    entries = recorded_entries("life-3.9")
    archive(folder, entries[:200])
    archive(folder, entries)
    return folder


def segment(folder: Path) -> Path:
    """First segment of the config topic."""
    part = folder / f"cluster={NAME}" / "topic=connect-configs" / "partition=0"
    return min(part.glob("segment-*"))


def winners(folder: Path) -> Path:
    """First file of winners: the rows of a segment that may still affect a state."""
    return min(folder.rglob("_winners-*"))


def manifest(folder: Path, number: int) -> Path:
    return folder / f"cluster={NAME}" / "_manifest" / f"{number:010}.json"


def certify(folder: Path, path: Path, stored: bytes) -> None:
    """Rewrite a file, and its hash in the last manifest."""
    last = max((folder / f"cluster={NAME}" / "_manifest").iterdir())
    document = msgspec.json.decode(last.read_bytes())
    name = path.relative_to(folder).as_posix()
    for described in document["segments"]:
        if described["stored"]["file"] == name:
            described["stored"] |= {"bytes": len(stored), "sha256": sha256(stored).hexdigest()}
    path.write_bytes(stored)
    last.write_bytes(msgspec.json.encode(document))


def last_segment(folder: Path) -> Path:
    """Last segment of the config topic."""
    part = folder / f"cluster={NAME}" / "topic=connect-configs" / "partition=0"
    return max(part.glob("segment-*"))


def missing(folder: Path) -> None:
    """Delete the first segment of the config topic."""
    segment(folder).unlink()


def half_written(folder: Path) -> None:
    """Cut off the last 100 bytes of a segment."""
    path = segment(folder)
    path.write_bytes(path.read_bytes()[:-100])


def altered(folder: Path) -> None:
    """Flip one bit of a segment."""
    path = segment(folder)
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 3] ^= 1
    path.write_bytes(whole)


def winners_altered(folder: Path) -> None:
    """Flip one bit of a file of winners."""
    path = winners(folder)
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 3] ^= 1
    path.write_bytes(whole)


def no_parquet(folder: Path) -> None:
    """Replace a segment by bytes that are no Parquet; the manifest has their hash."""
    certify(folder, last_segment(folder), b"something else")


def foreign_column(folder: Path) -> None:
    """Add a column to a segment; the manifest has the new hash."""
    path = last_segment(folder)
    table = pq.read_table(path)
    sink = pa.BufferOutputStream()
    pq.write_table(table.append_column("extra", pa.nulls(table.num_rows, pa.int8())), sink)
    certify(folder, path, sink.getvalue().to_pybytes())


def other_rows(folder: Path) -> None:
    """Replace all rows of a segment by copies of one record; the manifest has the new hash."""
    path = last_segment(folder)
    rows = pq.read_table(path).num_rows
    entry = Entry("connect-configs", 0, 3, 1, b"k", None)
    table = table_of([batch_of([entry] * rows)])
    certify(folder, path, encoded_rows([table]).content)


def manifest_altered(folder: Path) -> None:
    """Alter the time of writing in the first manifest."""
    path = manifest(folder, 1)
    path.write_bytes(path.read_bytes().replace(b'"written_at_ms": 1', b'"written_at_ms": 2', 1))


def manifest_missing(folder: Path) -> None:
    manifest(folder, 1).unlink()


def manifest_torn(folder: Path) -> None:
    """Cut off the end of the last manifest."""
    path = manifest(folder, 2)
    path.write_bytes(path.read_bytes()[:-50])


def from_the_future(folder: Path) -> None:
    """Give the last manifest a format that this version does not know."""
    path = manifest(folder, 2)
    document = msgspec.json.decode(path.read_bytes())
    path.write_bytes(msgspec.json.encode(document | {"format": 99}))


def archived_twice(folder: Path) -> None:
    """Let the last manifest claim offsets that the first has already read."""
    path = manifest(folder, 2)
    document = msgspec.json.decode(path.read_bytes())
    for reach in document["reaches"]:
        reach["start"] = 0
    path.write_bytes(msgspec.json.encode(document))


def impossible_offsets(folder: Path) -> None:
    """Let the last manifest claim offsets that no partition of Kafka can have."""
    path = manifest(folder, 2)
    document = msgspec.json.decode(path.read_bytes())
    document["reaches"][-1]["end"] = 2**64 - 1
    path.write_bytes(msgspec.json.encode(document))


def archived_in_a_gap(folder: Path) -> None:
    """Let the last manifest claim that its append read only the last config segment."""
    path = manifest(folder, 2)
    document = msgspec.json.decode(path.read_bytes())
    places = document["reaches"], document["segments"]
    (reach,), segments = (
        [each for each in place if each["topic"] == "connect-configs"] for place in places
    )
    reach["start"] = segments[-1]["start"]
    path.write_bytes(msgspec.json.encode(document))


def names_a_file_elsewhere(folder: Path) -> None:
    """Let the last manifest name a file outside of the archive."""
    path = manifest(folder, 2)
    document = msgspec.json.decode(path.read_bytes())
    document["segments"][0]["stored"]["file"] = f"cluster={NAME}/../../passwords"
    path.write_bytes(msgspec.json.encode(document))


def names_a_file_with_null(folder: Path) -> None:
    """Let the last manifest name a file that no file system can have."""
    path = manifest(folder, 2)
    document = msgspec.json.decode(path.read_bytes())
    document["segments"][0]["stored"]["file"] = f"cluster={NAME}/\0"
    path.write_bytes(msgspec.json.encode(document))


SEEN_BY_BOTH: list[tuple[Damage, str]] = [
    (missing, "is missing"),
    (half_written, "bytes and not"),
    (altered, "it has another hash"),
    (no_parquet, "no Parquet file"),
    (foreign_column, "has foreign column 'extra'"),
    (manifest_altered, "0000000002.json does not follow the manifest before it"),
    (manifest_missing, "0000000001.json is missing"),
    (manifest_torn, "0000000002.json is no manifest"),
    (from_the_future, "has format 99"),
    (archived_twice, "are archived twice"),
    (impossible_offsets, "0000000002.json is no manifest (Expected `int` <= 9223372036854775807"),
    (archived_in_a_gap, "holds offsets that no manifest says were read"),
    (names_a_file_elsewhere, "names a file elsewhere"),
    (names_a_file_with_null, "names a file elsewhere"),
]


@pytest.fixture
def damaged(sound: Path, tmp_path: Path) -> Path:
    """Copy of the sound archive, for a test to damage."""
    return shutil.copytree(sound, tmp_path / "damaged")


@pytest.mark.parametrize(("damage", "sentence"), SEEN_BY_BOTH)
@pytest.mark.parametrize("command", ["verify", "state"])
def test_damage_is_reported_in_one_sentence(
    damaged: Path, damage: Damage, sentence: str, command: str
) -> None:
    """`verify` and `state` report each kind of damage, and change no file."""
    damage(damaged)
    before = content(damaged)
    words = ("--from-segments",) if command == "state" else ()
    assert sentence in refusal(call(command, damaged, *words))
    assert content(damaged) == before


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [(winners_altered, "it has another hash"), (other_rows, "has offsets that do not ascend")],
)
def test_verify_checks_rows_and_derived_files(damaged: Path, damage: Damage, sentence: str) -> None:
    """`verify` finds an altered derived file, and wrong rows in a segment whose hash is right."""
    damage(damaged)
    assert sentence in refusal(call("verify", damaged))


def test_damaged_winners_hide_no_other_flaw(damaged: Path) -> None:
    """A page of winners that cannot be decompressed is a flaw beside others of the cluster."""
    path = winners(damaged)
    whole = bytearray(path.read_bytes())
    column = pq.read_metadata(path).row_group(0).column(0)
    begin, size = column.data_page_offset, column.total_compressed_size
    whole[begin : begin + size] = bytes(size)
    path.write_bytes(whole)
    altered(damaged)
    (report,) = call("verify", damaged, "-o", "json").json
    flaws = "\n".join(report["flaws"])
    assert f"{path.name} was altered" in flaws
    assert f"{path.name} does not hold the winners of its segment" in flaws
    assert f"{segment(damaged).name} was altered" in flaws


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archive with daily snapshots."""
    folder = tmp_path_factory.mktemp("lasting")
    archive(folder, lasting_days(recorded_entries("life-3.9")))
    return folder


@pytest.mark.parametrize("ending", ["parquet", "msgpack.zst"])
def test_a_damaged_snapshot_is_not_used(ending: str, lasting: Path, tmp_path: Path) -> None:
    """Commands refuse a snapshot with damaged rows or states; `--from-segments` reads none."""
    shutil.copytree(lasting, tmp_path, dirs_exist_ok=True)
    sound = call("state", tmp_path)
    path = max((tmp_path / f"cluster={NAME}" / "_snapshots").glob(f"*.{ending}"))
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 1
    path.write_bytes(whole)
    for command in ("state", "verify"):
        assert f"{path.name} was altered" in refusal(call(command, tmp_path))
    assert call("state", tmp_path, "--from-segments") == sound


def test_a_directory_in_place_of_a_file_is_damage(damaged: Path) -> None:
    """The advice is to restore the file, because nobody has named it."""
    path = damaged / f"cluster={NAME}" / "_manifest" / "0000000001.json"
    path.unlink()
    path.mkdir()
    for command in ("state", "verify"):
        assert "(Is a directory): restore the file from a copy" in refusal(call(command, damaged))


def flip(path: Path) -> None:
    """Flip one bit in the middle of a file."""
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 1
    path.write_bytes(whole)


@pytest.fixture
def half(tmp_path: Path) -> tuple[Path, list[Entry]]:
    """Archive whose snapshots are all damaged, and the log that it has the first part of."""
    entries = lasting_days(recorded_entries("roll-3.4-3.9-3.4"))
    archive(tmp_path, entries[:72])
    for path in tmp_path.rglob("_snapshots/*"):
        flip(path)
    return tmp_path, entries


def test_damaged_snapshots_end_no_capture(half: tuple[Path, list[Entry]]) -> None:
    """A capture makes the next snapshots from the segments; they give the same states."""
    folder, entries = half
    captured = capture(folder, log_of(entries))
    assert captured.added == len(entries) - 72
    assert captured.cluster.chain.manifests[-1].snapshots
    states = replayed(captured.cluster, None, PROFILES)
    assert states == replayed(captured.cluster, None, PROFILES, LocalOptions(derived=False))
    assert verified(captured.cluster).flaws


def test_a_capture_commits_before_it_reports_damage(half: tuple[Path, list[Entry]]) -> None:
    """The next snapshot needs a missing file: the capture reports it once all is archived."""
    folder, entries = half
    path = min(folder.rglob("topic=connect-status/partition=1/segment-*"))
    content = path.read_bytes()
    path.unlink()
    with pytest.raises(ArchiveCorrupt, match=rf"{path.name} is missing"):
        capture(folder, log_of(entries))
    path.write_bytes(content)
    assert len(archived(cluster_in(folder))) == len(entries)


@pytest.mark.parametrize("place", range(4, 2_000, 131))
def test_damage_is_reported_by_a_search_for_a_moment(damaged: Path, place: int) -> None:
    """`state --as-of` reports an altered byte at any place of the segment that has the moment."""
    path = segment(damaged)
    whole = bytearray(path.read_bytes())
    whole[place % len(whole)] ^= 0x55
    path.write_bytes(whole)
    sentence = refusal(call("state", damaged, "--from-segments", "--as-of", "config@3"))
    assert path.name in sentence
    assert "it has another hash" in sentence


def test_a_damaged_archive_is_not_added_to(damaged: Path) -> None:
    """A capture refuses a damaged archive, because its manifest would certify the damage."""
    manifest_altered(damaged)
    before = content(damaged)
    log = HISTORIES / "life-3.9.log.jsonl"
    assert "does not follow" in refusal(call("capture", f"{NAME}={log}", damaged))
    assert content(damaged) == before


def test_the_advice_for_a_damaged_segment_mends_the_archive(damaged: Path, tmp_path: Path) -> None:
    """A capture leaves the damage; it mends the archive once the cluster's folder is elsewhere."""
    altered(damaged)
    advice = f"Without a copy, move the folder cluster={NAME} out of the archive, and capture"
    assert advice in refusal(call("state", damaged, "--from-segments"))
    assert advice in refusal(call("verify", damaged))
    capture_again = ("capture", f"{NAME}={HISTORIES / 'life-3.9.log.jsonl'}", damaged)
    call(*capture_again)
    assert "was altered" in refusal(call("verify", damaged))
    (damaged / f"cluster={NAME}").rename(tmp_path / "elsewhere")
    assert call(*capture_again).code == 0
    assert call("verify", damaged).code == 0


def test_a_missing_file_is_reported_without_hashes_too(damaged: Path) -> None:
    """`--trust`, which skips the check of hashes, still reports a missing file."""
    missing(damaged)
    assert "is missing" in refusal(call("state", damaged, "--trust"))


def test_an_archive_of_an_earlier_version_is_sound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`verify` accepts winners that lack the statuses removed by tombstones."""
    running = b'{"state":"RUNNING","trace":null,"worker_id":"w","generation":1}'
    values = [running] * 40 + [None]
    log = [
        Entry("connect-status", 0, at, at, b"status-task-a-0", value)
        for at, value in enumerate(values)
    ]
    kept = []
    for name, removed in (("earlier", False), ("now", True)):
        monkeypatch.setattr(segment_writer, "winners", partial(winners_of, removed=removed))
        archive(tmp_path / name, log, SegmentSizes(64, 64))
        kept.append(pq.read_table(winners(tmp_path / name)).num_rows)
        assert verified(cluster_in(tmp_path / name)).flaws == ()
    assert kept == [1, 2]


LAST = f"cluster={NAME}/_manifest/0000000002.json"
"""Last manifest of `sound`."""


@pytest.mark.parametrize(
    "name", ["0000000002 (1).json", "0000000002.sync-conflict-7.json", "Copy of 0000000002.json"]
)
def test_a_renamed_last_manifest_is_no_cut_off_end(damaged: Path, name: str) -> None:
    """No command answers without the last append, or appends in its place."""
    (damaged / LAST).rename((damaged / LAST).with_name(name))
    before = content(damaged)
    sentence = f"{LAST} is missing: rename cluster={NAME}/_manifest/{name} to 0000000002.json"
    log = HISTORIES / "life-3.9.log.jsonl"
    for words in (("state", damaged), ("verify", damaged), ("capture", f"{NAME}={log}", damaged)):
        assert sentence in refusal(call(*words))
    assert content(damaged) == before


def test_the_only_manifest_may_be_renamed(tmp_path: Path) -> None:
    """A cluster whose only manifest was renamed is named with the file to rename."""
    archive(tmp_path, recorded_entries("life-3.9"))
    path = tmp_path / LAST.replace("2.json", "1.json")
    path.rename(path.with_name("0000000001 (1).json"))
    assert f"rename cluster={NAME}/_manifest/0000000001 (1).json" in refusal(
        call("state", tmp_path)
    )


@pytest.mark.parametrize("altered", [b"{}", b"\xff", b'"number": 2', b'"previous": "'])
def test_a_file_that_does_not_continue_the_chain_is_ignored(damaged: Path, altered: bytes) -> None:
    """Only the hash of the previous manifest makes a foreign file the next one."""
    path, states = damaged / LAST, call("state", damaged)
    sound_content = path.read_bytes()
    changed = (
        sound_content.replace(altered, altered + b"1") if altered in sound_content else altered
    )
    path.with_name("0000000003 (1).json").write_bytes(changed)
    assert call("state", damaged) == states
    path.with_name("0000000003 (1).json").write_bytes(sound_content)
    assert call("state", damaged) == states
