"""Speaking to a worker: requests, what its answers mean, and what it has got.

Whatever goes wrong becomes one of `exits`, with a sentence. Only what Connect has is asked of a
worker of Kafka's: it would not refuse `dry_run` or `as_of`, but overlook it.
"""

import asyncio
import html
import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote
from uuid import uuid4

import httpx

from controlplane.client.http.request_errors import Declined, Unavailable, Unsupported
from controlplane.core.text.redaction import redacted_refusal
from controlplane.core.text.safe_text import safe, short
from controlplane.terminal.command_errors import InputRefused
from controlplane.terminal.output import note

PATIENCE_S = 30.0
"""So long a refusal that passes – a rebalance – is answered by asking again."""

PAUSE_S = 0.5
"""Between two such questions."""

LINES, LINE_CHARACTERS = 50, 1_000
"""So much of a refusal is shown: it may repeat a whole config."""

_OURS = "controlplane"
"""Product name in the `Server` header of our service. A proxy must not remove it."""

_PASSES = ("rebalance", "momentarily", "stale configuration")
"""Words of a conflict that ends by itself, unlike that of a name which is taken."""

_REBALANCE = "Request cannot be completed because a rebalance is expected"
"""The same from endpoints that fail with it (500): nothing has been looked at by then
(`DistributedHerder#checkRebalanceNeeded`)."""

_NO_ENDPOINT = ("HTTP 404 Not Found", "HTTP 405 Method Not Allowed")
"""Words for a path or a method that a release has not got."""


_CONNECT_OR_NOT = (
    httpx.codes.UNAUTHORIZED,
    httpx.codes.FORBIDDEN,
    httpx.codes.SERVICE_UNAVAILABLE,
)
"""Answers to the first question that do not tell who gives them."""


class ServerInfo(NamedTuple):
    """The server that answers: product, release and cluster."""

    version: str
    cluster_id: str | None
    ours: bool

    @property
    def name(self) -> str:
        """Name of the server in messages."""
        return f"controlplane as {self.version}" if self.ours else f"Kafka Connect {self.version}"


class ApiAnswer(NamedTuple):
    """An answer that is no refusal: whether it tells of something new, and what else."""

    created: bool
    body: Any


class Api:
    """HTTP client of one cluster. Each read carries the `view`: a moment, a release."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        name: str,
        view: Mapping[str, str] | None = None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.client = client
        self.name = name
        self._view = dict(view or {})
        self._patience_s = patience_s
        self._told: set[str] = set()
        self.server = ServerInfo("?", None, ours=False)

    async def meet(self) -> None:
        """Find out who answers; nothing else is asked before.

        Raises:
            Declined: there is no such server, or none of Connect.
            Unavailable: nobody answers.
        """
        answer = await self._answer("GET", "/")
        told = _json(answer)
        if answer.status_code in _CONNECT_OR_NOT:
            raise self._refusal(answer, "GET /", _message(answer))
        if not isinstance(told, dict) or "version" not in told:
            raise Declined(
                f"{self.name} answers, but is no Kafka Connect ({_message(answer)}): give the URL "
                "of a worker, with the path that it is mounted under"
            )
        self.server = ServerInfo(
            str(told["version"]), told.get("kafka_cluster_id"), _names_us(answer.headers)
        )
        for field in self._view:
            self.need(f"--{field.replace('_', '-')}")

    def need(self, what: str, *, in_its_log: bool = True) -> None:
        """Refuse to go on where something of ours is needed and a worker of Kafka's answers.

        Raises:
            Unsupported: the message says that it has no `what`, and where to find it.
        """
        if not self.server.ours:
            hint = "; its log has: --cluster kafka://BROKER:9092" if in_its_log else ""
            raise Unsupported(f"{self.name} is {self.server.name}, which has no {what}{hint}")

    async def get(self, path: str, **query: str | list[str]) -> Any:
        """Body of the answer to a GET.

        Raises:
            Declined, Unavailable: it is not.
        """
        return (await self._ask("GET", path, {**self._view, **query})).body

    async def find(self, path: str, **query: str | list[str]) -> Any | None:
        """The same; None: there is no such connector, task or status."""
        try:
            return await self.get(path, **query)
        except _Missing:
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
        """Ask for a change – or, with `dry_run`, which records it would write.

        Raises:
            Unsupported: there is no dry run here.
            Declined, Unavailable: it is not done, or nobody can tell.
        """
        if not dry_run:
            return await self._ask(method, path, query or {}, body, key=str(uuid4()))
        self.need("dry run")
        given = await self._ask(method, path, {**(query or {}), "dry_run": "true"}, body)
        if not isinstance(given.body, dict) or "steps" not in given.body:
            raise Unavailable(
                f"{self.name} gave no plan: something on the way may have lost the question "
                "(dry_run=true), and then it is done"
            )
        return given

    async def _ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, str | list[str]],
        body: Any = None,
        key: str | None = None,
    ) -> ApiAnswer:
        """Ask, and again while a rebalance is in the way: nothing is done before it has ended."""
        headers = {} if key is None else {"idempotency-key": key}
        deadline = asyncio.get_running_loop().time() + self._patience_s
        while True:
            answer = await self._answer(method, path, query, body, headers)
            if not _passes(answer) or asyncio.get_running_loop().time() > deadline:
                return self.given(answer, f"{method} {path}")
            await asyncio.sleep(PAUSE_S)

    async def _answer(
        self,
        method: str,
        path: str,
        query: Mapping[str, str | list[str]] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        sent = None if body is None else json.dumps(body).encode()
        typed = {} if sent is None else {"content-type": "application/json"}
        try:
            answer = await self.client.request(
                method, path, params=query, content=sent, headers={**(headers or {}), **typed}
            )
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as failure:
            raise Unavailable(
                f"{self.name} cannot be reached ({_why(failure)}): check --cluster, or the "
                "variable CONTROLPLANE_CLUSTER"
            ) from None
        except UnicodeEncodeError as failure:
            raise InputRefused(
                f"{short(str(failure.object))} is no Unicode text: write it anew"
            ) from None
        except httpx.HTTPError as failure:
            done = "" if method == "GET" else ": it may have been done, look before you ask again"
            raise Unavailable(
                f"{self.name} gave no answer to {method} {safe(path)} ({_why(failure)}){done}"
            ) from None
        self._tell(answer.headers.get("x-controlplane-notice"))
        return answer

    def _tell(self, notice: str | None) -> None:
        """Pass on, once, what our server has to say about how a question was understood."""
        if notice is not None and notice not in self._told:
            self._told.add(notice)
            note(notice)

    def given(self, answer: httpx.Response, asked: str) -> ApiAnswer:
        """Content of an answer.

        Raises:
            Declined, Unavailable: it is a refusal.
        """
        if answer.is_success:
            return ApiAnswer(answer.status_code == httpx.codes.CREATED, _json(answer))
        message = _message(answer)
        if answer.status_code == httpx.codes.NOT_FOUND and message not in _NO_ENDPOINT:
            raise _Missing(message)
        raise self._refusal(answer, asked, message)

    @property
    def _compat_hint(self) -> str:
        beneath = self.server.ours and "/compat/" in self.name
        return "; without /compat/ in its URL it speaks for itself" if beneath else ""

    def _refusal(self, answer: httpx.Response, asked: str, message: str) -> Declined | Unavailable:
        if message in _NO_ENDPOINT:
            no_such = f"which has no {safe(asked)}{self._compat_hint}"
            return Unsupported(f"{self.name} is {self.server.name}, {no_such}")
        if answer.status_code == httpx.codes.UNAUTHORIZED:
            return Declined(f"{self.name} does not let you in ({message}): {_who(answer)}")
        if answer.status_code == httpx.codes.BAD_REQUEST and _json(answer) is None:
            return Declined(
                f"{self.name} is {self.server.name}, whose HTTP server refuses {safe(asked)} "
                f"before Connect sees it ({message}){self._compat_hint}"
            )
        if answer.is_server_error:
            return Unavailable(f"{self.name} failed at it: {message}")
        return Declined(message)


_PAGE = re.compile(r"<th>MESSAGE:</th><td>([^<]*)</td>|<pre>reason: ([^<]*)</pre>")
"""Pattern of the reason in Jetty's error pages."""

