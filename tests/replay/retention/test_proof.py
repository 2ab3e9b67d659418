"""Proof of removals by retention: the chain stays whole; a forged or widened removal is found.

A retention removes superseded records: no state at or after its cut (a time) depends on them.
Each manifest of an archive has the hash of the manifest before it. The hash of the last one is the
head.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from shutil import copytree
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from controlplane.core.order import rank_entries
from replay.archive.segments.record_hash import record_hash
from replay.archive.segments.removed_offsets import RemovedOffsets, encoded_offsets, read_offsets
from replay.archive.segments.segment_files import SCHEMA, encoded_rows, rows_of
from replay.archive.stores.store import FolderStore
from replay.archive.verification import verified
from tests.recorded_requests import recorded_entries
from tests.replay.archive.archives import NAME, cluster_in
from tests.replay.archive.merges import looks, merged
from tests.replay.cli.replay_calls import call, refusal
from tests.replay.retention.retention_archives import retained

ENTRIES = recorded_entries("roll-3.4-3.9-3.4")
LOOKS = 3
CUT_MS = rank_entries(ENTRIES)[70].time_ms
BASE = f"cluster={NAME}/_manifest/{LOOKS + 1:010}.json"
STATUS = ("connect-status", 1)


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archive of three looks (captures of a growing log), and a copy after a retention."""
    folder = tmp_path_factory.mktemp("templates")
    looks(folder / "whole", ENTRIES, LOOKS)
    copytree(folder / "whole", folder / "thin")
    retained(folder / "thin", CUT_MS)
    return folder


@pytest.fixture
def whole_archive(templates: Path, tmp_path: Path) -> Path:
    """Copy of the archive before the retention."""
    return copytree(templates / "whole", tmp_path / "whole")


@pytest.fixture
def thin(templates: Path, tmp_path: Path) -> Path:
    """Copy of the archive after a retention."""
    return copytree(templates / "thin", tmp_path / "thin")


def test_removals_are_described(whole_archive: Path) -> None:
    """A removal has the number and the total size of its records; `verify -o json` prints both."""
    backup = cluster_in(whole_archive)
    rows = pa.concat_tables(
        rows_of(backup.store, segment) for segment in backup.parts[STATUS].segments
    )
    retained(whole_archive, CUT_MS)
    (run,) = verified(cluster_in(whole_archive)).retentions
    assert (run.retention.cut_ms, run.retention.age_ms) == (CUT_MS, 0)
    (expired,) = (each for each in run.retention.expired if (each.topic, each.partition) == STATUS)
    assert expired.records > 0
    removed = cluster_in(whole_archive).parts[STATUS].removed
    assert removed is not None
    gone = read_offsets(FolderStore(str(whole_archive)), removed)
    left_out = rows.filter(pa.array(gone.inside(rows.column("offset").to_numpy())))
    assert left_out.num_rows == expired.records == gone.total
    texts = [*left_out.column("key").to_pylist(), *left_out.column("value").to_pylist()]
    assert sum(len(text or b"") for text in texts) == expired.bytes
    (document,) = call("verify", whole_archive, "-o", "json").json
    (retention,) = document["retentions"]
    assert retention["expired"] == [msgspec.to_builtins(each) for each in run.retention.expired]


def test_each_head_from_before_is_still_accepted(whole_archive: Path) -> None:
    """`verify --head` accepts earlier heads after a retention, a merge and another retention."""
    heads = [cluster_in(whole_archive).chain.head]
    for step in (retained, lambda folder, _: merged(folder), retained):
        step(whole_archive, CUT_MS + 60_000 * len(heads))
        heads.append(cluster_in(whole_archive).chain.head)
    for head in heads:
        assert call("verify", whole_archive, "--head", f"{NAME}={head}").code == 0
    assert "has the hash 0123" in call("verify", whole_archive, "--head", f"{NAME}=0123").err


