"""Complaints of object stores as sentences, each with a remedy."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EISDIR
from typing import Any

from controlplane.core.text.file_errors import because
from replay.errors import NoArchive

_OF_AWS = re.compile(
    r"AWS Error (\w+)(?: \(HTTP status (\d+)\))? during \w+ operation: (.*?)\.?"
    r"(?: \(Request ID: .*\))?$",
    re.DOTALL,
)

_KEYS = "check fs.s3a.access.key and fs.s3a.secret.key, or the AWS variables or role used instead"
_PLACE = "check fs.s3a.endpoint, and whether it can be reached"

_ADVICE = {
    "ACCESS_DENIED": f"{_KEYS}, and their permissions",
    "INVALID_ACCESS_KEY_ID": _KEYS,
    "INVALID_CLIENT_TOKEN_ID": _KEYS,
    "SIGNATURE_DOES_NOT_MATCH": _KEYS,
    "UNRECOGNIZED_CLIENT": _KEYS,
    "NETWORK_CONNECTION": _PLACE,
    "NO_CREDENTIALS": _KEYS,
    "PARTIAL_CREDENTIALS": _KEYS,
    "NO_SUCH_BUCKET": "create it, or correct the name",
}


_BAD_REQUEST = "400"
_CHECKSUMS = (
    "a server that does not know the checksums of newer clients needs the environment variable "
    "AWS_REQUEST_CHECKSUM_CALCULATION=when_required"
)


def why_not(error: OSError) -> str:
    """Reason of Arrow's error about a store, and a remedy, as the end of a sentence."""
    if error.errno == EISDIR:
        return f"({error.strerror}): restore the file from a copy"
    match = _OF_AWS.search(str(error))
    if match is None:
        return because(error)
    kind, status = match[1], match[2]
    if kind == "UNKNOWN" and status == _BAD_REQUEST:
        return f"(HTTP status {status}: {_first_line(match[3])}): {_CHECKSUMS}"
    return _complaint(kind, match[3])


def why_not_of_client(error: Exception) -> str:
    """Reason why a request of botocore failed, and a remedy, as the end of a sentence.

    The reason is the error that the store has returned. Without one, it is botocore's own error.
    """
    from botocore.exceptions import ConnectionError, HTTPClientError  # noqa: PLC0415, A004

    if isinstance(error, HTTPClientError | ConnectionError):
        return _complaint("NETWORK_CONNECTION", str(error))
    own = {"Code": type(error).__name__.removesuffix("Error"), "Message": str(error)}
    refusal = answer_in(error).get("Error", own)
    kind = re.sub("(?<=[a-z])(?=[A-Z])", "_", refusal["Code"]).upper()
    return _complaint(kind, refusal.get("Message", ""))


def answer_in(error: Exception) -> dict[str, Any]:
    """Answer of a store in an error of botocore; empty if the request had none."""
    answer = getattr(error, "response", None)
    return answer if isinstance(answer, dict) else {}


def _complaint(kind: str, words: str) -> str:
    return f"({kind}: {_first_line(words)}): {_ADVICE.get(kind, 'check the store')}"


def _first_line(words: str) -> str:
    return next(iter(words.splitlines()), "no reason given")  # some stores give no reason


@contextmanager
def reading(where: str) -> Iterator[None]:
    """Turn errors of the store into one sentence that says it cannot be read."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise NoArchive(f"{where} cannot be read {why_not(error)}") from None


def is_outage(error: Exception) -> bool:
    """True if the store failed to deliver a file, whatever its content."""
    return isinstance(error, OSError) and _OF_AWS.search(str(error)) is not None
