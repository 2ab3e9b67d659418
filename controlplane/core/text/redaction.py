"""Redaction: one rule hides secrets wherever text is shown to people.

A value is hidden if its key looks like a secret's (`SECRET_KEYS`). In texts, a secret is also
recognised by its place:

- after such a key (`password=…`, `X-Api-Key: …`, `<password>…</password>`, a line `password …`);
- as the `value` beside such a `name`: `{"name": "password", "value": "…"}`;
- in the user part of a URL: `https://scott:…@host`, or `jdbc:oracle:thin:scott/…@host` for
  Oracle's driver;
- after a scheme of authorization such as `Bearer`;
- between the lines of a private key.

A text is also searched without its escapes (`escaped_text`), which covers JSON in strings and
percent-encoded parameters. References to config providers (`${file:/x:key}`) stay visible: they
name a secret without containing it. Values that an archive has encrypted (`${encrypted:…}`) are
hidden like the original. Answers of Connect's REST endpoints are not redacted, as in Connect.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import NoneType
from typing import Any

from controlplane.core.text.escaped_text import escape_levels, has_escapes

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
    r"(?<![a-z0-9])sig(nature)?(?![\w.-])",
    r"(?<![a-z0-9])(set-)?cookie2?(?![\w.-])",
)
"""Parts of config keys that mark a secret. Case is ignored, except for `Pass`, as in `dbPass`. A
leak cannot be undone, so the list includes doubtful words."""

_ANY_KEY = "|".join(SECRET_KEYS)
_SECRET = re.compile(_ANY_KEY, re.IGNORECASE)
_REFERENCE = re.compile(r"(\$\{(?!encrypted:)[^{}:]*+:[^{}]*+\})")
"""Reference to a config provider. An encrypted value is not a reference."""
_USER_INFO = re.compile(r"""(?P<name>(?<=://)[^/?#:@\s"']*:)(?P<value>[^/?#\s"']+)(?=@)""")
"""Password in the user part of a URL."""
_CUT_URL = re.compile(
    r"""(?P<name>(?<=://)[^/?#:@\[\s"']*:)"""
    r"""(?P<value>(?!\d{1,5}(?!\w)|port\b)[^/?#@\s"'…]+?)(?=…|\.{3}|\Z)""",
    re.IGNORECASE,
)
"""Start of a password in a URL that is cut. Up to five digits, or the word `port`, count as a port
and not as a password."""
_RAW_USER_INFO = re.compile(
    r"""(?P<name>(?<=://)[^/?#:@\[\s"']*:)"""
    r"""(?P<value>(?!\d{1,5}(?!\w)|port\b)[^@\s"']{1,200}+(?:@[^@/?#\s"']++(?=@))*+)(?=@)""",
    re.IGNORECASE,
)
"""Password in a URL that has a `/`, `?` or `#`, although a URL must encode them."""
_ORACLE = re.compile(
    r"""(?P<name>\bjdbc:oracle:\w+:[^/@:\s"']{0,200}+/)(?P<value>"[^"]{0,200}+"|[^@\s"']{1,200}+)(?=@)""",
    re.IGNORECASE,
)
"""Password in a URL of Oracle's driver: `jdbc:oracle:thin:scott/tiger@//host/db`."""
_COOKIE = re.compile(
    r"""(?P<name>\b(?:set-)?cookie2?\\?["']?\s*+:\s*+(?!["']))(?P<value>[^\r\n"']++)""",
    re.IGNORECASE,
)
"""`Cookie` or `Set-Cookie` header, with all its cookies."""
_SCHEMES = r"(?:Bearer|Basic|Digest|ApiKey|Token)"
_AUTHORIZED = re.compile(rf"(?P<name>\b{_SCHEMES}\s+)(?P<value>[\w.~+/=-]+)", re.IGNORECASE)
"""Credentials after the scheme of an `Authorization` header."""
_PARAMETER = r"""[\w-]++\s*+=\s*+(?:"(?:\\.|[^"\\])*+"?|[^\s,"']++)"""
_PARAMETERS = rf"{_PARAMETER}(?:\s*+,\s*+{_PARAMETER})*+"
_SIGNED = re.compile(
    rf"(?P<name>\b(?:AWS4-HMAC-SHA256|Digest|OAuth)\s+)(?P<value>{_PARAMETERS})",
    re.IGNORECASE | re.DOTALL,
)
"""Parameters of such a scheme: `Digest username="…", response="…"`."""
_NEGOTIATED = re.compile(
    r"(?P<name>\b(?:Negotiate|NTLM)\s+)(?P<value>(?=[A-Za-z+/]*+[0-9])[A-Za-z0-9+/]{16,}+=*+)"
)
"""Ticket of Kerberos or NTLM in base64. Shorter text, or without digits, may be a word."""
_HEADER = re.compile(
    r"""(?P<name>\bauthorization\\?["']?\s*+:\s*+)"""
    rf"(?P<value>[a-z][\w-]*+[ \t]++(?:{_PARAMETERS}|[\w.~+/=-]++))",
    re.IGNORECASE | re.DOTALL,
)
"""`Authorization` header with any scheme."""
_PRIVATE_KEY = re.compile(
    r"(?P<name>-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----)(?P<value>.*?)"
    r"(?=-----END [A-Z ]{0,30}PRIVATE KEY-----|\Z)",
    re.DOTALL,
)
"""Body of a private key in PEM, up to its last line or the end of the text."""
_INSIDE = r"""(?:"(?:\\.|[^"\\])*+"|[^\[\]{}"])*+"""
_BRACKETED = rf"\{{{_INSIDE}\}}|\[{_INSIDE}\]|[\[{{].*\Z"
"""A list or map that is a secret. If it contains another one, or is not closed, all following text
counts as secret."""

_REPLACED = r"""(?:\[hidden\]|\$\{[^{}:]*+:[^{}]*+\})++(?=[\s&;,"'<>)\]}\\]|\Z)"""
"""Text that stands for a secret already. A closing bracket after it is not part of it."""

# Words are matched possessively: no text causes backtracking.
_VALUE = (
    rf"""(?P<value>{_REPLACED}|\\"(?:[^"\\]|\\[^"])*+(?:\\")?"""
    r"""|(?:[bfru]{1,2}(?=["']))?+(?:"(?:\\.|[^"\\])*+"?|'[^']*+'?)"""
    rf"""|(?:{_BRACKETED})[^\s&;,"']*"""
    rf"""|(?:(?:{_SCHEMES}|Negotiate|NTLM)\s+)?(?:\\\r?\n[ \t]*+|[^\s&;,"'])+)"""
)
"""Value, quoted or not; `b` and other letters before a quote are those of Python's literals."""
_SEPARATOR = r"\s*+(?:=>|->|[=:]=(?=\s)|[=:])\s*+"
_ASSIGNED = re.compile(
    rf"""(?P<name>(?<![\w.-])(?=[\w.-]*?(?:{_ANY_KEY}))[\w.-]++\\?["']?{_SEPARATOR}){_VALUE}""",
    re.IGNORECASE | re.DOTALL,
)
"""`key=value`, `key: value` or `key => value`, quoted or not."""


def _odd_key(quote: str) -> str:
    """Pattern of a quoted key that is no word. The first look-ahead fails quickly at a word."""
    char = rf"(?:\\.|[^{quote}\\])"
    is_odd = rf"(?=[\w.-]*+(?![\w.-]){char}{{1,100}}+{quote}\s*+[=:])"
    return rf"{quote}{is_odd}(?={char}{{0,200}}?(?:{_ANY_KEY})){char}++{quote}"


_ODD_KEY = re.compile(
    rf"""(?P<name>(?:{_odd_key('"')}|{_odd_key("'")}){_SEPARATOR}){_VALUE}""",
    re.IGNORECASE | re.DOTALL,
)
"""`"the password": "…"`: a quoted key with other characters than those of a word."""
_SECRET_NAME = rf"""(?<![\w.-])name\\?["']?\s*+[=:]\s*+\\?["']?(?=[\w.-]{{0,200}}?(?:{_ANY_KEY}))"""
_VALUE_OF = r"""(?<![\w.-])value\\?["']?\s*+[=:]\s*+"""
_PAIR = re.compile(
    rf"""(?P<name>{_SECRET_NAME}[\w.-]++\\?["']?\s*+,[^{{}}]{{0,200}}?{_VALUE_OF}){_VALUE}""",
    re.IGNORECASE | re.DOTALL,
)
"""`{"name": "password", "value": "…"}`, also without quotes."""
_REVERSED_PAIR = re.compile(
    rf"""(?P<name>{_VALUE_OF})(?P<value>"(?:\\.|[^"\\])*+"|'[^']*+'|[^\s&;,"'{{}}]++)"""
    rf"(?=\s*+,[^{{}}]{{0,200}}?{_SECRET_NAME})",
    re.IGNORECASE | re.DOTALL,
)
"""`{"value": "…", "name": "password"}`."""
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
_REVERSED_ATTRIBUTE = re.compile(
    r"""(?P<name>\bvalue\s*+=\s*+["'])(?P<value>[^<>"']++)"""
    rf"""(?=["'][^<>]{{0,200}}?\b(?:name|key|id)\s*+=\s*+["'][^"'<>]{{0,200}}?(?:{_ANY_KEY}))""",
    re.IGNORECASE,
)
_ELEMENT_PAIR = re.compile(
    rf"(?P<name><[\w:-]*?name\s*+>(?=[^<>]{{0,200}}?(?:{_ANY_KEY}))[^<>]++</[^<>]{{1,200}}+>\s*+"
    r"<[\w:-]*?value\s*+>\s*+(?:<!\[CDATA\[)?+)(?P<value>[^<\s][^<]*+)",
    re.IGNORECASE,
)
"""XML: `value="…" name="password"`, `<name>password</name><value>…</value>`."""
_PROPERTY = re.compile(
    rf"^(?P<name>[ \t]*+(?=[\w.-]*?(?:{_ANY_KEY}))[\w.-]++[ \t]++)(?P<value>\S++)(?=\s*?$)",
    re.IGNORECASE | re.MULTILINE,
)
"""A line of two words in a property file: `password …`."""
_ENCRYPTED = re.compile(r"(?P<name>)(?P<value>\$\{encrypted:[^{}]*\})")
_SECRET_PATTERNS = (
    *(_PRIVATE_KEY, _USER_INFO, _CUT_URL, _RAW_USER_INFO, _ORACLE, _COOKIE),
    *(_AUTHORIZED, _SIGNED, _NEGOTIATED, _HEADER),
    *(_ASSIGNED, _ODD_KEY, _PAIR, _REVERSED_PAIR, _PROPERTY, _ENCRYPTED),
    *(_ELEMENT, _ATTRIBUTE, _REVERSED_ATTRIBUTE, _ELEMENT_PAIR),
)
"""Patterns of secrets in a text: `name` is the mark before a secret, `value` the secret."""

LOOKED_AT = 1 << 18
"""Limit of characters that are searched: about a hundred pages, in about 0.1 s."""

SECRET_STEMS = (
    *("pass", "pwd", "secret", "token", "cred", "jaas", "key", "auth", "bearer", "basic", "digest"),
    *("negotiate", "ntlm", "://", "${encrypted:", "sig", "cookie", "jdbc:oracle:", "hmac-sha"),
)
"""A text without any of these words, in upper or lower case, holds no secret that a pattern finds.
A text with escapes (`has_escapes`) may disguise such a word."""

_ENTRY = re.compile(
    rf"(?P<name>(?:^|(?<=, ))(?=[\w.-]*?(?:{_ANY_KEY}))[\w.-]++=)"
    r"(?P<value>.*?)(?=, [\w.-]++=|\Z)",
    re.IGNORECASE | re.DOTALL,
)
"""A secret's entry in a map as formatted by Java's `toString`."""


CACHED_KEYS = 4_096
"""Limit of keys whose result is cached. The fields of a million offsets have few names."""

CACHED_KEY_LENGTH = 128
"""Limit of characters of a cached key; it bounds the memory of the cache."""


def is_secret(key: str) -> bool:
    """True if the value of a config key must be hidden."""
    return _is_secret_cached(key) if len(key) <= CACHED_KEY_LENGTH else _is_secret(key)


def _is_secret(key: str) -> bool:
    return _SECRET.search(key) is not None


_is_secret_cached = lru_cache(CACHED_KEYS)(_is_secret)


def redacted(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Redact the config of a connector or task."""
    return {key: redacted_value(key, value) for key, value in properties.items()}


HideSecret = Callable[[str], str]
"""Maps a secret to its replacement."""

MarkHidden = Callable[[Any, Any], Any]
"""Maps a value and its redacted form to the value to show."""


def redacted_value(key: str, value: Any, mark: MarkHidden = lambda _, hidden: hidden) -> Any:
    """Redact the value of one config key; empty values and None stay.

    Everything beneath a secret's key is hidden, too. So is the `value` of an object whose `name` is
    such a key. `mark` gives the value to show instead of each redacted one. The function is not
    recursive: values may be nested deeper than Python's stack.
    """
    root: list[Any] = [None]
    pending: list[_PendingValue] = [(root, 0, value, is_secret(key))]
    while pending:
        container, place, item, secret = pending.pop()
        if isinstance(item, SCALARS) or not isinstance(item, _CONTAINERS):
            shown = _redacted_leaf(item, secret=secret)
            container[place] = shown if shown == item else mark(item, shown)
        elif isinstance(item, list | tuple):
            container[place] = [None] * len(item)
            pending += [(container[place], index, part, secret) for index, part in enumerate(item)]
        else:
            container[place] = dict.fromkeys(item)
            pending += _members(container[place], item, secret=secret)
    return root[0]


_CONTAINERS = (dict, list, tuple, Mapping)

SCALARS = (str, int, float, NoneType)
"""Types that are no containers; a check for them is faster than one for `Mapping`."""


_PendingValue = tuple[Any, Any, Any, bool]
"""A value still to be redacted: container, place in it, value, and True if it is secret."""


def _members(container: Any, item: Mapping[str, Any], *, secret: bool) -> Iterator[_PendingValue]:
    label = item.get("name")
    names_secret = isinstance(label, str) and is_secret(label)
    for name, member in item.items():
        hides = secret or is_secret(name) or (names_secret and name == "value")
        yield container, name, member, hides


def _redacted_leaf(value: Any, *, secret: bool) -> Any:
    if secret:
        return _replacement(value)
    return redacted_text(value) if isinstance(value, str) else value


def redacted_text(text: str) -> str:
    """Redact a text and cut it after `LOOKED_AT` characters.

    Searching all of a long text would take seconds, and other requests would wait.
    """
    if len(text) > LOOKED_AT:
        omitted = len(text) - LOOKED_AT
        return f"{redacted_text(text[:LOOKED_AT])}… ({omitted} characters more)"
    return text_without(text, _as_hidden)


def text_without(text: str, hide: HideSecret) -> str:
    """Redact a text of any length; `hide` gives the replacement of each secret."""
    if not may_hold_secrets(text):
        return text
    pieces: list[str] = []
    copied = 0
    for start, end in _without_closing_braces(text, _merged(_secret_spans(text))):
        pieces += text[copied:start], replaced(text[start:end], hide)
        copied = end
    return "".join(pieces) + text[copied:]


def _secret_spans(text: str) -> Iterator[tuple[int, int]]:
    r"""Spans of secrets, found in the text as it stands and at each level of its escapes.

    A secret ends at its closing quote. At some levels another quote looks like the closing one, so
    every level is searched. In `"pwd": "a\"b"`, the text as it stands is right: without escapes,
    the secret would end after `a`. In `\\\"pwd\\\": \\\"a b\\\"`, the closing quote shows only at a
    level without the outer escapes.
    """
    yield from _matched_spans(text)
    for level in escape_levels(text):
        if _has_stems(level.text):
            for start, end in _matched_spans(level.text):
                yield level.original(start), level.original(end)


def _matched_spans(text: str) -> Iterator[tuple[int, int]]:
    for pattern in _SECRET_PATTERNS:
        yield from (match.span("value") for match in pattern.finditer(text))


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sort the spans and merge overlapping ones."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        elif start < end:
            merged.append((start, end))
    return merged


def _without_closing_braces(
    text: str, spans: Iterable[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """Leave the `}` of a reference out of a span that begins inside of the reference.

    In `${file:/etc/passwd:root}`, `passwd:` looks like a secret's key, so the span is `root}`. The
    result is `${file:/etc/passwd:[hidden]}`: the reference stays closed.
    """
    references = _REFERENCE.finditer(text)
    reference = next(references, None)
    for start, end in spans:
        while reference is not None and reference.end() <= start:
            reference = next(references, None)
        if reference is not None and reference.start() < start and reference.end() <= end:
            yield start, reference.end() - 1
            yield reference.end(), end
        else:
            yield start, end


def may_hold_secrets(text: str) -> bool:
    """True if the text may hold a secret; False if no pattern can match."""
    return has_escapes(text) or _has_stems(text)


def has_secret_words(text: str) -> bool:
    """True if the text, or a level of its escapes, has a word that precedes a secret.

    Unlike `may_hold_secrets`, it ignores escapes that disguise no such word.
    """
    return _has_stems(text) or any(_has_stems(level.text) for level in escape_levels(text))


_WITHOUT_DIGITS = dict.fromkeys(map(ord, "0123456789"))


def any_may_hold_secrets(texts: Sequence[str]) -> bool:
    """True if one of many texts may hold a secret (`may_hold_secrets`).

    No stem has a digit. So texts that differ only in digits, as offsets do, are searched once.
    """
    lines = "\n".join(texts)
    return has_escapes(lines) or _has_stems(
        "\n".join({*lines.translate(_WITHOUT_DIGITS).split("\n")})
    )


def _has_stems(text: str) -> bool:
    folded = text.casefold()
    for stem in SECRET_STEMS:  # noqa: SIM110 - `any` would take twice as long, and texts are many
        if stem in folded:
            return True
    return False


def redacted_refusal(text: str) -> str:
    """Redact the text of a refusal.

    Connect quotes a config as `{key=value, key=value}`, and a value may contain commas and braces.
    So a value extends to the next key.
    """
    before, begin, rest = text.partition("{")
    inside, end, after = rest.rpartition("}")
    hidden = _ENTRY.sub(_with_hidden_value, inside)
    return redacted_text(f"{before}{begin}{hidden}{end}{after}" if end else text)


def _with_hidden_value(entry: re.Match[str]) -> str:
    """One `key=value` of a quoted config, with its value hidden."""
    return entry["name"] + replaced(entry["value"], _as_hidden)


def _replacement(value: Any) -> Any:
    """Replacement of a secret value; an empty text and None stay."""
    if value is None or isinstance(value, str):
        return value and replaced(value, _as_hidden)
    return HIDDEN


def replaced(secret: str, hide: HideSecret) -> str:
    """The secret with its references kept and everything between them replaced."""
    parts = _REFERENCE.split(secret)
    return "".join(part if _REFERENCE.fullmatch(part) else part and hide(part) for part in parts)


def _as_hidden(_secret: str) -> str:
    return HIDDEN
