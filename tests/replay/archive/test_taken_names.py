"""Contested names in an object store: conditional puts, and claims where a store has none."""

import logging
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from botocore import UNSIGNED
from botocore.exceptions import EndpointConnectionError, NoCredentialsError
from moto.s3.responses import S3Response
from pyarrow import fs
from werkzeug.datastructures import Headers

from replay.archive import layout
from replay.archive.stores.conditional_puts import (
    ANSWER_S,
    CONFLICTS,
    CONNECT_S,
    ConditionalPuts,
    client,
)
from replay.archive.stores.hadoop_settings import HadoopSettings, for_arrow
from replay.archive.stores.object_store import CLAIM_S, HESITATION_S, BucketStore
from replay.archive.stores.store import open_store
from replay.archive.stores.store_errors import why_not_of_client
from replay.errors import NotWritable, WriteUncertain
from tests.conftest import ROOT
from tests.recorded_requests import recorded_entries
from tests.replay.archive.archives import NAME, capture_into, log_of, open_clusters
from tests.replay.archive.buckets import LOGS, Bucket, bucket
from tests.replay.archive.taken_names import (
    check_late_manifests_do_no_harm,
    check_lost_answers_are_looked_up,
    check_names_are_taken_once,
)
from tests.replay.cli.replay_calls import call

pytestmark = pytest.mark.slow

IF_NONE_MATCH = "If-None-Match"


@pytest.fixture(scope="module")
def store() -> Iterator[Bucket]:
    """An object store with one bucket, `names`."""
    with bucket("names") as made:
        yield made


@pytest.fixture
def objects(store: Bucket, tmp_path: Path) -> BucketStore:
    """A folder in an object store."""
    return BucketStore("s3", store.system, f"names/{tmp_path.name}")


# --- conditional puts -----------------------------------------------------------------------------


def test_a_name_is_taken_once(store: Bucket) -> None:
    """Exactly one of several concurrent writers takes each name."""
    check_names_are_taken_once(HadoopSettings(store.hadoop), "s3a://names/names")


def test_a_taken_name_is_refused_without_leftovers(objects: BucketStore) -> None:
    """The second writer of a name is refused, and nothing else remains."""
    assert [objects.take("a/b", content) for content in (b"first", b"second")] == [True, False]
    assert (objects.read("a/b"), [*objects.walk("")]) == (b"first", ["a/b"])


def test_the_outcome_of_a_put_without_an_answer_is_looked_up(store: Bucket) -> None:
    """A put whose answer is lost is neither repeated nor taken for another writer's."""
    check_lost_answers_are_looked_up(store)


@pytest.mark.prove
def test_manifests_that_appear_late_leave_a_sound_archive(store: Bucket) -> None:
    """A manifest that the store writes after an outage replaces none, and lacks no file."""
    check_late_manifests_do_no_harm(store)


def test_a_pickled_store_takes_names(objects: BucketStore) -> None:
    """A pickled store, as Spark sends it to tasks, has conditional puts after a use, too."""
    assert objects.take("a/b", b"")
    handed: BucketStore = pickle.loads(pickle.dumps(objects))
    assert (handed.take("a/b", b""), handed.take("a/c", b"")) == (False, True)


def test_a_refused_key_is_no_lack_of_conditional_puts(store: Bucket) -> None:
    """A store that refuses a key is named with its complaint; the writer claims nothing."""
    hadoop = store._replace(secret="nonsense").hadoop
    refused = open_store("s3a://names/refused", HadoopSettings(hadoop))
    with pytest.raises(NotWritable, match=r"\(SIGNATURE_DOES_NOT_MATCH: .*check fs.s3a.acc"):
        refused.take("a/b", b"")
    assert store.system.get_file_info(["names/refused"])[0].type == fs.FileType.NotFound


