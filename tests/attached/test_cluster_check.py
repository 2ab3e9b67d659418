"""Check of the workers before any request: they may differ, refuse, or be of another cluster."""

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from typing import Any

import httpx
import pytest

from controlplane.attached.cluster_check import (
    IdentifiedCluster,
    check_brokers,
    check_partitions,
    check_topics,
    identify_cluster,
)
from controlplane.attached.connect_client import ConnectClient, NoWorkerAnswers, WorkerInfo
from controlplane.attached.settings import ConnectSettings
from controlplane.core.releases.profiles import Profile, UnknownRelease
from controlplane.logs.log import LogNotUsable
from controlplane.logs.memory import MemoryLog
from controlplane.projection.follower import Follower

BRIEF = ConnectSettings(patience_ms=20, retry_ms=1)


def root(version: str, cluster_id: str = "here") -> httpx.Response:
    """Answer of a worker to `GET /`."""
    return httpx.Response(
        200, json={"version": version, "commit": "x", "kafka_cluster_id": cluster_id}
    )


def client(answers: Mapping[str, httpx.Response | None]) -> ConnectClient:
    """Client of workers with these answers; None: the worker does not listen."""

    def transport(answer: httpx.Response | None) -> httpx.MockTransport:
        def reply(_: httpx.Request) -> httpx.Response:
            if answer is None:
                raise httpx.ConnectError("refused")
            return answer

        return httpx.MockTransport(reply)

    workers = {
        url: httpx.AsyncClient(base_url=url, transport=transport(answer))
        for url, answer in answers.items()
    }
    return ConnectClient(workers, BRIEF)


async def test_the_oldest_release_applies_during_a_rolling_upgrade() -> None:
    """The oldest release applies; the notice names a stopped worker and the mixed releases."""
    cluster = await identify_cluster(
        client({"http://w1": root("4.3.0"), "http://w2": root("3.9.1"), "http://w3": None})
    )
    assert cluster.profile is Profile.of("3.9.1")
    assert cluster.notes == (
        "http://w3 does not answer (refused)",
        "the workers run 3.9.1, 4.3.0: commands are planned as 3.9.1; --release names another",
    )


PAGE = httpx.Response(404, html="<html>Error 404 Not Found</html>")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [(PAGE, "HTTP 404 Not Found"), (httpx.Response(503, text="no backend"), "no backend")],
    ids=["page", "proxy"],
)
async def test_a_starting_worker_is_tolerated(answer: httpx.Response, reason: str) -> None:
    """Another worker identifies the cluster; the notice names the one that starts."""
    cluster = await identify_cluster(client({"http://w1": answer, "http://w2": root("3.9.1")}))
    assert [worker.url for worker in cluster.workers] == ["http://w2"]
    assert cluster.notes == (f"http://w1 is not ready ({reason})",)
    with pytest.raises(LogNotUsable, match="http://w1 answers, but is no Kafka Connect"):
        await identify_cluster(client({"http://w1": answer, "http://w2": None}))


async def test_a_named_release_wins() -> None:
    """`--release` wins over the release of the workers."""
    cluster = await identify_cluster(client({"http://w1": root("4.3.0")}), Profile.of("3.4.1"))
    assert cluster.profile is Profile.of("3.4.1")


async def test_a_named_release_stands_for_a_fork() -> None:
    """A fork's version is no release; with `--release`, the notice names the planned release."""
    workers = {"http://w1": root("7.5.0-ccs"), "http://w2": root("3.9.1")}
    with pytest.raises(UnknownRelease):
        await identify_cluster(client(workers))
    cluster = await identify_cluster(client(workers), Profile.of("3.5"))
    assert cluster.profile is Profile.of("3.5")
    (note,) = cluster.notes
    assert note == "the workers run 3.9.1, 7.5.0-ccs: commands are planned as 3.5.2"


