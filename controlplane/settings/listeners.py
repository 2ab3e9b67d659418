"""Listeners of a worker: address, TLS, CORS and response headers."""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from controlplane.settings.configuration import Configuration
from controlplane.settings.errors import BadValue
from controlplane.settings.security import ServerTls
from controlplane.settings.stores import StoreSettings, identity, trusted
from controlplane.settings.worker_settings import LAST_PORT, WorkerSettings

LOOPBACK = "127.0.0.1"
EVERYWHERE = "0.0.0.0"  # noqa: S104 - only for a listener without a host


class ListenerSettings(StoreSettings, frozen=True, kw_only=True):
    """TLS settings of an `https://` listener, with the prefix `listeners.https.`.

    If no key has that prefix, the worker's own `ssl.*` applies. The two are never mixed.
    """


class AdminListenerSettings(StoreSettings, frozen=True, kw_only=True):
    """TLS settings of the administrators' listener, with the prefix `admin.listeners.https.`.

    If no key has that prefix, the worker's own `ssl.*` applies, and never `listeners.https.`
    (`RestServer#createConnector`).
    """


class ResponseHeaderSettings(msgspec.Struct, frozen=True, kw_only=True):
    """CORS settings and additional response headers."""

    access_control_allow_origin: str = ""
    """Allowed origins, separated by commas; `*` stands for anything. Empty: none."""

    access_control_allow_methods: str = ""
    """Allowed methods of these origins. Empty: GET, POST, HEAD."""

    response_http_headers_config: str = ""
    """KIP-577: rules `set NAME: VALUE`, or add, setDate, addDate, separated by commas."""


class Address(NamedTuple):
    """Address to listen on; port 0 is any free port."""

    host: str
    port: int


_URL = re.compile(
    r"(?P<scheme>https?)://(\[(?P<ip>[^\]]*)\]|(?P<host>[^:/\[\]]*)):(?P<port>[0-9]{1,5})/?",
    re.IGNORECASE,
)


class ListenerKind(NamedTuple):
    """One of a worker's two listeners: the setting of its URLs, and its TLS settings."""

    key: str
    urls: Callable[[WorkerSettings], Sequence[str] | None]
    tls: type[StoreSettings]
    prefix: str
    """Prefix of its own TLS keys."""

    def first_url(self, settings: WorkerSettings) -> re.Match[str] | None:
        """Parse the first URL; None: there is none.

        Raises:
            BadValue: the URL is malformed, or there is no such port.
        """
        urls = self.urls(settings)
        if not urls:
            return None
        url = _URL.fullmatch(urls[0])
        listed = ",".join(urls)
        if url is None:
            raise BadValue(self.key, f"is {listed!r}: use http://host:port or https://host:port")
        if int(url["port"]) > LAST_PORT:
            raise BadValue(self.key, f"is {listed!r}: use a port from 0 to {LAST_PORT}")
        return url

    def is_encrypted(self, settings: WorkerSettings) -> bool:
        """Return True if the first URL begins with `https://`."""
        url = self.first_url(settings)
        return url is not None and url["scheme"].lower() == "https"


MAIN = ListenerKind(
    "listeners", lambda worker: worker.listeners, ListenerSettings, "listeners.https."
)
"""Listener of all endpoints that `ADMIN` does not have; KIP-208 defines its prefix."""

ADMIN = ListenerKind(
    "admin.listeners",
    lambda worker: worker.admin_listeners,
    AdminListenerSettings,
    "admin.listeners.https.",
)
"""Listener of the endpoints for administrators (KIP-495)."""


def listen_address(settings: WorkerSettings) -> Address:
    """Return the address of the first listener; default: `rest.host.name` or loopback, `rest.port`.

    Raises:
        BadValue: the listener is malformed.
    """
    url = MAIN.first_url(settings)
    if url is None:
        return Address(settings.rest_host_name or LOOPBACK, settings.rest_port)
    return _address(url)


def admin_listen_address(settings: WorkerSettings) -> Address | None:
    """Return the address of the administrators' first listener; None: there is no separate one.

    Raises:
        BadValue: the listener is malformed.
    """
    url = ADMIN.first_url(settings)
    return None if url is None else _address(url)


def own_hosts(settings: WorkerSettings) -> tuple[str, ...]:
    """Return every host name of this server in the settings: listeners, `rest.*host.name`."""
    urls = (*settings.listeners, *(settings.admin_listeners or ()))
    matches = (_URL.fullmatch(url) for url in urls)
    listener_hosts = (url["ip"] or url["host"] for url in matches if url)
    names = (settings.rest_host_name, settings.rest_advertised_host_name, *listener_hosts)
    return tuple(name for name in names if name)


def _address(url: re.Match[str]) -> Address:
    return Address(url["ip"] or url["host"] or EVERYWHERE, int(url["port"]))


def listener_tls(
    listener: ListenerKind, configuration: Configuration, url_source: Configuration | None = None
) -> ServerTls | None:
    """Return the TLS of a listener's first URL; None if the URL does not begin with `https://`.

    The TLS settings are the keys with the listener's prefix, or else plain `ssl.*`.
    `url_source`: configuration with the URLs; None: `configuration`.

    Raises:
        SettingsError: the listener has no private key, or a setting is invalid.
    """
    if not (url_source or configuration).make(WorkerSettings, listener.is_encrypted):
        return None
    has_own = any(key.startswith(listener.prefix) for key in configuration.values)
    prefix = listener.prefix if has_own else ""

    def tls(settings: StoreSettings) -> ServerTls:
        own_identity = identity(settings, prefix)
        if own_identity is None:
            raise BadValue(
                f"{prefix}ssl.keystore.location",
                "is not set, and a listener needs a key for https://: give a key store, or PEM",
                because=listener.key,
            )
        return ServerTls(
            own_identity,
            settings.ssl_key_password,
            trusted(settings, prefix),
            settings.ssl_client_auth,
        )

    return configuration.make(listener.tls, tls, prefix)
