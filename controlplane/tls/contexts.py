"""TLS contexts, built from the certificates and keys in the settings."""

import secrets
import ssl
import tempfile
from pathlib import Path

from controlplane.core.text.file_errors import unreadable
from controlplane.settings.errors import SettingsError
from controlplane.settings.security import JavaStore, Secret, ServerTls, Tls
from controlplane.tls.key_stores import identity_pem, trusted_pem


def tls_context(tls: Tls) -> ssl.SSLContext:
    """Build the context of a client with the trust store and the identity of the settings.

    Raises:
        SettingsError: a missing or invalid file, or a wrong password.
    """
    context = _context_with_trust(tls.trusted, ssl.Purpose.SERVER_AUTH)
    context.check_hostname = tls.check_hostname
    if tls.identity is not None:
        _load_identity(context, tls.identity, tls.identity_password)
    return context


_VERIFY_MODES = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


def server_context(tls: ServerTls) -> ssl.SSLContext:
    """Build the context of a server; TLS 1.2 or later, as in Kafka.

    Raises:
        SettingsError: a missing or invalid file, or a wrong password.
    """
    verifies_clients = tls.client_auth != "none"
    context = _context_with_trust(
        tls.trusted if verifies_clients else None, ssl.Purpose.CLIENT_AUTH
    )
    if verifies_clients and tls.trusted is None:  # Python loads them for clients only
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
    context.verify_mode = _VERIFY_MODES[tls.client_auth]
    _load_identity(context, tls.identity, tls.identity_password)
    return context


def _context_with_trust(
    trusted: Path | JavaStore | str | None, purpose: ssl.Purpose
) -> ssl.SSLContext:
    authorities = trusted_pem(trusted) if isinstance(trusted, JavaStore) else trusted
    try:
        if isinstance(authorities, Path):
            context = ssl.create_default_context(purpose, cafile=authorities)
        else:
            context = ssl.create_default_context(purpose, cadata=authorities)
    except (OSError, ValueError) as failure:
        if isinstance(trusted, Path) and not isinstance(failure, ssl.SSLError | ValueError):
            problem = unreadable(trusted, failure)
            raise SettingsError(f"ssl.truststore.location: {problem}") from None
        source, form = "ssl.truststore.certificates", " in PEM"
        if isinstance(trusted, JavaStore):
            source, form = str(trusted.path), ""
        elif isinstance(trusted, Path):
            source = str(trusted)
        raise SettingsError(f"{source} holds no certificates{form} that can be read") from None
    # As in Java, any trusted certificate may end the chain, not only a root.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def _load_identity(
    context: ssl.SSLContext, identity: Path | JavaStore | Secret, password: Secret | None
) -> None:
    if isinstance(identity, JavaStore):
        # A store's key is encrypted with a random password, so no plain key is written to a file.
        file_password = secrets.token_hex()
        _load(context, identity_pem(identity, file_password), Secret(file_password))
    else:
        _load(context, identity, password)


def _load(context: ssl.SSLContext, identity: Path | Secret, password: Secret | None) -> None:
    """Load key and chain. Python reads only files, so an inline key goes to a temporary file."""
    # Without a password OpenSSL would prompt on the terminal; an empty password fails at once.
    key_password = password.reveal() if password else ""
    try:
        if isinstance(identity, Path):
            context.load_cert_chain(identity, password=key_password)
            return
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(identity.reveal())
            file.flush()
            context.load_cert_chain(file.name, password=key_password)
    except (OSError, ValueError) as failure:  # ValueError: the password is too long
        if isinstance(failure, OSError) and not isinstance(failure, ssl.SSLError):
            raise SettingsError(_inaccessible(identity, failure)) from None
        raise SettingsError(
            "the key store holds no private key with its certificates in PEM, or "
            "ssl.key.password is wrong"
        ) from None


def _inaccessible(identity: Path | Secret, failure: OSError) -> str:
    """Return the error for a key file that cannot be read, or a temporary file for a key."""
    if isinstance(identity, Path):
        return f"ssl.keystore.location: {unreadable(identity, failure)}"
    return (
        f"no temporary file can be written for the private key ({failure.strerror}): "
        "set TMPDIR to a directory that can be written"
    )