@pytest.mark.parametrize(
    ("answers", "sentence"),
    [
        (
            {"http://w1": root("3.9.1"), "http://w2": root("3.9.1", "there")},
            "different Kafka clusters (http://w1: here, http://w2: there)",
        ),
        ({"http://w1": httpx.Response(200, text="hello")}, "http://w1 answers, but is no Kafka"),
        (
            {"http://w1": httpx.Response(200, json={"version": "3.9.1", "kafka_cluster_id": []})},
            "http://w1 answers, but is no Kafka",
        ),
        (
            {"http://w1": httpx.Response(401, text="User cannot access the resource.")},
            "http://w1 refuses access (User cannot access the resource.): give --connect-user or",
        ),
    ],
    ids=["two clusters", "no Connect", "no id", "no access"],
)
async def test_unsuitable_workers_are_refused(
    answers: Mapping[str, httpx.Response], sentence: str
) -> None:
    """A doubtful cluster is refused with one sentence."""
    with pytest.raises(LogNotUsable) as refused:
        await identify_cluster(client(answers))
    assert sentence in str(refused.value)


@pytest.mark.parametrize("shown", [{"a": 1}, [["a"]], "a", {"a": {"info": 3}}], ids=str)
async def test_connectors_of_another_form_are_refused(shown: object) -> None:
    """A worker whose list of connectors cannot be read gets no commands."""
    log = MemoryLog()
    for topic in ("connect-configs", "connect-offsets", "connect-status"):
        await log.create_topic(topic, 1)
    worker = client({"http://w1": httpx.Response(200, json=shown)})
    info = WorkerInfo("http://w1", "3.9.1", None)
    cluster = IdentifiedCluster((info,), Profile.of("3.9.1"))
    async with Follower(log) as follower:
        with pytest.raises(LogNotUsable, match="answer to GET /connectors has an unknown form"):
            await check_topics(worker, cluster, follower, BRIEF)


async def test_a_difference_is_checked_again_although_another_worker_took_the_time() -> None:
    """A worker may lag behind; one that does not answer has used up the patience."""
    log = MemoryLog()
    for topic in ("connect-configs", "connect-offsets", "connect-status"):
        await log.create_topic(topic, 1)
    lists: Iterator[dict[str, Any]] = iter(({"a": {"info": {"config": {}}}}, {}))

    def transport(request: httpx.Request) -> httpx.Response:
        if request.url.host == "w1":
            raise httpx.ConnectError("refused")
        return httpx.Response(200, json=next(lists))

    urls = ("http://w1", "http://w2")
    workers = {
        url: httpx.AsyncClient(base_url=url, transport=httpx.MockTransport(transport))
        for url in urls
    }
    infos = tuple(WorkerInfo(url, "3.9.1", None) for url in urls)
    cluster = IdentifiedCluster(infos, Profile.of("3.9.1"))
    async with Follower(log) as follower:
        await check_topics(ConnectClient(workers, BRIEF), cluster, follower, BRIEF)
    assert next(lists, None) is None


async def test_without_an_answering_worker_the_service_does_not_start() -> None:
    """The check announces once that it waits, and then raises `NoWorkerAnswers`."""
    announced: list[Mapping[str, str]] = []
    with pytest.raises(NoWorkerAnswers, match="No worker answers: http://w1 does not answer"):
        await identify_cluster(client({"http://w1": None}), on_silence=announced.append)
    assert [list(silent) for silent in announced] == [["http://w1"]]


async def test_brokers_of_another_cluster_are_refused() -> None:
    """Brokers of another Kafka cluster than the workers' are refused."""
    cluster = await identify_cluster(client({"http://w1": root("3.9.1")}))
    check_brokers(cluster, "here")
    check_brokers(cluster, None)
    with pytest.raises(LogNotUsable, match="and the brokers are of there: name those of one"):
        check_brokers(cluster, "there")


@pytest.mark.parametrize(
    ("release", "partitions", "refused"),
    [("2.5.0", 2, False), ("2.5.1", 1, False), ("2.5.1", 2, True), ("4.3.0", 3, True)],
)
def test_a_split_config_topic_is_of_no_later_worker(
    release: str, partitions: int, refused: bool
) -> None:
    """Workers from 2.5.1 on refuse to start with such a topic, so the cluster has another one."""
    cluster = IdentifiedCluster((WorkerInfo("http://w", release, None),), Profile.of(release))
    sentence = f"topic split has {partitions} partitions, and workers of {release} use a config"
    with pytest.raises(LogNotUsable, match=sentence) if refused else nullcontext():
        check_partitions(cluster, "split", partitions)
