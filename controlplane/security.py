"""How a Kafka cluster lets us in: Kafka's `security.protocol`, `sasl.*` and `ssl.*` settings."""

import re
from pathlib import Path

import msgspec

from controlplane.properties import Properties, SettingsError

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
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


class Tls(msgspec.Struct, frozen=True):
    """Whom to trust and who we are, in PEM: a path, or the text itself.

    Without `trusted` the authorities of the operating system are trusted. `identity` is a private
    key with its certificate chain, for brokers that ask for one. Without `check_hostname` a
    certificate is good for every broker (`ssl.endpoint.identification.algorithm` left empty).
    """

    trusted: Path | str | None = None
    identity: Path | Secret | None = None
    identity_password: Secret | None = None
    check_hostname: bool = True


class KafkaSecurity(msgspec.Struct, frozen=True):
    """How to be let in to a cluster; the default is a plain connection without a name."""

    sasl: Sasl | None = None
    tls: Tls | None = None

    @property
    def protocol(self) -> str:
        """Kafka's `security.protocol`."""
        return ("SASL_" if self.sasl else "") + ("SSL" if self.tls else "PLAINTEXT")


def kafka_security(found: Properties) -> KafkaSecurity:
    """The security part of a worker's or client's properties.

    Raises:
        SettingsError: an unknown protocol or mechanism, a store that is not PEM, a login without
            a name or a password.
    """
    protocol = found.choice("security.protocol", PROTOCOLS, "PLAINTEXT")
    return KafkaSecurity(
        sasl=_sasl(found) if protocol.startswith("SASL_") else None,
        tls=_tls(found) if protocol.endswith("SSL") else None,
    )


def _sasl(found: Properties) -> Sasl:
    mechanism = found.choice("sasl.mechanism", MECHANISMS, "GSSAPI")
    options = _login_options(found.text("sasl.jaas.config") or "")
    if not options.get("username") or "password" not in options:
        raise SettingsError(
            f"sasl.jaas.config names no username or no password, which {mechanism} needs: "
            '… required username="…" password="…";'
        )
    return Sasl(mechanism, options["username"], Secret(options["password"]))


_LOGIN_OPTION = re.compile(
    r"""([\w.-]+) \s*=\s* ( "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*' | [^\s;"']+ )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def _login_options(jaas: str) -> dict[str, str]:
    """`name=value` pairs of a JAAS login module entry; values may be quoted, with escapes."""
    return {name: _unquoted(value) for name, value in _LOGIN_OPTION.findall(jaas)}


def _unquoted(value: str) -> str:
    return _ESCAPED.sub(r"\1", value[1:-1]) if value[0] in "\"'" else value


def _tls(found: Properties) -> Tls:
    inline = [found.text("ssl.keystore.key"), found.text("ssl.keystore.certificate.chain")]
    password = found.text("ssl.key.password")
    return Tls(
        trusted=found.text("ssl.truststore.certificates") or _store(found, "truststore"),
        identity=_inline_identity(*inline) or _store(found, "keystore"),
        identity_password=Secret(password) if password else None,
        check_hostname=not found.blank("ssl.endpoint.identification.algorithm"),
    )


def _inline_identity(key: str | None, chain: str | None) -> Secret | None:
    if (key is None) != (chain is None):
        raise SettingsError(
            "ssl.keystore.key and ssl.keystore.certificate.chain belong together: give both"
        )
    return Secret(f"{key}\n{chain}\n") if key else None


def _store(found: Properties, store: str) -> Path | None:
    """Path of a store in PEM; None where none is set."""
    path = found.path(f"ssl.{store}.location")
    kind = (found.text(f"ssl.{store}.type") or "JKS").upper()
    if path is not None and kind != "PEM":
        raise SettingsError(
            f"ssl.{store}.location is a {kind} store, which only Java reads: convert it to PEM "
            f"(keytool, then openssl pkcs12) and set ssl.{store}.type=PEM"
        )
    return path
