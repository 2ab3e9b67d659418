"""What a service shows of itself to the network: its application, protected and measured."""

from starlette.types import ASGIApp, Receive, Scope, Send

from controlplane.core.profiles import Profile
from controlplane.observe import Logger
from controlplane.rest.app import App
from controlplane.rest.calls import Service
from controlplane.rest.metrics import Metrics
from controlplane.rest.security.protecting import Protection, protected


class Front:
    """Everything between the network and the applications of one process.

    `logger` tells what happens, and counts it: give it to the control plane, too.
    """

    def __init__(self, protection: Protection, dialect: Profile, logger: Logger) -> None:
        self.protection = protection
        self._dialect = dialect
        self._metrics = Metrics()
        self.logger = self._metrics.noticing(logger)

    def check(self) -> None:
        """Refuse settings that cannot be used, while no log is open yet.

        Raises:
            SettingsError: a file of credentials cannot be used, or another setting.
        """
        protected(_unreachable, self.protection, dialect=self._dialect)

    def before(self, service: Service) -> ASGIApp:
        """The application of a service, as it may be listened on.

        Raises:
            SettingsError: a file of credentials cannot be used, or another setting.
        """
        service = service._replace(metrics=True)
        app = self._metrics.exposing(App(service, self.logger), service)
        guarded = protected(app, self.protection, dialect=self._dialect, logger=self.logger)
        return self._metrics.counting(guarded, self._dialect)


async def _unreachable(_: Scope, __: Receive, ___: Send) -> None:
    raise AssertionError("an application that only stands for another one was asked")
