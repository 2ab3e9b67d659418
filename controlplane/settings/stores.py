"""Keys and certificates as Kafka's settings name them, `ssl.*`: for clients, and for a listener."""

from pathlib import Path
from typing import Literal

import msgspec

from controlplane.security import JavaStore, Secret
from controlplane.settings.kinds import BadValue


class StoreSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Whom to trust, and who we are."""

    ssl_truststore_type: str = "JKS"
    """JKS and PKCS12, which mean the same (the content tells), or PEM; of the key store, too."""

    ssl_truststore_location: str | None = None
    """A path, relative to the current directory, as for Java. None: the system's authorities."""

    ssl_truststore_password: Secret | None = None
    """Of a JKS or PKCS12 store, as that of the key store."""

    ssl_truststore_certificates: str | None = None
    """The certificates themselves (KIP-651)."""

    ssl_keystore_type: str = "JKS"
    ssl_keystore_location: str | None = None
    ssl_keystore_password: Secret | None = None
    ssl_keystore_key: Secret | None = None
    ssl_keystore_certificate_chain: str | None = None
    ssl_key_password: Secret | None = None
    """Of a key in PEM: in a PKCS12 store it has the store's."""

    ssl_client_auth: Literal["none", "requested", "required"] = "none"
    """Whether clients of an `https://` listener have to show a certificate that is trusted."""


_JAVA_STORES, _PEM = ("JKS", "PKCS12"), "PEM"


def trusted(settings: StoreSettings, prefix: str = "") -> Path | JavaStore | str | None:
    """Whom to trust; None where nothing is told. `prefix` is how these keys begin.

    Raises:
        BadValue: an unknown type of a store.
    """
    return settings.ssl_truststore_certificates or _store(
        f"{prefix}ssl.truststore.type",
        settings.ssl_truststore_type,
        settings.ssl_truststore_location,
        settings.ssl_truststore_password,
    )


def identity(settings: StoreSettings, prefix: str = "") -> Path | JavaStore | Secret | None:
    """Who we are: a private key with its certificates; None where nothing is told.

    Raises:
        BadValue: an unknown type of a store, a key without certificates or they without it.
    """
    return _inline_identity(settings, prefix) or _store(
        f"{prefix}ssl.keystore.type",
        settings.ssl_keystore_type,
        settings.ssl_keystore_location,
        settings.ssl_keystore_password,
    )


def _inline_identity(settings: StoreSettings, prefix: str) -> Secret | None:
    key, chain = settings.ssl_keystore_key, settings.ssl_keystore_certificate_chain
    if (key is None) != (chain is None):
        other = f"{prefix}ssl.keystore.certificate.chain"
        wrong = f"and {other} belong together: give both"
        raise BadValue(f"{prefix}ssl.keystore.key", wrong, because=other)
    return Secret(f"{key.reveal()}\n{chain}\n") if key else None


def _store(
    key: str, kind: str, location: str | None, password: Secret | None
) -> Path | JavaStore | None:
    """Where a store is and how it is opened; None where there is none. `key` tells its type."""
    if location is None:
        return None
    if kind.upper() == _PEM:
        return Path(location)
    if kind.upper() not in _JAVA_STORES:
        raise BadValue(key, f"is {kind!r}: use {', '.join((*_JAVA_STORES, _PEM))}")
    return JavaStore(Path(location), password)
