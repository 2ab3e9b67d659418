"""HTTP client of one Connect cluster behind several worker URLs.

A request goes to any worker that takes it. A request that surely was not executed is sent again,
to the next worker, for a bounded time. A change without an answer is never sent again.
"""

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import httpx

from controlplane.attached.settings import ConnectSettings
from controlplane.attached.worker_admission import WorkerAdmission
from controlplane.attached.worker_connections import WorkerConnections
from controlplane.core.text.safe_text import safe
from controlplane.logs.log import LogNotUsable, LogUnavailable
from controlplane.rest.errors import WorkerAnswer
from controlplane.worker_api import is_temporary, json_of, reason_of

REDIRECTS = 5
"""Maximum number of redirects that one request follows."""

OnSilence = Callable[[Mapping[str, str]], None]
"""Gets the reasons why no worker answers, by URL, when the client begins to wait."""

_SHUTTING_DOWN = "Worker is shutting down"
"""Message for requests that wait in a worker's queue when it stops; they are never executed."""

_LOST_FORWARD = "IO Error trying to forward REST request"
"""Words of a worker that got no answer from its leader. The leader may have executed the request,
and then died."""

_REFUSED_FORWARD = (_LOST_FORWARD, "Connection refused")
"""Words of a worker whose leader does not listen: the request has not reached the leader."""

_WORKER_TIMEOUT = "Request timed out"
"""Words of a worker that no longer waits for a request; the request stays in its queue."""

_LOST = (httpx.codes.BAD_GATEWAY, httpx.codes.GATEWAY_TIMEOUT)
"""Statuses of a proxy that has lost the worker: the worker may have executed the request."""


class ConnectRequest(NamedTuple):
    """Request that any worker of the cluster may get."""

    method: str
    path: str
    """Path; it may include a query if `query` is empty."""
    query: Mapping[str, str] = {}
    body: bytes | None = None
    content_type: str | None = "application/json"
    accept: str | None = None

    @property
    def changes(self) -> bool:
        """True if the request may change the cluster."""
        path = self.path.partition("?")[0].rstrip("/")
        return self.method not in ("GET", "HEAD") and not path.endswith("/config/validate")


NOTHING_DONE = ": nothing has been done; try again once a worker runs"
"""End of the message about a request that no worker has taken."""

_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
"""Errors of a request that has not reached the worker."""

_FAILURES = (httpx.HTTPError, UnicodeError)
"""Errors of a request. A redirect to an invalid host name is a `UnicodeError`."""


class NoWorkerAnswers(LogUnavailable):
    """No worker has taken the request; nothing was done."""


class OutcomeUnknown(Exception):
    """A worker got the request and gave no answer; it may have executed the request."""


class WorkerInfo(NamedTuple):
    """A worker's answer to `GET /`."""

    url: str
    version: str
    cluster_id: str | None


class _NotExecuted(NamedTuple):
    """An attempt that surely has changed nothing, with the worker's answer, if any."""

    reason: str
    answer: WorkerAnswer | None = None
    is_foreign: bool = False
    """True if the worker does not belong to the cluster, so it got no request."""
    lags: bool = False
    """True if the worker may only lag behind: its answer may also be final."""

    def outranks(self, earlier: "_NotExecuted | None") -> bool:
        """True if the caller is to learn about this attempt instead of an earlier one."""
        if earlier is None or self.answer is not None:
            return True
        return self.is_foreign and earlier.answer is None


