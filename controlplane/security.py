"""Keys, certificates and passwords: what lets us in to a Kafka cluster, and as whom we listen."""

from pathlib import Path
from typing import Literal

import msgspec

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


class Secret:
    """A text that no repr, error or log line may show: only `reveal()` gives it away."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself, for the one place that sends it."""
        return self._text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return "Secret(…)"

    __str__ = __repr__


class Sasl(msgspec.Struct, frozen=True):
    """A name, its password, and how the password is proved (`sasl.mechanism`)."""

    mechanism: str
    username: str
    password: Secret


class JavaStore(msgspec.Struct, frozen=True):
    """A key store as Java keeps it, PKCS12 or JKS, and its password."""

    path: Path
    password: Secret | None = None


class Tls(msgspec.Struct, frozen=True):
    """Whom to trust and who we are: a path to PEM, the PEM itself, or a store of Java's.

    Without `trusted` the authorities of the operating system are trusted. `identity` is a private
    key with its certificate chain, for brokers that ask for one; `identity_password` opens a key in
    PEM (a store has a password of its own). Without `check_hostname` a certificate is good for
    every broker (`ssl.endpoint.identification.algorithm` left empty).
    """

    trusted: Path | JavaStore | str | None = None
    identity: Path | JavaStore | Secret | None = None
    identity_password: Secret | None = None
    check_hostname: bool = True


class ServerTls(msgspec.Struct, frozen=True):
    """Who a listener is, and whether its clients have to be somebody, too.

    `trusted` says whose certificates of clients are good; None: those of the system's authorities.
    """

    identity: Path | JavaStore | Secret
    identity_password: Secret | None = None
    trusted: Path | JavaStore | str | None = None
    client_auth: Literal["none", "requested", "required"] = "none"


class KafkaSecurity(msgspec.Struct, frozen=True):
    """How to be let in to a cluster; the default is a plain connection without a name."""

    sasl: Sasl | None = None
    tls: Tls | None = None

    @property
    def protocol(self) -> str:
        """Kafka's `security.protocol`."""
        return ("SASL_" if self.sasl else "") + ("SSL" if self.tls else "PLAINTEXT")
