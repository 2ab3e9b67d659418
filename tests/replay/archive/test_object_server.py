"""Archives on S3 servers that run in processes of their own: S3Proxy and SeaweedFS."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from controlplane.core.order import rank_entries
from controlplane.core.releases.profiles import Profile
from replay.archive.merges.merge import Merger
from replay.archive.merges.unnamed_files import leftovers, remove_replaced
from replay.archive.stores.conditional_puts import ConditionalPuts
from replay.archive.stores.hadoop_settings import HadoopSettings
from replay.archive.stores.store import ArchiveStore, FolderStore, open_store
from replay.archive.verification import verified
from replay.errors import ReplayError
from tests.conftest import ROOT, seeded
from tests.recorded_requests import recorded_entries
from tests.replay.archive.archives import (
    NAME,
    capture_into,
    log_of,
    open_clusters,
    replayed,
    served,
)
from tests.replay.archive.buckets import LOGS, Bucket, archived
from tests.replay.archive.failing_store import ENTRIES, RECORDS, FailingStore
from tests.replay.archive.merges import LARGER, merge, merge_answers, sound_records, two_looks
from tests.replay.archive.object_server import SERVERS, ObjectServer, running
from tests.replay.archive.taken_names import (
    WRITERS,
    check_late_manifests_do_no_harm,
    check_lost_answers_are_looked_up,
    check_names_are_taken_once,
)
from tests.replay.archive.test_object_store import COMMANDS
from tests.replay.archive.withheld_answers import answer_relay
from tests.replay.cli.replay_calls import call
from tests.replay.retention.retention_archives import retain

pytestmark = pytest.mark.prove

LARGE_BYTES = 20_000_000
"""Size of a file that Arrow uploads in several parts, and that SeaweedFS stores in several."""


@pytest.fixture(scope="module", params=SERVERS)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ObjectServer]:
    with running(request.param, tmp_path_factory.mktemp("server")) as started:
        yield started


def _store(bucket: Bucket, folder: str) -> ArchiveStore:
    return open_store(f"s3a://{bucket.name}/{folder}", HadoopSettings(bucket.hadoop))


def test_commands_print_the_same_as_for_a_folder(server: ObjectServer, tmp_path: Path) -> None:
    """Commands print the same for an archive on the server as for its copy in a folder."""
    where = archived(server.bucket, "some/archive", tmp_path)
    for (name, *options), code in COMMANDS.items():
        result = call(name, where, *options, *server.bucket.conf())
        assert result.code == code, result
        assert result == call(name, tmp_path, *options)


def test_a_name_is_taken_once(server: ObjectServer) -> None:
    """Exactly one of several concurrent writers takes each name."""
    check_names_are_taken_once(HadoopSettings(server.bucket.hadoop), "s3a://fleet/names")


def test_the_outcome_of_a_put_without_an_answer_is_looked_up(server: ObjectServer) -> None:
    """A put whose answer is lost is neither repeated nor taken for another writer's."""
    check_lost_answers_are_looked_up(server.bucket)


def test_manifests_that_appear_late_leave_a_sound_archive(server: ObjectServer) -> None:
    """A manifest that the store writes after an outage replaces none, and lacks no file."""
    check_late_manifests_do_no_harm(server.bucket)


def test_a_conditional_put_is_refused_also_after_a_kill(server: ObjectServer) -> None:
    """The server has conditional puts, so that no claims are needed, and keeps a taken name."""
    puts = ConditionalPuts("s3", server.bucket.system, server.bucket.name)
    assert puts.obstacle("puts") is None
    assert puts.put("puts/name", b"first")
    assert not puts.put("puts/name", b"second")
    server.kill()
    server.start()
    assert not puts.put("puts/name", b"third")
    assert _store(server.bucket, "puts").read("name") == b"first"


def test_a_large_file_is_read_as_it_was_written(server: ObjectServer) -> None:
    """A file of several parts has its size and bytes, also at a place in the middle."""
    content = seeded("large").randbytes(LARGE_BYTES)
    store = _store(server.bucket, "large")
    assert store.add("a/file", content)
    assert store.size("a/file") == LARGE_BYTES
    assert store.read("a/file") == content
    with store.open("a/file") as file:
        file.seek(LARGE_BYTES // 2)
        assert file.read(1000) == content[LARGE_BYTES // 2 :][:1000]


def test_an_archive_lives_there_as_in_a_folder(server: ObjectServer, tmp_path: Path) -> None:
    """Looks, a merge and a retention give the answers and digests of an archive in a folder."""
    entries = recorded_entries("life-3.9")
    half = len(entries) // 2
    cut_ms = [*rank_entries(entries)][half].time_ms
    in_bucket, in_folder = _store(server.bucket, "living"), FolderStore(str(tmp_path))
    works: list[Callable[[ArchiveStore], object]] = [
        lambda store: capture_into(store, log_of(entries[:half])),
        lambda store: capture_into(store, log_of(entries)),
        merge,
        lambda store: retain(store, cut_ms),
    ]
    records = []
    for work in works:
        work(in_bucket)
        work(in_folder)
        (cluster,), (expected,) = open_clusters(in_bucket), open_clusters(in_folder)
        assert merge_answers(cluster) == merge_answers(expected)
        records.append(sound_records(in_bucket))
        assert records[-1] == sound_records(in_folder)
    assert records[0] < records[1] == records[2] == len(entries) > records[3]


# --- two writers ----------------------------------------------------------------------------------


def _ended_together(*commands: tuple[str, ...]) -> list[tuple[str, str, int]]:
    """Run commands at once; return output, errors and exit code of each."""
    pipe = subprocess.PIPE
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "replay", *command],
            cwd=ROOT,
            stdout=pipe,
            stderr=pipe,
            text=True,
        )
        for command in commands
    ]
    return [(*process.communicate(), process.returncode) for process in started]