def test_two_retentions_are_two_removals(whole_archive: Path) -> None:
    """The archive describes each retention; the second adds to the removals of the first."""
    first = retained(whole_archive, CUT_MS)
    second = retained(whole_archive, ENTRIES[-1].timestamp)
    result = verified(cluster_in(whole_archive))
    assert result.flaws == ()
    assert [run.retention.expired for run in result.retentions] == [first.expired, second.expired]
    removed = sum(records.records for records in cluster_in(whole_archive).chain.removed)
    assert removed == sum(run.records for run in result.retentions) == len(ENTRIES) - result.records


def test_nothing_more_is_removed_at_the_same_cut(thin: Path) -> None:
    """A second retention at the same cut writes no manifest."""
    head = cluster_in(thin).chain.head
    assert retained(thin, CUT_MS).expired == ()
    assert cluster_in(thin).chain.head == head


# --- forged -----------------------------------------------------------------------------------


def rewritten(folder: Path, change: Callable[[Any], None]) -> None:
    """Alter the manifest of the retention."""
    document = msgspec.json.decode((folder / BASE).read_bytes())
    change(document)
    (folder / BASE).write_bytes(msgspec.json.encode(document))


def without(folder: Path, offsets: Iterable[int]) -> Callable[[Any], None]:
    """Change for `rewritten`: removes records of a status partition, and describes the rest."""

    def forge(document: Any) -> None:
        for described in document["segments"]:
            if (described["topic"], described["partition"]) == STATUS:
                table = pq.read_table(folder / described["stored"]["file"]).cast(SCHEMA)
                kept = [offset not in offsets for offset in table.column("offset").to_pylist()]
                forged = table.filter(pa.array(kept))
                file = encoded_rows([forged])
                (folder / described["stored"]["file"]).write_bytes(file.content)
                described["stored"] |= {
                    "bytes": len(file.content),
                    "sha256": file.sha256,
                    "records": forged.num_rows,
                }
                described["content"] = record_hash(forged)

    return forge


def claimed(folder: Path, offsets: list[int]) -> Callable[[Any], None]:
    """Change for `rewritten`: claims that retention has removed these offsets as well."""

    def forge(document: Any) -> None:
        (removed,) = (
            each for each in document["removed"] if (each["topic"], each["partition"]) == STATUS
        )
        (expired,) = (
            each
            for each in document["retention"]["expired"]
            if (each["topic"], each["partition"]) == STATUS
        )
        file = folder / removed["offsets"]["file"]
        table = pq.read_table(file)
        ranges = RemovedOffsets(*(table.column(name).to_numpy() for name in table.column_names))
        forged = encoded_offsets(ranges.union(pa.array(offsets).to_numpy()))
        file.write_bytes(forged.content)
        removed["offsets"] |= {
            "bytes": len(forged.content),
            "sha256": forged.sha256,
            "records": forged.records,
        }
        removed["records"] += len(offsets)
        expired["records"] += len(offsets)

    return forge


def left(folder: Path, *, after_cut: bool) -> int:
    """Offset of a remaining status record within a segment, before or after the cut."""
    cluster = cluster_in(folder)
    removed = cluster.parts[STATUS].removed
    assert removed is not None
    offsets = [
        offset
        for segment in cluster.parts[STATUS].segments
        for offset in rows_of(cluster.store, segment).column("offset").to_pylist()[1:-1]
        if (offset >= removed.end) is after_cut
    ]
    return int(offsets[-1 if after_cut else 0])


@pytest.mark.parametrize("after_cut", [True, False])
def test_an_undeclared_removal_is_found(thin: Path, *, after_cut: bool) -> None:
    """The replaced manifests show how many records must remain."""
    rewritten(thin, without(thin, [left(thin, after_cut=after_cut)]))
    sentence = refusal(call("verify", thin))
    assert "describes other records of connect-status partition 1 than the manifests" in sentence


