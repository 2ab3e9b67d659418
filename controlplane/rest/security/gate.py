"""Who may come in: every request is somebody's, and he may do what it asks, or it ends here.

At the root this is decided before anything else, so that a stranger learns nothing, not even which
paths there are. Beneath `/compat/{release}` it is as with Connect's own extension for basic
authentication: path, method and media types come first, the refusal is its text, no challenge goes
with it, and the requests of workers to each other need no name, for they are signed (KIP-507).
Where that extension fails with 500, at a header that is no Base64, the refusal is the usual one.
What somebody may not do is 403 in either place; the extension knows no roles.

Kafka: `org.apache.kafka.connect.rest.basic.auth.extension.JaasBasicAuthFilter`.
"""

from typing import NamedTuple

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from controlplane.core.profiles import Profile
from controlplane.observe import Logger
from controlplane.rest.errors import (
    Answer,
    Forbidden,
    RestError,
    TooBusy,
    Unauthorized,
    unauthorized_by_extension,
)
from controlplane.rest.pages import Refused
from controlplane.rest.paths import matches
from controlplane.rest.security.asked import Asked
from controlplane.rest.security.identity import (
    Asker,
    Identities,
    Principal,
    TooManyProofs,
    Unproved,
)
from controlplane.rest.security.layer import Layer
from controlplane.rest.security.roles import READING, Role, needed
from controlplane.rest.security.settings import AuthSettings
from controlplane.rest.wire import response

_SIGNED = (("POST", ("connectors", "{}", "tasks")), ("PUT", ("connectors", "{}", "fence")))
"""What workers ask each other for."""

UNKNOWN = "Say who you are"
"""To somebody who has said nothing of himself."""


class Gate(Layer):
    """Lets in whoever is known and may do what he asks; tells the application who that is.

    The name is the `principal` of the scope's `state`, what he may do its `roles`.
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

    async def handle(self, request: Asked, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        client = scope.get("client")
        asker = Asker(Headers(scope=scope), client[0] if client else None)
        admitted = await self._admitted(request, asker)
        if isinstance(admitted, _Refused):
            self._tell(request, asker, admitted)
            answer = response(admitted.answer, request.request.method)
            await answer(scope, receive, send)
            return
        if admitted is not None:
            scope = {**scope, "state": {**(scope.get("state") or {}), **_told(admitted)}}
        await self._app(scope, receive, send)

    async def _admitted(self, request: Asked, asker: Asker) -> "Principal | _Refused | None":
        """Who asks; None: anybody may."""
        if self._asks_nobody(request):
            return None
        if request.compat:
            try:
                request.check_routed()
            except Refused:
                return None  # there is nothing behind such a path: the application says it best
            except RestError as refusal:
                return _Refused(refusal.answer())
        return await self._known(request, asker)

    async def _known(self, request: Asked, asker: Asker) -> "Principal | _Refused":
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

    def _unknown(self, request: Asked, message: str) -> "_Refused":
        if request.compat:
            return _Refused(unauthorized_by_extension(request.request.method))
        return _Refused(Unauthorized(message, self._identities.challenges()).answer())

    def _asks_nobody(self, request: Asked) -> bool:
        """Whether a request needs no name."""
        method, path = request.request.method, request.path
        if method in READING and path in self._open:
            return True
        internal = any(method == one and matches(template, path) for one, template in _SIGNED)
        return internal and request.compat and request.profile.session_keys

    def _tell(self, request: Asked, asker: Asker, refused: "_Refused") -> None:
        self._logger.info(
            "request_refused",
            method=request.request.method,
            target=request.request.target,
            status=refused.answer.status,
            principal=refused.principal,
            peer=asker.peer,
        )


class _Refused(NamedTuple):
    """What is answered to somebody who may not come in, and his name if it is known."""

    answer: Answer
    principal: str | None = None


def _open(settings: AuthSettings) -> frozenset[tuple[str, ...]]:
    """Paths that anybody may read."""
    paths = ("health", settings.health_open), ("metrics", settings.metrics_open)
    return frozenset((path,) for path, is_open in paths if is_open)


def _told(principal: Principal) -> dict[str, object]:
    roles = tuple(str(role) for role in Role if role <= principal.role)
    return {"principal": principal.name, "roles": roles}
