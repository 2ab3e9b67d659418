"""Keys and certificates from Kafka's settings `ssl.*`, for clients and listeners."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec

from controlplane.settings.errors import BadValue
from controlplane.settings.kinds import PATH
from controlplane.settings.security import JavaStore, Secret


class StoreSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of trusted certificates, and of this process's private key and certificate."""

    ssl_truststore_type: str = "JKS"
    """JKS or PKCS12 (the content decides which), or PEM. `ssl.keystore.type` has the same
    values, but no private key is read from a JKS store."""

    ssl_truststore_location: Annotated[str | None, PATH] = None
    """Path; as in Java, relative to the directory in which the process starts. None: the system's
    authorities."""

    ssl_truststore_password: Secret | None = None
    """Password of a JKS or PKCS12 store, like `ssl.keystore.password`."""

    ssl_truststore_certificates: str | None = None
    """Certificates as PEM text (KIP-651)."""

    ssl_keystore_type: str = "JKS"
    ssl_keystore_location: Annotated[str | None, PATH] = None
    ssl_keystore_password: Secret | None = None
    ssl_keystore_key: Secret | None = None
    ssl_keystore_certificate_chain: str | None = None
    ssl_key_password: Secret | None = None
    """Password of a PEM key; in a PKCS12 store the key has the store's password."""

    ssl_client_auth: Literal["none", "requested", "required"] = "none"
    """Verification of client certificates at an `https://` listener."""


_JAVA_STORES, _PEM = ("JKS", "PKCS12"), "PEM"


def trusted(settings: StoreSettings, prefix: str = "") -> Path | JavaStore | str | None:
    """Return the trusted certificates; None if they are not set. `prefix`: prefix of the keys.

    Raises:
        BadValue: the store type is unknown.
    """
    return settings.ssl_truststore_certificates or _store(
        f"{prefix}ssl.truststore.type",
        settings.ssl_truststore_type,
        settings.ssl_truststore_location,
        settings.ssl_truststore_password,
    )


def identity(settings: StoreSettings, prefix: str = "") -> Path | JavaStore | Secret | None:
    """Return the private key with its certificates; None if they are not set.

    Raises:
        BadValue: the store type is unknown, or the key or the certificates are missing.
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
        problem = f"and {other} belong together: give both"
        raise BadValue(f"{prefix}ssl.keystore.key", problem, because=other)
    return Secret(f"{key.reveal()}\n{chain}\n") if key else None


def _store(
    key: str, kind: str, location: str | None, password: Secret | None
) -> Path | JavaStore | None:
    """Return a store's path and password; None if it is not set. `key`: the setting of its type."""
    if location is None:
        return None
    if kind.upper() == _PEM:
        return Path(location)
    if kind.upper() not in _JAVA_STORES:
        raise BadValue(key, f"is {kind!r}: use {', '.join((*_JAVA_STORES, _PEM))}")
    return JavaStore(Path(location), password)