_PROOFS = {"basic": "--user NAME:PASSWORD", "bearer": "--token TOKEN"}
"""Options for credentials by HTTP authentication scheme."""


def _who(answer: httpx.Response) -> str:
    """Advice for a 401: the options that fit the server's challenge."""
    challenge = " ".join(answer.headers.get_list("www-authenticate")).lower()
    asked = [option for scheme, option in _PROOFS.items() if scheme in challenge]
    options = " or ".join(asked or _PROOFS.values())
    return f"{'check' if 'authorization' in answer.request.headers else 'give'} {options}"


class _Missing(Declined):
    """There is no such connector, task or status."""


def check_name(name: str) -> None:
    """Refuse a name that no URL can hold.

    Raises:
        InputRefused: it holds half of a surrogate pair, or bytes that are no UTF-8.
    """
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InputRefused(
            f"the name '{short(name)}' is no Unicode text (half of a surrogate pair, or bytes that "
            "are no UTF-8): no connector can be asked for by it"
        ) from None


def connector(name: str, *parts: str) -> str:
    """The path of a connector, or of something about it, whatever its name holds.

    Raises:
        InputRefused: as `check_name` does.
    """
    check_name(name)
    dots = name.replace(".", "%2E") if not name.strip(".") else quote(name, safe="")
    return "/".join(["/connectors", dots, *parts])


def _json(answer: httpx.Response) -> Any | None:
    """JSON body of an answer; None if it has none."""
    try:
        return answer.json()
    except ValueError:
        return None


def _passes(answer: httpx.Response) -> bool:
    """True if a refusal is temporary: Connect refuses nearly everything in a rebalance."""
    if not answer.is_error:
        return False
    message, conflict = _message(answer), answer.status_code == httpx.codes.CONFLICT
    return message == _REBALANCE or (conflict and any(word in message for word in _PASSES))


def _message(answer: httpx.Response) -> str:
    """Message of a refusal without secrets; proxies and Jetty answer with HTML pages."""
    told = _json(answer)
    reason = (
        (told.get("message") if isinstance(told, dict) else None)
        or _on_page(answer)
        or _plain_text(answer)
        or f"HTTP {answer.status_code} {answer.reason_phrase}"
    )
    lines = redacted_refusal(str(reason)).splitlines()
    return "\n".join(short(line, LINE_CHARACTERS) for line in lines[:LINES])


def _on_page(answer: httpx.Response) -> str | None:
    """Reason in an error page of Jetty; None: it is no such page."""
    found = _PAGE.search(answer.text)
    return found and html.unescape(found[1] or found[2])


def _plain_text(answer: httpx.Response) -> str | None:
    """A refusal that is no JSON, though it may be called so, and no page: one of an extension."""
    text = answer.text.strip()
    is_refusal = answer.is_error and _json(answer) is None
    return text if is_refusal and not text.startswith("<") else None


def _why(failure: httpx.HTTPError) -> str:
    return safe(str(failure)) or type(failure).__name__


def _names_us(headers: httpx.Headers) -> bool:
    """True if our service answers; mounted in another server, it is named behind that one."""
    servers = headers.get_list("server", split_commas=True)
    return any(server.startswith(_OURS) for server in servers)
