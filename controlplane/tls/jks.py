"""Trusted certificates of a JKS store: Java's own format, the default of `keytool` before Java 9.

Layout, with big-endian numbers: magic, version, number of entries, and the entries. An entry has
kind, alias, time and content. At the end is a SHA-1 digest of password, a fixed phrase and all
bytes before. Source: `sun.security.provider.JavaKeyStore` of OpenJDK.
"""

import hashlib
import hmac
from collections.abc import Iterator
from io import BytesIO

MAGIC = b"\xfe\xed\xfe\xed"
"""First bytes of a JKS store."""

_VERSIONS = (1, 2)
_KEY, _CERTIFICATE = 1, 2
_TIME_SIZE, _DIGEST_SIZE = 8, 20
_PHRASE = b"Mighty Aphrodite"


class BadStore(ValueError):
    """The bytes are no complete JKS store, or the password is wrong."""


def trusted(content: bytes, password: str | None) -> list[bytes]:
    """Return the trusted certificates of a JKS store, in DER, in the order of the file.

    As in Java, these are the certificate entries and the first certificate of each key entry.
    Without a password the digest of the file is not checked, as in Java.

    Raises:
        BadStore: the bytes are no complete JKS store, or the password is wrong.
    """
    body, digest = content[:-_DIGEST_SIZE], content[-_DIGEST_SIZE:]
    certificates = [*_entries(_JksCursor(body))]
    if password is not None and not hmac.compare_digest(_digest(body, password), digest):
        raise BadStore("the password is wrong, or the file has been changed")
    return certificates


def _digest(body: bytes, password: str) -> bytes:
    salt = password.encode("utf-16-be", "surrogatepass") + _PHRASE
    return hashlib.sha1(salt + body, usedforsecurity=False).digest()


def _entries(cursor: "_JksCursor") -> Iterator[bytes]:
    """Yield the trusted certificate of each entry."""
    magic, version = cursor.take(len(MAGIC)), cursor.number(4)
    if magic != MAGIC or version not in _VERSIONS:
        raise BadStore("it is of an unknown version")
    for _ in range(cursor.number(4)):
        kind = cursor.number(4)
        cursor.take(cursor.number(2) + _TIME_SIZE)  # alias and creation time
        if kind not in {_KEY, _CERTIFICATE}:
            raise BadStore("it has an entry of an unknown kind")
        if kind == _KEY:
            cursor.take(cursor.number(4))  # the key, encrypted
        chain = [
            _certificate(cursor, version) for _ in range(cursor.number(4) if kind == _KEY else 1)
        ]
        yield from chain[:1]


def _certificate(cursor: "_JksCursor", version: int) -> bytes:
    if version > 1:
        cursor.take(cursor.number(2))  # certificate type: X.509
    return cursor.take(cursor.number(4))


class _JksCursor:
    """Cursor over the bytes of a store."""

    def __init__(self, content: bytes) -> None:
        self._rest = BytesIO(content)

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size))

    def take(self, size: int) -> bytes:
        octets = self._rest.read(size)
        if len(octets) < size:
            raise BadStore("it ends too early")
        return octets
