"""Access to a cluster from a worker's settings: `security.protocol`, `sasl.*` and `ssl.*`."""

import re
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import unquote, urlsplit

from msgspec import Meta

from controlplane.settings.errors import BadValue
from controlplane.settings.security import (
    MECHANISMS,
    OAUTHBEARER,
    KafkaSecurity,
    OAuthBearer,
    Sasl,
    Secret,
    Tls,
    TokenFile,
)
from controlplane.settings.stores import StoreSettings, identity, trusted


class AccessSettings(StoreSettings, frozen=True, kw_only=True):
    """Settings of a worker's access to its cluster; they are checked only when it connects."""

    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"

    sasl_mechanism: str = "GSSAPI"
    """PLAIN, SCRAM and OAUTHBEARER are supported; the value is ignored if the protocol does not use
    SASL."""

    sasl_jaas_config: Secret | None = None
    """JAAS login module with its options, which include `username` and `password`."""

    sasl_oauthbearer_token_endpoint_url: str | None = None
    """`file:///path` of a token for OAUTHBEARER, read at each login. An embedding program passes a
    callback instead (`KafkaSecurity.sasl`)."""

    ssl_endpoint_identification_algorithm: Annotated[str, Meta(extra={"empty": True})] = "https"
    """Empty: the host name in a certificate is not checked."""


_PROTOCOL = "security.protocol"


def kafka_security(settings: AccessSettings) -> KafkaSecurity:
    """Build the security of a connection. Settings that the protocol does not use are ignored.

    Raises:
        BadValue: the mechanism or a store type is unknown, or the login lacks a name, a password or
            a token.
    """
    protocol = settings.security_protocol
    return KafkaSecurity(
        sasl=_sasl(settings) if protocol.startswith("SASL_") else None,
        tls=_tls(settings) if protocol.endswith("SSL") else None,
    )


def _sasl(settings: AccessSettings) -> Sasl | OAuthBearer:
    mechanism = settings.sasl_mechanism.upper()
    if mechanism == OAUTHBEARER:
        return OAuthBearer(TokenFile(_token_file(settings.sasl_oauthbearer_token_endpoint_url)))
    if mechanism not in MECHANISMS:
        problem = f"is {settings.sasl_mechanism!r}: use {', '.join((*MECHANISMS, OAUTHBEARER))}"
        raise BadValue("sasl.mechanism", problem, because=_PROTOCOL)
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


def _token_file(url: str | None) -> Path:
    """Return the path in a URL such as `file:///run/secrets/token`; raise `BadValue` for others."""
    parts = urlsplit(url or "")
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or not parts.path:
        raise BadValue(
            "sasl.oauthbearer.token.endpoint.url",
            "names no file with a token, which OAUTHBEARER needs here: file:///path",
            because=_PROTOCOL,
        )
    return Path(unquote(parts.path))


_LOGIN_OPTION = re.compile(
    r"""([\w.-]+) \s*=\s* ( "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*' | [^\s;"']+ )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def _login_options(jaas: str) -> dict[str, str]:
    """Return the `name=value` pairs of a JAAS login module; values may be quoted, with escapes."""
    return {name: _unquoted(value) for name, value in _LOGIN_OPTION.findall(jaas)}


def _unquoted(value: str) -> str:
    return _ESCAPED.sub(r"\1", value[1:-1]) if value[0] in "\"'" else value


def _tls(settings: AccessSettings) -> Tls:
    return Tls(
        trusted=trusted(settings),
        identity=identity(settings),
        identity_password=settings.ssl_key_password,
        check_hostname=settings.ssl_endpoint_identification_algorithm != "",
    )