def test_a_put_is_repeated_after_a_conflict(
    objects: BucketStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A conflict without another object, as S3 answers to simultaneous requests, is no refusal."""
    assert objects.take("a/b", b"")
    answers = _answers_first(monkeypatch, [(409, "ConditionalRequestConflict")])
    assert objects.take("a/c", b"content")
    assert (objects.read("a/c"), answers) == (b"content", [])


@pytest.mark.parametrize(
    "answers",
    [
        [(503, "SlowDown"), (403, "AccessDenied")],
        [(503, "SlowDown"), (409, "ConditionalRequestConflict")],
        [(503, "SlowDown"), (412, "PreconditionFailed")],
        [(409, "ConditionalRequestConflict")] * CONFLICTS,
    ],
)
def test_a_refused_repetition_leaves_the_outcome_open(
    answers: list[tuple[int, str]], objects: BucketStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first of several attempts may still take effect, although the last one is refused."""
    assert objects.take("a/b", b"")
    answers = _answers_first(monkeypatch, answers)
    with pytest.raises(WriteUncertain):
        objects.take("a/c", b"")
    assert answers == []


def test_a_put_that_is_refused_at_once_has_no_effect(
    objects: BucketStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refusal of the only attempt is certain."""
    assert objects.take("a/b", b"")
    _answers_first(monkeypatch, [(403, "AccessDenied")])
    with pytest.raises(NotWritable) as refusal:
        objects.take("a/c", b"")
    assert not isinstance(refusal.value, WriteUncertain)


def _answers_first(
    monkeypatch: pytest.MonkeyPatch, answers: list[tuple[int, str]]
) -> list[tuple[int, str]]:
    """Make the server refuse the next puts; return the refusals that remain."""
    put, remaining = S3Response.put_object, [*answers]

    def answer(response: S3Response) -> Any:
        if not remaining:
            return put(response)
        status, code = remaining.pop(0)
        return status, {}, f"<Error><Code>{code}</Code><Message>no</Message></Error>"

    monkeypatch.setattr(S3Response, "put_object", answer)
    return remaining


def test_an_expired_token_is_no_lack_of_conditional_puts(
    objects: BucketStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A refusal with status 400 for another reason is reported; later names need no claim."""
    _answers_first(monkeypatch, [(400, "ExpiredToken")])
    with pytest.raises(NotWritable, match=r"\(EXPIRED_TOKEN: no\)"):
        objects.take("a/b", b"")
    assert (objects.take("a/b", b""), caplog.records) == (True, [])


KEYS = {"access.key": "a", "secret.key": "s", "session.token": "t", "endpoint.region": "eu-west-1"}
NOBODY = "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"
AT_AWS = "https://s3.eu-west-1.amazonaws.com"


@pytest.mark.parametrize(
    ("hadoop", "endpoint", "style"),
    [
        ({"endpoint": "store:9000"}, "https://store:9000", "path"),
        ({"endpoint": "http://store:9000"}, "http://store:9000", "path"),
        (
            {"endpoint": "store", "path.style.access": "false"},
            "https://store",
            "virtual",
        ),
        ({}, AT_AWS, "auto"),
        ({"endpoint": "s3.amazonaws.com"}, AT_AWS, "auto"),
    ],
)
def test_conditional_puts_use_the_settings_of_arrow(
    hadoop: dict[str, str], endpoint: str, style: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Endpoint, region, keys and addressing are those of Hadoop's settings."""
    monkeypatch.setenv("HTTPS_PROXY", "http://nowhere:1")  # Arrow uses no proxy
    made = client(_system(KEYS | hadoop))
    config = made.meta.config
    assert (made.meta.endpoint_url, made.meta.region_name) == (endpoint, "eu-west-1")
    assert (config.s3["addressing_style"], config.proxies) == (style, {})
    assert made._request_signer._credentials.get_frozen_credentials() == ("a", "s", "t", None)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, (CONNECT_S, ANSWER_S)),
        ({"connect_timeout": 2, "request_timeout": 7}, (2, 7)),
    ],
)
def test_waits_for_the_store_are_limited(
    limits: dict[str, float], expected: tuple[float, float]
) -> None:
    """Arrow's options, which a URL may name, replace the limits."""
    config = client(fs.S3FileSystem(region="us-east-1", anonymous=True, **limits)).meta.config
    assert (config.connect_timeout, config.read_timeout) == expected


def test_conditional_puts_may_be_anonymous() -> None:
    """Without keys, requests are not signed."""
    made = client(_system({"endpoint": "h", "aws.credentials.provider": NOBODY}))
    assert made.meta.config.signature_version is UNSIGNED


def _system(hadoop: dict[str, str]) -> fs.S3FileSystem:
    settings = HadoopSettings({f"fs.s3a.{name}": value for name, value in hadoop.items()})
    return fs.S3FileSystem(**{"region": "us-east-1"} | for_arrow(settings, "fleet"))


# --- stores without conditional puts --------------------------------------------------------------

PutMethod = Callable[[S3Response], Any]


def _refused(put: PutMethod) -> PutMethod:
    """Answer conditional puts as servers that do not know them."""

    def answer(response: S3Response) -> Any:
        if IF_NONE_MATCH in response.headers:
            return 501, {}, "<Error><Code>NotImplemented</Code><Message>no</Message></Error>"
        return put(response)

    return answer


def _ignored(put: PutMethod) -> PutMethod:
    """Answer conditional puts as servers that ignore unknown headers."""

    def answer(response: S3Response) -> Any:
        response.headers = Headers(
            [(name, value) for name, value in response.headers.items() if name != IF_NONE_MATCH]
        )
        return put(response)

    return answer


@pytest.fixture(params=[_refused, _ignored])
def claimed(
    request: pytest.FixtureRequest, objects: BucketStore, monkeypatch: pytest.MonkeyPatch
) -> BucketStore:
    """A folder in an object store without conditional puts."""
    monkeypatch.setattr(S3Response, "put_object", request.param(S3Response.put_object))
    return objects


def test_a_store_without_conditional_puts_is_told_once(
    claimed: BucketStore, caplog: pytest.LogCaptureFixture
) -> None:
    """The writer claims its names, and a warning says so once. No trial object remains."""
    assert [claimed.take(name, b"") for name in ("a/b", "a/b", "a/c")] == [True, False, True]
    assert [*claimed.walk("")] == ["a/b", "a/c"]
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "(If-None-Match). Run one capture per cluster" in record.getMessage()


