"""Secrets are hidden from people by one rule, applied wherever something is made for people.

A value is hidden where its key looks like a secret's (`SECRET_KEYS`), and wherever it stands in a
text: assigned to such a name (`password=…`, `X-Api-Key: …`), in the user part of a URL, behind
`Bearer` or `Basic`, between the lines of a private key. References to config providers
(`${file:/x:key}`) stay visible: they name a secret and are none. REST answers as Connect does and
is not redacted.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

HIDDEN = "[hidden]"

SECRET_KEYS = (
    r"passw(or)?d",
    r"passphrase",
    r"pwd",
    r"(?<![a-z0-9])pass(?![a-z0-9])",
    r"(?-i:(?<=[a-z0-9])Pass(?![a-z]))",
    r"secret",
    r"token",
    r"credential",
    r"jaas",
    r"(api|access|account|private|signing|encryption|master|license|shared)[._-]?key",
    r"keystore\.key",
    r"(ssl|tls)[._-]key([._-]pem)?(?![\w.-])",
    r"auth\.user\.info",
    r"authorization",
)
"""Any part of a config key, whatever its case. Rather one too many: a leak cannot be undone."""

_ANY_KEY = "|".join(SECRET_KEYS)
_SECRET = re.compile(_ANY_KEY, re.IGNORECASE)
_REFERENCE = re.compile(r"(\$\{[^{}]*:[^{}]*\})")
_USER_INFO = re.compile(r"""(?<=://)([^/?#:@\s"']*):[^/?#\s"']+@""")
_SCHEMES = r"(?:Bearer|Basic|Digest|ApiKey|Token)"
_AUTHORIZED = re.compile(rf"\b({_SCHEMES}\s+)[\w.~+/=-]+", re.IGNORECASE)
_PRIVATE_KEY = re.compile(
    r"(-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----).*?(-----END [A-Z ]{0,30}PRIVATE KEY-----|\Z)",
    re.DOTALL,
)
# A word is taken whole, or not at all: no text makes this go back and forth.
_ASSIGNED = re.compile(
    rf"""(?P<name>(?<![\w.-])(?=[\w.-]*?(?:{_ANY_KEY}))[\w.-]++\\?["']?\s*+[=:]\s*+)"""
    rf"""(?P<value>\\"(?:[^"\\]|\\[^"])*+(?:\\")?|"(?:\\.|[^"\\])*+"?|'[^']*+'?"""
    rf"""|(?:{_SCHEMES}\s+)?[^\s&;,"']+)""",
    re.IGNORECASE | re.DOTALL,
)

LOOKED_AT = 1 << 18
"""Characters of a text that are looked at: a book of a hundred pages, and some 0.1 s."""

_STEMS = (
    *("pass", "pwd", "secret", "token", "cred", "jaas", "key", "auth", "bearer", "basic", "digest"),
    "://",
)
"""Where none of these stands, in whatever case, nothing of what is looked for does."""

_ENTRY = re.compile(
    rf"(?P<name>(?:^|(?<=, ))(?=[\w.-]*?(?:{_ANY_KEY}))[\w.-]++=)"
    r"(?P<value>.*?)(?=, [\w.-]++=|\Z)",
    re.IGNORECASE | re.DOTALL,
)
"""A secret's entry in a map as Java's `toString` has it."""


def is_secret(key: str) -> bool:
    """Whether the value of a config key is to be hidden."""
    return _SECRET.search(key) is not None


def redacted(properties: Mapping[str, Any]) -> dict[str, Any]:
    """A connector's or task's config as people may see it."""
    return {key: redacted_value(key, value) for key, value in properties.items()}


Mark = Callable[[Any, Any], Any]
"""(a value, the same without its secrets) → what is shown of it."""


def redacted_value(key: str, value: Any, mark: Mark = lambda _, hidden: hidden) -> Any:
    """The value of one config key as people may see it; what is empty or None stays.

    Whatever is beneath a secret's key is hidden, too. `mark` may have its say wherever something
    was hidden. Values may be nested as deeply as Connect
    reads them, which is more deeply than Python calls.
    """
    done: list[Any] = [None]
    waiting: list[_Waiting] = [(done, 0, value, is_secret(key))]
    while waiting:
        into, place, item, secret = waiting.pop()
        if isinstance(item, Mapping):
            into[place] = dict.fromkeys(item)
            waiting += _members(into[place], item, secret=secret)
        elif isinstance(item, list | tuple):
            into[place] = [None] * len(item)
            waiting += [(into[place], index, one, secret) for index, one in enumerate(item)]
        else:
            shown = _leaf(item, secret=secret)
            into[place] = shown if shown == item else mark(item, shown)
    return done[0]


_Waiting = tuple[Any, Any, Any, bool]
"""A value that is still to be looked at: the container and the place where it goes, the value, and
whether all of it is secret."""


def _members(into: Any, item: Mapping[str, Any], *, secret: bool) -> Iterator[_Waiting]:
    for name, member in item.items():
        yield into, name, member, secret or is_secret(name)


def _leaf(value: Any, *, secret: bool) -> Any:
    if secret:
        return _hidden(value)
    return redacted_text(value) if isinstance(value, str) else value


def redacted_text(text: str) -> str:
    """A text without the secrets in it, and no longer than people read.

    What is longer is cut: looking through it all would take seconds, and others would wait.
    """
    if len(text) > LOOKED_AT:
        more = len(text) - LOOKED_AT
        return f"{redacted_text(text[:LOOKED_AT])}… ({more} characters more)"
    folded = text.casefold()
    if not any(stem in folded for stem in _STEMS):
        return text
    text = _USER_INFO.sub(rf"\1:{HIDDEN}@", _PRIVATE_KEY.sub(rf"\1{HIDDEN}\2", text))
    return _ASSIGNED.sub(_unassigned, _AUTHORIZED.sub(rf"\1{HIDDEN}", text))


def redacted_refusal(text: str) -> str:
    """A refusal as people may see it.

    Where Connect repeats a config it writes `{key=value, key=value}`, and a value may hold
    anything, also commas and braces: it ends where the next key begins.
    """
    before, begin, rest = text.partition("{")
    inside, end, after = rest.rpartition("}")
    if not end:
        return redacted_text(text)
    hidden = redacted_text(_ENTRY.sub(_unassigned, inside))
    return f"{redacted_text(before)}{begin}{hidden}{end}{redacted_text(after)}"


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
