"""Secrets are hidden from people by one rule, applied wherever something is made for people.

A value is hidden where its key looks like a secret's (`SECRET_KEYS`), and a password inside of a
URL or of a `password=…` wherever it stands. References to config providers (`${file:/x:key}`)
stay visible: they name a secret and are none. REST answers as Connect does and is not redacted.
"""

import re
from collections.abc import Mapping
from typing import Any

HIDDEN = "[hidden]"

SECRET_KEYS = (
    r"passw(or)?d",
    r"passphrase",
    r"pwd",
    r"secret",
    r"token",
    r"credential",
    r"jaas",
    r"(api|access|account|private|signing|encryption|master|license|shared)[._-]?key",
    r"keystore\.key",
    r"auth\.user\.info",
    r"authorization",
)
"""Any part of a config key, whatever its case. Rather one too many: a leak cannot be undone."""

_SECRET = re.compile("|".join(SECRET_KEYS), re.IGNORECASE)
_REFERENCE = re.compile(r"(\$\{[^{}]*:[^{}]*\})")
_USER_INFO = re.compile(r"(?<=://)([^/?#:@\s]*):[^/?#@\s]+@")
_ASSIGNED = re.compile(
    r"""(?P<name>["']?[\w.-]*(?:passw(?:or)?d|secret|token)[\w.-]*["']?\s*[=:]\s*)"""
    r"""(?P<value>"(?:\\.|[^"\\])*"?|'[^']*'?|[^\s&;,"']+)""",
    re.IGNORECASE,
)


def is_secret(key: str) -> bool:
    """Whether the value of a config key is to be hidden."""
    return _SECRET.search(key) is not None


def redacted(properties: Mapping[str, Any]) -> dict[str, Any]:
    """A connector's or task's config as people may see it."""
    return {key: redacted_value(key, value) for key, value in properties.items()}


def redacted_value(key: str, value: Any) -> Any:
    """The value of one config key as people may see it; what is empty or None stays."""
    if isinstance(value, Mapping):
        return redacted(value)
    if isinstance(value, list | tuple):
        return [redacted_value(key, element) for element in value]
    if is_secret(key):
        return _hidden(value)
    return redacted_text(value) if isinstance(value, str) else value


def redacted_text(text: str) -> str:
    """A text without the passwords of the URLs and assignments in it."""
    return _ASSIGNED.sub(_unassigned, _USER_INFO.sub(rf"\1:{HIDDEN}@", text))


def _unassigned(found: re.Match[str]) -> str:
    return found["name"] + str(_hidden(found["value"]))


def _hidden(value: Any) -> Any:
    """The references in a value; whatever stands between them is hidden."""
    if value is None or value == "":
        return value
    if not isinstance(value, str):
        return HIDDEN
    parts = _REFERENCE.split(value)
    return "".join(part if _REFERENCE.fullmatch(part) else part and HIDDEN for part in parts)
