"""All of it around an application: what is told, and in which order it goes."""

import ssl
from typing import NamedTuple

from starlette.types import ASGIApp

from controlplane.core.profiles import KIP, Profile
from controlplane.logs.kafka.tls import server_context
from controlplane.observe import Logger, silent
from controlplane.rest.security.bounds import Bounds
from controlplane.rest.security.gate import Gate
from controlplane.rest.security.headers import ExtraHeaders, extra_headers
from controlplane.rest.security.hosts import HostGuard, Hosts
from controlplane.rest.security.identity import Identities
from controlplane.rest.security.origins import Origins, allowed
from controlplane.rest.security.settings import AuthSettings, HttpLimits
from controlplane.security import ServerTls
from controlplane.settings import Configuration
from controlplane.settings.listening import AnswerSettings, admin_tls, listener_tls, own_hosts
from controlplane.settings.parts import AUTH, HTTP
from controlplane.settings.worker import WorkerSettings


class Protection(NamedTuple):
    """How an application is protected. The default: within bounds, and anybody may come in."""

    auth: AuthSettings = AuthSettings()
    limits: HttpLimits = HttpLimits()
    answers: AnswerSettings = AnswerSettings()
    tls: ssl.SSLContext | None = None
    """For the server; what is mounted elsewhere is encrypted by others."""
    admin_tls: ssl.SSLContext | None = None
    """The same for the listener of administrators, if they have one of their own (KIP-495)."""
    hosts: tuple[str, ...] = ()
    """Names of this server beside local ones; they count where nobody has to log in."""

    @classmethod
    def told(
        cls, configuration: Configuration, of_listeners: Configuration | None = None
    ) -> "Protection":
        """What flags, the environment and a worker's file say.

        `of_listeners` is what counts of listeners and their answers; None: all of it.

        Raises:
            SettingsError: a value cannot be used.
        """
        of_listeners = of_listeners or configuration
        return cls(
            configuration.settings(AuthSettings, AUTH),
            configuration.settings(HttpLimits, HTTP),
            of_listeners.settings(AnswerSettings),
            _context(listener_tls(configuration, of_listeners)),
            _context(admin_tls(configuration, of_listeners)),
            (
                *configuration.settings(WorkerSettings).allowed_hosts,
                *of_listeners.make(WorkerSettings, own_hosts),
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
    """An application behind its gate. `dialect` is the release as which it speaks at the root.

    Raises:
        SettingsError: a file of credentials cannot be used, or another setting.
    """
    logger, dialect = logger or silent(), dialect or Profile.of(KIP)
    auth, limits, answers, *_ = protection
    if auth.asks:
        identities = Identities(auth, limits, logger)
        app = Gate(app, auth, identities, dialect, logger)
    app = Origins(app, allowed(answers), dialect)
    if not auth.asks or auth.anonymous_role != "none":
        app = HostGuard(app, Hosts(protection.hosts), dialect, logger)
    extra = extra_headers(answers.response_http_headers_config)
    if extra:
        app = ExtraHeaders(app, extra)
    return Bounds(app, limits, dialect)
