"""HTTP client of a worker: requests, meanings of answers, features of the server.

Failures become exceptions of `request_errors.py`. Kafka's workers get no `dry_run` or `as_of`: they
would ignore the parameter, and execute the request.
"""

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import quote
from uuid import uuid4

import httpx

from controlplane.client.http.request_errors import (
    Declined,
    NotServing,
    Unavailable,
    Unsupported,
    refusal_text,
)
from controlplane.core.text.safe_text import safe, short
from controlplane.core.topic_names import GROUPS_TOPIC
from controlplane.logs.log_factory import OpenOptions, open_any_log
from controlplane.logs.names import is_cluster
from controlplane.terminal.command_errors import InputRefused
from controlplane.terminal.output import note
from controlplane.worker_api import (
    NOT_SERVING,
    connector_path,
    is_temporary,
    json_of,
    reason_of,
)

PATIENCE_S = 30.0
"""Longest time in seconds to retry after a temporary refusal, such as a rebalance."""

PAUSE_S = 0.5
"""Pause in seconds between two retries."""

_OURS = "controlplane"
"""Product name in the `Server` header of our service. A proxy must not remove it."""

_NO_ENDPOINT = ("HTTP 404 Not Found", "HTTP 405 Method Not Allowed")
"""Messages about a path or a method that a release lacks."""


_VIEW_OPTIONS = {"as_of": "--as-of", "profile": "--release"}
"""Command-line option for each query parameter of `view`."""

_UNDECIDED_STATUSES = (
    httpx.codes.UNAUTHORIZED,
    httpx.codes.FORBIDDEN,
    httpx.codes.SERVICE_UNAVAILABLE,
)
"""Statuses of answers to `GET /` that do not show whether the server is Connect."""


class ServerInfo(NamedTuple):
    """Product, release and cluster of the server; `cluster_id` is None if the server sends none."""

    version: str
    cluster_id: str | None
    ours: bool

    @property
    def name(self) -> str:
        """Name of the server in messages."""
        return f"controlplane as {self.version}" if self.ours else f"Kafka Connect {self.version}"


class ApiAnswer(NamedTuple):
    """Successful answer; `created` for status 201."""

    created: bool
    body: Any


