"""Leases of checkpoints have one owner, also after a kill or a pause.

A lease is the lock of a checkpoint in an object store: a file that its owner renews.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from replay.archive.stores.object_store import BucketStore
from replay.archive.stores.store import FolderStore
from replay.fleet.feed import change_feed, cluster_batch, feed_lock
from replay.fleet.feed.cluster_batch import ClusterBatch, ClusterWork
from replay.fleet.feed.feed_lock import (
    KEPT_S,
    LEASE_S,
    LEASES,
    Lease,
    LeaseLost,
    check_lease,
    locked,
)
from replay.fleet.feed.fleet_checkpoint import keep_only
from replay.fleet.feed.followed_state import offset_positions
from replay.fleet.feed.positions import position_of
from tests.patience import wait_until
from tests.recorded_requests import recorded_entries
from tests.replay.archive.archives import NAME
from tests.replay.cli.replay_calls import content
from tests.replay.feed.feed_laws import archive_in, archived, assert_adds_up, feed_in

A_WHILE_S = 10

ENTRIES = recorded_entries("roll-3.4-3.9-3.4")


@pytest.fixture
def store(tmp_path: Path) -> BucketStore:
    """Object store whose files can be given an age."""
    (tmp_path / LEASES).mkdir()
    return BucketStore("a folder", fs.LocalFileSystem(), str(tmp_path))


def age(folder: Path, lease: str, age_s: float) -> None:
    """Make a lease older by some seconds."""
    path = folder / lease
    then = path.stat().st_mtime - age_s
    os.utime(path, (then, then))


def taken(store: BucketStore) -> Lease:
    """Lease of a process that wants the checkpoint."""
    lease = Lease(store)
    lease.take()
    return lease


def test_one_process_has_the_lease(store: BucketStore, tmp_path: Path) -> None:
    """The second process gets the lease once the first has ended; an earlier attempt fails."""
    with locked(store) as first:
        with locked(store) as second:
            assert not second.is_held()
        assert first.is_held()
    assert not [*(tmp_path / LEASES).iterdir()]
    with locked(store) as third:
        assert third.is_held()


def test_a_lease_of_a_killed_process_ends(store: BucketStore, tmp_path: Path) -> None:
    """A lease ends by its age; the next owner removes it."""
    killed = taken(store)
    age(tmp_path, killed.lease, LEASE_S - A_WHILE_S)
    with locked(store) as other:
        assert not other.is_held()
    age(tmp_path, killed.lease, 2 * A_WHILE_S)
    with locked(store) as other:
        assert other.is_held()
        assert store.names(LEASES) == [Path(str(other.lease)).name]


def test_a_paused_owner_has_lost_the_lease(store: BucketStore, tmp_path: Path) -> None:
    """An owner with an aged lease has lost it for good, even without another owner."""
    owner = taken(store)
    for away_s, is_held in ((KEPT_S - A_WHILE_S, True), (KEPT_S + A_WHILE_S, False)):
        age(tmp_path, owner.lease, away_s)
        assert owner.is_held() is is_held
    assert not owner.is_held()
    assert KEPT_S < LEASE_S


def test_tasks_of_a_former_owner_stop(store: BucketStore, tmp_path: Path) -> None:
    """Tasks of the former owner stop before they write; tasks of the new owner continue."""
    former = taken(store)
    check_lease(store, former.lease)
    age(tmp_path, former.lease, LEASE_S + A_WHILE_S)
    with locked(store) as other:
        check_lease(store, other.lease)
        for _ in range(2):
            with pytest.raises(LeaseLost, match="another feed has taken over a folder"):
                check_lease(store, former.lease)
            assert not former.is_held()
        assert other.is_held()


def test_a_lease_is_renewed_during_a_batch(
    store: BucketStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch may take longer than a lease."""
    monkeypatch.setattr(feed_lock, "RENEWAL_S", 0.01)
    with locked(store) as lock:
        path = tmp_path / str(lock.lease)
        age(tmp_path, str(lock.lease), A_WHILE_S)
        aged_s = path.stat().st_mtime
        wait_until(lambda: path.stat().st_mtime > aged_s, "a renewal")
        assert lock.is_held()


# --- writes of a feed -----------------------------------------------------------------------


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Checks of a feed's lease, and names of the files that it writes or removes afterwards.

    The lease is held all the time. Snapshots are left out: their names are their hashes.
    """
    steps: list[str] = []

    class HeldLock:
        lease = "_leases/mine"

        def is_held(self) -> bool:
            steps.append("check")
            return True

    @contextmanager
    def held(_: Any) -> Iterator[HeldLock]:
        yield HeldLock()

    monkeypatch.setattr(change_feed, "locked", held)
    monkeypatch.setattr(cluster_batch, "check_lease", lambda *_: steps.append("check"))
    for name in ("replace", "take", "remove"):
        write = getattr(FolderStore, name)

        def noted(store: FolderStore, file: str, *content: bytes, write: Any = write) -> Any:
            if Path(store.where).name != "archive":  # captures of the test write there
                steps.append(file)
            return write(store, file, *content)

        monkeypatch.setattr(FolderStore, name, noted)
    return steps


def test_a_check_precedes_each_write(tmp_path: Path, steps: list[str]) -> None:
    """A feed looks at its lease directly before each write, in tasks and for the whole batch."""
    for cluster in ("one", "two"):
        archived(tmp_path, ENTRIES[:60], cluster)
    feed = feed_in(tmp_path)
    left = "state_changes/batch=1/cluster-left-00000.parquet"
    assert feed.advance() == 0
    archived(tmp_path, ENTRIES, "one")
    (tmp_path / "tables" / left).parent.mkdir()
    (tmp_path / "tables" / left).write_bytes(b"left")
    assert feed.advance() == 1
    del steps[steps.index("batches/batch=1/part-00000.parquet") + 1 :]  # the batch counts
    assert {left, "finding_changes/batch=0/fleet-00000.parquet"} <= {*steps}
    unchecked = [step for before, step in pairwise(steps) if step != "check" and before != "check"]
    assert unchecked == []


def test_a_task_that_was_paused_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that loses its lease during its last read stops before the first write."""
    archived(tmp_path, ENTRIES)
    feed = feed_in(tmp_path)
    checkpoint, lease = feed.context.store, f"{LEASES}/mine"
    checkpoint.replace(lease, b"")

    def overtaken(*facts: Any, **options: Any) -> Any:
        positions = offset_positions(*facts, **options)
        checkpoint.remove(lease)
        return positions

    monkeypatch.setattr(cluster_batch, "offset_positions", overtaken)
    work = ClusterWork(NAME, None, position_of(feed.context.source.cluster(NAME)))
    with pytest.raises(LeaseLost):
        list(ClusterBatch(feed.context, 0, lease)(work))
    written = [file for file in content(tmp_path / "checkpoint") if "batch-" in str(file)]
    assert not written
    assert not (tmp_path / "tables").exists()


def test_checkpoints_of_later_batches_stay(
    tmp_path: Path, steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A feed that is paused after its commit removes no checkpoint of the next owner."""
    archived(tmp_path, ENTRIES[:60])
    feed = feed_in(tmp_path)

    def paused(*facts: Any) -> None:
        monkeypatch.setattr(change_feed, "keep_only", keep_only)
        archived(tmp_path, ENTRIES)
        assert feed_in(tmp_path).advance() == 1
        keep_only(*facts)

    monkeypatch.setattr(change_feed, "keep_only", paused)
    assert feed.advance() == 0
    assert_adds_up(feed_in(tmp_path), archive_in(tmp_path))
