"""How a worker's settings let us in: Kafka's `security.protocol`, `sasl.*` and `ssl.*`."""

import re
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from controlplane.security import MECHANISMS, JavaStore, KafkaSecurity, Sasl, Secret, Tls
from controlplane.settings.kinds import BadValue


class AccessSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a worker gets in to its cluster. They are looked at by whoever connects, only."""

    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"

    sasl_mechanism: str = "GSSAPI"
    """PLAIN or SCRAM are understood; what the protocol does not use may be anything."""

    sasl_jaas_config: Secret | None = None
    """A login module with its options, `username` and `password` among them."""

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

    ssl_endpoint_identification_algorithm: Annotated[str, Meta(extra={"empty": True})] = "https"
    """Empty: a certificate is good for every broker."""


_PROTOCOL = "security.protocol"
_JAVA_STORES, _PEM = ("JKS", "PKCS12"), "PEM"


def kafka_security(settings: AccessSettings) -> KafkaSecurity:
    """How to be let in. What the protocol does not use is not looked at.

    Raises:
        BadValue: an unknown mechanism or type of a store, a login without a name or a
            password.
    """
    protocol = settings.security_protocol
    return KafkaSecurity(
        sasl=_sasl(settings) if protocol.startswith("SASL_") else None,
        tls=_tls(settings) if protocol.endswith("SSL") else None,
    )


def _sasl(settings: AccessSettings) -> Sasl:
    mechanism = settings.sasl_mechanism.upper()
    if mechanism not in MECHANISMS:
        wrong = f"is {settings.sasl_mechanism!r}: use {', '.join(MECHANISMS)}"
        raise BadValue("sasl.mechanism", wrong, because=_PROTOCOL)
    jaas = settings.sasl_jaas_config
    options = _login_options(jaas.reveal()) if jaas else {}
    if not options.get("username") or "password" not in options:
        raise BadValue(
            "sasl.jaas.config",
            f"names no username or no password, which {mechanism} needs: "
            '… required username="…" password="…";',
            because=_PROTOCOL,
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


def _tls(settings: AccessSettings) -> Tls:
    trusted = _store(
        "ssl.truststore.type",
        settings.ssl_truststore_type,
        settings.ssl_truststore_location,
        settings.ssl_truststore_password,
    )
    identity = _store(
        "ssl.keystore.type",
        settings.ssl_keystore_type,
        settings.ssl_keystore_location,
        settings.ssl_keystore_password,
    )
    return Tls(
        trusted=settings.ssl_truststore_certificates or trusted,
        identity=_inline_identity(settings) or identity,
        identity_password=settings.ssl_key_password,
        check_hostname=settings.ssl_endpoint_identification_algorithm != "",
    )


def _inline_identity(settings: AccessSettings) -> Secret | None:
    key, chain = settings.ssl_keystore_key, settings.ssl_keystore_certificate_chain
    if (key is None) != (chain is None):
        wrong = "and ssl.keystore.certificate.chain belong together: give both"
        raise BadValue("ssl.keystore.key", wrong, because="ssl.keystore.certificate.chain")
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
