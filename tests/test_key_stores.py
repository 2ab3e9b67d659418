"""Java's key stores in TLS: a handshake shows which certificates are trusted and presented."""

import hashlib
import re
import ssl
import struct
import subprocess
import sys
import tempfile
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from controlplane.settings.errors import SettingsError
from controlplane.settings.security import JavaStore, Secret, Tls
from controlplane.tls.contexts import tls_context
from controlplane.tls.jks import BadStore, trusted
from controlplane.tls.key_stores import identity_pem

PASSWORD = "größe-€"
"""Password with letters beyond ASCII, which Java accepts."""


class Party(NamedTuple):
    """A name with its key and certificate."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(Encoding.DER)


def party(name: str, issuer: Party | None = None, *, authority: bool = True) -> Party:
    """Certificate and key, signed by the issuer or by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signing = issuer.key if issuer else key
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2199, 1, 1, tzinfo=UTC))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key()),
            critical=False,
        )
        .sign(signing, hashes.SHA256())
    )
    return Party(key, certificate)


ROOT = party("root")
BETWEEN = party("between", ROOT)
BROKER = party("broker", BETWEEN, authority=False)
STRANGER = party("stranger")


def pkcs12_of(*others: Party, owner: Party | None = None, password: str | None = PASSWORD) -> bytes:
    """PKCS12 store with the owner's key, and with trusted certificates."""
    return pkcs12.serialize_key_and_certificates(
        b"us",
        owner.key if owner else None,
        owner.certificate if owner else None,
        [other.certificate for other in others],
        NoEncryption() if password is None else BestAvailableEncryption(password.encode()),
    )


def jks_of(*entries: bytes, password: str = PASSWORD, version: int = 2) -> bytes:
    """A JKS store with these entries."""
    body = struct.pack(">4sII", b"\xfe\xed\xfe\xed", version, len(entries)) + b"".join(entries)
    salt = password.encode("utf-16-be") + b"Mighty Aphrodite"
    return body + hashlib.sha1(salt + body, usedforsecurity=False).digest()


def _entry(kind: int, content: bytes) -> bytes:
    return struct.pack(">IH5sQ", kind, 5, b"alias", 0) + content


def _typed(der: bytes) -> bytes:
    return struct.pack(">H5sI", 5, b"X.509", len(der)) + der


def certificate_entry(der: bytes) -> bytes:
    """An entry of a certificate that is trusted."""
    return _entry(2, _typed(der))


def key_entry(*chain: bytes) -> bytes:
    """Entry of a key that cannot be decrypted; its certificates can be read."""
    return _entry(1, struct.pack(">I3sI", 3, b"key", len(chain)) + b"".join(map(_typed, chain)))


def store(tmp_path: Path, content: bytes, password: str | None = PASSWORD) -> JavaStore:
    """Store file with this content and password."""
    file = tmp_path / "store.jks"
    file.write_bytes(content)
    return JavaStore(file, None if password is None else Secret(password))


