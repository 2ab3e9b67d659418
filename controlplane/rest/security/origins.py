"""Browsers that ask from pages of other hosts: `access.control.allow.origin` and `.methods`.

A page that is not allowed reads no answer; that is for the browser to keep (CORS). But a browser
lets any page send a POST without a body, with the name of whoever sits there: what would change
something and comes from a page of another host is refused here.

Each release answers as its server did (`Profile.rest_cross_origin`): Jetty's filter up to 3.9, its
handler from 4.0 on, both of which pass the question before the request (a preflight) on, so that
behind a login it is refused. At the root it is answered here: a browser sends no name with it.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from controlplane.core.profiles import Profile
from controlplane.rest.errors import HTML, NO_CONTENT, Answer, Forbidden
from controlplane.rest.security.asked import Asked
from controlplane.rest.security.layer import Layer
from controlplane.rest.security.roles import READING
from controlplane.rest.wire import response
from controlplane.settings.kinds import texts
from controlplane.settings.listening import AnswerSettings

_SIMPLE = ("GET", "POST", "HEAD")
"""What a browser sends without asking first."""


class Manner(NamedTuple):
    """How one server answers requests from elsewhere."""

    credentials: bool
    max_age_s: int
    headers: tuple[str, ...]
    """What a request may have beside what every one may."""
    always_varies: bool
    """Whether `Vary: Origin` goes with every answer, or only with those to origins that may ask."""
    checks_headers: bool
    checks_method: bool = True
    """Whether a question about a method that is not allowed gets no headers."""


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
"""By what a release is served (`Profile.rest_cross_origin`)."""


class Allowed(NamedTuple):
    """From where, and by which methods, may be asked."""

    origins: tuple[str, ...]
    """`*` stands for anything, alone or in an origin."""
    methods: tuple[str, ...] = _SIMPLE

    def has(self, origins: str) -> bool:
        """Whether one of the origins that a browser names may ask."""
        return any(
            re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), origin)
            for origin in origins.split()
            for pattern in self.origins
        )


def allowed(settings: AnswerSettings) -> Allowed | None:
    """Who may ask, as the settings say; None: no page of anybody else's."""
    origins = settings.access_control_allow_origin
    if not origins:
        return None
    methods = settings.access_control_allow_methods
    return Allowed(texts(origins), texts(methods) if methods else _SIMPLE)


class Origins(Layer):
    """Tells browsers which pages may read an answer, and lets others change nothing."""

    def __init__(self, app: ASGIApp, allowed: Allowed | None, dialect: Profile) -> None:
        super().__init__(app, dialect)
        self._allowed = allowed

    async def handle(self, request: Asked, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and add to its answer what browsers look for."""
        headers = Headers(scope=scope)
        if request.request.method not in READING and self._is_foreign(headers):
            refusal = Forbidden("A page of another host may change nothing here").answer()
            await response(refusal, request.request.method)(scope, receive, send)
            return
        told = {} if self._allowed is None else self._told(self._allowed, request, headers)
        if not request.compat and _ACCESS_METHODS in told:
            await response(Answer(NO_CONTENT, "", None, told), "OPTIONS")(scope, receive, send)
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = MutableHeaders(scope=message)
                if given.get("content-type") != HTML:  # no resource has made a page
                    given.update(told)
            await send(message)

        await self._app(scope, receive, sending)

    def _is_foreign(self, headers: Headers) -> bool:
        """Whether a browser sends it for a page that may not ask.

        Browsers that can say whether it is a page of ours do: behind a proxy the host may differ.
        """
        origin = headers.get("origin")
        if origin is None or (self._allowed is not None and self._allowed.has(origin)):
            return False
        site = headers.get("sec-fetch-site")
        own = origin.partition("://")[2] == headers.get("host")
        return not own if site is None else site not in ("same-origin", "none")

    def _told(self, allowed: Allowed, request: Asked, headers: Headers) -> dict[str, str]:
        """The headers of the answer."""
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
    """Whether a request may have the headers that the browser wants to send with it."""
    if not manner.checks_headers:
        return True
    wanted: Sequence[str] = headers.get("access-control-request-headers", "").lower().split(",")
    known = {"", *(one.lower() for one in manner.headers)}
    return all(one.strip() in known for one in wanted)
