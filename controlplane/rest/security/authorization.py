"""Authorization: each request needs a caller with the required role, or it is refused here.

At the root this check comes first: a caller without a name does not learn which paths exist.

Beneath `/compat/{release}` the order is that of Connect's basic authentication extension:

- Path, method and media types are checked first.
- The refusal is the extension's text, without a challenge.
- Requests among workers need no name, because they are signed (KIP-507).

The extension fails with 500 if a header is not Base64; here the usual refusal is sent. The
extension has no roles. A caller without the required role gets 403, at the root and beneath
`/compat/{release}`.

Kafka: `org.apache.kafka.connect.rest.basic.auth.extension.JaasBasicAuthFilter`.
"""

from typing import NamedTuple

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from controlplane.core.releases.profiles import Profile
from controlplane.observe import Logger
from controlplane.rest.endpoints.query_parameters import CONNECTOR
from controlplane.rest.endpoints.router import match, route
from controlplane.rest.errors import (
    Answer,
    Forbidden,
    RestError,
    TooBusy,
    Unauthorized,
    unauthorized_by_extension,
)
from controlplane.rest.http.messages import Layer, RequestInfo, response
from controlplane.rest.jetty_errors import ServerRefusal
from controlplane.rest.security.authentication import (
    AuthenticationFailed,
    Authenticator,
    Principal,
    RequestCredentials,
    VerificationQueueFull,
)
from controlplane.rest.security.roles import READING, Role, needed
from controlplane.rest.security.settings import AuthSettings

_SIGNED = (("POST", (*CONNECTOR, "tasks")), ("PUT", (*CONNECTOR, "fence")))
"""Endpoints that workers call on each other."""

UNKNOWN = "Log in first"
"""Message to a caller without valid credentials."""


class AuthorizationLayer(Layer):
    """Admits callers with the required role, and passes their identity to the application.

    The scope's `state` holds the caller's name as `principal` and the permissions as `roles`.
    """

    def __init__(
        self,
        app: ASGIApp,
        settings: AuthSettings,
        authenticator: Authenticator,
        dialect: Profile,
        logger: Logger,
    ) -> None:
        super().__init__(app, dialect)
        self._open = _open(settings)
        self._authenticator = authenticator
        self._logger = logger

    async def handle(
        self, request: RequestInfo, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Pass a request on, or refuse it."""
        client = scope.get("client")
        credentials = RequestCredentials(Headers(scope=scope), client[0] if client else None)
        admitted = await self._admitted(request, credentials)
        if isinstance(admitted, _RefusedCaller):
            self._log(request, credentials, admitted)
            answer = response(admitted.answer, request.request.method)
            await answer(scope, receive, send)
            return
        if admitted is not None:
            scope = {**scope, "state": {**(scope.get("state") or {}), **_identity(admitted)}}
        await self._app(scope, receive, send)

    async def _admitted(
        self, request: RequestInfo, credentials: RequestCredentials
    ) -> "Principal | _RefusedCaller | None":
        """Return the caller or the refusal; None: pass the request on without authentication."""
        if self._is_open(request):
            return None
        if request.compat:
            try:
                # A worker checks path, method and media types before its filters run.
                route(request.request, request.target, request.profile)
            except ServerRefusal:
                return None  # the application answers with the page of the release's server
            except RestError as refusal:
                return _RefusedCaller(refusal.answer())
        return await self._authorized(request, credentials)

    async def _authorized(
        self, request: RequestInfo, credentials: RequestCredentials
    ) -> "Principal | _RefusedCaller":
        try:
            principal = await self._authenticator.authenticate(credentials)
        except AuthenticationFailed as failure:
            return self._unknown(request, f"{UNKNOWN}: {failure}")
        except VerificationQueueFull:
            busy = TooBusy("Too many passwords wait for verification: try again later")
            return _RefusedCaller(busy.answer())
        if principal is None:
            return self._unknown(request, f"{UNKNOWN}: the request has no credentials")
        role = needed(request.request.method, request.path)
        if principal.role < role:
            refusal = Forbidden(
                f"{principal.name} has the role {principal.role}, but this needs the role {role}"
            )
            return _RefusedCaller(refusal.answer(), principal.name)
        return principal

    def _unknown(self, request: RequestInfo, message: str) -> "_RefusedCaller":
        if request.compat:
            return _RefusedCaller(unauthorized_by_extension(request.request.method))
        return _RefusedCaller(Unauthorized(message, self._authenticator.challenges()).answer())

    def _is_open(self, request: RequestInfo) -> bool:
        """Return True if a request needs no authentication."""
        method, path = request.request.method, request.path
        if method in READING and path in self._open:
            return True
        if not (request.compat and request.profile.session_keys):
            return False
        matched = match(path)
        return matched is not None and (method, matched.template) in _SIGNED

    def _log(
        self, request: RequestInfo, credentials: RequestCredentials, refused: "_RefusedCaller"
    ) -> None:
        self._logger.info(
            "request_refused",
            method=request.request.method,
            target=request.request.target,
            status=refused.answer.status,
            principal=refused.principal,
            peer=credentials.peer,
        )


class _RefusedCaller(NamedTuple):
    """Answer to a refused caller, with the caller's name if it is known."""

    answer: Answer
    principal: str | None = None


def _open(settings: AuthSettings) -> frozenset[tuple[str, ...]]:
    """Return the paths that need no authentication."""
    paths = ("health", settings.health_open), ("metrics", settings.metrics_open)
    return frozenset((path,) for path, is_open in paths if is_open)


def _identity(principal: Principal) -> dict[str, object]:
    roles = tuple(str(role) for role in Role if role <= principal.role)
    return {"principal": principal.name, "roles": roles}
