"""Configured response headers: `response.http.headers.config` (KIP-577)."""

import re
from collections.abc import Iterator, Sequence
from email.utils import formatdate
from typing import NamedTuple

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from controlplane.rest.errors import HTML
from controlplane.settings.kinds import BadValue

KEY = "response.http.headers.config"


class Extra(NamedTuple):
    """A response header to append, or to set unless the answer has it."""

    name: str
    value: str
    adds: bool


class ExtraHeaders:
    """Adds the headers to every answer except the server's own error pages."""

    def __init__(self, app: ASGIApp, extra: Sequence[Extra]) -> None:
        self._app = app
        self._extra = extra

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and add the headers to its answer (ASGI)."""

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._add(MutableHeaders(scope=message))
            await send(message)

        await self._app(scope, receive, sending if scope["type"] == "http" else send)

    def _add(self, headers: MutableHeaders) -> None:
        if headers.get("content-type") == HTML:
            return
        for one in self._extra:
            if one.adds:
                headers.append(one.name, one.value)
            else:
                headers.setdefault(one.name, one.value)


_PARTS = re.compile(r'\s*(?:"(?P<quoted>[^"]*)"|(?P<plain>[^,"]*))\s*(?:,|$)')
_RULE = re.compile(
    r"(?P<action>set|add|setDate|addDate)\s+(?P<name>[\w!#$%&'*+.^`|~-]+)\s*:\s*(?P<value>.*)",
    re.DOTALL | re.ASCII,
)


def extra_headers(told: str | None) -> Sequence[Extra]:
    """Parse a list of `action name: value`, separated by commas; a rule with commas is quoted.

    Raises:
        BadValue: a rule is malformed.
    """
    return [_extra(part) for part in _split(told or "")]


def _split(told: str) -> Iterator[str]:
    place = 0
    while place < len(told):
        found = _PARTS.match(told, place)
        if found is None:
            raise BadValue(KEY, f"has quotation marks that do not pair up: {told[place:]!r}")
        yield (found["quoted"] or found["plain"] or "").strip()
        place = found.end()


def _extra(part: str) -> Extra:
    found = _RULE.fullmatch(part)
    if found is None or not found["value"].isprintable():
        raise BadValue(KEY, f"has {part!r}: use `set NAME: VALUE`, add, setDate or addDate")
    value = found["value"].strip()
    if found["action"].endswith("Date"):
        value = _date(value)
    try:
        value.encode("latin-1")
    except UnicodeEncodeError:
        raise BadValue(KEY, f"has {part!r}: a header holds Latin-1 only") from None
    return Extra(found["name"].lower(), value, adds=found["action"].startswith("add"))


def _date(value: str) -> str:
    """Convert milliseconds since 1970 to an HTTP date."""
    try:
        return formatdate(int(value) / 1_000, usegmt=True)
    except (ValueError, OverflowError, OSError):
        raise BadValue(KEY, f"has the date {value!r}: use milliseconds since 1970") from None
