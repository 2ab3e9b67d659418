"""Assembly of the security middleware, from settings, in a fixed order."""

import ssl
from typing import NamedTuple

from starlette.types import ASGIApp

from controlplane.core.releases.profiles import KIP, Profile
from controlplane.observe import Logger, silent
from controlplane.rest.http.limits import HttpLimits
from controlplane.rest.security.authentication import Authenticator
from controlplane.rest.security.authorization import AuthorizationLayer
from controlplane.rest.security.headers import ExtraHeaders, extra_headers
from controlplane.rest.security.hosts import HostGuard, OwnHosts
from controlplane.rest.security.load_limits import LoadLimiter
from controlplane.rest.security.origins import OriginGuard, allowed_origins
from controlplane.rest.security.settings import AuthSettings
from controlplane.settings import Configuration
from controlplane.settings.listeners import (
    ADMIN,
    MAIN,
    ResponseHeaderSettings,
    listener_tls,
    own_hosts,
)
from controlplane.settings.prefixes import AUTH, HTTP
from controlplane.settings.security import ServerTls
from controlplane.settings.worker_settings import WorkerSettings
from controlplane.tls.contexts import server_context


class Protection(NamedTuple):
    """Protection of an application. The default has limits and no authentication."""

    auth: AuthSettings = AuthSettings()
    limits: HttpLimits = HttpLimits()
    answers: ResponseHeaderSettings = ResponseHeaderSettings()
    tls: ssl.SSLContext | None = None
    """TLS of the server; a mounted application is encrypted by its host."""
    admin_tls: ssl.SSLContext | None = None
    """TLS of the administrators' listener, if it is separate (KIP-495)."""
    hosts: tuple[str, ...] = ()
    """Names of this server besides local ones; checked where no login is required."""

    @classmethod
    def from_configuration(
        cls, configuration: Configuration, listeners: Configuration | None = None
    ) -> "Protection":
        """Build the protection from flags, the environment and a worker's file.

        `listeners` is the configuration of listeners and their answers; None: `configuration`.

        Raises:
            SettingsError: a value is invalid.
        """
        listeners = listeners or configuration
        return cls(
            configuration.settings(AuthSettings, AUTH),
            configuration.settings(HttpLimits, HTTP),
            listeners.settings(ResponseHeaderSettings),
            _context(listener_tls(MAIN, configuration, listeners)),
            _context(listener_tls(ADMIN, configuration, listeners)),
            (
                *configuration.settings(WorkerSettings).allowed_hosts,
                *listeners.make(WorkerSettings, own_hosts),
            ),
        )


def _context(tls: ServerTls | None) -> ssl.SSLContext | None:
    return None if tls is None else server_context(tls)


def protected(
    app: ASGIApp,
    protection: Protection,
    *,
    dialect: Profile | None = None,
    logger: Logger | None = None,
) -> ASGIApp:
    """Wrap an application in the middleware. `dialect` is the release that it speaks at the root.

    Raises:
        SettingsError: a credential file or another setting is invalid.
    """
    logger, dialect = logger or silent(), dialect or Profile.of(KIP)
    auth, answers = protection.auth, protection.answers
    if auth.is_configured:
        authenticator = Authenticator(auth, protection.limits, logger)
        app = AuthorizationLayer(app, auth, authenticator, dialect, logger)
    app = OriginGuard(app, allowed_origins(answers), dialect)
    if not auth.is_configured or auth.anonymous_role != "none":
        app = HostGuard(app, OwnHosts(protection.hosts), dialect, logger)
    extra = extra_headers(answers.response_http_headers_config)
    if extra:
        app = ExtraHeaders(app, extra)
    return LoadLimiter(app, protection.limits, dialect)
