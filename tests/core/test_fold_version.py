"""A snapshot of another fold version is never used."""

from hashlib import blake2b
from pathlib import Path

import msgspec

from controlplane.core.fold import Fold
from controlplane.core.fold.snapshot_codec import FOLD_VERSION, freeze
from controlplane.core.order import in_order
from controlplane.core.releases.profiles import Profile
from controlplane.logs.dumps import read_dump

KNOWN = (4, "c4e342bd5b9647ec89a481e75221b182")
"""The version of the fold, and the digest of its snapshots of the recorded clusters."""


def frozen(path: Path) -> bytes:
    """Snapshot bytes of a recorded cluster, for several releases."""
    entries = in_order(read_dump(path).entries)
    snapshots = b""
    for release in ("kip", "3.9", "3.4", "2.8", "0.10"):
        fold = Fold(Profile.of(release))
        fold.apply_all(entries)
        for topic in sorted(fold.snapshot().offsets.keys() | {entry.topic for entry in entries}):
            part = fold.topic_snapshot(topic)
            # Reasons of undecodable records are for people: they change without a new version.
            wordless = msgspec.structs.replace(part, unreadable=dict.fromkeys(part.unreadable, ""))
            snapshots += b"".join(freeze(wordless))
    return snapshots


def test_another_fold_has_another_version(histories: Path) -> None:
    """A failure means that the fold is broken, or was changed on purpose.

    After a change on purpose, raise `FOLD_VERSION` by one, and write it and the new digest into
    `KNOWN`. If only the recordings have changed, write the new digest alone.
    """
    digest = blake2b(digest_size=16)
    for path in sorted(histories.glob("*.log.jsonl")):
        digest.update(frozen(path))
    assert (FOLD_VERSION, digest.hexdigest()) == KNOWN
