"""Merges of damaged archives and on full disks, and killed merges: no data is lost."""

import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from replay.archive.merges.merge import Merger
from replay.archive.segments.record_hash import record_hash
from replay.archive.segments.segment_files import SCHEMA, encoded_rows
from replay.archive.stores.store import FolderStore
from replay.archive.verification import verified
from tests.cli.command_calls import unprivileged
from tests.conftest import PROVE
from tests.recorded_requests import HISTORIES, recorded_entries
from tests.replay.archive.archives import NAME, cluster_in, replayed
from tests.replay.archive.history_crashes import first_of
from tests.replay.archive.merges import KIP, looks, merged, next_config
from tests.replay.archive.test_damage import altered, manifest_altered, missing, segment
from tests.replay.cli.replay_calls import call, content, refusal
from tests.replay.limited_process import run_limited
from tests.tidy.source import ROOT

pytestmark = pytest.mark.slow

HISTORY = "roll-3.4-3.9-3.4"
ENTRIES = recorded_entries(HISTORY)
LOOKS = 4
BASE = f"cluster={NAME}/_manifest/{LOOKS + 1:010}.json"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archive of a few looks (captures of a growing log), which no test changes."""
    folder = tmp_path_factory.mktemp("sound")
    looks(folder, ENTRIES, LOOKS)
    return folder


@pytest.fixture
def small(sound: Path, tmp_path: Path) -> Path:
    """Copy of an archive of a few looks."""
    return shutil.copytree(sound, tmp_path / "small")


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (altered, "was altered: it has another hash"),
        (missing, "is missing: restore it"),
        (manifest_altered, "0000000002.json does not follow the manifest before it"),
    ],
)
def test_a_damaged_original_is_named_and_nothing_is_removed(
    small: Path, damage: Callable[[Path], None], sentence: str
) -> None:
    """The merge reports the damage, and changes no file."""
    damage(small)
    before = content(small)
    assert sentence in refusal(call("compact-archive", small))
    assert content(small) == before


@pytest.mark.parametrize("kind", ["segment-*.parquet", "replaced-*.tar.zst"])
@pytest.mark.parametrize("options", [(), ("--dry-run",), ("--retain", "1h")])
def test_a_truncated_file_is_named_although_no_merge_reads_it(
    small: Path, kind: str, options: tuple[str, ...]
) -> None:
    """Sizes of all files are compared, also if there is nothing to merge."""
    merged(small)
    path = next(small.rglob(kind))
    path.write_bytes(path.read_bytes()[:-1])
    before = content(small)
    sentence = refusal(call("compact-archive", small, *options))
    assert (
        f"{path.name} has {path.stat().st_size} bytes and not {path.stat().st_size + 1}" in sentence
    )
    assert content(small) == before


def test_a_missing_file_is_named_although_no_merge_reads_it(small: Path) -> None:
    """A segment that stays as it is must exist. Replaced files stay, although none is kept."""
    assert call("compact-archive", small, "--grace", "3600").code == 0
    document = msgspec.json.decode((small / BASE).read_bytes())
    (small / document["segments"][0]["stored"]["file"]).unlink()
    before = content(small)
    assert "is missing: restore it" in refusal(call("compact-archive", small))
    assert content(small) == before


def test_the_other_clusters_are_merged(small: Path) -> None:
    """`compact-archive` merges the other clusters, names the damaged one, and exits with code 2."""
    (small / f"cluster={NAME}").rename(small / "cluster=broken")
    looks(small, ENTRIES, LOOKS)
    result = call("compact-archive", small, "-o", "json")
    assert result.code == 2
    assert result.err.startswith("Error: cluster=broken/_manifest/0000000001.json is mani")
    done, failed = result.json
    assert (done["cluster"], done["manifests"], done["remaining"]) == (NAME, [LOOKS, 1], 0)
    assert failed["cluster"] == "broken"


def test_a_full_disk_changes_nothing(small: Path) -> None:
    """The merge removes its own files and names the reason; it succeeds once there is room."""
    before = content(small)
    limit = 3_000
    sizes = [len(stored) for stored in before.values()]
    assert max(sizes) > limit > min(sizes)
    ended = run_limited(resource.RLIMIT_FSIZE, limit, limit, "compact-archive", small)
    assert ended.returncode == 2
    assert f"{small} cannot be written (File too large)" in ended.stderr
    assert content(small) == before
    assert call("compact-archive", small).code == 0
    assert verified(cluster_in(small)).records == len(ENTRIES)


def test_a_read_only_archive_stays_unchanged(open_path: Path) -> None:
    """The merge names the read-only archive and the reason, and changes no file."""
    looks(open_path, ENTRIES, LOOKS)
    before = content(open_path)
    for path in open_path.rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    with unprivileged():
        sentence = refusal(call("compact-archive", open_path))
    assert f"{open_path} cannot be written (Permission denied)" in sentence
    assert content(open_path) == before


def test_a_newer_format_is_refused(small: Path) -> None:
    """A merge refuses a manifest of a newer format."""
    path = small / f"cluster={NAME}" / "_manifest" / f"{LOOKS:010}.json"
    document = msgspec.json.decode(path.read_bytes())
    path.write_bytes(msgspec.json.encode(document | {"format": 5}))
    before = content(small)
    assert f"{LOOKS:010}.json has format 5, but only 1 to 4 are known" in refusal(
        call("compact-archive", small)
    )
    assert content(small) == before


# --- after a merge --------------------------------------------------------------------------------


def test_older_versions_find_a_format_that_they_refuse(small: Path) -> None:
    """The file at the first manifest's path has format 2, so older versions refuse the archive."""
    merged(small)
    first = small / f"cluster={NAME}" / "_manifest" / "0000000001.json"
    assert msgspec.json.decode(first.read_bytes()) == {
        "cluster": NAME,
        "format": 2,
        "merged_into": LOOKS + 1,
    }


