"""Workers to check: found by their URLs, identified, and asked for answers.

A worker that starts or rebalances is asked again. Its refusals say nothing about the state
that it has read.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple

import httpx

from controlplane.client.http.api import Api, is_ours
from controlplane.client.http.cluster_address import ClusterAddress
from controlplane.client.http.connection import ANSWER_S, over_network
from controlplane.client.http.request_errors import Declined
from controlplane.core.releases.profiles import KIP, Profile, UnknownRelease, check_support
from controlplane.core.text.safe_text import safe, short
from controlplane.logs.names import is_cluster
from controlplane.scenario.story import RecordedAnswer
from controlplane.terminal.command_errors import InputRefused
from controlplane.terminal.log_options import read_profile
from controlplane.worker_api import is_temporary

OPTION = "--against"

START_PAUSE_S = 0.5
"""Pause in seconds between two requests to a worker that starts."""

REFUSED_PATH = "/%2E%2E"
"""Path that the HTTP server of each worker of 4.x refuses (400)."""

_DEFAULT_PORTS = {"http": 80, "https": 443}

_STARTING = (httpx.codes.SERVICE_UNAVAILABLE, httpx.codes.CONFLICT)
"""Statuses of a worker that starts or rebalances."""

_TIMED_OUT = "Request timed out."
"""Start of the message of a worker whose herder is busy (`HerderRequestHandler`)."""


class Unanswered(NamedTuple):
    """Missing answer of a worker, with the reason."""

    reason: str
    is_gone: bool
    """True if the worker did not answer at all; False if it refused, but may answer later."""


class CheckedWorker(NamedTuple):
    """Worker behind a URL, with the release that it is compared as."""

    name: str
    """URL without credentials."""
    client: httpx.AsyncClient
    profile: Profile
    version: str
    exactly_once: bool
    cluster_id: str | None
    """Id of the worker's Kafka cluster. Our service may serve an embedded log: then this is the id
    of that log. None: unknown."""
    ours: bool

    async def ask(self, path: str) -> RecordedAnswer | Unanswered:
        """Answer to `GET path`; the body of an error page is None."""
        try:
            answer = await self.client.get(path)
        except httpx.HTTPError as failure:
            return Unanswered(safe(str(failure)) or type(failure).__name__, is_gone=True)
        if _is_passing(answer):
            return Unanswered(short(f"HTTP {answer.status_code}: {answer.text}"), is_gone=False)
        try:
            return RecordedAnswer(answer.status_code, answer.json())
        except ValueError:
            return RecordedAnswer(answer.status_code, None)
        except RecursionError:
            return Unanswered("its answer is nested too deeply to be read", is_gone=False)


def _is_passing(answer: httpx.Response) -> bool:
    """True for the refusal of a worker that starts, rebalances, or is too busy to answer."""
    blocked = answer.status_code == httpx.codes.INTERNAL_SERVER_ERROR and _TIMED_OUT in answer.text
    return blocked or answer.status_code in _STARTING or is_temporary(answer)


def worker_urls(given: Iterable[str]) -> list[str]:
    """URLs of `--against`: one or several per option, separated by commas.

    Raises:
        InputRefused: a text is no URL, or a worker is named twice.
    """
    urls = [url.strip() for text in given for url in text.split(",")]
    identities: set[tuple[object, ...]] = set()
    for url in urls:
        address = ClusterAddress(url)
        if not address.is_url:
            shown = f"{address.without_login!r} is" if url else "an empty name is"
            raise InputRefused(f"{shown} no URL of a worker: write {OPTION} http://host:8083")
        identity = _normalized(address)
        if identity in identities:
            raise InputRefused(
                f"{address.without_login} is named twice in {OPTION}: name a worker once"
            )
        identities.add(identity)
    return urls


def _normalized(address: ClusterAddress) -> tuple[object, ...]:
    """Parts of a URL that tell two workers apart.

    Raises:
        InputRefused: it is no URL.
    """
    try:
        url = httpx.URL(address.where)
    except (httpx.InvalidURL, ValueError) as failure:
        raise InputRefused(
            f"{address.without_login} is no URL ({address.url_error(failure)}): check {OPTION}"
        ) from None
    return url.scheme, url.host, url.port or _DEFAULT_PORTS.get(url.scheme), url.path.rstrip("/")


class WorkerAccess(NamedTuple):
    """Options about the workers: credentials, release, exactly-once support, patience."""

    urls: Sequence[str]
    credentials: ClusterAddress
    """Credentials for every worker; the address `where` is not used."""
    release: str | None
    exactly_once: frozenset[str]
    """Names of the workers with exactly-once support; `*` means all."""
    timeout_s: float


@asynccontextmanager
async def connected_workers(access: WorkerAccess) -> AsyncIterator[list[CheckedWorker]]:
    """Connect to every worker and identify it.

    Raises:
        InputRefused, UnknownRelease: a URL, the credentials, or a release cannot be used.
        Declined, Unavailable: a server is no Connect worker, or does not answer.
    """
    async with AsyncExitStack() as stack:
        workers = []
        for url in access.urls:
            address = access.credentials._replace(where=url)
            answer_s = min(access.timeout_s, ANSWER_S)
            client = await stack.enter_async_context(over_network(address, OPTION, answer_s))
            workers.append(await _identified(client, address.without_login, access))
        yield workers


async def _identified(client: httpx.AsyncClient, name: str, access: WorkerAccess) -> CheckedWorker:
    api = Api(client, name, named_by=OPTION)
    await _until_started(client, access.timeout_s)
    await api.identify()
    exactly_once = bool(access.exactly_once & {"*", name})
    profile = await _profile(api, access.release, exactly_once=exactly_once)
    version, cluster_id = api.server.version, api.server.cluster_id
    return CheckedWorker(
        name, client, profile, short(version), exactly_once, cluster_id, api.server.ours
    )


async def _until_started(client: httpx.AsyncClient, timeout_s: float) -> None:
    """Wait while a worker starts. Any other answer, or none, is left to `Api.identify`."""
    deadline = asyncio.get_running_loop().time() + timeout_s
    while asyncio.get_running_loop().time() < deadline:
        try:
            answer = await client.get("/")
        except httpx.HTTPError:
            return
        if not _is_starting(answer):
            return
        await asyncio.sleep(START_PAUSE_S)


def _is_starting(answer: httpx.Response) -> bool:
    """True for a worker that starts: Jetty answers 404 before Connect has registered its paths."""
    is_jetty = answer.headers.get("server", "").startswith("Jetty")
    no_paths_yet = answer.status_code == httpx.codes.NOT_FOUND and is_jetty
    return no_paths_yet or _is_passing(answer)


async def _profile(api: Api, release: str | None, *, exactly_once: bool) -> Profile:
    """Profile that a worker is compared as: of `--release`, else of its own version.

    Raises:
        InputRefused: the version is none of Kafka's.
        UnknownRelease: `--release` is unknown, or the release has no exactly-once support.
    """
    if release is not None:
        return read_profile(release, exactly_once=exactly_once)
    version, kip = api.server.version, Profile.of(KIP)
    if version == kip.kafka_release and await _is_kip(api):
        return kip
    try:
        profile = read_profile(version)
    except UnknownRelease:
        raise InputRefused(
            f"{api.name} is of the unknown release {short(version)}: set --release to the release "
            "of Kafka on which the worker is based"
        ) from None
    check_support(profile, exactly_once=exactly_once)
    return profile


async def _is_kip(api: Api) -> bool:
    """True for our service as `kip`, which reports the version of the newest release.

    A service of ours with `--release` of that version refuses `REFUSED_PATH`; as `kip` it does not.
    A proxy may refuse the path, too: then the answer has no header of ours.
    """
    if not api.server.ours or "/compat/" in api.name:
        return False
    try:
        answer = await api.client.get(REFUSED_PATH)
    except httpx.HTTPError:
        return True  # the comparison reports a worker that does not answer
    return answer.status_code != httpx.codes.BAD_REQUEST or not is_ours(answer.headers)


def check_cluster(workers: Iterable[CheckedWorker], log: str, cluster_id: str | None) -> None:
    """Raise `Declined` if a worker reports another cluster id than the log has.

    An embedded log has an id of its own, which only our service reports. The id from a Kafka
    worker is not compared with it. The log may be an import of that worker's topics. A dump has no
    id.
    """
    for worker in workers:
        if not is_cluster(log) and not worker.ours:
            continue
        if None not in (worker.cluster_id, cluster_id) and worker.cluster_id != cluster_id:
            raise Declined(
                f"{worker.name} belongs to the Kafka cluster {short(worker.cluster_id or '')}, and "
                f"{log} to {cluster_id}: give workers and brokers of one cluster"
            )
