"""Archives on an S3 server that runs in a process of its own (S3Proxy)."""

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import sleep

import pytest

from controlplane.core.releases.profiles import Profile
from replay.archive.stores.hadoop_settings import HadoopSettings
from replay.archive.stores.store import open_store
from replay.archive.verification import verified
from replay.errors import ReplayError
from tests.conftest import ROOT
from tests.recorded_requests import recorded_entries
from tests.replay.archive.archives import capture_into, log_of, open_clusters, replayed, served
from tests.replay.archive.buckets import LOGS, archived
from tests.replay.archive.object_server import ObjectServer, object_server
from tests.replay.archive.taken_names import (
    WRITERS,
    check_late_manifests_do_no_harm,
    check_lost_answers_are_looked_up,
    check_names_are_taken_once,
)
from tests.replay.archive.test_object_store import COMMANDS
from tests.replay.cli.replay_calls import call

pytestmark = [pytest.mark.java, pytest.mark.prove]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectServer]:
    with object_server(tmp_path_factory.mktemp("server")) as started:
        yield started


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


def test_concurrent_captures_leave_a_sound_archive(server: ObjectServer) -> None:
    """One of several captures succeeds, others may be refused; the archive is sound."""
    url = "s3a://fleet/together"
    words = [sys.executable, "-m", "replay", "capture", LOGS[0], url, *server.bucket.conf()]
    started = [
        subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(WRITERS)
    ]
    ended = [(*process.communicate(), process.returncode) for process in started]
    assert {0} <= {code for _, _, code in ended} <= {0, 2}, ended
    assert not any("If-None-Match" in stderr for _, stderr, _ in ended)
    assert call("capture", LOGS[0], url, *server.bucket.conf()).code == 0
    verification = verified(open_clusters(open_store(url, HadoopSettings(server.bucket.hadoop)))[0])
    assert (verification.flaws, verification.gaps) == ((), ())
    assert verification.records == len(recorded_entries("life-3.9"))


@pytest.mark.parametrize("segments", [1, 5, 20])
def test_a_capture_continues_after_its_server_was_killed(
    server: ObjectServer, segments: int
) -> None:
    """The capture fails; the next one, after the server's restart, completes the archive."""
    entries = recorded_entries("life-3.9")
    folder = f"killed-{segments}"
    settings = HadoopSettings(server.bucket.hadoop)
    with ThreadPoolExecutor(1) as pool:
        capture = pool.submit(
            capture_into, open_store(f"s3a://fleet/{folder}", settings), log_of(entries)
        )
        written = server.files / "fleet" / folder
        while len([*written.rglob("segment-*")]) < segments:
            assert not capture.done()
            sleep(0.001)
        server.kill()
        with pytest.raises(ReplayError, match="NETWORK_CONNECTION"):
            capture.result()
    server.start()
    store = open_store(f"s3a://fleet/{folder}", settings)
    capture_into(store, log_of(entries))
    (cluster,) = open_clusters(store)
    verification = verified(cluster)
    assert (verification.flaws, verification.gaps, verification.records) == ((), (), len(entries))
    kip = [Profile.of("kip")]
    assert replayed(cluster, None, kip) == served(log_of(entries), None, kip)
