"""Odd answers of a worker, or of a proxy in front of it."""

import httpx
import pytest

from controlplane.rest.errors import WorkerAnswer
from controlplane.worker_api import is_temporary, json_of, reason_of

NO_JSON = {
    "nothing": b"",
    "text": b"bad gateway",
    "half a document": b'{"message":',
    "too many levels": b"[" * 100_000,
    "no UTF-8": b'{"message": "\xff"}',
}
"""Bodies of errors that are no JSON."""


@pytest.mark.parametrize("case", NO_JSON)
def test_a_body_that_is_no_json_is_no_defect(case: str) -> None:
    """An answer whose body is no JSON still has a reason."""
    body = NO_JSON[case]
    answer = httpx.Response(409, content=body)
    assert json_of(answer) is None
    assert reason_of(answer)
    assert not is_temporary(answer)
    assert WorkerAnswer(409, body).message is None


@pytest.mark.parametrize("charset", ["hex", "rot13", "idna", "utf-16"])
def test_an_odd_charset_is_no_defect(charset: str) -> None:
    """A body that its charset cannot decode is read as UTF-8."""
    headers = {"content-type": f"text/plain; charset={charset}"}
    answer = httpx.Response(500, headers=headers, content=b"zz\xff")
    assert not is_temporary(answer)
    assert reason_of(answer) == "zz\ufffd"