class ConnectClient:
    """Client of the workers of one Connect cluster, by name (their URLs without credentials).

    A request goes over the worker's `connections`; if it has none, over its httpx client.
    """

    admission: WorkerAdmission | None = None
    """Admission of workers to requests; None: every worker gets requests."""

    def __init__(
        self,
        workers: Mapping[str, httpx.AsyncClient],
        limits: ConnectSettings | None = None,
        connections: Mapping[str, WorkerConnections] | None = None,
    ) -> None:
        self._workers = dict(workers)
        self._connections = dict(connections or {})
        self._limits = limits or ConnectSettings()
        self._ranking = list(self._workers)
        """Workers in the order in which requests try them."""

    @property
    def names(self) -> tuple[str, ...]:
        """URLs of the workers, without credentials."""
        return tuple(self._workers)

    @property
    def check_s(self) -> float:
        """Longest time in seconds for a worker's answer to a request that identifies it.

        A worker that hangs does not delay the start for as long as a command may take.
        """
        return max(self._limits.patience_ms, self._limits.connect_timeout_ms) / 1_000

    async def ask_each(
        self, on_silence: OnSilence | None = None
    ) -> tuple[dict[str, httpx.Response], dict[str, str]]:
        """Send `GET /` to every worker; return the answers, and a reason for each missing one.

        If no answer is JSON, all workers are asked again for a bounded time: they may be starting.
        Before the second attempt, `on_silence` is called once with the reasons.
        """
        deadline = self._deadline()
        while True:
            answers: dict[str, httpx.Response] = {}
            silent: dict[str, str] = {}
            roots = await asyncio.gather(*map(self.root, self._workers))
            for name, root in zip(self._workers, roots, strict=True):
                if isinstance(root, httpx.Response):
                    answers[name] = root
                else:
                    silent[name] = root
                    self._rank(name, len(self._ranking))
            if any(json_of(answer) for answer in answers.values()) or self._is_over(deadline):
                return answers, silent
            if on_silence is not None:
                on_silence(silent)
                on_silence = None
            await asyncio.sleep(self._limits.retry_ms / 1_000)

    async def root(self, name: str) -> httpx.Response | str:
        """Return a worker's answer to `GET /`, or the reason why none has come in time."""
        try:
            async with asyncio.timeout(self.check_s):
                return await self._workers[name].get("/")
        except TimeoutError:
            return f"no answer within {self.check_s:g} s"
        except _FAILURES as failure:
            return _why(failure)

    async def get_from(self, name: str, path: str) -> Any:
        """JSON body of one worker's answer to a GET; None: no answer, an error, or no JSON."""
        try:
            answer = await self._workers[name].get(path)
        except _FAILURES:
            return None
        return json_of(answer) if answer.is_success else None

    async def get(self, path: str) -> Any | None:
        """JSON body of any worker's answer to a GET; None: the answer is an error.

        Raises:
            NoWorkerAnswers: no worker has answered.
        """
        answer = await self.send(ConnectRequest("GET", path))
        return answer.json() if answer.is_success else None

    async def send(
        self,
        request: ConnectRequest,
        may_lag: Callable[[WorkerAnswer], bool] | None = None,
        *,
        continues: bool = False,
    ) -> WorkerAnswer:
        """Send a request to any worker; return its answer, unchanged.

        `may_lag` is True for a refusal of a worker that has not read its topics to their end. Such
        a refusal, and a temporary one, is returned only after `patience_ms`. `continues` is True
        for a later request of one command: then a temporary refusal is no answer.

        Raises:
            NoWorkerAnswers: no worker has taken it; the request has changed nothing.
            OutcomeUnknown: a worker took it and gave no answer.
        """
        deadline = self._deadline()
        while True:
            failed: _NotExecuted | None = None
            for name in tuple(self._ranking):
                try:
                    attempt = await self._attempt(name, request, may_lag)
                except (OutcomeUnknown, asyncio.CancelledError):
                    self._rank(name, len(self._ranking))  # it may hang
                    raise
                if isinstance(attempt, WorkerAnswer):
                    self._rank(name, 0)
                    return attempt
                failed = attempt if attempt.outranks(failed) else failed
            assert failed is not None
            if self._is_over(deadline):
                if failed.answer is not None and (failed.lags or not continues):
                    return failed.answer
                raise NoWorkerAnswers(
                    f"No worker of {', '.join(self.names)} has taken the request "
                    f"({failed.reason}){NOTHING_DONE}"
                )
            await asyncio.sleep(self._limits.retry_ms / 1_000)

    def _deadline(self) -> float:
        return asyncio.get_running_loop().time() + self._limits.patience_ms / 1_000

    def _is_over(self, deadline: float) -> bool:
        return asyncio.get_running_loop().time() + self._limits.retry_ms / 1_000 > deadline

    def _rank(self, name: str, index: int) -> None:
        """Move a worker: to the front after an answer, to the end if it may hang."""
        self._ranking.remove(name)
        self._ranking.insert(index, name)

    async def _attempt(
        self,
        name: str,
        request: ConnectRequest,
        may_lag: Callable[[WorkerAnswer], bool] | None,
    ) -> WorkerAnswer | _NotExecuted:
        """Send a request to one worker.

        Raises:
            OutcomeUnknown: the worker may have executed it.
        """
        admission = self.admission
        if admission is not None and (refusal := await admission.refusal(name)) is not None:
            return _NotExecuted(str(refusal), is_foreign=isinstance(refusal, LogNotUsable))
        is_started = False
        try:
            answer = await self._exchanged(name, request)
            # A 404 page may mean that the worker starts. Once `GET /` works, it has started:
            # send again, and accept a second page as the answer.
            if is_error_page(answer) and await self.get_from(name, "/") is not None:
                is_started = True
                answer = await self._exchanged(name, request)
        except _FAILURES as failure:
            if admission is not None:
                admission.forget(name)
            if isinstance(failure, _UNSENT):
                return _NotExecuted(f"{name} cannot be reached: {_why(failure)}")
            if not request.changes:
                return _NotExecuted(f"{name} gave no answer: {_why(failure)}")
            raise OutcomeUnknown(f"{name} gave no answer ({_why(failure)})") from None
        if request.changes and answer.status_code in _LOST:
            raise OutcomeUnknown(f"a proxy lost the answer of {name} ({reason_of(answer)})")
        parsed_answer = _answer_of(answer)
        if request.changes and _is_lost(answer):
            raise OutcomeUnknown(f"{name}: {reason_of(answer)}")
        is_final = is_started and is_error_page(answer)
        if not is_final and (is_temporary(answer) or _is_not_ready(answer)):
            return _NotExecuted(f"{name}: {reason_of(answer)}", parsed_answer)
        if may_lag is not None and may_lag(parsed_answer):
            return _NotExecuted(f"{name} has not read its topics yet", parsed_answer, lags=True)
        return parsed_answer

    async def _exchanged(self, name: str, request: ConnectRequest) -> httpx.Response:
        """Send a request; follow redirects with the same method and body."""
        client = self._workers[name]
        headers = {}
        if request.body is not None and request.content_type is not None:
            headers["content-type"] = request.content_type
        if request.accept is not None:
            headers["accept"] = request.accept
        connections = self._connections.get(name)
        if connections is not None:
            where, body = (request.path, request.query), request.body or b""
            answer = await connections.send(request.method, *where, headers, body)
        else:
            answer = await client.send(_built(client, request, headers))
        url: httpx.URL | None = None
        for _ in range(REDIRECTS):
            if not answer.has_redirect_location:
                break
            url = _target(url or _built(client, request, headers).url, answer)
            again = client.build_request(request.method, url, content=request.body, headers=headers)
            if not self._is_worker(url):
                again.headers.pop("authorization", None)
            answer = await client.send(again)
        return answer

    def _is_worker(self, url: httpx.URL) -> bool:
        """True if a redirect stays at the workers, so that credentials may go along."""
        return any(_is_at(url, client.base_url) for client in self._workers.values())