def test_versions_without_files_of_readings_refuse_the_archive(small: Path) -> None:
    """The merged manifest has format 4; earlier versions, which know up to 3, refuse it.

    They would take a range of several joined looks for one look.
    """
    merged(small)
    document = msgspec.json.decode((small / BASE).read_bytes())
    assert document["format"] == 4
    reaches = {(reach["topic"], reach["partition"]) for reach in document["reaches"]}
    assert len(document["reaches"]) == len(reaches)


def readings_file(folder: Path) -> Path:
    """File with the readings (ranges of offsets that appends have read) of the last merge."""
    (path,) = (folder / f"cluster={NAME}" / "_manifest").glob("readings-*.parquet")
    return path


def test_an_altered_file_of_readings_is_named(small: Path) -> None:
    """`verify` names the file; `state` of an archive without missing offsets does not need it."""
    merged(small)
    file = readings_file(small)
    file.write_bytes(file.read_bytes()[::-1])
    assert f"{file.name} was altered" in refusal(call("verify", small))
    assert call("state", small).code == 0


def certify_readings(folder: Path, content: bytes) -> None:
    """Replace the file of readings, and its hash in the manifest."""
    path = readings_file(folder)
    path.write_bytes(content)
    document = msgspec.json.decode((folder / BASE).read_bytes())
    described = {"bytes": len(content), "sha256": sha256(content).hexdigest()}
    document["merge"]["readings"]["stored"] |= described
    (folder / BASE).write_bytes(msgspec.json.encode(document))


def forged_readings(folder: Path, column: str, value: int) -> bytes:
    """File of readings with another first value in a column."""
    file = pq.ParquetFile(readings_file(folder))
    groups = [file.read_row_group(number) for number in range(file.num_row_groups)]
    rows = groups[0].to_pylist()
    rows[0][column] = value
    groups[0] = pa.Table.from_pylist(rows, schema=groups[0].schema)
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, groups[0].schema) as writer:
        for group in groups:
            writer.write_table(group)
    return bytes(sink.getvalue())


@pytest.mark.parametrize(("column", "value"), [("end", 1), ("lost", 1), ("lost", -1)])
def test_readings_of_other_offsets_are_named(small: Path, column: str, value: int) -> None:
    """`verify` refuses readings that do not cover the offsets in the manifest."""
    merged(small)
    certify_readings(small, forged_readings(small, column, value))
    name = readings_file(small).name
    assert f"{name} holds other readings than described" in refusal(call("verify", small))


