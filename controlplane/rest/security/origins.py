"""Cross-origin requests (CORS): `access.control.allow.origin` and `.methods`.

A page that is not allowed cannot read an answer; the browser enforces that. But a browser lets any
page send a POST without a body, with its user's credentials. This module therefore refuses changes
from pages of other hosts.

Each release answers as its server did (`Profile.rest_cross_origin`): Jetty's filter up to 3.9, its
handler from 4.0 on. A browser sends a preflight request without credentials. Jetty's filter and
handler both pass it on to Connect, which refuses it if it requires a login. Beneath `/compat` this
module does the same. At the root it answers the preflight itself.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from controlplane.core.releases.profiles import Profile
from controlplane.rest.errors import HTML, NO_CONTENT, Answer, Forbidden
from controlplane.rest.http.messages import Layer, RequestInfo, response
from controlplane.rest.security.roles import READING
from controlplane.rest.security.wildcards import wildcard_pattern
from controlplane.settings.kinds import split_list
from controlplane.settings.listeners import ResponseHeaderSettings

ORIGIN_MAX = 300
"""Longest origin that may be allowed: a DNS name has at most 253 characters."""

_SIMPLE = ("GET", "POST", "HEAD")
"""Methods that a browser sends without a preflight."""


class CorsBehaviour(NamedTuple):
    """Differences between servers in how they answer requests of other origins (CORS)."""

    credentials: bool
    max_age_s: int
    headers: tuple[str, ...]
    """Request headers that are allowed besides the CORS-safelisted ones."""
    always_varies: bool
    """True if every answer has `Vary: Origin`; False if only answers to allowed origins do."""
    checks_headers: bool
    checks_method: bool = True
    """True if a preflight for a method that is not allowed gets no CORS headers."""


CORS_BEHAVIOURS: Mapping[str, CorsBehaviour] = {
    "filter": CorsBehaviour(
        credentials=True,
        max_age_s=1_800,
        headers=("X-Requested-With", "Content-Type", "Accept", "Origin"),
        always_varies=False,
        checks_headers=True,
    ),
    "handler": CorsBehaviour(
        credentials=False,
        max_age_s=60,
        headers=("Content-Type",),
        always_varies=True,
        checks_headers=False,
        checks_method=False,
    ),
    "ours": CorsBehaviour(
        credentials=False,
        max_age_s=60,
        headers=("Content-Type", "Accept", "Authorization", "Idempotency-Key", "Last-Event-ID"),
        always_varies=True,
        checks_headers=True,
    ),
}
"""CORS behaviour by server (`Profile.rest_cross_origin`)."""


class AllowedOrigins(NamedTuple):
    """Allowed origins, and the methods that they may use."""

    origins: tuple[str, ...]
    """Allowed origins; `*` stands for anything, alone or in an origin."""
    methods: tuple[str, ...] = _SIMPLE

    def has(self, origins: str) -> bool:
        """Return True if one of these space-separated origins is allowed; a long one never is."""
        return any(
            re.fullmatch(wildcard_pattern(pattern), origin)
            for origin in origins.split()
            if len(origin) <= ORIGIN_MAX
            for pattern in self.origins
        )


def allowed_origins(settings: ResponseHeaderSettings) -> AllowedOrigins | None:
    """Return the allowed origins of the settings; None if no other origin is allowed."""
    origins = settings.access_control_allow_origin
    if not origins:
        return None
    methods = settings.access_control_allow_methods
    return AllowedOrigins(split_list(origins), split_list(methods) if methods else _SIMPLE)


class OriginGuard(Layer):
    """Adds CORS headers, and refuses changes from pages of other hosts."""

    def __init__(self, app: ASGIApp, allowed: AllowedOrigins | None, dialect: Profile) -> None:
        super().__init__(app, dialect)
        self._allowed = allowed

    async def handle(
        self, request: RequestInfo, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Pass a request on, and add the CORS headers to its answer."""
        headers = request.request.headers
        if request.request.method not in READING and self._is_foreign(headers):
            refusal = Forbidden(
                "A page of another host cannot change anything here: allow its origin in "
                "access.control.allow.origin"
            ).answer()
            await response(refusal, request.request.method)(scope, receive, send)
            return
        cors = {} if self._allowed is None else self._cors_headers(self._allowed, request, headers)
        if not request.compat and _ACCESS_METHODS in cors:
            await response(Answer(NO_CONTENT, "", None, cors), "OPTIONS")(scope, receive, send)
            return

        if not cors:
            await self._app(scope, receive, send)
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer_headers = MutableHeaders(scope=message)
                if answer_headers.get("content-type") != HTML:  # the server's own error pages
                    answer_headers.update(cors)
            await send(message)

        await self._app(scope, receive, sending)

    def _is_foreign(self, headers: Headers) -> bool:
        """Return True if a browser sends the request for a page that is not allowed.

        If the header `Sec-Fetch-Site` is sent, it decides. Behind a proxy, `Host` may differ from
        the origin.
        """
        origin = headers.get("origin")
        if origin is None or (self._allowed is not None and self._allowed.has(origin)):
            return False
        site = headers.get("sec-fetch-site")
        own = origin.partition("://")[2] == headers.get("host")
        return not own if site is None else site not in ("same-origin", "none")

    def _cors_headers(
        self, allowed: AllowedOrigins, request: RequestInfo, headers: Headers
    ) -> dict[str, str]:
        """Return the CORS headers of the answer."""
        behaviour = CORS_BEHAVIOURS[request.profile.rest_cross_origin]
        origin = headers.get("origin")
        varies = {"vary": "Origin"} if behaviour.always_varies else {}
        if origin is None or not allowed.has(origin):
            return varies
        method = headers.get("access-control-request-method")
        if request.request.method != "OPTIONS" or method is None:
            return varies | _origin_headers(allowed, behaviour, origin)
        refuses_method = behaviour.checks_method and method not in allowed.methods
        if refuses_method or not _headers_allowed(headers, behaviour):
            return varies
        return (
            varies
            | _origin_headers(allowed, behaviour, origin)
            | _preflight_headers(allowed, behaviour)
        )


def _origin_headers(
    allowed: AllowedOrigins, behaviour: CorsBehaviour, origin: str
) -> dict[str, str]:
    varies = {} if allowed.origins == ("*",) else {"vary": "Origin"}
    with_credentials = {"access-control-allow-credentials": "true"}
    return {
        "access-control-allow-origin": origin,
        **varies,
        **(with_credentials if behaviour.credentials else {}),
    }


def _preflight_headers(allowed: AllowedOrigins, behaviour: CorsBehaviour) -> dict[str, str]:
    return {
        "access-control-max-age": str(behaviour.max_age_s),
        _ACCESS_METHODS: ",".join(allowed.methods),
        "access-control-allow-headers": ",".join(behaviour.headers),
    }


_ACCESS_METHODS = "access-control-allow-methods"


def _headers_allowed(headers: Headers, behaviour: CorsBehaviour) -> bool:
    """Return True if the headers that a preflight announces are allowed."""
    if not behaviour.checks_headers:
        return True
    announced: Sequence[str] = headers.get("access-control-request-headers", "").lower().split(",")
    allowed = {"", *(name.lower() for name in behaviour.headers)}
    return all(name.strip() in allowed for name in announced)
