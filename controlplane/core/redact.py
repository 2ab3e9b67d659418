"""Secrets are hidden from people by one rule, applied wherever something is made for people.

A value is hidden where its key looks like a secret's (`SECRET_KEYS`), and wherever it stands in a
text: assigned to such a name (`password=…`, `X-Api-Key: …`, `<password>…</password>`, a line
`password …`), in the user part of a URL, behind `Bearer` or `Basic`, between the lines of a private
key. Escapes disguise nothing: a text is also read without them (`escaped_text`), so JSON in strings
and percent-encoded parameters are covered. References to config providers
(`${file:/x:key}`) stay visible: they name a secret and are none; what an archive has encrypted
(`${encrypted:…}`) is as hidden as what it was. REST answers as Connect does and is not redacted.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from controlplane.core.escaped_text import escape_levels, has_escapes

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
_REFERENCE = re.compile(r"(\$\{(?!encrypted:)[^{}:]*+:[^{}]*+\})")
_USER_INFO = re.compile(r"""(?P<name>(?<=://)[^/?#:@\s"']*:)(?P<value>[^/?#\s"']+)(?=@)""")
_SCHEMES = r"(?:Bearer|Basic|Digest|ApiKey|Token)"
_AUTHORIZED = re.compile(rf"(?P<name>\b{_SCHEMES}\s+)(?P<value>[\w.~+/=-]+)", re.IGNORECASE)
_PRIVATE_KEY = re.compile(
    r"(?P<name>-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----)(?P<value>.*?)"
    r"(?=-----END [A-Z ]{0,30}PRIVATE KEY-----|\Z)",
    re.DOTALL,
)
_INSIDE = r"""(?:"(?:\\.|[^"\\])*+"|[^\[\]{}"])*+"""
_BRACKETED = rf"\{{{_INSIDE}\}}|\[{_INSIDE}\]|[\[{{].*\Z"
"""A list or map that is a secret. One with others inside of it is taken as far as the text goes."""

_REPLACED = r"""(?:\[hidden\]|\$\{[^{}:]*+:[^{}]*+\})++(?=[\s&;,"'<>)\]}\\]|\Z)"""
"""What stands in place of a secret, once it was replaced: a bracket behind it is none of it."""

# A word is taken whole, or not at all: no text makes this go back and forth.
_ASSIGNED = re.compile(
    rf"""(?P<name>(?<![\w.-])(?=[\w.-]*?(?:{_ANY_KEY}))[\w.-]++\\?["']?\s*+[=:]\s*+)"""
    rf"""(?P<value>{_REPLACED}|\\"(?:[^"\\]|\\[^"])*+(?:\\")?|"(?:\\.|[^"\\])*+"?|'[^']*+'?"""
    rf"""|(?:{_BRACKETED})[^\s&;,"']*|(?:{_SCHEMES}\s+)?(?:\\\r?\n[ \t]*+|[^\s&;,"'])+)""",
    re.IGNORECASE | re.DOTALL,
)
_ELEMENT = re.compile(
    rf"(?P<name><(?=[^\s<>/]*?(?:{_ANY_KEY}))[^\s<>/]++(?:\s[^<>]*+)?>\s*+(?:<!\[CDATA\[)?+)"
    r"(?P<value>[^<\s][^<]*+)",
    re.IGNORECASE,
)
_ATTRIBUTE = re.compile(
    rf"""(?P<name>\b(?:name|key|id)\s*+=\s*+["'](?=[^"'<>]{{0,200}}?(?:{_ANY_KEY}))[^"'<>]++["']"""
    r"""(?:[^<>]{0,200}?\bvalue\s*+=\s*+["']|[^<>]{0,200}+>\s*+(?:<!\[CDATA\[)?+))(?P<value>[^<>"']++)""",
    re.IGNORECASE,
)
"""XML: `<password>…</password>`, `<entry key="password">…</entry>`, `name="password" value="…"`."""
_PROPERTY = re.compile(
    rf"^(?P<name>[ \t]*+(?=[\w.-]*?(?:{_ANY_KEY}))[\w.-]++[ \t]++)(?P<value>\S++)(?=\s*?$)",
    re.IGNORECASE | re.MULTILINE,
)
"""A line of a property file of two words: `password …`."""
_ENCRYPTED = re.compile(r"(?P<name>)(?P<value>\$\{encrypted:[^{}]*\})")
_IN_TEXTS = (
    *(_PRIVATE_KEY, _USER_INFO, _AUTHORIZED, _ASSIGNED),
    *(_ELEMENT, _ATTRIBUTE, _PROPERTY, _ENCRYPTED),
)
"""What tells a secret in a text, and the secret."""

LOOKED_AT = 1 << 18
"""Characters of a text that are looked at: a book of a hundred pages, and some 0.1 s."""

_STEMS = (
    *("pass", "pwd", "secret", "token", "cred", "jaas", "key", "auth", "bearer", "basic", "digest"),
    *("://", "${encrypted:"),
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


Hide = Callable[[str], str]
"""A secret → what stands in its place."""

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
    return text_without(text, _as_hidden)


def text_without(text: str, hide: Hide) -> str:
    """A text of any length with every secret in it replaced."""
    if not may_hold_secrets(text):
        return text
    pieces: list[str] = []
    copied = 0
    for start, end in _merged(_secret_spans(text)):
        pieces += text[copied:start], replaced(text[start:end], hide)
        copied = end
    return "".join(pieces) + text[copied:]


def _secret_spans(text: str) -> Iterator[tuple[int, int]]:
    """The places of secrets, seen as the text stands and without each level of its escapes.

    Every level is looked at: a secret ends where its own quotes do, and no level tells alone which
    quotes are its own.
    """
    yield from _spelled(text)
    for level in escape_levels(text):
        if _has_stems(level.text):
            for start, end in _spelled(level.text):
                yield level.original(start), level.original(end)


def _spelled(text: str) -> Iterator[tuple[int, int]]:
    for pattern in _IN_TEXTS:
        yield from (found.span("value") for found in pattern.finditer(text))


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same places in order, those that overlap as one."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        elif start < end:
            merged.append((start, end))
    return merged


def may_hold_secrets(text: str) -> bool:
    """Whether it is worth looking: False means that there is no secret, and no name of one."""
    return has_escapes(text) or _has_stems(text)


def _has_stems(text: str) -> bool:
    folded = text.casefold()
    return any(stem in folded for stem in _STEMS)


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
    return found["name"] + replaced(found["value"], _as_hidden)


def _hidden(value: Any) -> Any:
    """A secret as people may see it: what is empty is none."""
    if value is None or isinstance(value, str):
        return value and replaced(value, _as_hidden)
    return HIDDEN


def replaced(secret: str, hide: Hide) -> str:
    """The references in a secret; what stands between them is replaced."""
    parts = _REFERENCE.split(secret)
    return "".join(part if _REFERENCE.fullmatch(part) else part and hide(part) for part in parts)


def _as_hidden(_secret: str) -> str:
    return HIDDEN
