"""Conversion of Java's key stores to PEM. As in Java, the content determines the format.

Since release 9 Java writes PKCS12 by default, even into files named `.jks`, and each `ssl.*.type`
reads both formats. `cryptography` opens PKCS12. It is slow to import, so it is imported on demand.
"""

import shlex
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from controlplane.core.text.file_errors import unreadable
from controlplane.settings.errors import SettingsError
from controlplane.settings.security import JavaStore, Secret
from controlplane.tls import jks

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates
    from cryptography.x509 import Certificate

_TRUST, _KEY = "ssl.truststore", "ssl.keystore"
_PEM = b"-----BEGIN "
_SEQUENCE = b"\x30"
"""First byte of every PKCS12 file."""


def trusted_pem(store: JavaStore) -> str:
    """Return all certificates of a trust store in PEM.

    Java trusts only certificates with its own trust attribute in a PKCS12 store, and OpenSSL does
    not write it. Here all certificates are trusted.

    Raises:
        SettingsError: a missing file, no key store, a wrong password, or an empty store.
    """
    content = _read_store(store.path, _TRUST)
    if content.startswith(jks.MAGIC):
        certificates = [
            ssl.DER_cert_to_PEM_cert(certificate)
            for certificate in _jks_certificates(store, content)
        ]
    else:
        opened = _open_pkcs12(store, content, _TRUST)
        key_certificate = [opened.cert] if opened.cert else []
        certificates = [
            _pem(trusted.certificate) for trusted in (*key_certificate, *opened.additional_certs)
        ]
    if not certificates:
        raise SettingsError(f"{store.path} holds no certificates to trust")
    return "".join(certificates)


def identity_pem(store: JavaStore, password: str) -> Secret:
    """Return the private key of a key store, encrypted with a password, and its certificate chain.

    Raises:
        SettingsError: a missing file, a JKS store, no key store, a wrong password, or no key.
    """
    content = _read_store(store.path, _KEY)
    if content.startswith(jks.MAGIC):
        raise SettingsError(
            f"Only Java reads the keys of a JKS store: convert {store.path} with "
            f"{_conversion(store.path)} and set {_KEY}.location to the new file"
        )
    opened = _open_pkcs12(store, content, _KEY)
    if opened.key is None or opened.cert is None:
        raise SettingsError(f"{store.path} holds no private key with its certificate")
    certificates = [certificate.certificate for certificate in opened.additional_certs]
    from cryptography.hazmat.primitives import serialization as form  # noqa: PLC0415

    key = opened.key.private_bytes(
        form.Encoding.PEM,
        form.PrivateFormat.PKCS8,
        form.BestAvailableEncryption(password.encode()),
    )
    chain = _chain(opened.cert.certificate, certificates)
    return Secret(key.decode() + "".join(map(_pem, chain)))


def _read_store(path: Path, prefix: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as failure:
        raise SettingsError(f"{prefix}.location: {unreadable(path, failure)}") from None


def _jks_certificates(store: JavaStore, content: bytes) -> list[bytes]:
    try:
        return jks.trusted(content, store.password.reveal() if store.password else None)
    except jks.BadStore as bad:
        raise SettingsError(f"{store.path}, a JKS store, cannot be opened: {bad}") from None


def _open_pkcs12(store: JavaStore, content: bytes, prefix: str) -> "PKCS12KeyAndCertificates":
    if content.startswith(_PEM):
        raise SettingsError(f"{store.path} is PEM: set {prefix}.type=PEM")
    if not content.startswith(_SEQUENCE):
        raise SettingsError(f"{store.path} is no key store: {prefix}.location needs PKCS12 or JKS")
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415 - slow
    from cryptography.hazmat.primitives.serialization import pkcs12  # noqa: PLC0415

    try:
        password = store.password.reveal().encode() if store.password else None
        return pkcs12.load_pkcs12(content, password)
    except (ValueError, UnsupportedAlgorithm):
        password_state = "is wrong" if store.password else "is missing"
        raise SettingsError(
            f"{store.path} cannot be opened: {prefix}.password {password_state}, or it is no "
            "PKCS12 store"
        ) from None


def _conversion(path: Path) -> str:
    source, converted = shlex.quote(str(path)), shlex.quote(f"{path}.p12")
    return (
        f"`keytool -importkeystore -srckeystore {source} "
        f"-destkeystore {converted} -deststoretype PKCS12`"
    )


def _chain(
    key_certificate: "Certificate", certificates: Sequence["Certificate"]
) -> "list[Certificate]":
    """Return the chain from a certificate to its root; leave out unrelated certificates."""
    issuers = {certificate.subject: certificate for certificate in certificates}
    chain = [key_certificate]
    while issuer := issuers.pop(chain[-1].issuer, None):
        chain.append(issuer)
    return chain


def _pem(certificate: "Certificate") -> str:
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415

    return certificate.public_bytes(Encoding.PEM).decode()
