"""Checkpoint of a change feed: how far each cluster was read, and what clusters share.

CHECKPOINT/feed/fleet-0000000007.json
"""

import msgspec

from replay.archive.stores.store import ArchiveStore
from replay.audit.shared_topics import SharedResources
from replay.audit.thresholds import Thresholds
from replay.errors import ArchiveCorrupt, ReplayError
from replay.findings import Finding
from replay.fleet.feed.checkpoint_codec import NoCheckpoint, decoded, encoded
from replay.fleet.feed.cluster_batch import ReadPart
from replay.fleet.feed.positions import ClusterLook


class OtherReading(ReplayError):
    """A checkpoint was written with other options; its rows and new ones do not belong together."""


class FeedReading(msgspec.Struct, frozen=True):
    """Options that decide the rows; they stay the same in all batches of a feed."""

    release: str
    exactly_once: bool
    limits: Thresholds


class FleetCheckpoint(msgspec.Struct, frozen=True):
    """State of a feed after a batch."""

    reading: FeedReading
    batch: int = -1
    """Number of the batch; -1 before the first."""
    looks: dict[str, ClusterLook] = {}
    """Last look at each cluster."""
    read: dict[str, ReadPart] = {}
    """Part of each cluster that was read. It ends before the last look if a file was unreadable."""
    shares: dict[str, SharedResources] = {}
    """Resources of each cluster that other clusters may share by mistake."""
    between: tuple[Finding, ...] = ()
    """Present findings that concern several clusters."""


def read_checkpoint(store: ArchiveStore, batch: int, reading: FeedReading) -> FleetCheckpoint:
    """Read the checkpoint of the last batch that counts; -1: there is none yet.

    Raises:
        ArchiveCorrupt: the checkpoint is missing or damaged.
        OtherReading: it was written with other options.
    """
    if batch < 0:
        return FleetCheckpoint(reading)
    try:
        checkpoint = decoded(store.read(_name(batch)), FleetCheckpoint)
    except FileNotFoundError:
        raise ArchiveCorrupt(
            f"the tables end with batch {batch}, which the checkpoint {store.where} does not "
            "have. Give the checkpoint of these tables, or new folders for both"
        ) from None
    except NoCheckpoint as error:
        raise ArchiveCorrupt(
            f"{_name(batch)} in {store.where} is no checkpoint ({error}): restore it, or give new "
            "folders for tables and checkpoint"
        ) from None
    if checkpoint.reading != reading:
        raise OtherReading(
            f"the checkpoint {store.where} belongs to {_words(checkpoint.reading)}, not to "
            f"{_words(reading)}: give the same options, or another checkpoint"
        )
    return checkpoint


def write_checkpoint(store: ArchiveStore, checkpoint: FleetCheckpoint) -> None:
    """Write the checkpoint of a batch; it replaces that of an earlier attempt.

    Raises:
        NotWritable: no room, or no permission.
    """
    store.replace(_name(checkpoint.batch), encoded(checkpoint))


def keep_only(store: ArchiveStore, batch: int) -> None:
    """Remove the checkpoints of earlier batches. Another feed may have written later ones.

    Raises:
        NotWritable: no permission.
    """
    for name in store.names(""):
        if name.startswith("fleet-") and name < _name(batch):
            store.remove(name)


def _words(reading: FeedReading) -> str:
    defaults = Thresholds()
    changed = [
        f"{name.replace('_', '-')}={getattr(reading.limits, name)}"
        for name in defaults.__struct_fields__
        if getattr(reading.limits, name) != getattr(defaults, name)
    ]
    support = ["exactly-once support"] if reading.exactly_once else []
    return ", ".join([f"release {reading.release}", *support, *changed])


def _name(batch: int) -> str:
    return f"fleet-{batch:010}.json"
