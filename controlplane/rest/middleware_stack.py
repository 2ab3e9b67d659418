"""Middleware stack of a service: authentication, limits and metrics around its application."""

from starlette.types import ASGIApp, Receive, Scope, Send

from controlplane.core.releases.profiles import Profile
from controlplane.observe import Logger
from controlplane.rest.app import App
from controlplane.rest.metrics import Metrics
from controlplane.rest.security.middleware import Protection, protected
from controlplane.rest.service import Service


class MiddlewareStack:
    """Authentication, limits and metrics around the applications of one process.

    The attribute `logger` wraps the given one and counts events: pass it to the control plane.
    """

    def __init__(self, protection: Protection, dialect: Profile, logger: Logger) -> None:
        self.protection = protection
        self._dialect = dialect
        self._metrics = Metrics()
        self.logger = self._metrics.counting_logger(logger)

    def check(self) -> None:
        """Validate the settings before any log is opened.

        Raises:
            SettingsError: a credential file or another setting is invalid.
        """
        protected(_placeholder, self.protection, dialect=self._dialect)

    def application(self, service: Service) -> ASGIApp:
        """Return the application of a service behind authentication, limits and metrics.

        Raises:
            SettingsError: a credential file or another setting is invalid.
        """
        service = service.behind_metrics()
        app = self._metrics.with_metrics(App(service, self.logger), service)
        dialect = service.dialect
        guarded = protected(app, self.protection, dialect=dialect, logger=self.logger)
        return self._metrics.counting_requests(guarded, dialect)


async def _placeholder(_: Scope, __: Receive, ___: Send) -> None:
    raise AssertionError("the placeholder application got a request")
