"""Base of the middleware: an ASGI application around another one."""

from abc import ABC, abstractmethod

from starlette.types import ASGIApp, Receive, Scope, Send

from controlplane.core.releases.profiles import Profile
from controlplane.rest.security.request_info import RequestInfo, request_info


class Layer(ABC):
    """Handles the HTTP requests to an application; other scopes pass untouched.

    `dialect` is the release that the service speaks at the root.
    """

    def __init__(self, app: ASGIApp, dialect: Profile) -> None:
        self._app = app
        self._dialect = dialect

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an HTTP request; pass other scopes on to the application (ASGI)."""
        if scope["type"] == "http":
            await self.handle(request_info(scope, self._dialect), scope, receive, send)
        else:
            await self._app(scope, receive, send)

    @abstractmethod
    async def handle(
        self, request: RequestInfo, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer an HTTP request, or pass it on to the application."""