def shakes_hands(client: ssl.SSLContext, server: ssl.SSLContext) -> None:
    """Run a handshake between two parties without sockets; raise the error of either."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(5):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    for end in ends:
        end.do_handshake()


def serving(identity: JavaStore) -> ssl.SSLContext:
    """A server that presents the key of a key store."""
    password = "of the PEM"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    file = identity.path.with_suffix(".pem")
    file.write_text(identity_pem(identity, password).reveal())
    context.load_cert_chain(file, password=password)
    return context


TRUSTING = {
    "PKCS12": (pkcs12_of(STRANGER, ROOT), PASSWORD),
    "PKCS12 without a password": (pkcs12_of(ROOT, password=None), None),
    "PKCS12 with a key": (pkcs12_of(ROOT, owner=STRANGER), PASSWORD),
    "an authority that is no root": (pkcs12_of(BETWEEN), PASSWORD),
    "JKS": (jks_of(certificate_entry(STRANGER.der), certificate_entry(ROOT.der)), PASSWORD),
    "JKS without a password": (jks_of(certificate_entry(ROOT.der)), None),
    "JKS, the broker's own": (jks_of(key_entry(BROKER.der, BETWEEN.der)), PASSWORD),
}
"""Stores with which we trust the broker, and their passwords."""


@pytest.mark.parametrize("case", TRUSTING)
def test_trusted_certificates_are_accepted(tmp_path: Path, case: str) -> None:
    """The client trusts a broker if its certificate or one of its issuers is in the store."""
    server = serving(store(tmp_path, pkcs12_of(ROOT, STRANGER, BETWEEN, owner=BROKER)))
    client = tls_context(Tls(store(tmp_path, *TRUSTING[case]), check_hostname=False))
    shakes_hands(client, server)


def test_certificates_of_a_chain_are_not_trusted(tmp_path: Path) -> None:
    """The client trusts no certificate behind the first one of a key's chain in a JKS store.

    A broker that matches no certificate of the store is not trusted either.
    """
    server = serving(store(tmp_path, pkcs12_of(BETWEEN, owner=BROKER)))
    for content in (pkcs12_of(STRANGER), jks_of(key_entry(STRANGER.der, ROOT.der))):
        client = tls_context(Tls(store(tmp_path, content), check_hostname=False))
        with pytest.raises(ssl.SSLCertVerificationError):
            shakes_hands(client, server)


def test_the_identity_is_a_key_with_its_chain(tmp_path: Path) -> None:
    """The identity is the owner's key with its chain up to the root, in order."""
    mine = store(tmp_path, pkcs12_of(ROOT, STRANGER, BETWEEN, owner=BROKER))
    pem = identity_pem(mine, "secret").reveal()
    assert "ENCRYPTED" in pem
    chain = x509.load_pem_x509_certificates(pem.encode())
    assert chain == [member.certificate for member in (BROKER, BETWEEN, ROOT)]


def test_the_identity_is_sent_on_request(tmp_path: Path) -> None:
    """A server that requires a certificate gets the one of the key store."""
    mine = store(tmp_path, pkcs12_of(BETWEEN, ROOT, owner=BROKER))
    server = serving(mine)
    server.load_verify_locations(cadata=ROOT.certificate.public_bytes(Encoding.PEM).decode())
    server.verify_mode = ssl.CERT_REQUIRED
    shakes_hands(tls_context(Tls(mine, mine, check_hostname=False)), server)
    with pytest.raises(ssl.SSLError, match=r"(?i)peer did not return a certificate"):
        shakes_hands(tls_context(Tls(mine, check_hostname=False)), server)


PEM = ROOT.certificate.public_bytes(Encoding.PEM)
WRONG = {
    "password": (pkcs12_of(ROOT), "unlike", r"truststore\.password is wrong"),
    "no password": (pkcs12_of(ROOT), None, r"truststore\.password is missing"),
    "half": (pkcs12_of(ROOT)[:99], PASSWORD, "or it is no PKCS12 store"),
    "garbage": (b"\0garbage", PASSWORD, "is no key store"),
    "nothing": (b"", PASSWORD, "is no key store"),
    "PEM": (PEM, PASSWORD, r"is PEM: set ssl\.truststore\.type=PEM"),
    "password of JKS": (jks_of(), "unlike", "the password is wrong"),
    "nobody": (jks_of(), PASSWORD, "no certificates to trust"),
    "no certificate": (jks_of(certificate_entry(b"?")), PASSWORD, "no certificates that can be"),
    "half of JKS": (jks_of(certificate_entry(ROOT.der))[:99], None, "ends too early"),
    "version": (jks_of(version=3), PASSWORD, "an unknown version"),
    "entry": (jks_of(_entry(3, b"")), PASSWORD, "an unknown kind"),
}
"""Unusable trust stores, the passwords, and a part of the error."""