def test_concurrent_captures_leave_a_sound_archive(server: ObjectServer) -> None:
    """One of several captures succeeds, others may be refused; the archive is sound."""
    url = "s3a://fleet/together"
    command = ("capture", LOGS[0], url, *server.bucket.conf())
    ended = _ended_together(*[command] * WRITERS)
    assert {0} <= {code for _, _, code in ended} <= {0, 2}, ended
    assert not any("If-None-Match" in stderr for _, stderr, _ in ended)
    assert call(*command).code == 0
    verification = verified(open_clusters(_store(server.bucket, "together"))[0])
    assert (verification.flaws, verification.gaps) == ((), ())
    assert verification.records == len(recorded_entries("life-3.9"))


def test_captures_and_merges_at_once_leave_a_sound_archive(server: ObjectServer) -> None:
    """Each one succeeds or is refused; a repetition completes both, and no record is lost."""
    entries = recorded_entries("life-3.9")
    url, conf = "s3a://fleet/merging", server.bucket.conf()
    store = _store(server.bucket, "merging")
    for end in (100, 200):
        capture_into(store, log_of(entries[:end]))
    captures = ("capture", LOGS[0].replace("life=", f"{NAME}="), url, *conf)
    merges = ("compact-archive", url, *conf)
    ended = _ended_together(*[captures, merges] * 2)
    assert {code for _, _, code in ended} <= {0, 2}, ended
    for command in (captures, merges):
        assert call(*command).code == 0
    (cluster,) = open_clusters(store)
    verification = verified(cluster)
    assert (verification.flaws, verification.gaps, verification.records) == ((), (), len(entries))


# --- a server that is killed ----------------------------------------------------------------------


def _killed_at(
    server: ObjectServer, folder: str, writes: int, work: Callable[[ArchiveStore], object]
) -> bool:
    """Kill the server while it has a write of work on a folder, and restart it.

    True if the work failed: the answer to its last write may just have been sent.
    """
    has_failed = False
    with answer_relay(server.bucket.endpoint) as relay:
        relay.most_writes, relay.at_last_write = writes, server.kill
        try:
            work(_store(server.bucket._replace(endpoint=relay.endpoint), folder))
        except ReplayError as error:
            assert "NETWORK_CONNECTION" in str(error)  # noqa: PT017 - the work may succeed
            has_failed = True
    server.start()
    return has_failed


@pytest.mark.parametrize("writes", [1, 5, 20])
def test_a_capture_continues_after_its_server_was_killed(server: ObjectServer, writes: int) -> None:
    """The capture fails; the next one, after the server's restart, completes the archive."""
    entries = recorded_entries("life-3.9")
    folder = f"killed-{writes}"
    assert _killed_at(server, folder, writes, lambda store: capture_into(store, log_of(entries)))
    store = _store(server.bucket, folder)
    capture_into(store, log_of(entries))
    (cluster,) = open_clusters(store)
    verification = verified(cluster)
    assert (verification.flaws, verification.gaps, verification.records) == ((), (), len(entries))
    kip = [Profile.of("kip")]
    assert replayed(cluster, None, kip) == served(log_of(entries), None, kip)


def merging(store: ArchiveStore) -> None:
    """Merge the archive; the replaced files remain."""
    Merger(store, NAME, LARGER).run()


def retention(store: ArchiveStore) -> None:
    """Remove the records that are superseded in the middle of the log, and the replaced files."""
    retain(store, [*rank_entries(ENTRIES)][RECORDS // 2].time_ms)


@pytest.mark.parametrize("work", [merging, retention])
def test_a_merge_is_completed_after_its_server_was_killed(
    server: ObjectServer, work: Callable[[ArchiveStore], None]
) -> None:
    """After the restart, the archive is as before or as merged; a repetition completes the work.

    The server is killed in the first write, in one in the middle, and in the last one.
    """
    name = work.__name__
    whole = two_looks(_store(server.bucket, f"{name}-whole"), ENTRIES)
    with answer_relay(server.bucket.endpoint) as relay:
        failing = FailingStore(server.bucket, relay)
        number = failing.writes(partial(work, failing.store(f"{name}-whole")))
    remove_replaced(whole, NAME, 0)
    (complete,) = map(merge_answers, open_clusters(whole))
    for writes in (1, number // 2, number):
        folder = f"{name}-{writes}"
        store = two_looks(_store(server.bucket, folder), ENTRIES)
        (before,) = map(merge_answers, open_clusters(store))
        assert _killed_at(server, folder, writes, work) or writes == number
        (cluster,) = open_clusters(store)
        assert verified(cluster).flaws == ()
        assert merge_answers(cluster) in (before, complete)
        work(store)
        for leftover in leftovers(store, NAME, age_s=-1):
            store.remove(leftover)
        remove_replaced(store, NAME, 0)
        assert sound_records(store) == sound_records(whole)
        (after,) = map(merge_answers, open_clusters(store))
        assert after == complete
