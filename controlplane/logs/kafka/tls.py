"""Certificates and keys as Python's TLS takes them: all of it in PEM."""

import secrets
import ssl
import tempfile
from pathlib import Path

from controlplane.logs.kafka.stores import identity_pem, trusted_pem
from controlplane.properties import SettingsError
from controlplane.security import JavaStore, Secret, Tls


def tls_context(tls: Tls) -> ssl.SSLContext:
    """A context that trusts, and shows, what the settings say.

    Raises:
        SettingsError: a file is missing or is not what it should be, or a password is wrong.
    """
    context = _trusting(tls.trusted)
    # As in Java each certificate that is trusted is enough, not only that of a root.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.check_hostname = tls.check_hostname
    if isinstance(tls.identity, JavaStore):
        # Nothing unencrypted lies in a file, not even for a moment.
        password = secrets.token_hex()
        _identify(context, identity_pem(tls.identity, password), Secret(password))
    elif tls.identity is not None:
        _identify(context, tls.identity, tls.identity_password)
    return context


def _trusting(trusted: Path | JavaStore | str | None) -> ssl.SSLContext:
    read = trusted_pem(trusted) if isinstance(trusted, JavaStore) else trusted
    try:
        if isinstance(read, Path):
            return ssl.create_default_context(cafile=read)
        return ssl.create_default_context(cadata=read)
    except (OSError, ValueError):
        where, form = "ssl.truststore.certificates", " in PEM"
        if isinstance(trusted, JavaStore):
            where, form = str(trusted.path), ""
        elif isinstance(trusted, Path):
            where = str(trusted)
        raise SettingsError(f"{where} holds no certificates{form} that can be read") from None


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
