"""A self-signed certificate, made for one test."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID


class IssuedCertificate(NamedTuple):
    """A private key and its certificate."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def of(cls, name: str) -> "IssuedCertificate":
        """A certificate for a name, and for 127.0.0.1."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(
                x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]),
                critical=False,
            )
            .sign(key, hashes.SHA256())
        )
        return cls(key, certificate)

    @property
    def certificate_pem(self) -> str:
        """PEM of the certificate, without its key."""
        return self.certificate.public_bytes(form.Encoding.PEM).decode()

    def key_pem(self, password: str | None = None) -> str:
        """PEM of the private key, encrypted if there is a password."""
        hidden = form.BestAvailableEncryption(password.encode()) if password else None
        return self.key.private_bytes(
            form.Encoding.PEM, form.PrivateFormat.PKCS8, hidden or form.NoEncryption()
        ).decode()

    def pkcs12(self, password: str) -> bytes:
        """Key and certificate in a PKCS #12 store, as in Java."""
        hidden = form.BestAvailableEncryption(password.encode())
        return pkcs12.serialize_key_and_certificates(
            b"mine", self.key, self.certificate, None, hidden
        )
