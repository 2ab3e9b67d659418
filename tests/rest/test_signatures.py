"""Signatures of requests among workers, with the cluster's session key.

The probe's world `9 internal` has most of the answers of a real worker.
"""

import hmac
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from controlplane.core.entry import Batch
from controlplane.core.records import SessionKey
from controlplane.logs.memory import MemoryLog
from controlplane.rest.errors import BadRequest, Forbidden, NotReady, RestError
from controlplane.rest.signatures import signature
from tests.controller.scene import plane_on
from tests.rest.served_history import client_of

KEY = SessionKey(b"a key of the cluster", "HmacSHA256", 0)
BODY = b'[{"a":"b"}]'
SIGNED = b64encode(hmac.digest(KEY.key, BODY, "sha256")).decode()


def headers(algorithm: str = "HmacSHA256", signed: str = SIGNED) -> Mapping[str, str]:
    """Return the signature headers of a worker's request."""
    return {
        "x-connect-authorization": signed,
        "x-connect-request-signature-algorithm": algorithm,
    }


def refusal(request_headers: Mapping[str, str], key: SessionKey | None = KEY) -> RestError:
    """Error for a request with these headers."""
    session_signature = signature(request_headers, key)
    assert session_signature is not None
    with pytest.raises(RestError) as refused:
        session_signature.check(BODY)
    return refused.value


@pytest.mark.parametrize("signed", [SIGNED, SIGNED.rstrip("=")])
def test_valid_signatures_are_accepted(signed: str) -> None:
    """A signature is accepted with or without its padding, as in Java's decoder."""
    assert SIGNED.endswith("=")
    session_signature = signature(headers(signed=signed), KEY)
    assert session_signature is not None
    session_signature.check(BODY)


@pytest.mark.parametrize("missing", headers())
def test_a_request_without_both_headers_is_refused(missing: str) -> None:
    """A request needs both headers; one alone is no signature."""
    incomplete = {name: value for name, value in headers().items() if name != missing}
    assert signature(incomplete, KEY) is None


@pytest.mark.parametrize("signed", ["", "AAAA", b64encode(b"x" * 32).decode()])
def test_wrong_signatures_are_forbidden(signed: str) -> None:
    """A wrong signature of any length is forbidden."""
    assert isinstance(refusal(headers(signed=signed)), Forbidden)


@pytest.mark.parametrize(
    ("request_headers", "text"),
    [
        (headers("NoSuch"), "Algorithm NoSuch not available"),
        (headers("HmacSHA384"), "This worker does not support the 'HmacSHA384' key signing"),
        (headers("hmacsha256"), "This worker does not support the 'hmacsha256' key signing"),
        (headers(signed="a b"), "Illegal base64 character 20"),
        (headers(signed="A"), "Input byte[] should at least have 2 bytes for base64 bytes"),
        (headers(signed="AAAAA"), "Last unit does not have enough valid bits"),
        (headers(signed="A="), "Last unit does not have enough valid bits"),
        (headers(signed="YQ="), "Input byte array has wrong 4-byte ending unit"),
        (headers(signed="AAAA="), "Input byte array has wrong 4-byte ending unit"),
        (headers(signed="YQ==YQ=="), "Input byte array has incorrect ending byte at 4"),
        (headers(signed="YWI=!"), "Input byte array has incorrect ending byte at 4"),
        (headers(signed="\xe9AAA"), "Illegal base64 character -17"),
        (headers("HmacMD5", signed="!A"), "Illegal base64 character 21"),
    ],
)
def test_unreadable_signatures_are_client_errors(
    request_headers: Mapping[str, str], text: str
) -> None:
    """An unreadable signature, or another algorithm, is a client error. The words are Java's."""
    message = refusal(request_headers)
    assert isinstance(message, BadRequest)
    assert str(message).startswith(text)


def test_a_worker_without_the_key_is_not_ready() -> None:
    """A worker that has not read the key yet is not ready."""
    assert isinstance(refusal(headers(), key=None), NotReady)


class LogWithReadCount(MemoryLog):
    """A log that counts how often it is read."""

    reads = 0

    def read(self, *where: Any, **more: Any) -> AsyncIterator[Batch]:
        """Read as usual."""
        self.reads += 1
        return super().read(*where, **more)


async def test_an_unsigned_request_folds_no_other_release() -> None:
    """A caller without a login cannot make the service read its log for each release."""
    log = LogWithReadCount()
    async with plane_on(log) as plane, client_of(plane.app) as client:
        await client.get("/connectors")
        reads = log.reads
        for release in ("2.4.0", "3.0.0", "3.9.1"):
            answer = await client.post(f"/compat/{release}/connectors/x/tasks", content=b"[]")
            assert answer.json()["message"] == "Internal request missing required signature"
        assert log.reads == reads
        await client.get("/compat/3.0.0/connectors")
        assert log.reads > reads
