"""Throw-away certificates made with openssl: an authority, and certificates signed by it."""

import subprocess
from functools import cached_property
from pathlib import Path

from tests.jars import SHORT_LIVED, keytool

DAYS = "2"
NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256")
"""Options for a new key. RSA keys would cost seconds: to make, and in handshakes of a small JVM."""

PASSWORD = "store-secret"
"""Password of every Java key store."""


class Certificates:
    """Certificates of one authority below a directory, created on first use."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @cached_property
    def authority(self) -> Path:
        """Create the certificate of the authority and return its PEM file."""
        self._openssl(
            *("req", "-x509", *NEW_KEY, "-nodes", "-days", DAYS),
            *("-subj", "/CN=authority", "-keyout", "authority.key", "-out", "authority.pem"),
        )
        return self._directory / "authority.pem"

    def identity(self, name: str, password: str | None = None) -> Path:
        """PEM file with a private key and certificate chain of `name` for 127.0.0.1."""
        authority = str(self.authority)
        self._openssl(
            *("req", *NEW_KEY, "-nodes", "-subj", f"/CN={name}"),
            *("-addext", "subjectAltName=IP:127.0.0.1", "-keyout", f"{name}.key"),
            *("-out", f"{name}.csr"),
        )
        self._openssl(
            *("x509", "-req", "-in", f"{name}.csr", "-CA", authority, "-CAkey", "authority.key"),
            *("-CAcreateserial", "-days", DAYS, "-copy_extensions", "copy", "-out", f"{name}.crt"),
        )
        hidden = ("-passout", f"pass:{password}") if password else ("-nocrypt",)
        self._openssl("pkcs8", "-topk8", *hidden, "-in", f"{name}.key", "-out", f"{name}.pk8")
        identity = self.identity_file(name)
        parts = (f"{name}.pk8", f"{name}.crt", "authority.pem")
        identity.write_text("".join((self._directory / part).read_text() for part in parts))
        return identity

    def identity_file(self, name: str) -> Path:
        """Path of the file that `identity` writes for a name."""
        return self._directory / f"{name}.pem"

    def expired(self) -> Path:
        """PEM file with a key and an expired, self-signed certificate for 127.0.0.1."""
        self._keytool(
            *("-genkeypair", "-keyalg", "EC", "-groupname", "secp256r1"),
            *("-alias", "expired", "-dname", "CN=expired"),
            *("-ext", "san=ip:127.0.0.1", "-startdate", "-10d", "-validity", "1"),
            *("-keystore", "expired.p12", "-storetype", "PKCS12", "-storepass", PASSWORD),
        )
        opened = ("-in", "expired.p12", "-passin", f"pass:{PASSWORD}")
        self._openssl("pkcs12", *opened, "-nodes", "-out", "expired.pem")
        return self._directory / "expired.pem"

    def trust_store(self, name: str, *options: str) -> Path:
        """Java key store that trusts the authority; options of keytool select the format."""
        self._keytool(
            *("-importcert", "-noprompt", "-alias", "authority", "-file", str(self.authority)),
            *("-keystore", name, "-storepass", PASSWORD, *options),
        )
        return self._directory / name

    def key_store(self, name: str) -> Path:
        """Java key store with key and chain of `name`, and further trusted certificates."""
        key = ("-in", str(self.identity(name)), "-out", f"{name}.key.p12")
        self._openssl("pkcs12", "-export", *key, "-passout", f"pass:{PASSWORD}")
        self._keytool(
            *("-importkeystore", "-srckeystore", f"{name}.key.p12", "-srcstorepass", PASSWORD),
            *("-destkeystore", f"{name}.store", "-deststorepass", PASSWORD),
        )
        return self.trust_store(f"{name}.store")

    def _keytool(self, *arguments: str) -> None:
        self._run(str(keytool()), *(f"-J{option}" for option in SHORT_LIVED), *arguments)

    def _openssl(self, *arguments: str) -> None:
        self._run("openssl", *arguments)

    def _run(self, *command: str) -> None:
        subprocess.run(command, cwd=self._directory, check=True, capture_output=True)
