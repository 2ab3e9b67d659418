"""Checks before a cluster is steered: its workers belong to one cluster, and to these topics.

A request to the wrong cluster cannot be taken back. So a contradiction between workers, brokers and
topics is a refusal. A worker that was silent at the start is checked before its first request.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import httpx
import msgspec

from controlplane.attached.connect_client import (
    ConnectClient,
    NoWorkerAnswers,
    OnSilence,
    WorkerInfo,
    is_error_page,
)
from controlplane.attached.settings import ConnectSettings
from controlplane.attached.worker_admission import WorkerAdmission
from controlplane.core.records import Properties
from controlplane.core.releases.profiles import RELEASES, Profile, resolve
from controlplane.core.text.safe_text import count, safe, short
from controlplane.logs.log import LogError, LogNotUsable, LogUnavailable
from controlplane.projection.follower import Follower
from controlplane.worker_api import NOT_SERVING, json_of, reason_of

CONNECTORS_NAMED = 3
"""Maximum number of connectors that a refusal names."""

_ACCESS = (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN)


class IdentifiedCluster(NamedTuple):
    """The workers that have identified themselves, and the release of the cluster."""

    workers: tuple[WorkerInfo, ...]
    profile: Profile
    """Release that the user names, or else the oldest release of a worker. Any worker may lead, and
    all workers can read the oldest one's records."""
    notes: tuple[str, ...] = ()
    """Sentences about workers that differ, that start, or that do not answer."""
    is_named: bool = False
    """True if the user names the release."""

    @property
    def origin(self) -> str:
        """Origin of the release, as the end of a sentence about it."""
        if self.is_named:
            return "named with --release"
        return "found out at its start (restart it after an upgrade of the workers)"

    @property
    def cluster_id(self) -> str | None:
        """Id of the Kafka cluster of the workers."""
        return self.workers[0].cluster_id


async def identify_cluster(
    client: ConnectClient, release: Profile | None = None, on_silence: OnSilence | None = None
) -> IdentifiedCluster:
    """Identify the workers; `release` overrides the one that they report.

    `on_silence` is called once if no worker answers at first.

    Raises:
        NoWorkerAnswers: no worker has answered.
        UnknownRelease: a worker reports an unknown release, and `release` does not override it.
        LogNotUsable: a URL is of no Connect worker, or the workers are of several clusters.
    """
    answers, silent = await client.ask_each(on_silence)
    notes = [f"{name} does not answer ({why})" for name, why in silent.items()]
    if not answers:
        raise NoWorkerAnswers(f"No worker answers: {'; '.join(notes)}: check --connect-url")
    # A starting worker is tolerated like a stopped one, if another worker identifies the cluster.
    ready = {name: answer for name, answer in answers.items() if not _may_start(answer)} or answers
    notes += [
        f"{name} is not ready ({short(reason_of(answer))})"
        for name, answer in answers.items()
        if name not in ready
    ]
    workers = tuple(_worker(name, answer) for name, answer in ready.items())
    ids = {worker.cluster_id for worker in workers}
    if len(ids) > 1:
        shown = ", ".join(f"{worker.url}: {worker.cluster_id}" for worker in workers)
        raise LogNotUsable(
            f"The workers are of different Kafka clusters ({shown}): name those of one cluster "
            "with --connect-url"
        )
    reported = {worker.version for worker in workers}
    if release is not None:  # the workers may be a fork, whose versions are no releases
        if len(reported) > 1:
            planned = f"commands are planned as {release.release}"
            notes.append(f"the workers run {', '.join(sorted(reported))}: {planned}")
        return IdentifiedCluster(workers, release, tuple(notes), is_named=True)
    versions = sorted(reported, key=_age)
    if len(versions) > 1:
        notes.append(
            f"the workers run {', '.join(versions)}: commands are planned as {versions[0]}; "
            "--release names another"
        )
    resolved = resolve(versions[0])
    if resolved.warning is not None:
        notes.append(resolved.warning)
    return IdentifiedCluster(workers, resolved.profile, tuple(notes))