def test_a_missing_package_is_told(
    objects: BucketStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without botocore, which Spark's machines may lack, the writer claims its names."""
    monkeypatch.setitem(sys.modules, "botocore", None)
    monkeypatch.setitem(sys.modules, "botocore.exceptions", None)
    assert [objects.take("a/b", b"") for _ in range(2)] == [True, False]
    (record,) = caplog.records
    assert ": the package botocore" in record.getMessage()


def test_a_host_name_that_botocore_refuses_is_an_obstacle() -> None:
    """Arrow accepts host names with an underscore, as Docker Compose has them."""
    puts = ConditionalPuts("s3", _system(KEYS | {"endpoint": "http://object_store:9000"}), "fleet")
    assert "http://object_store:9000" in (puts.obstacle("a") or "")


def test_an_old_botocore_is_an_obstacle(store: Bucket) -> None:
    """A version that does not know the condition, which Spark's machines may have, is named."""
    puts = ConditionalPuts("s3", store.system, "names")
    put = puts._client.meta.service_model.operation_model("PutObject")
    del put.input_shape.members["IfNoneMatch"]
    assert "this version of botocore" in (puts.obstacle("old") or "")


def test_complaints_of_botocore_have_a_fitting_remedy() -> None:
    """Missing keys are no outage."""
    assert why_not_of_client(NoCredentialsError()) == (
        "(NO_CREDENTIALS: Unable to locate credentials): check fs.s3a.access.key and "
        "fs.s3a.secret.key, or the AWS variables or role used instead"
    )
    away = EndpointConnectionError(endpoint_url="http://h")
    assert "): check fs.s3a.endpoint" in why_not_of_client(away)


def test_a_capture_tells_of_claims(claimed: BucketStore, store: Bucket) -> None:
    """The command prints the warning once, for two clusters; the archive is sound."""
    where = f"s3a://names/{claimed._root.partition('/')[2]}"
    words = [sys.executable, "-m", "replay", "capture", *LOGS, where, *store.conf()]
    capture = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    (line,) = capture.stderr.splitlines()
    assert line.startswith(f"{where}: the store ")
    assert call("verify", where, *store.conf()).code == 0


def test_claims_are_taken_once(
    claimed: BucketStore, store: Bucket, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """At most one of several concurrent writers takes each name by a claim."""
    where = f"s3a://names/names-{tmp_path.name}"
    check_names_are_taken_once(HadoopSettings(store.hadoop), where, least=0)


def test_a_claimed_name_cannot_be_taken(claimed: BucketStore) -> None:
    """A writer cannot take a claimed name, but can take other names."""
    claimed.add("a/_claims/b-other", b"")
    assert not claimed.take("a/b", b"")
    assert claimed.size("a/b") is None
    assert claimed.take("a/c", b"")


def test_a_first_append_that_died_leaves_no_cluster(objects: BucketStore) -> None:
    """A claim that a crashed first append left makes no cluster; other clusters can be opened."""
    capture_into(objects, log_of(recorded_entries("aborted-3.9")))
    objects.add(f"{layout.manifests('dead')}/_claims/0000000001.json-other", b"")
    assert [cluster.name for cluster in open_clusters(objects)] == [NAME]


def test_a_claim_of_a_dead_owner_lapses(tmp_path: Path) -> None:
    """A claim lapses with its age. The store is a folder here: no test can set an object's age."""
    objects = BucketStore("a folder", fs.LocalFileSystem(), str(tmp_path))
    claim = tmp_path / "a" / "_claims" / "b-other"
    claim.parent.mkdir(parents=True)
    claim.touch()
    for age_s, got in ((CLAIM_S - 30, False), (CLAIM_S + 30, True)):
        then = claim.stat().st_ctime - age_s
        os.utime(claim, (then, then))
        assert objects.take("a/b", b"") is got


def test_a_claim_stays_after_a_write_without_an_outcome(tmp_path: Path) -> None:
    """The file may still appear after a failed write, so the claim blocks other writers."""
    objects = BucketStore("a folder", fs.LocalFileSystem(), str(tmp_path))
    (tmp_path / "a" / "_claims").mkdir(parents=True)
    (tmp_path / "a" / "b").mkdir()  # no file can be written in its place
    with pytest.raises(WriteUncertain):
        objects.take("a/b", b"")
    (tmp_path / "a" / "b").rmdir()
    assert not objects.take("a/b", b"")
    assert len(objects.names("a/_claims")) == 1


@pytest.mark.parametrize("clock", ["monotonic", "time"])
def test_a_writer_that_hesitates_withdraws(
    clock: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that hung or was suspended after its claim writes nothing: claims lapse."""
    ticks = count(0, HESITATION_S + 1)
    (tmp_path / "a" / "_claims").mkdir(parents=True)
    monkeypatch.setattr(f"replay.archive.stores.object_store.{clock}", lambda: next(ticks))
    objects = BucketStore("a folder", fs.LocalFileSystem(), str(tmp_path))
    assert not objects.take("a/b", b"content")
    assert [*objects.walk("a")] == []