def test_a_removal_that_is_widened_beyond_its_cut_is_found(thin: Path) -> None:
    """All counts agree, but offsets and times reveal the removal, even with a forged cut."""
    offset = left(thin, after_cut=True)
    rewritten(thin, without(thin, [offset]))
    rewritten(thin, claimed(thin, [offset]))
    flaws = " ".join(verified(cluster_in(thin)).flaws)
    assert "connect-status partition 1 lacks records after the cut of its retention" in flaws

    def widen(document: Any) -> None:
        for each in (*document["removed"], *document["retention"]["expired"]):
            each["end"] = 10_000

    rewritten(thin, widen)
    flaws = " ".join(verified(cluster_in(thin)).flaws)
    assert "that are younger than the cut of its retention" in flaws

    def older(document: Any) -> None:
        for each in (*document["removed"], document["retention"]):
            each["cut_ms"] = document["written_at_ms"] + 1

    rewritten(thin, older)
    assert "later than the age of its retention" in " ".join(verified(cluster_in(thin)).flaws)


def test_a_removal_that_is_widened_before_its_cut_is_found_by_its_head(thin: Path) -> None:
    """All counts agree, but no manifest has the head that was noted before the change."""
    head = cluster_in(thin).chain.head
    offset = left(thin, after_cut=False)
    rewritten(thin, without(thin, [offset]))
    rewritten(thin, claimed(thin, [offset]))
    assert f"no manifest of {NAME} has the hash {head}" in refusal(
        call("verify", thin, "--head", f"{NAME}={head}")
    )


def test_a_record_that_returns_is_found(thin: Path) -> None:
    """`verify` reports a remaining record that the manifest calls removed."""
    rewritten(thin, claimed(thin, [left(thin, after_cut=False)]))
    assert "has records that retention has removed" in " ".join(verified(cluster_in(thin)).flaws)


def test_an_altered_record_after_the_cut_is_found(thin: Path) -> None:
    """A replaced manifest still has the hash of the records in the original segment."""
    cluster = cluster_in(thin)
    removed = cluster.parts[STATUS].removed
    assert removed is not None
    assert cluster.parts[STATUS].segments[-1].end > removed.end

    def forge(document: Any) -> None:
        described = next(
            each
            for each in reversed(document["segments"])
            if (each["topic"], each["partition"]) == STATUS
        )
        path = thin / described["stored"]["file"]
        rows = pq.read_table(path).cast(SCHEMA).to_pylist()
        rows[-1]["value"] = b"forged"
        table = pa.Table.from_pylist(rows, schema=SCHEMA)
        file = encoded_rows([table])
        path.write_bytes(file.content)
        described["stored"] |= {"bytes": len(file.content), "sha256": file.sha256}
        described["content"] = record_hash(table)

    rewritten(thin, forge)
    assert "has other records than" in " ".join(verified(cluster_in(thin)).flaws)


def test_an_altered_file_of_removed_offsets_is_named(thin: Path) -> None:
    """`verify` names the file, and so does a command that needs it."""
    (file, *_) = thin.rglob(f"topic={STATUS[0]}/partition={STATUS[1]}/_removed-*.parquet")
    file.write_bytes(file.read_bytes()[::-1])
    assert f"{file.name} was altered" in refusal(call("verify", thin))
    assert f"{file.name} was altered" in refusal(call("state", thin))


def test_an_earlier_version_refuses_the_archive(thin: Path) -> None:
    """Earlier versions know only formats 1 to 3; the retention's manifest has format 4."""
    looks(thin, ENTRIES, 1)
    assert msgspec.json.decode((thin / BASE).read_bytes())["format"] == 4


def test_no_file_with_removed_records_is_left(whole_archive: Path) -> None:
    """Segments, winners (extracts of segments) and snapshots from before the retention are gone."""
    retained(whole_archive, ENTRIES[-1].timestamp)
    cluster = cluster_in(whole_archive)
    stored = {
        path.relative_to(whole_archive).as_posix() for path in whole_archive.rglob("*.parquet")
    }
    assert stored <= {file.file for file in cluster.chain.files}
    assert not any(snapshot.day < "2026-11-21" for snapshot in cluster.snapshots)