def _may_start(answer: httpx.Response) -> bool:
    """True for an answer of a worker that may be starting, or of a proxy that reaches no worker.

    Such an answer is the 404 page of the worker's server, or has a status of `NOT_SERVING`.
    """
    return is_error_page(answer) or answer.status_code in NOT_SERVING


def _worker(name: str, answer: httpx.Response) -> WorkerInfo:
    """The worker that has given this answer to `GET /`."""
    root = json_of(answer)
    if answer.status_code in _ACCESS:
        raise LogNotUsable(
            f"{name} refuses access ({short(reason_of(answer))}): give --connect-user or "
            "--connect-token"
        )
    cluster_id = root.get("kafka_cluster_id") if isinstance(root, dict) else None
    if (
        not isinstance(root, dict)
        or "version" not in root
        or not isinstance(cluster_id, str | None)
    ):
        raise LogNotUsable(
            f"{name} answers, but is no Kafka Connect ({short(reason_of(answer))}): give URLs of "
            "workers with --connect-url"
        )
    return WorkerInfo(name, str(root["version"]), cluster_id)


def _age(version: str) -> int:
    return RELEASES.index(resolve(version).profile.kafka_release)


def check_brokers(cluster: IdentifiedCluster, cluster_id: str | None) -> None:
    """Check that workers and brokers are of one Kafka cluster.

    Raises:
        LogNotUsable: they are not.
    """
    if None not in (cluster.cluster_id, cluster_id) and cluster.cluster_id != cluster_id:
        raise LogNotUsable(
            f"{cluster.workers[0].url} is a worker of Kafka cluster {cluster.cluster_id}, and the "
            f"brokers are of {cluster_id}: name those of one cluster"
        )


def check_partitions(cluster: IdentifiedCluster, config_topic: str, partitions: int) -> None:
    """Check that workers of the cluster's release use a config topic with so many partitions.

    Raises:
        LogNotUsable: they refuse to start with several.
    """
    if partitions > 1 and cluster.profile.config_partition_required:
        raise LogNotUsable(
            f"topic {config_topic} has {partitions} partitions, and workers of "
            f"{cluster.profile.release} use a config topic with one only: check --config-topic"
        )


async def check_topics(
    client: ConnectClient, cluster: IdentifiedCluster, follower: Follower, limits: ConnectSettings
) -> frozenset[str]:
    """Check that the workers' connectors are those of the topics; return the compared workers.

    A worker or this service may lag behind, so a difference counts only if it stays.

    Raises:
        LogNotUsable: they are of another Connect cluster.
    """
    compared = set()
    deadline = asyncio.get_running_loop().time() + limits.patience_ms / 1_000
    for worker in cluster.workers:
        is_last_try = False
        while True:
            shown = await client.get_from(worker.url, _LISTING)
            state = await follower.state(cluster.profile)
            logged = state.config.connectors
            difference = None if shown is None else _difference(shown, logged)
            if shown is not None and difference is None:
                compared.add(worker.url)
                break
            is_over = asyncio.get_running_loop().time() > deadline
            if is_over and (difference is None or is_last_try):
                if difference is None:
                    break  # no answer: it is compared before its first request (`admission`)
                raise _of_other_cluster(worker.url, state.topics.config, difference)
            # Earlier workers may have used up the time. So each worker gets one more try after the
            # deadline: this worker or the follower may only lag behind.
            is_last_try = is_over
            await asyncio.sleep(limits.retry_ms / 1_000)
    return frozenset(compared)


def admission(
    client: ConnectClient,
    cluster: IdentifiedCluster,
    compared: Iterable[str],
    follower: Follower | None = None,
    on_identified: Callable[[WorkerInfo], None] | None = None,
) -> WorkerAdmission:
    """Return the admission of `compared` workers, and of each worker that later proves to belong.

    Without a follower, no further worker can prove that. `on_identified` is called with each worker
    that has proved to belong.
    """

    async def check(name: str, is_compared: bool) -> LogError | None:
        try:
            worker = await identify_worker(client, cluster, name)
            if not is_compared:
                await _compare(client, cluster, follower, worker)
            if on_identified is not None:
                on_identified(worker)
        except LogError as failure:
            return failure
        return None

    return WorkerAdmission(compared, check)


