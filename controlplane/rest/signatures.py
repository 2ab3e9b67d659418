"""Requests among workers: whether they are signed with the cluster's session key (KIP-507).

Kafka: `InternalRequestSignature`, `DistributedHerder#requestNotSignedProperly`.
"""

import hmac
import re
from base64 import b64decode
from collections.abc import Mapping
from typing import NamedTuple

from controlplane.core.records import SessionKey
from controlplane.rest.errors import BadRequest, Forbidden, NotReady

AUTHORIZATION = "x-connect-authorization"
"""The signature, in base64."""

ALGORITHM = "x-connect-request-signature-algorithm"

_ACCEPTED = "HmacSHA256"
"""Kafka's default of `inter.worker.verification.algorithms`, and of every cluster we know."""

_KNOWN_TO_JAVA = re.compile(
    r"Hmac(MD5|SHA1|SHA(3-)?(224|256|384|512)|SHA512/(224|256))"
    r"|HmacPBESHA(1|224|256|384|512(/(224|256))?)"
    r"|PBEWithHmacSHA(1|224|256|384|512)"
    r"|SslMac(MD5|SHA1)",
    re.IGNORECASE,
)
"""Algorithms that a Java machine brings; it does not mind capitals, a worker does."""

_NO_BASE64 = re.compile(r"[^A-Za-z0-9+/=]")


class Signature(NamedTuple):
    """What a request says of who sent it, and the key with which that can be checked."""

    algorithm: str
    encoded: str
    key: SessionKey | None

    def check(self, body: bytes) -> None:
        """Make sure that a worker of this cluster has sent this body.

        Raises:
            BadRequest: the signature is none, or of another kind.
            NotReady: no key has been read yet.
            Forbidden: somebody else has signed it.
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
    """The signature of a request; None: it has none."""
    if AUTHORIZATION not in headers or ALGORITHM not in headers:
        return None
    return Signature(headers[ALGORITHM], headers[AUTHORIZATION], key)


def _decoded(text: str) -> bytes:
    """What Java's decoder makes of it. Raises `BadRequest` with its words."""
    wrong = _NO_BASE64.search(text)
    if wrong is not None:
        raise BadRequest(f"Illegal base64 character {ord(wrong[0]):x}")
    try:
        return b64decode(text + "=" * (-len(text) % 4), validate=True)  # it needs no padding
    except ValueError:
        raise BadRequest("Input byte array has wrong 4-byte ending unit") from None


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
