"""Listeners of a worker: address, TLS, CORS and response headers."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from controlplane.settings.configuration import Configuration
from controlplane.settings.kinds import BadValue
from controlplane.settings.security import JavaStore, Secret, ServerTls
from controlplane.settings.stores import StoreSettings, identity, trusted
from controlplane.settings.worker import WorkerSettings

LOOPBACK = "127.0.0.1"
EVERYWHERE = "0.0.0.0"  # noqa: S104 - only for a listener without a host

HTTPS = "listeners.https."
"""Prefix of keys for listeners alone (KIP-208)."""

ADMIN_HTTPS = "admin.listeners.https."
"""Prefix of keys for administrators' listeners alone (KIP-495)."""


class ListenerSettings(StoreSettings, frozen=True, kw_only=True):
    """TLS settings of an `https://` listener, with the prefix `listeners.https.`.

    If no key has that prefix, the worker's own `ssl.*` applies. The two are never mixed.
    """


class AdminListenerSettings(StoreSettings, frozen=True, kw_only=True):
    """TLS settings of the administrators' listener, with the prefix `admin.listeners.https.`.

    If no key has that prefix, the worker's own `ssl.*` applies, and never `listeners.https.`
    (`RestServer#createConnector`).
    """


class AnswerSettings(msgspec.Struct, frozen=True, kw_only=True):
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


def listening(settings: WorkerSettings) -> Address:
    """Return the first listener; without any, this machine and `rest.port`.

    Raises:
        BadValue: the listener is malformed.
    """
    found = _parsed("listeners", settings.listeners)
    if found is None:
        return Address(settings.rest_host_name or LOOPBACK, settings.rest_port)
    return _address(found)


def administering(settings: WorkerSettings) -> Address | None:
    """Return the first administrators' listener; None: there is no separate one.

    Raises:
        BadValue: the listener is malformed.
    """
    found = _parsed("admin.listeners", settings.admin_listeners)
    return None if found is None else _address(found)


def own_hosts(settings: WorkerSettings) -> tuple[str, ...]:
    """Return every host name that the settings give to this server."""
    urls = (*settings.listeners, *(settings.admin_listeners or ()))
    of_listeners = (found["ip"] or found["host"] for url in urls if (found := _URL.fullmatch(url)))
    told = (settings.rest_host_name, settings.rest_advertised_host_name, *of_listeners)
    return tuple(name for name in told if name)


def _parsed(key: str, urls: Sequence[str] | None) -> re.Match[str] | None:
    """Parse the first listener of a list; None: the list is empty."""
    if not urls:
        return None
    found = _URL.fullmatch(urls[0])
    if found is None:
        told = ",".join(urls)
        raise BadValue(key, f"is {told!r}: use http://host:port or https://host:port")
    return found


def _address(found: re.Match[str]) -> Address:
    return Address(found["ip"] or found["host"] or EVERYWHERE, int(found["port"]))


def _is_encrypted(key: str, urls: Sequence[str] | None) -> bool:
    found = _parsed(key, urls)
    return found is not None and found["scheme"].lower() == "https"


def listener_tls(
    configuration: Configuration, of_listeners: Configuration | None = None
) -> ServerTls | None:
    """Return the TLS of the first listener; None: it is no `https://`.

    `of_listeners` configures the listeners; None takes them from `configuration`.

    Raises:
        SettingsError: it has no key, or a setting is invalid.
    """

    def encrypted(settings: WorkerSettings) -> bool:
        return _is_encrypted("listeners", settings.listeners)

    if not (of_listeners or configuration).make(WorkerSettings, encrypted):
        return None
    return _tls(configuration, ListenerSettings, HTTPS, "listeners")


def admin_tls(
    configuration: Configuration, of_listeners: Configuration | None = None
) -> ServerTls | None:
    """Return the TLS of the administrators' first listener; the arguments are as in `listener_tls`.

    Raises:
        SettingsError: it has no key, or a setting is invalid.
    """

    def encrypted(settings: WorkerSettings) -> bool:
        return _is_encrypted("admin.listeners", settings.admin_listeners)

    if not (of_listeners or configuration).make(WorkerSettings, encrypted):
        return None
    return _tls(configuration, AdminListenerSettings, ADMIN_HTTPS, "admin.listeners")


def _tls(
    configuration: Configuration, table: type[StoreSettings], own: str, listener: str
) -> ServerTls:
    """Build a listener's TLS from the keys with its `own` prefix, or else from plain `ssl.*`."""
    prefix = own if any(key.startswith(own) for key in configuration.told) else ""

    def tls(settings: StoreSettings) -> ServerTls:
        return ServerTls(
            _told(identity(settings, prefix), prefix, listener),
            settings.ssl_key_password,
            trusted(settings, prefix),
            settings.ssl_client_auth,
        )

    return configuration.make(table, tls, prefix)


def _told(
    identity: Path | JavaStore | Secret | None, prefix: str, listener: str
) -> Path | JavaStore | Secret:
    if identity is None:
        raise BadValue(
            f"{prefix}ssl.keystore.location",
            "is not told, and a listener needs a key for https://: give a key store, or PEM",
            because=listener,
        )
    return identity
