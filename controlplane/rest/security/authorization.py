"""Authorization: each request needs a caller with the required role, or it is refused here.

At the root this is decided first, so that a stranger learns nothing, not even which paths exist.

Beneath `/compat/{release}` the order is that of Connect's basic authentication extension:

- Path, method and media types are checked first.
- The refusal is the extension's text, without a challenge.
- Requests among workers need no name, because they are signed (KIP-507).

The extension fails with 500 if a header is not Base64; here the usual refusal is sent. A missing
role is 403 in both places; the extension has no roles.

Kafka: `org.apache.kafka.connect.rest.basic.auth.extension.JaasBasicAuthFilter`.
"""

from typing import NamedTuple

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from controlplane.core.releases.profiles import Profile
from controlplane.observe import Logger
from controlplane.rest.endpoints.router import match
from controlplane.rest.errors import (
    Answer,
    Forbidden,
    RestError,
    TooBusy,
    Unauthorized,
    unauthorized_by_extension,
)
from controlplane.rest.http.jetty_errors import Refused
from controlplane.rest.http.wire import response
from controlplane.rest.security.authentication import (
    Claimant,
    Identities,
    Principal,
    TooManyProofs,
    Unproved,
)
from controlplane.rest.security.layer import Layer
from controlplane.rest.security.request_info import RequestInfo
from controlplane.rest.security.roles import READING, Role, needed
from controlplane.rest.security.settings import AuthSettings

_SIGNED = (("POST", ("connectors", "{}", "tasks")), ("PUT", ("connectors", "{}", "fence")))
"""Endpoints that workers call on each other."""

UNKNOWN = "Say who you are"
"""Message to a caller without valid credentials."""


class Gate(Layer):
    """Admits callers with the required role, and passes their identity to the application.

    The scope's `state` holds the caller's name as `principal` and the permissions as `roles`.
    """

    def __init__(
        self,
        app: ASGIApp,
        settings: AuthSettings,
        identities: Identities,
        dialect: Profile,
        logger: Logger,
    ) -> None:
        super().__init__(app, dialect)
        self._open = _open(settings)
        self._identities = identities
        self._logger = logger

    async def handle(
        self, request: RequestInfo, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Pass a request on, or refuse it."""
        client = scope.get("client")
        asker = Claimant(Headers(scope=scope), client[0] if client else None)
        admitted = await self._admitted(request, asker)
        if isinstance(admitted, _Refused):
            self._tell(request, asker, admitted)
            answer = response(admitted.answer, request.request.method)
            await answer(scope, receive, send)
            return
        if admitted is not None:
            scope = {**scope, "state": {**(scope.get("state") or {}), **_told(admitted)}}
        await self._app(scope, receive, send)

    async def _admitted(
        self, request: RequestInfo, asker: Claimant
    ) -> "Principal | _Refused | None":
        """Return the caller; None if the request needs no authentication."""
        if self._asks_nobody(request):
            return None
        if request.compat:
            try:
                request.check_routed()
            except Refused:
                return None  # no such path: the application has the right error
            except RestError as refusal:
                return _Refused(refusal.answer())
        return await self._known(request, asker)

    async def _known(self, request: RequestInfo, asker: Claimant) -> "Principal | _Refused":
        try:
            principal = await self._identities.of(asker)
        except Unproved as wrong:
            return self._unknown(request, f"{UNKNOWN}: {wrong}")
        except TooManyProofs:
            return _Refused(TooBusy("Too many passwords wait to be verified: ask again").answer())
        if principal is None:
            return self._unknown(request, f"{UNKNOWN}: this is only for those who are known")
        role = needed(request.request.method, request.path)
        if principal.role < role:
            refusal = Forbidden(
                f"{principal.name} may {principal.role}, but this takes somebody who may {role}"
            )
            return _Refused(refusal.answer(), principal.name)
        return principal

    def _unknown(self, request: RequestInfo, message: str) -> "_Refused":
        if request.compat:
            return _Refused(unauthorized_by_extension(request.request.method))
        return _Refused(Unauthorized(message, self._identities.challenges()).answer())

    def _asks_nobody(self, request: RequestInfo) -> bool:
        """Return True if a request needs no authentication."""
        method, path = request.request.method, request.path
        if method in READING and path in self._open:
            return True
        if not (request.compat and request.profile.session_keys):
            return False
        found = match(path)
        return found is not None and (method, found.template) in _SIGNED

    def _tell(self, request: RequestInfo, asker: Claimant, refused: "_Refused") -> None:
        self._logger.info(
            "request_refused",
            method=request.request.method,
            target=request.request.target,
            status=refused.answer.status,
            principal=refused.principal,
            peer=asker.peer,
        )


class _Refused(NamedTuple):
    """Answer to a refused caller, with the caller's name if it is known."""

    answer: Answer
    principal: str | None = None


def _open(settings: AuthSettings) -> frozenset[tuple[str, ...]]:
    """Return the paths that need no authentication."""
    paths = ("health", settings.health_open), ("metrics", settings.metrics_open)
    return frozenset((path,) for path, is_open in paths if is_open)


def _told(principal: Principal) -> dict[str, object]:
    roles = tuple(str(role) for role in Role if role <= principal.role)
    return {"principal": principal.name, "roles": roles}