class Api:
    """HTTP client of one cluster. Each read carries the `view`: `as_of`, `profile`."""

    def __init__(  # noqa: PLR0913 - options, by name only
        self,
        client: httpx.AsyncClient,
        name: str,
        view: Mapping[str, str] | None = None,
        patience_s: float = PATIENCE_S,
        named_by: str = "--cluster",
        *,
        is_log: bool = False,
    ) -> None:
        """`named_by`: option that has given the URL, for errors.

        `is_log`: this process serves the cluster from its log.
        """
        self.client = client
        self.is_log = is_log
        self.name = name
        self._named_by = named_by
        self._view = dict(view or {})
        self._patience_s = patience_s
        self._notices: set[str] = set()
        self.server = ServerInfo("?", None, ours=False)

    @property
    def shows_past(self) -> bool:
        """True if reads carry `as_of`, so that answers are about a past moment."""
        return "as_of" in self._view

    async def identify(self) -> None:
        """Identify the server; this is the first request.

        Raises:
            Declined: the server is no Connect worker, or requires credentials.
            Unavailable: the server does not answer.
        """
        answer = await self._answer("GET", "/")
        root = json_of(answer)
        if answer.status_code in _UNDECIDED_STATUSES:
            raise self._refusal(answer, "GET /", _message(answer))
        if not isinstance(root, dict) or "version" not in root:
            raise Declined(
                f"{self.name} answers, but is no Kafka Connect ({_message(answer)}): give the URL "
                "of a worker, including its path prefix"
            )
        self.server = ServerInfo(
            str(root["version"]), root.get("kafka_cluster_id"), is_ours(answer.headers)
        )
        for field in self._view:
            self.need(_VIEW_OPTIONS[field])

    def need(self, feature: str, *, in_its_log: bool = True) -> None:
        """Require our own server for a feature, which the error names.

        `in_its_log`: True if commands on a log have the feature. The error then advises to read the
        workers' log.

        Raises:
            Unsupported: the server is a worker of Kafka's.
        """
        if not self.server.ours:
            hint = ": read its log with --cluster kafka://BROKER:9092" if in_its_log else ""
            raise Unsupported(f"{self.name} is {self.server.name}, which has no {feature}{hint}")

    def need_loggers(self) -> None:
        """Require a server whose process outlives this command: a log alone has no loggers.

        Raises:
            Unsupported: the cluster is a log. The message says what to do.
        """
        if self.is_log:
            raise Unsupported(
                f"{self.name} is a log, and loggers belong to a process: give the URL of the "
                "service or worker (--cluster URL)"
            )

    async def need_groups(self) -> None:
        """Require consumer groups: an embedded log has them once a worker has run on it.

        Raises:
            Unsupported: the cluster is a log without groups.
        """
        if self.is_log and not is_cluster(self.name) and not await _has_groups(self.name):
            raise Unsupported(
                f"{self.name} is a log, and the offsets of sinks lie in consumer groups, which it "
                "does not have: serve the log with connectors (plugin.path), and give the URL of "
                "that service"
            )

    async def get(self, path: str, **query: str | list[str]) -> Any:
        """Body of the answer to a GET.

        Raises:
            Declined, Unavailable: the request failed.
        """
        return (await self._ask("GET", path, {**self._view, **query})).body

    async def find(self, path: str, **query: str | list[str]) -> Any | None:
        """Body of the answer to a GET; None: there is no such connector, task or status."""
        try:
            return await self.get(path, **query)
        except _MissingResource:
            return None

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        dry_run: bool = False,
    ) -> ApiAnswer:
        """Request a change, or with `dry_run` its plan.

        Raises:
            Unsupported: the server has no dry run.
            Declined, Unavailable: the change was refused, or may have been made.
        """
        if not dry_run:
            return await self._ask(method, path, query or {}, body, key=str(uuid4()))
        self.need("dry run")
        answer = await self._ask(method, path, {**(query or {}), "dry_run": "true"}, body)
        if not isinstance(answer.body, dict) or "steps" not in answer.body:
            raise Unavailable(
                f"{self.name} gave no plan. If a proxy has removed dry_run=true, the change was "
                "made: check before you repeat it"
            )
        return answer

    async def _ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, str | list[str]],
        body: Any = None,
        key: str | None = None,
    ) -> ApiAnswer:
        """Send a request, and retry during a rebalance: a worker changes nothing then."""
        headers = {} if key is None else {"idempotency-key": key}
        deadline = asyncio.get_running_loop().time() + self._patience_s
        while True:
            answer = await self._answer(method, path, query, body, headers)
            if not is_temporary(answer) or asyncio.get_running_loop().time() > deadline:
                return self.checked_answer(answer, f"{method} {path}")
            await asyncio.sleep(PAUSE_S)

    async def _answer(
        self,
        method: str,
        path: str,
        query: Mapping[str, str | list[str]] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        content = None if body is None else json.dumps(body).encode()
        typed = {} if content is None else {"content-type": "application/json"}
        try:
            with checked_texts():
                answer = await self.client.request(
                    method,
                    path,
                    params=query,
                    content=content,
                    headers={**(headers or {}), **typed},
                )
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as failure:
            raise Unavailable(
                f"{self.name} cannot be reached ({_why(failure)}): check {self._named_by}"
            ) from None
        except httpx.HTTPError as failure:
            raise Unavailable(
                f"{self.name} gave no answer to {method} {safe(path)} ({_why(failure)})"
                f"{_doubt(method)}"
            ) from None
        self._print_notice(answer.headers.get("x-controlplane-notice"))
        return answer

    def _print_notice(self, notice: str | None) -> None:
        """Print a notice of our server, once."""
        if notice is not None and notice not in self._notices:
            self._notices.add(notice)
            note(f"Warning: {notice}")

    def checked_answer(self, answer: httpx.Response, request: str) -> ApiAnswer:
        """Content of an answer to a request (`GET /connectors`).

        Raises:
            Declined, Unavailable: the answer is an error, or a success that is not Connect's.
        """
        if answer.is_success:
            body = json_of(answer)
            if body is None and (answer.content or answer.request.method == "GET"):
                raise self._foreign_answer(answer, request)
            return ApiAnswer(answer.status_code == httpx.codes.CREATED, body)
        message = _message(answer)
        if answer.status_code == httpx.codes.NOT_FOUND and message not in _NO_ENDPOINT:
            if isinstance(json_of(answer), dict):
                raise _MissingResource(message)
            raise self._foreign_answer(answer, request)
        raise self._refusal(answer, request, message)

    def _foreign_answer(self, answer: httpx.Response, request: str) -> Unavailable:
        """Error about an answer that is not Connect's: a success or a 404 without JSON.

        Proxies send such answers, and Jetty before Connect has started.
        """
        kind = answer.headers.get("content-type") or "no content type"
        doubt = _doubt(answer.request.method) if answer.is_success else ""
        return Unavailable(
            f"{self.name} gave no answer of Kafka Connect to {safe(request)} "
            f"(HTTP {answer.status_code}, {short(kind)}), perhaps a page of a proxy, or of a "
            f"worker that starts{doubt}"
        )

    @property
    def _compat_hint(self) -> str:
        beneath = self.server.ours and "/compat/" in self.name
        return ": leave /compat/ out of the URL for our own endpoints" if beneath else ""

    def _refusal(
        self, answer: httpx.Response, request: str, message: str
    ) -> Declined | Unavailable:
        if message in _NO_ENDPOINT:
            no_such = f"which has no {safe(request)}{self._compat_hint}"
            return Unsupported(f"{self.name} is {self.server.name}, {no_such}")
        if answer.status_code == httpx.codes.UNAUTHORIZED:
            return Declined(f"{self.name} refuses access ({message}): {_login_advice(answer)}")
        if answer.status_code == httpx.codes.BAD_REQUEST and json_of(answer) is None:
            return Declined(
                f"{self.name} is {self.server.name}, whose HTTP server refuses {safe(request)} "
                f"before Connect sees it ({message}){self._compat_hint}"
            )
        if answer.is_server_error:
            failure = NotServing if answer.status_code in NOT_SERVING else Unavailable
            return failure(f"{self.name} failed: {message}")
        return Declined(message)


_PROOFS = {"basic": "--user NAME:PASSWORD", "bearer": "--token TOKEN"}
"""Options for credentials by HTTP authentication scheme."""


def _login_advice(answer: httpx.Response) -> str:
    """Advice for a 401: the options that fit the server's challenge."""
    challenge = " ".join(answer.headers.get_list("www-authenticate")).lower()
    fitting = [option for scheme, option in _PROOFS.items() if scheme in challenge]
    options = " or ".join(fitting or _PROOFS.values())
    return f"{'check' if 'authorization' in answer.request.headers else 'give'} {options}"


class _MissingResource(Declined):
    """There is no such connector, task or status."""


async def _has_groups(where: str) -> bool:
    """True if an embedded log has the topic of consumer groups."""
    async with await open_any_log(where, OpenOptions()) as opened:
        return GROUPS_TOPIC in await opened.log.topics()


@contextmanager
def checked_texts() -> Iterator[None]:
    """Turn errors about texts that no request can hold into `InputRefused`.

    Raises:
        InputRefused: a text is no Unicode, or too long for a URL.
    """
    try:
        yield
    except UnicodeEncodeError as failure:
        raise InputRefused(
            f"{short(str(failure.object))} is no Unicode text: type it again"
        ) from None
    except httpx.InvalidURL as failure:
        raise InputRefused(
            f"the request does not fit into a URL ({failure}): give a shorter name"
        ) from None


def check_name(name: str) -> None:
    """Refuse a name that no URL can hold.

    Raises:
        InputRefused: it holds half of a surrogate pair, or bytes that are no UTF-8.
    """
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InputRefused(
            f"no URL can hold the name '{short(name)}': it has half of a surrogate pair, or bytes "
            "that are no UTF-8"
        ) from None


def segment(name: str) -> str:
    """Segment of a path for a plugin or a logger; the whole name is quoted.

    Raises:
        InputRefused: as `check_name` does.
    """
    check_name(name)
    return quote(name, safe="")


def connector(name: str, *parts: str) -> str:
    """Path of a connector, or of a part of it; the name is quoted.

    Raises:
        InputRefused: as `check_name` does.
    """
    check_name(name)
    return connector_path(name, *parts)


def _doubt(method: str) -> str:
    """Advice after a request without a valid answer; empty for a read."""
    return "" if method == "GET" else ": the change may have been made; check, then retry"


def _message(answer: httpx.Response) -> str:
    """Message of a refusal without secrets."""
    return refusal_text(reason_of(answer))


def _why(failure: httpx.HTTPError) -> str:
    return safe(str(failure)) or type(failure).__name__


def is_ours(headers: httpx.Headers) -> bool:
    """True if our service answers. Mounted in another server, it is the second name in `Server`."""
    servers = headers.get_list("server", split_commas=True)
    return any(server.startswith(_OURS) for server in servers)
