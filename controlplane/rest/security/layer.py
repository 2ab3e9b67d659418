"""An ASGI application around another one, as the layers of a service are put together."""

from abc import ABC, abstractmethod

from starlette.types import ASGIApp, Receive, Scope, Send

from controlplane.core.profiles import Profile
from controlplane.rest.security.asked import Asked, asked


class Layer(ABC):
    """Handles the HTTP requests to an application; everything else passes untouched.

    `dialect` is the release as which the service speaks at the root.
    """

    def __init__(self, app: ASGIApp, dialect: Profile) -> None:
        self._app = app
        self._dialect = dialect

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request (ASGI)."""
        if scope["type"] == "http":
            await self.handle(asked(scope, self._dialect), scope, receive, send)
        else:
            await self._app(scope, receive, send)

    @abstractmethod
    async def handle(self, request: Asked, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer an HTTP request, or pass it on to the application."""
