"""Checks of work on an object store that fails in the middle, for any server."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

import replay
from replay.archive.merges.merge import Merger
from replay.archive.merges.unnamed_files import leftovers, remove_replaced
from replay.archive.stores.hadoop_settings import HadoopSettings
from replay.archive.stores.store import ArchiveStore, open_store
from replay.errors import ReplayError
from replay.fleet.feed.feed_lock import LEASES
from replay.fleet.open_archive import OpenArchive
from tests.recorded_requests import recorded_entries
from tests.replay.archive.archives import NAME
from tests.replay.archive.buckets import Bucket
from tests.replay.archive.merges import LARGER, sound_records, two_looks
from tests.replay.archive.withheld_answers import AnswerRelay, answer_relay
from tests.replay.feed.feed_laws import assert_adds_up

ENTRIES = recorded_entries("aborted-3.9")

RECORDS = 60
"""Records that `two_looks` archives."""


class FailingStore(NamedTuple):
    """Bucket behind a relay, with which the store can be away."""

    bucket: Bucket
    relay: AnswerRelay

    def store(self, folder: str) -> ArchiveStore:
        """Open a folder of the bucket."""
        return open_store(self.url(folder), self._settings)

    def archive(self, folder: str) -> OpenArchive[pa.Table]:
        """Open the archive in a folder of the bucket."""
        conf = {f"spark.hadoop.{name}": value for name, value in self._settings.values.items()}
        return replay.open(self.url(folder), conf=conf, unreadable="raise")

    def url(self, folder: str) -> str:
        """URL of a folder."""
        return f"s3a://{self.bucket.name}/{folder}"

    def fails_after(self, writes: int, work: Callable[[], Any]) -> None:
        """The work ends with an error if the store is away after a number of writes."""
        self.relay.most_writes = self.relay.writes + writes
        with pytest.raises(ReplayError, match="NETWORK_CONNECTION"):
            work()
        self.relay.most_writes = None

    def writes(self, work: Callable[[], Any]) -> int:
        """Number of writes of work that succeeds."""
        before = self.relay.writes
        work()
        return self.relay.writes - before

    @property
    def _settings(self) -> HadoopSettings:
        return HadoopSettings(self.bucket._replace(endpoint=self.relay.endpoint).hadoop)


def moments(writes: int) -> Sequence[int]:
    """Numbers of writes after which the store is away: none, half, all but the last."""
    return sorted({0, writes // 2, writes - 1})


def check_merges(bucket: Bucket) -> None:
    """A merge that fails leaves the archive whole, and the next one completes it."""
    with answer_relay(bucket.endpoint) as relay:
        failing = FailingStore(bucket, relay)
        store = two_looks(failing.store("merge"), ENTRIES)
        whole = two_looks(failing.store("merged"), ENTRIES)
        for number in moments(failing.writes(Merger(whole, NAME, LARGER).run)):
            failing.fails_after(number, Merger(store, NAME, LARGER).run)
            for name in leftovers(store, NAME, age_s=-1):
                store.remove(name)
            assert sound_records(store) == RECORDS
        Merger(store, NAME, LARGER).run()
        remove_replaced(store, NAME, 0)
        assert sound_records(store) == RECORDS


def check_written_states(bucket: Bucket) -> None:
    """A folder of states is complete, or lacks `_SUCCESS`; a new folder can be written then."""
    with answer_relay(bucket.endpoint) as relay:
        failing = FailingStore(bucket, relay)
        two_looks(failing.store("archive"), ENTRIES)
        archive = failing.archive("archive")
        whole = failing.store("states/whole")
        for number in moments(failing.writes(partial(archive.write_state, whole.where))):
            part = failing.store(f"states/part-{number}")
            failing.fails_after(number, partial(archive.write_state, part.where))
            assert "_SUCCESS" not in part.names("")
            again = failing.store(f"states/again-{number}")
            archive.write_state(again.where)
            assert [*again.walk("")] == [*whole.walk("")]


def check_feeds(bucket: Bucket) -> None:
    """A batch that fails does not count; its repetition gives the rows of the archive."""
    with answer_relay(bucket.endpoint) as relay:
        failing = FailingStore(bucket, relay)
        two_looks(failing.store("followed"), ENTRIES)
        archive = failing.archive("followed")
        whole = archive.follow(failing.url("whole/tables"), failing.url("whole/checkpoint"))
        for number in moments(failing.writes(whole.advance)):
            folder = f"part-{number}"
            feed = archive.follow(
                failing.url(f"{folder}/tables"), failing.url(f"{folder}/checkpoint")
            )
            failing.fails_after(number, feed.advance)
            checkpoint = failing.store(f"{folder}/checkpoint/feed")
            for name in checkpoint.names(LEASES):  # they would end two minutes later
                checkpoint.remove(f"{LEASES}/{name}")
            feed.advance()
            assert_adds_up(feed, archive)