@pytest.mark.parametrize("case", WRONG)
def test_unusable_trust_stores_are_refused(tmp_path: Path, case: str) -> None:
    """The error is one sentence that names the file, and repeats no password."""
    content, password, says = WRONG[case]
    with pytest.raises(SettingsError, match=rf"store\.jks.*{says}") as refused:
        tls_context(Tls(store(tmp_path, content, password)))
    assert password is None or password not in str(refused.value)


KEYLESS = {
    "JKS": (jks_of(key_entry(ROOT.der)), r"keytool -importkeystore -srckeystore \S+store\.jks "),
    "no key": (pkcs12_of(ROOT), "holds no private key"),
    "garbage": (b"garbage", r"ssl\.keystore\.location needs PKCS12"),
    "half": (pkcs12_of(owner=ROOT)[:99], r"ssl\.keystore\.password is wrong"),
}
"""Unusable key stores, and a part of the error."""


@pytest.mark.parametrize("case", KEYLESS)
def test_unusable_key_stores_are_refused(tmp_path: Path, case: str) -> None:
    """The error is one sentence; for a JKS store it has the command that converts it."""
    content, says = KEYLESS[case]
    with pytest.raises(SettingsError, match=says):
        tls_context(Tls(identity=store(tmp_path, content)))


@pytest.mark.parametrize("missing", ["nowhere.p12", "."])
def test_missing_files_are_refused(tmp_path: Path, missing: str) -> None:
    """A missing file and a directory are refused."""
    for tls in (
        Tls(trusted=JavaStore(tmp_path / missing)),
        Tls(identity=JavaStore(tmp_path / missing)),
    ):
        with pytest.raises(SettingsError, match=r"cannot be read \(.*\): "):
            tls_context(tls)


@pytest.mark.parametrize("missing", ["nowhere.pem", "."])
def test_a_missing_pem_file_is_named(tmp_path: Path, missing: str) -> None:
    """The error is about the file, not about its content or its password."""
    for tls in Tls(trusted=tmp_path / missing), Tls(identity=tmp_path / missing):
        with pytest.raises(SettingsError, match=re.escape(f"{tmp_path / missing} cannot be read")):
            tls_context(tls)


def test_a_missing_temporary_directory_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is about the directory, not about the key or its password."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(SettingsError, match=r"No such file or directory.*: set TMPDIR"):
        tls_context(Tls(identity=store(tmp_path, pkcs12_of(owner=ROOT))))


@pytest.mark.parametrize("password", ["x" * 1_025, "\ud800"])
def test_a_password_that_openssl_cannot_take_is_refused(tmp_path: Path, password: str) -> None:
    """A too long password, and half of a surrogate pair, are wrong passwords."""
    file = tmp_path / "key.pem"
    encrypted = BestAvailableEncryption(b"right")
    file.write_bytes(ROOT.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encrypted) + PEM)
    tls_context(Tls(identity=file, identity_password=Secret("right")))
    with pytest.raises(SettingsError, match=r"ssl\.key\.password is wrong"):
        tls_context(Tls(identity=file, identity_password=Secret(password)))


@given(st.data())
def test_a_damaged_jks_store_causes_no_crash(data: st.DataObject) -> None:
    """The password detects any change; without it a damaged store causes no crash."""
    whole = jks_of(certificate_entry(ROOT.der), key_entry(BROKER.der, BETWEEN.der))
    at = data.draw(st.integers(0, len(whole) - 1))
    broken = bytearray(whole)
    broken[at] ^= data.draw(st.integers(1, 255))
    content = bytes(broken[: data.draw(st.integers(at, len(whole)))])
    with pytest.raises(BadStore):
        trusted(content, PASSWORD)
    with suppress(BadStore):
        trusted(content, None)


def test_cryptography_is_not_imported_without_need() -> None:
    """The import waits for a Java key store."""
    program = (
        "import sys, controlplane.logs.kafka.reads.reader; print('cryptography' in sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert result.stdout == "False\n"