def test_a_file_without_readings_is_named(small: Path) -> None:
    """`verify` names a file of readings that is no Parquet."""
    merged(small)
    certify_readings(small, b"no file")
    name = readings_file(small).name
    assert f"{name} holds other readings than described" in refusal(call("verify", small))


def test_a_missing_merged_manifest_is_named(small: Path) -> None:
    """The error names the missing merged manifest.

    The file at the first manifest's path refers to it.
    """
    merged(small)
    (small / BASE).unlink()
    assert f"{BASE} is missing: restore it and all manifests after it" in refusal(
        call("state", small)
    )


def test_a_capture_begins_no_new_chain_in_a_merged_archive(small: Path) -> None:
    """A capture refuses a merged archive without manifests, and changes no file."""
    merged(small)
    for path in (small / f"cluster={NAME}" / "_manifest").glob("*.json"):
        path.unlink()
    before = content(small)
    log = HISTORIES / f"{HISTORY}.log.jsonl"
    sentence = refusal(call("capture", f"{NAME}={log}", small))
    assert f"restore the manifests of cluster {NAME}, or capture under another name" in sentence
    assert content(small) == before


@pytest.mark.parametrize("damaged", [b"", b"{", b"{}", b'{"cluster":"fleet-1","number":5}'])
def test_a_damaged_last_manifest_is_named(small: Path, damaged: bytes) -> None:
    """The error names the damaged manifest, not the sound file at the first manifest's path."""
    merged(small)
    (small / BASE).write_bytes(damaged)
    for command in ("state", "verify"):
        assert f"{BASE} is no manifest" in refusal(call(command, small))


def test_opening_reads_no_replaced_manifest(small: Path) -> None:
    """Opening an archive reads no replaced manifest, not even one that a killed merge has left."""
    expected = call("state", small)
    Merger(FolderStore(str(small)), NAME).run()
    for number in range(1, LOOKS + 1):
        (small / f"cluster={NAME}" / "_manifest" / f"{number:010}.json").write_bytes(b"altered")
    looks(small, ENTRIES, 1)
    assert call("state", small) == expected
    assert call("verify", small).code == 0


def test_a_head_from_before_the_merge_is_still_proven(small: Path) -> None:
    """`verify` proves the head (last manifest's hash) from before a merge; another hash fails."""
    head = cluster_in(small).chain.head
    merged(small)
    assert call("verify", small, "--head", head).code == 0
    assert call("verify", small, "--head", f"{NAME}={head}").code == 0
    assert "has the hash 0123" in call("verify", small, "--head", f"{NAME}=0123").err
    for empty in ("", f"{NAME}="):
        assert f"--head {empty!r} has no hash" in call("verify", small, "--head", empty).err


def test_a_renamed_manifest_of_a_merge_is_named(small: Path) -> None:
    """If the only manifest after a merge has another name, the message names the file."""
    merged(small)
    manifests = small / f"cluster={NAME}/_manifest"
    last = max(manifests.glob("*.json"))
    last.rename(last.with_name(f"{last.stem} (1).json"))
    sentence = f"{last.name} is missing: if cluster={NAME}/_manifest/{last.stem} (1).json is this"
    for command in ("state", "verify"):
        assert sentence in refusal(call(command, small))