async def identify_worker(
    client: ConnectClient, cluster: IdentifiedCluster, name: str
) -> WorkerInfo:
    """Identify the worker with a URL.

    Raises:
        LogUnavailable: it cannot be reached, or is not ready.
        LogNotUsable: it is no worker of the Kafka cluster.
    """
    answer = await client.root(name)
    if isinstance(answer, str):
        raise LogUnavailable(f"{name} cannot be reached: {answer}")
    if _may_start(answer):
        raise LogUnavailable(f"{name} is not ready ({short(reason_of(answer))})")
    worker = _worker(name, answer)
    if worker.cluster_id != cluster.cluster_id:
        raise LogNotUsable(
            f"{name} is a worker of Kafka cluster {worker.cluster_id} instead of "
            f"{cluster.cluster_id}; check --connect-url"
        )
    return worker


async def _compare(
    client: ConnectClient,
    cluster: IdentifiedCluster,
    follower: Follower | None,
    worker: WorkerInfo,
) -> None:
    """Compare the connectors of a worker with those of the topics.

    Either side may lag behind; then a later check succeeds.
    """
    if follower is None:
        raise LogUnavailable(f"{worker.url} has not been compared with the topics yet")
    try:
        async with asyncio.timeout(client.check_s):
            shown = await client.get_from(worker.url, _LISTING)
    except TimeoutError:
        shown = None
    if shown is None:
        raise LogUnavailable(f"{worker.url} does not list its connectors")
    state = await follower.state(cluster.profile)
    difference = _difference(shown, state.config.connectors)
    if difference is not None:
        raise _of_other_cluster(worker.url, state.topics.config, difference)


_LISTING = "/connectors?expand=info"


def _of_other_cluster(url: str, config_topic: str, difference: str) -> LogNotUsable:
    return LogNotUsable(
        f"{url} is a worker of another Connect cluster than topic {config_topic}: {difference}; "
        "check --connect-url and --config-topic"
    )


def _difference(shown: Any, logged: Mapping[str, Properties]) -> str | None:
    """Sentence about how the connectors of worker and topic differ; None: they are equal."""
    configs = _configs(shown)
    if configs is None:
        return "the worker's answer to GET /connectors has an unknown form"
    if surplus := sorted(configs.keys() - logged.keys()):
        return f"the worker has {_named(surplus)}, which the topic lacks"
    if lacking := sorted(logged.keys() - configs.keys()):
        return f"the topic has {_named(lacking)}, which the worker lacks"
    changed = sorted(
        name
        for name, config in configs.items()
        if config is not None and dict(logged[name]) != config
    )
    if changed:
        return f"the configs of {_named(changed)} differ"
    return None


class _ShownInfo(msgspec.Struct, frozen=True):
    config: dict[str, Any] | None = None


class _ShownConnector(msgspec.Struct, frozen=True):
    info: _ShownInfo | None = None


def _configs(shown: Any) -> dict[str, Any] | None:
    """Configs by connector; None if `shown` is no list of connectors.

    A config is None if `shown` has only the connector's name. Before 2.3, a worker lists names
    alone.
    """
    try:
        listed = msgspec.convert(shown, dict[str, _ShownConnector] | list[str])
    except msgspec.ValidationError:
        return None
    if isinstance(listed, list):
        return dict.fromkeys(listed)
    return {name: part.info and part.info.config for name, part in listed.items()}


def _named(connectors: Iterable[str]) -> str:
    names = list(connectors)
    listed = ", ".join(safe(name) for name in names[:CONNECTORS_NAMED])
    ellipsis = ", …" if len(names) > CONNECTORS_NAMED else ""
    return f"{count(len(names), 'connector')} ({listed}{ellipsis})"
