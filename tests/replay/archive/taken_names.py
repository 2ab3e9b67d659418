"""Checks of contested names in an object store, for any server."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from replay.archive.manifest import read_chain
from replay.archive.merges.merge import Merger
from replay.archive.merges.unnamed_files import remove_replaced
from replay.archive.stores.hadoop_settings import HadoopSettings
from replay.archive.stores.store import ArchiveStore, open_store
from replay.errors import WriteUncertain
from tests.conftest import examples
from tests.recorded_requests import recorded_entries
from tests.replay.archive.archives import NAME, capture_into, log_of
from tests.replay.archive.buckets import Bucket
from tests.replay.archive.merges import LARGER, sound_records, two_looks
from tests.replay.archive.withheld_answers import AnswerRelay, answer_relay

RACES = examples(3, proved=25)

WRITERS = 4

ATTEMPTS = 3
"""Number of attempts of botocore for one request, in its mode `standard`."""


def check_names_are_taken_once(settings: HadoopSettings, where: str, *, least: int = 1) -> None:
    """At most one of several concurrent writers takes a name; the name has that writer's content.

    `least` is 0 for claims: with them, all writers may withdraw. A name that no writer took can be
    taken later. No claim (an object that reserves a name) remains.
    """
    contents = [f"{number}".encode() for number in range(WRITERS)]
    with ThreadPoolExecutor(WRITERS) as pool:
        for number in range(RACES):
            name = f"race/{number}"
            stores = [open_store(where, settings) for _ in contents]
            tries = [
                pool.submit(store.take, name, content)
                for store, content in zip(stores, contents, strict=True)
            ]
            winners = [
                content
                for attempt, content in zip(tries, contents, strict=True)
                if attempt.result()
            ]
            assert least <= len(winners) <= 1
            if winners:
                assert stores[0].read(name) == winners[0]
            else:
                assert stores[0].take(name, b"again")
    assert stores[0].names("race/_claims") == []


def check_lost_answers_are_looked_up(bucket: Bucket) -> None:
    """A writer whose answers are lost learns the outcome of its put from the store.

    One lost answer is followed by a second attempt, which the store refuses. After the last attempt
    only the object tells its writer.
    """
    direct = open_store(f"s3a://{bucket.name}/lost", HadoopSettings(bucket.hadoop))
    with answer_relay(bucket.endpoint) as relay:
        store = _behind(relay, bucket, "lost")
        for lost in (1, ATTEMPTS):
            # The content of two writers may be equal, as that of this name's other writer.
            for name, is_other in ((f"ours-{lost}", False), (f"other-{lost}", True)):
                if is_other:
                    assert direct.take(f"a/{name}", b"")
                relay.withheld["PUT"] = lost
                assert store.take(f"a/{name}", b"") is not is_other
                assert relay.withheld["PUT"] == 0
        relay.withheld.update(PUT=ATTEMPTS, HEAD=ATTEMPTS)
        with pytest.raises(WriteUncertain, match=r"cannot be written \(NETWORK_CONNECTION: "):
            store.take("a/unknown", b"")
        assert not store.take("a/unknown", b"")


def check_late_manifests_do_no_harm(bucket: Bucket) -> None:
    """A manifest that appears after its writer has given up leaves the archive sound.

    The manifest of a capture does not replace that of a later capture. The manifest of a merge
    finds the files of the merge.
    """
    entries = recorded_entries("aborted-3.9")
    direct = open_store(f"s3a://{bucket.name}/late", HadoopSettings(bucket.hadoop))
    with answer_relay(bucket.endpoint) as relay:
        store = two_looks(_behind(relay, bucket, "late"), entries)
        relay.postponed = []
        with pytest.raises(WriteUncertain):
            capture_into(store, log_of(entries))
        capture_into(direct, log_of(entries))
        head = read_chain(direct, NAME).head
        assert set(relay.deliver()) == {412}
        assert (read_chain(direct, NAME).head, sound_records(direct)) == (head, len(entries))

        relay.postponed = []
        with pytest.raises(WriteUncertain):
            Merger(store, NAME, LARGER).run()
        assert relay.deliver()[0] == 200
        assert read_chain(direct, NAME).head != head
        remove_replaced(direct, NAME, 0)
        assert sound_records(direct) == len(entries)


def _behind(relay: AnswerRelay, bucket: Bucket, folder: str) -> ArchiveStore:
    settings = HadoopSettings(bucket._replace(endpoint=relay.endpoint).hadoop)
    return open_store(f"s3a://{bucket.name}/{folder}", settings)
