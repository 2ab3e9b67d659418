"""HTTP interface of a Connect worker: paths of connectors, and reasons of refusals."""

import html
import re
from typing import Any
from urllib.parse import quote

import httpx

_TEMPORARY_CONFLICT = "Cannot complete request "
"""Beginning of the messages of temporary conflicts (409), with a rebalance or a stale config as the
cause (`HerderRequestHandler`). Match this text only as a prefix: messages of other conflicts quote
a connector name, which may contain this text."""

_REBALANCE = "Request cannot be completed because a rebalance is expected"
"""Message of endpoints that answer 500 during a rebalance, before they examine the request
(`DistributedHerder#checkRebalanceNeeded`)."""

NOT_SERVING = frozenset(
    {
        httpx.codes.BAD_GATEWAY,
        httpx.codes.SERVICE_UNAVAILABLE,
        httpx.codes.GATEWAY_TIMEOUT,
    }
)
"""Statuses of a worker that starts, stops or is overloaded, or of a proxy that reaches none."""

PATH_MAX = 60_000
"""Maximum length of a path with a name; httpx refuses URLs of more than 65,536 characters."""

_JETTY_REASON = re.compile(r"<th>MESSAGE:</th><td>([^<]*)</td>|<pre>reason: ([^<]*)</pre>")
"""Pattern of the reason in Jetty's error pages."""


def connector_path(name: str, *parts: str) -> str:
    """Return the path of a connector or of a part of it; the whole name is quoted.

    Names of only dots are quoted too: an HTTP client would take `..` for the parent path.

    Raises:
        UnicodeEncodeError: the name holds half of a surrogate pair, which no URL can hold.
    """
    quoted = name.replace(".", "%2E") if not name.strip(".") else quote(name, safe="")
    return "/".join(["/connectors", quoted, *parts])


def json_of(answer: httpx.Response) -> Any | None:
    """Return the JSON body of an answer; None if the body is no JSON."""
    try:
        return answer.json()
    except (ValueError, RecursionError):  # also a document with too many levels
        return None


def reason_of(answer: httpx.Response) -> str:
    """Return the server's reason for a refusal, from JSON, an HTML page of Jetty, or plain text.

    It may contain secrets, because a worker quotes configs in its messages.
    """
    document = json_of(answer)
    return str(
        (document.get("message") if isinstance(document, dict) else None)
        or _jetty_reason(answer)
        or _plain_text(answer)
        or f"HTTP {answer.status_code} {answer.reason_phrase}"
    )


def is_temporary(answer: httpx.Response) -> bool:
    """Return True for a temporary refusal: during a rebalance Connect refuses nearly every request.

    The worker has changed nothing, so the request may be repeated.
    """
    if not answer.is_error:
        return False
    message, conflict = reason_of(answer), answer.status_code == httpx.codes.CONFLICT
    return message == _REBALANCE or (conflict and message.startswith(_TEMPORARY_CONFLICT))


def _text_of(answer: httpx.Response) -> str:
    """Return the body as text; as UTF-8 if it cannot be read in the charset that it names."""
    try:
        return answer.text
    except (ValueError, TypeError, AssertionError):  # also a charset that is no text encoding
        return answer.content.decode("utf-8", "replace")


def _jetty_reason(answer: httpx.Response) -> str | None:
    """Return the reason in an error page of Jetty; None for other bodies."""
    match = _JETTY_REASON.search(_text_of(answer))
    return match and html.unescape(match[1] or match[2])


def _plain_text(answer: httpx.Response) -> str | None:
    """Return the text of a refusal that is neither JSON nor HTML, as REST extensions send it."""
    text = _text_of(answer).strip()
    is_refusal = answer.is_error and json_of(answer) is None
    return text if is_refusal and not text.startswith("<") else None