def _built(
    client: httpx.AsyncClient, request: ConnectRequest, headers: Mapping[str, str]
) -> httpx.Request:
    params = dict(request.query) or None
    return client.build_request(
        request.method, request.path, params=params, content=request.body, headers=headers
    )


def _target(url: httpx.URL, answer: httpx.Response) -> httpx.URL:
    """URL to which an answer redirects.

    Raises:
        httpx.RemoteProtocolError: its `Location` is no URL, or gives up encryption.
    """
    try:
        target = url.join(answer.headers["location"])
    except httpx.InvalidURL as failure:
        raise httpx.RemoteProtocolError(f"redirect to no URL: {failure}") from None
    if url.scheme == "https" and target.scheme == "http":
        raise httpx.RemoteProtocolError("redirect from https to http")
    return target


def _is_at(url: httpx.URL, worker: httpx.URL) -> bool:
    """True if a URL has the worker's origin, or its upgrade from port 80 to https on port 443."""
    if url.host != worker.host:
        return False
    if (url.scheme, url.port) == (worker.scheme, worker.port):  # None is the default port
        return True
    is_upgrade = (worker.scheme, url.scheme) == ("http", "https")
    return is_upgrade and url.port is worker.port is None


def _is_not_ready(answer: httpx.Response) -> bool:
    """True if the worker has not executed a request because it, or its leader, starts or stops.

    It answers 404 with a page, or 500 with `_SHUTTING_DOWN` or `_REFUSED_FORWARD`.
    """
    if not answer.is_server_error:
        return is_error_page(answer)
    reason = reason_of(answer)
    return reason == _SHUTTING_DOWN or all(words in reason for words in _REFUSED_FORWARD)


def is_error_page(answer: httpx.Response) -> bool:
    """True for 404 with a page of the worker's server.

    A worker answers so before its REST API is set up, and later to an endpoint that its release
    lacks.
    """
    is_page = "html" in answer.headers.get("content-type", "")
    return answer.status_code == httpx.codes.NOT_FOUND and is_page


def _is_lost(answer: httpx.Response) -> bool:
    """True if the worker does not know whether the request was or will be executed."""
    if not answer.is_server_error:
        return False
    is_lost = reason_of(answer).startswith((_LOST_FORWARD, _WORKER_TIMEOUT))
    return is_lost and not _is_not_ready(answer)


def _answer_of(answer: httpx.Response) -> WorkerAnswer:
    return WorkerAnswer(
        answer.status_code,
        answer.content,
        answer.headers.get("content-type"),
        answer.headers.get("location"),
    )


_UNTRUSTED = re.compile(r"certificate verify failed: (.+?)(?: \(_ssl|$)")
"""Words of OpenSSL about a certificate."""


def _why(failure: Exception) -> str:
    untrusted = _UNTRUSTED.search(str(failure))
    if untrusted is not None:
        return safe(f"its certificate is refused: {untrusted[1]}")
    return safe(str(failure)) or type(failure).__name__
