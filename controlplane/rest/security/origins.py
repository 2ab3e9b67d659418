"""Cross-origin requests (CORS): `access.control.allow.origin` and `.methods`.

A page that is not allowed cannot read an answer; the browser enforces that. But a browser lets any
page send a POST without a body, with its user's credentials. This module therefore refuses changes
from pages of other hosts.

Each release answers as its server did (`Profile.rest_cross_origin`): Jetty's filter up to 3.9, its
handler from 4.0 on. Both pass a preflight request on, so that a login refuses it. At the root the
preflight is answered here, because a browser sends no credentials with it.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from controlplane.core.releases.profiles import Profile
from controlplane.rest.errors import HTML, NO_CONTENT, Answer, Forbidden
from controlplane.rest.http.wire import response
from controlplane.rest.security.layer import Layer
from controlplane.rest.security.request_info import RequestInfo
from controlplane.rest.security.roles import READING
from controlplane.settings.kinds import texts
from controlplane.settings.listeners import AnswerSettings

_SIMPLE = ("GET", "POST", "HEAD")
"""Methods that a browser sends without a preflight."""


class Manner(NamedTuple):
    """CORS behaviour of one server."""

    credentials: bool
    max_age_s: int
    headers: tuple[str, ...]
    """Request headers that are allowed beside the CORS-safelisted ones."""
    always_varies: bool
    """True if every answer has `Vary: Origin`; False if only answers to allowed origins do."""
    checks_headers: bool
    checks_method: bool = True
    """True if a preflight for a method that is not allowed gets no headers."""


MANNERS: Mapping[str, Manner] = {
    "filter": Manner(
        credentials=True,
        max_age_s=1_800,
        headers=("X-Requested-With", "Content-Type", "Accept", "Origin"),
        always_varies=False,
        checks_headers=True,
    ),
    "handler": Manner(
        credentials=False,
        max_age_s=60,
        headers=("Content-Type",),
        always_varies=True,
        checks_headers=False,
        checks_method=False,
    ),
    "ours": Manner(
        credentials=False,
        max_age_s=60,
        headers=("Content-Type", "Accept", "Authorization", "Idempotency-Key", "Last-Event-ID"),
        always_varies=True,
        checks_headers=True,
    ),
}
"""CORS behaviour by server (`Profile.rest_cross_origin`)."""


class Allowed(NamedTuple):
    """Origins and methods that are allowed."""

    origins: tuple[str, ...]
    """Allowed origins; `*` stands for anything, alone or in an origin."""
    methods: tuple[str, ...] = _SIMPLE

    def has(self, origins: str) -> bool:
        """Return True if one of these space-separated origins is allowed."""
        return any(
            re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), origin)
            for origin in origins.split()
            for pattern in self.origins
        )


def allowed(settings: AnswerSettings) -> Allowed | None:
    """Return the allowed origins of the settings; None if no other origin is allowed."""
    origins = settings.access_control_allow_origin
    if not origins:
        return None
    methods = settings.access_control_allow_methods
    return Allowed(texts(origins), texts(methods) if methods else _SIMPLE)


class Origins(Layer):
    """Adds CORS headers, and refuses changes from pages of other hosts."""

    def __init__(self, app: ASGIApp, allowed: Allowed | None, dialect: Profile) -> None:
        super().__init__(app, dialect)
        self._allowed = allowed

    async def handle(
        self, request: RequestInfo, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Pass a request on, and add the CORS headers to its answer."""
        headers = Headers(scope=scope)
        if request.request.method not in READING and self._is_foreign(headers):
            refusal = Forbidden("A page of another host may change nothing here").answer()
            await response(refusal, request.request.method)(scope, receive, send)
            return
        told = {} if self._allowed is None else self._told(self._allowed, request, headers)
        if not request.compat and _ACCESS_METHODS in told:
            await response(Answer(NO_CONTENT, "", None, told), "OPTIONS")(scope, receive, send)
            return

        if not told:
            await self._app(scope, receive, send)
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = MutableHeaders(scope=message)
                if given.get("content-type") != HTML:  # the server's pages have no CORS headers
                    given.update(told)
            await send(message)

        await self._app(scope, receive, sending)

    def _is_foreign(self, headers: Headers) -> bool:
        """Return True if a browser sends the request for a page that is not allowed.

        `Sec-Fetch-Site` decides if it is there: behind a proxy, `Host` may differ from the origin.
        """
        origin = headers.get("origin")
        if origin is None or (self._allowed is not None and self._allowed.has(origin)):
            return False
        site = headers.get("sec-fetch-site")
        own = origin.partition("://")[2] == headers.get("host")
        return not own if site is None else site not in ("same-origin", "none")

    def _told(self, allowed: Allowed, request: RequestInfo, headers: Headers) -> dict[str, str]:
        """Return the CORS headers of the answer."""
        manner = MANNERS[request.profile.rest_cross_origin]
        origin = headers.get("origin")
        varies = {"vary": "Origin"} if manner.always_varies else {}
        if origin is None or not allowed.has(origin):
            return varies
        wanted = headers.get("access-control-request-method")
        if request.request.method != "OPTIONS" or wanted is None:
            return varies | _answered(allowed, manner, origin)
        if (manner.checks_method and wanted not in allowed.methods) or not _may_have(
            headers, manner
        ):
            return varies
        return varies | _answered(allowed, manner, origin) | _asked_before(allowed, manner)


def _answered(allowed: Allowed, manner: Manner, origin: str) -> dict[str, str]:
    varies = {} if allowed.origins == ("*",) else {"vary": "Origin"}
    with_credentials = {"access-control-allow-credentials": "true"}
    return {
        "access-control-allow-origin": origin,
        **varies,
        **(with_credentials if manner.credentials else {}),
    }


def _asked_before(allowed: Allowed, manner: Manner) -> dict[str, str]:
    return {
        "access-control-max-age": str(manner.max_age_s),
        _ACCESS_METHODS: ",".join(allowed.methods),
        "access-control-allow-headers": ",".join(manner.headers),
    }


_ACCESS_METHODS = "access-control-allow-methods"


def _may_have(headers: Headers, manner: Manner) -> bool:
    """Return True if the headers that a preflight announces are allowed."""
    if not manner.checks_headers:
        return True
    wanted: Sequence[str] = headers.get("access-control-request-headers", "").lower().split(",")
    known = {"", *(one.lower() for one in manner.headers)}
    return all(one.strip() in known for one in wanted)
