"""HTTP interface of a Connect worker: paths of connectors, and meanings of refusals."""

import html
import re
from typing import Any
from urllib.parse import quote

import httpx

_PASSES = ("rebalance", "momentarily", "stale configuration")
"""Words of a conflict (409) that ends by itself, unlike the conflict of a name in use."""

_REBALANCE = "Request cannot be completed because a rebalance is expected"
"""Message of endpoints that answer 500 in a rebalance, before they have examined the request
(`DistributedHerder#checkRebalanceNeeded`)."""

_PAGE = re.compile(r"<th>MESSAGE:</th><td>([^<]*)</td>|<pre>reason: ([^<]*)</pre>")
"""Pattern of the reason in Jetty's error pages."""


def connector_path(name: str, *parts: str) -> str:
    """Path of a connector, or of a part of it; the name is quoted whole.

    A name of dots alone is quoted as well: an HTTP client would take it for a step upwards.

    Raises:
        UnicodeEncodeError: the name holds half of a surrogate pair, so no URL can hold it.
    """
    quoted = name.replace(".", "%2E") if not name.strip(".") else quote(name, safe="")
    return "/".join(["/connectors", quoted, *parts])


def json_of(answer: httpx.Response) -> Any | None:
    """JSON body of an answer; None if it has none."""
    try:
        return answer.json()
    except ValueError:
        return None


def reason_of(answer: httpx.Response) -> str:
    """Reason of a refusal, as the server gives it; proxies and Jetty answer with HTML pages.

    It may contain secrets: a worker repeats configs in its messages.
    """
    document = json_of(answer)
    return str(
        (document.get("message") if isinstance(document, dict) else None)
        or _on_page(answer)
        or _plain_text(answer)
        or f"HTTP {answer.status_code} {answer.reason_phrase}"
    )


def is_temporary(answer: httpx.Response) -> bool:
    """True if a refusal is temporary: Connect refuses nearly everything in a rebalance.

    The worker has changed nothing, so the request may be sent again.
    """
    if not answer.is_error:
        return False
    message, conflict = reason_of(answer), answer.status_code == httpx.codes.CONFLICT
    return message == _REBALANCE or (conflict and any(word in message for word in _PASSES))


def _on_page(answer: httpx.Response) -> str | None:
    """Reason in an error page of Jetty; None: it is no such page."""
    match = _PAGE.search(answer.text)
    return match and html.unescape(match[1] or match[2])


def _plain_text(answer: httpx.Response) -> str | None:
    """Text of a refusal that is neither JSON nor HTML, as REST extensions send it."""
    text = answer.text.strip()
    is_refusal = answer.is_error and json_of(answer) is None
    return text if is_refusal and not text.startswith("<") else None
