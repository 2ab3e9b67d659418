"""PEM settings as Python's TLS takes them."""

import ssl
import tempfile
from pathlib import Path

from controlplane.properties import SettingsError
from controlplane.security import Secret, Tls


def tls_context(tls: Tls) -> ssl.SSLContext:
    """A context that trusts, and shows, what the settings say.

    Raises:
        SettingsError: a file is missing or is no PEM, or the password of the key is wrong.
    """
    context = _trusting(tls.trusted)
    context.check_hostname = tls.check_hostname
    if tls.identity is not None:
        _identify(context, tls.identity, tls.identity_password)
    return context


def _trusting(trusted: Path | str | None) -> ssl.SSLContext:
    try:
        if isinstance(trusted, Path):
            return ssl.create_default_context(cafile=trusted)
        return ssl.create_default_context(cadata=trusted)
    except (OSError, ValueError):
        where = trusted if isinstance(trusted, Path) else "ssl.truststore.certificates"
        raise SettingsError(f"{where} holds no certificates in PEM that can be read") from None


def _identify(context: ssl.SSLContext, identity: Path | Secret, password: Secret | None) -> None:
    """Load key and chain. Python takes them from files: an inline key lies in a private one."""
    # An empty password is a wrong one; none would make OpenSSL ask on the terminal.
    shown = password.reveal() if password else ""
    try:
        if isinstance(identity, Path):
            context.load_cert_chain(identity, password=shown)
            return
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(identity.reveal())
            file.flush()
            context.load_cert_chain(file.name, password=shown)
    except OSError:
        raise SettingsError(
            "the key store holds no private key with its certificates in PEM, or "
            "ssl.key.password is wrong"
        ) from None