def test_replaced_manifests_are_verified(small: Path) -> None:
    """`verify` finds an altered byte of a replaced manifest; queries do not read such manifests.

    A head from before the merge is then not called cut off.
    """
    head = cluster_in(small).chain.head
    merged(small)
    (packed,) = (small / f"cluster={NAME}" / "_manifest").glob("replaced-*.tar.zst")
    whole = bytearray(packed.read_bytes())
    whole[len(whole) // 2] ^= 1
    packed.write_bytes(whole)
    assert f"{packed.name} was altered" in refusal(call("verify", small))
    assert f"{packed.name} was altered" in refusal(
        call("verify", small, "--head", f"{NAME}={head}")
    )
    unnamed = call("verify", small, "--head", head).err
    assert f"has the hash {head}: {NAME} could not be read, so restore that first" in unnamed
    assert call("state", small).code == 0


def test_an_earlier_missing_file_of_replaced_manifests_is_named(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`verify` names a missing file that only a replaced manifest names, and says to restore it."""
    monkeypatch.setattr("replay.archive.merges.replaced_manifests.FILE_BYTES", 0)
    merged(small)
    next_config(FolderStore(str(small)))[0].commit()
    merged(small)
    first, _ = sorted((small / f"cluster={NAME}" / "_manifest").glob("replaced-*.tar.zst"))
    first.unlink()
    assert f"{first.name} is missing: restore it" in refusal(call("verify", small))
    assert call("state", small).code == 0


def forge(folder: Path, *, with_hash: bool) -> None:
    """Alter a merged record, and let the merged manifest certify it."""
    path = segment(folder)
    rows = pq.read_table(path).cast(SCHEMA).to_pylist()
    rows[0]["value"] = b"forged"
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    forged = encoded_rows([table])
    document = msgspec.json.decode((folder / BASE).read_bytes())
    for described in document["segments"]:
        if described["stored"]["file"] == path.relative_to(folder).as_posix():
            described["stored"] |= {"bytes": len(forged.content), "sha256": forged.sha256}
            described["content"] = record_hash(table)
            if not with_hash:
                del described["content"]
    path.write_bytes(forged.content)
    (folder / BASE).write_bytes(msgspec.json.encode(document))


@pytest.mark.parametrize("with_hash", [True, False])
def test_a_forged_merge_is_found_by_the_manifests_before_it(
    small: Path, *, with_hash: bool
) -> None:
    """The replaced manifests' hashes of records reveal a forged record."""
    merged(small)
    forge(small, with_hash=with_hash)
    sentence = refusal(call("verify", small))
    assert f"{segment(small).name} has other records than cluster={NAME}/topic=" in sentence


def test_a_merge_that_leaves_out_records_is_found(small: Path) -> None:
    """`verify` finds records that the replaced manifests describe and the merged one omits."""
    merged(small)
    document = msgspec.json.decode((small / BASE).read_bytes())
    del document["segments"][0]
    (small / BASE).write_bytes(msgspec.json.encode(document))
    assert "describes other records of connect-configs partition 0" in refusal(
        call("verify", small)
    )


def test_an_archive_of_an_earlier_version_is_merged(small: Path) -> None:
    """`verify` reports segments whose records it cannot prove: earlier versions stored no hash."""
    head = ""
    for path in sorted((small / f"cluster={NAME}" / "_manifest").glob("*.json")):
        document = msgspec.json.decode(path.read_bytes())
        for described in document["segments"]:
            del described["content"]
        document["previous"] = head
        path.write_bytes(msgspec.json.encode(document))
        head = sha256(path.read_bytes()).hexdigest()
    expected = replayed(cluster_in(small), None, KIP)
    merged(small)
    assert replayed(cluster_in(small), None, KIP) == expected
    result = call("verify", small, "--head", head)
    assert result.code == 0
    assert "an earlier version of replay stored no hash of the records of" in result.out


def test_a_killed_merge_is_whole_or_absent(tmp_path: Path) -> None:
    """The archive is sound after a kill at any step, and the next merge completes it.

    Only `make prove` tests every step; other runs test every 26th step.
    """
    every = "1" if PROVE else "26"
    words = ("-m", "tests.replay.archive.merge_crashes", str(tmp_path), HISTORY, every)
    subprocess.run([sys.executable, "-W", "ignore", *words], cwd=ROOT, check=True)
    entries = first_of(HISTORY)
    manifest_counts = []
    expected = None
    for folder in sorted(tmp_path.iterdir()):
        left = verified(cluster_in(folder))
        assert (left.flaws, left.records) == ((), len(entries))
        manifest_counts.append(left.manifests)
        merged(folder)
        again = verified(cluster_in(folder))
        assert (again.flaws, again.records, again.manifests) == ((), len(entries), 1)
        assert again.replaced == 0
        expected = expected or replayed(cluster_in(folder), None, KIP)
        assert replayed(cluster_in(folder), None, KIP) == expected
    assert manifest_counts == sorted(manifest_counts, reverse=True), (
        "a kill at a later step never undoes the merge"
    )
    assert {*manifest_counts} == {3, 1}
