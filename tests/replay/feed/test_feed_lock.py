"""Leases of checkpoints have one owner, also after a kill or a pause.

A lease is the lock of a checkpoint in an object store: a file that its owner renews.
"""

import os
from pathlib import Path

import pytest
from pyarrow import fs

from replay.archive.stores.object_store import BucketStore
from replay.fleet.feed import feed_lock
from replay.fleet.feed.feed_lock import (
    KEPT_S,
    LEASE_S,
    LEASES,
    Lease,
    LeaseLost,
    check_lease,
    locked,
)
from tests.patience import wait_until

A_WHILE_S = 10


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
