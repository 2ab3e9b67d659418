"""Keys, certificates and passwords for connections to Kafka clusters and for listeners."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import ClassVar, Literal

import msgspec

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
OAUTHBEARER = "OAUTHBEARER"

TokenCallback = Callable[[], Awaitable[str]]
"""Returns a valid token of an identity provider. It may raise `OSError` or `ValueError`."""


class Secret:
    """A text that no repr, error or log line shows; only `reveal()` returns it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text; call it only where the text is sent."""
        return self._text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return "Secret(…)"

    __str__ = __repr__


class Sasl(msgspec.Struct, frozen=True):
    """User name, password, and the mechanism of the login (`sasl.mechanism`)."""

    mechanism: str
    username: str
    password: Secret


class OAuthBearer(msgspec.Struct, frozen=True):
    """Login with tokens of an identity provider (KIP-255); `token` is called at each login."""

    token: TokenCallback
    mechanism: ClassVar[str] = OAUTHBEARER


class TokenFile(msgspec.Struct, frozen=True):
    """File with a token, read at each login, because another program may renew it."""

    path: Path

    async def __call__(self) -> str:
        """Return the token. Raises `OSError` or `ValueError`."""
        token = (await asyncio.to_thread(self.path.read_text, "ascii")).strip()
        if not token:
            raise ValueError(f"{self.path} is empty")
        return token


class JavaStore(msgspec.Struct, frozen=True):
    """A Java key store, PKCS12 or JKS, with its password."""

    path: Path
    password: Secret | None = None


class Tls(msgspec.Struct, frozen=True):
    """TLS of a client: trusted certificates and own identity, as PEM path, PEM text, or Java store.

    `trusted` None: the operating system's authorities. `identity`: private key with its certificate
    chain, for brokers that require one. `identity_password`: password of a PEM key (a store has its
    own). `check_hostname` False: the host name in a certificate is not checked (an empty
    `ssl.endpoint.identification.algorithm`).
    """

    trusted: Path | JavaStore | str | None = None
    identity: Path | JavaStore | Secret | None = None
    identity_password: Secret | None = None
    check_hostname: bool = True


class ServerTls(msgspec.Struct, frozen=True):
    """TLS of a listener: its identity, and the verification of client certificates.

    `trusted`: authorities for client certificates; None: the operating system's.
    """

    identity: Path | JavaStore | Secret
    identity_password: Secret | None = None
    trusted: Path | JavaStore | str | None = None
    client_auth: Literal["none", "requested", "required"] = "none"


class KafkaSecurity(msgspec.Struct, frozen=True):
    """Security of connections to a cluster; the default is plaintext without authentication."""

    sasl: Sasl | OAuthBearer | None = None
    tls: Tls | None = None

    @property
    def protocol(self) -> str:
        """Kafka's `security.protocol`: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
        return ("SASL_" if self.sasl else "") + ("SSL" if self.tls else "PLAINTEXT")
