"""Configured response headers: `response.http.headers.config` (KIP-577)."""

import re
from collections.abc import Iterator, Sequence
from email.utils import formatdate
from typing import NamedTuple

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from controlplane.rest.errors import HTML
from controlplane.settings.errors import BadValue

KEY = "response.http.headers.config"


class ExtraHeader(NamedTuple):
    """Configured response header. `adds`: append it always; otherwise only if it is missing."""

    name: str
    value: str
    adds: bool


class ExtraHeaders:
    """Adds the configured headers to every answer except the server's own error pages."""

    def __init__(self, app: ASGIApp, extra: Sequence[ExtraHeader]) -> None:
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
        for extra in self._extra:
            if extra.adds:
                headers.append(extra.name, extra.value)
            else:
                headers.setdefault(extra.name, extra.value)


_LIST_ITEM = re.compile(r'\s*(?:"(?P<quoted>[^"]*)"|(?P<plain>[^,"]*))\s*(?:,|$)')
_RULE = re.compile(
    r"(?P<action>set|add|setDate|addDate)\s+(?P<name>[\w!#$%&'*+.^`|~-]+)\s*:\s*(?P<value>.*)",
    re.DOTALL | re.ASCII,
)


def extra_headers(rules: str | None) -> Sequence[ExtraHeader]:
    """Parse a list of `action name: value`, separated by commas; a rule with commas is quoted.

    Raises:
        BadValue: a rule is malformed. The message has its number, because a config provider may
            have given the text.
    """
    return [_extra(number, part) for number, part in enumerate(_split(rules or ""), 1)]


def _split(rules: str) -> Iterator[str]:
    begin = 0
    while begin < len(rules):
        item = _LIST_ITEM.match(rules, begin)
        if item is None:
            raise BadValue(KEY, f"has an unbalanced quotation mark after character {begin}")
        yield (item["quoted"] or item["plain"] or "").strip()
        begin = item.end()


def _extra(number: int, part: str) -> ExtraHeader:
    rule = _RULE.fullmatch(part)
    if rule is None or not rule["value"].isprintable():
        use = "use `set NAME: VALUE`, add, setDate or addDate"
        raise BadValue(KEY, f"has a malformed rule, number {number}: {use}")
    value = rule["value"].strip()
    if rule["action"].endswith("Date"):
        value = _date(number, value)
    try:
        value.encode("latin-1")
    except UnicodeEncodeError:
        only = "use Latin-1 characters only"
        raise BadValue(KEY, f"has a malformed rule, number {number}: {only}") from None
    return ExtraHeader(rule["name"].lower(), value, adds=rule["action"].startswith("add"))


def _date(number: int, value: str) -> str:
    """Convert milliseconds since 1970 to an HTTP date; `number` is that of the rule."""
    try:
        return formatdate(int(value) / 1_000, usegmt=True)
    except (ValueError, OverflowError, OSError):
        use = "use milliseconds since 1970"
        raise BadValue(KEY, f"has a wrong date in rule number {number}: {use}") from None
