"""Signatures of requests among workers, made with the cluster's session key (KIP-507).

Kafka: `InternalRequestSignature`, `DistributedHerder#requestNotSignedProperly`.
"""

import hmac
import re
from base64 import b64decode
from collections.abc import Mapping
from string import ascii_letters, digits
from typing import NamedTuple

from controlplane.core.records import SessionKey
from controlplane.rest.errors import BadRequest, Forbidden, NotReady

AUTHORIZATION = "x-connect-authorization"
"""Header with the signature in base64."""

ALGORITHM = "x-connect-request-signature-algorithm"

_ACCEPTED = "HmacSHA256"
"""Accepted algorithm: Kafka's default of `inter.worker.verification.algorithms`."""

_KNOWN_TO_JAVA = re.compile(
    r"Hmac(MD5|SHA1|SHA(3-)?(224|256|384|512)|SHA512/(224|256))"
    r"|HmacPBESHA(1|224|256|384|512(/(224|256))?)"
    r"|PBEWithHmacSHA(1|224|256|384|512)"
    r"|SslMac(MD5|SHA1)",
    re.IGNORECASE,
)
"""Algorithms that Java provides. Java ignores their case; a worker does not."""


class Signature(NamedTuple):
    """Signature of a request, with the session key that verifies it."""

    algorithm: str
    encoded: str
    key: SessionKey | None

    def check(self, body: bytes) -> None:
        """Verify that a worker of this cluster has sent this body.

        Raises:
            BadRequest: the signature is malformed, or its algorithm is not accepted.
            NotReady: no session key has been read yet.
            Forbidden: the signature does not match.
        """
        if not _KNOWN_TO_JAVA.fullmatch(self.algorithm):
            raise BadRequest(f"Algorithm {self.algorithm} not available")
        signed = _decoded(self.encoded)
        if self.algorithm != _ACCEPTED:
            raise BadRequest(_NOT_ACCEPTED.format(self.algorithm, _ACCEPTED))
        if self.key is None:
            raise NotReady(_NO_KEY)
        if not hmac.compare_digest(signed, hmac.digest(self.key.key, body, "sha256")):
            raise Forbidden("Internal request contained invalid signature.")


def signature(headers: Mapping[str, str], key: SessionKey | None) -> Signature | None:
    """Return the signature of a request; None if it has none."""
    if AUTHORIZATION not in headers or ALGORITHM not in headers:
        return None
    return Signature(headers[ALGORITHM], headers[AUTHORIZATION], key)


def _decoded(text: str) -> bytes:
    """Decode base64 as Java 17 does; padding may be missing. Source: `java.util.Base64.Decoder`.

    Raises:
        BadRequest: with Java's message.
    """
    if len(text) == 1:
        raise BadRequest("Input byte[] should at least have 2 bytes for base64 bytes")
    end = len(text) - len(text.lstrip(_BASE64))
    unpadded, left = text[:end], end % 4
    if end < len(text):
        if text[end] != "=":
            raise BadRequest(f"Illegal base64 character {_signed(text[end]):x}")
        padding = _PADDING[left]
        if not padding or not text.startswith(padding, end):
            raise BadRequest("Input byte array has wrong 4-byte ending unit")
        end += len(padding)
    if left == 1:
        raise BadRequest("Last unit does not have enough valid bits")
    if end < len(text):
        raise BadRequest(f"Input byte array has incorrect ending byte at {end}")
    return b64decode(unpadded + "=" * (-len(unpadded) % 4))


_BASE64 = f"{ascii_letters}{digits}+/"
_PADDING = ("", "=", "==", "=")
"""Padding that Java reads after 0 to 3 digits of a unit."""


def _signed(character: str) -> int:
    """Return a character of a header as a signed byte of Java."""
    return (ord(character) ^ 128) - 128


_NOT_ACCEPTED = (
    "This worker does not support the '{}' key signing algorithm used by other workers. This "
    "worker is currently configured to use: [{}]. Check that all workers' configuration files "
    "permit the same set of signature algorithms, and correct any misconfigured worker and restart "
    "it."
)

_NO_KEY = (
    "This worker is still starting up and has not been able to read a session key from the config "
    "topic yet"
)
