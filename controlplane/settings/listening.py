"""Where a worker's settings tell us to listen, and as whom; what browsers and answers are told."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from controlplane.security import JavaStore, Secret, ServerTls
from controlplane.settings.configuration import Configuration
from controlplane.settings.kinds import BadValue
from controlplane.settings.stores import StoreSettings, identity, trusted
from controlplane.settings.worker import WorkerSettings

LOOPBACK = "127.0.0.1"
EVERYWHERE = "0.0.0.0"  # noqa: S104 - only for who asks for it: a listener without a host

HTTPS = "listeners.https."
"""How keys begin that are for listeners alone (KIP-208)."""

ADMIN_HTTPS = "admin.listeners.https."
"""How keys begin that are for listeners of administrators alone (KIP-495)."""


class ListenerSettings(StoreSettings, frozen=True, kw_only=True):
    """Who an `https://` listener is, and whom it trusts: with the prefix `listeners.https.`.

    If nothing has that prefix, the worker's own `ssl.*` counts: all of the one, or of the other.
    """


class AdminListenerSettings(StoreSettings, frozen=True, kw_only=True):
    """The same for administrators, with the prefix `admin.listeners.https.`.

    If nothing has that prefix, the worker's own `ssl.*` counts, and never `listeners.https.`
    (`RestServer#createConnector`).
    """


class AnswerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What browsers are told, and what every answer is to have."""

    access_control_allow_origin: str = ""
    """Pages that may ask: origins with commas between, `*` in them for anything. Empty: none."""

    access_control_allow_methods: str = ""
    """Methods by which they may ask. Empty: GET, POST, HEAD."""

    response_http_headers_config: str = ""
    """KIP-577: `set NAME: VALUE`, or add, setDate, addDate, with commas between."""


class Address(NamedTuple):
    """What to listen on; port 0 is any that is free."""

    host: str
    port: int


_URL = re.compile(
    r"(?P<scheme>https?)://(\[(?P<ip>[^\]]*)\]|(?P<host>[^:/\[\]]*)):(?P<port>[0-9]{1,5})/?",
    re.IGNORECASE,
)


def listening(settings: WorkerSettings) -> Address:
    """The first listener; without any, this machine and `rest.port`.

    Raises:
        BadValue: it is none.
    """
    found = _parsed("listeners", settings.listeners)
    if found is None:
        return Address(settings.rest_host_name or LOOPBACK, settings.rest_port)
    return _address(found)


def administering(settings: WorkerSettings) -> Address | None:
    """The first listener for what administers; None: there is none apart.

    Raises:
        BadValue: it is none.
    """
    found = _parsed("admin.listeners", settings.admin_listeners)
    return None if found is None else _address(found)


def own_hosts(settings: WorkerSettings) -> tuple[str, ...]:
    """Every host name that the settings give to this server."""
    urls = (*settings.listeners, *(settings.admin_listeners or ()))
    of_listeners = (found["ip"] or found["host"] for url in urls if (found := _URL.fullmatch(url)))
    told = (settings.rest_host_name, settings.rest_advertised_host_name, *of_listeners)
    return tuple(name for name in told if name)


def _parsed(key: str, urls: Sequence[str] | None) -> re.Match[str] | None:
    """The first of some listeners, taken apart; None: there are none."""
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
    """As whom the first listener answers; None: it is no `https://`.

    `of_listeners` is what counts of listeners; None: all of it.

    Raises:
        SettingsError: it has no key, or a setting cannot be used.
    """

    def encrypted(settings: WorkerSettings) -> bool:
        return _is_encrypted("listeners", settings.listeners)

    if not (of_listeners or configuration).make(WorkerSettings, encrypted):
        return None
    return _tls(configuration, ListenerSettings, HTTPS, "listeners")


def admin_tls(
    configuration: Configuration, of_listeners: Configuration | None = None
) -> ServerTls | None:
    """As whom the first listener for administrators answers, as `listener_tls` tells of the other.

    Raises:
        SettingsError: it has no key, or a setting cannot be used.
    """

    def encrypted(settings: WorkerSettings) -> bool:
        return _is_encrypted("admin.listeners", settings.admin_listeners)

    if not (of_listeners or configuration).make(WorkerSettings, encrypted):
        return None
    return _tls(configuration, AdminListenerSettings, ADMIN_HTTPS, "admin.listeners")


def _tls(
    configuration: Configuration, table: type[StoreSettings], own: str, listener: str
) -> ServerTls:
    """What counts of `ssl.*` for a listener: what begins with its `own` prefix, or has none."""
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
