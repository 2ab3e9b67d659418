"""Digests of the last batch of a feed, and those of the service."""

from collections.abc import Mapping, Sequence

from controlplane.core.entry import Entry
from controlplane.core.releases.profiles import Profile
from replay.engine.states.state_digest import digest
from replay.fleet.feed.change_feed import ArchiveFeed
from tests.replay.archive.archives import log_of, served


def last_digests(feed: ArchiveFeed) -> dict[str, str]:
    """Digest of each cluster after its last batch."""
    return {
        row["cluster"]: row["digest"]
        for batch in range(feed.batch + 1)
        for row in feed.tables.rows("batches", batch)
    }


def served_digests(
    logs: Mapping[str, Sequence[Entry]], *, exactly_once: bool = False
) -> dict[str, str]:
    """Digest of the state that the service folds from each log, as release `kip` reads it."""
    readers = [Profile.of("kip")]
    return {
        name: digest(served(log_of(log), None, readers, exactly_once=exactly_once)[0])
        for name, log in logs.items()
    }
