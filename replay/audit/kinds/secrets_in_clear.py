"""Secrets in clear text in the log, by the rule that hides them (`core.text.redaction`).

A reference to a config provider (`${file:/x:key}`) is no secret, even within a longer text. The
text beside a reference counts as a secret only if it looks like one itself. The name of its key,
such as `password`, does not make it a secret: `user` in `user:${file:/x:key}` is none. A false
alarm is worse than a miss.

The names of some keys only mention secrets (`_NAMES_NONE`). A finding names places, never values.
The command topic is as confidential as the config topic by design. Secrets written by its commands
are found in the config topic.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from controlplane.core.entry import Position
from controlplane.core.records import (
    ConnectorConfig,
    ConnectorStatus,
    SourcePartition,
    Status,
    TaskConfig,
    TaskStatus,
)
from controlplane.core.text.redaction import (
    LOOKED_AT,
    is_secret,
    may_hold_secrets,
    redacted_value,
    text_without,
)
from replay.audit.context import AuditContext
from replay.audit.decoded_log import DecodedRecord
from replay.findings import Finding, FindingText, Severity

_REFERENCE = re.compile(r"\$\{[^{}:]*:[^{}]*\}")
"""A reference in place of a secret. Each character is read once, so any text takes linear time."""

_PLACEHOLDER = "\1"
"""Stands for a reference: a control character that is no letter, quote, delimiter or part of an
escape sequence."""

_SCHEME = re.compile(r"\b(?:Bearer|Basic|Digest|ApiKey|Token|Negotiate|NTLM)\s", re.IGNORECASE)
"""Scheme of an `Authorization` header; it is part of the value, but no secret."""

_NAMES_NONE = (".url", ".uri", ".class", ".location", ".ms", ".enabled")
"""Endings of keys that only mention secrets, such as `sasl.oauthbearer.token.endpoint.url`.
Passwords in URLs are found anyway."""


ESCAPE_MARKS = (b"\\", b"%", b"&", b"\0")
"""Bytes without which a text has no escapes (`has_escapes`)."""

CACHED_SHAPES = 4_096
"""Limit of documents without digits whose result is cached. Offsets of a source have few."""

CACHED_SHAPE_BYTES = 512
"""Limit of bytes of a document whose result is cached; it bounds the memory of the cache."""


class SecretsInClear:
    """Audit with a finding per connector, with the places of all its secrets."""

    concerns = (ConnectorConfig, TaskConfig, ConnectorStatus, TaskStatus, SourcePartition)

    def __init__(self, about: AuditContext) -> None:
        self._about = about
        self._places_by_connector: dict[str, dict[str, Position]] = {}

    def see(self, decoded: DecodedRecord) -> Iterator[Finding]:
        """Remember the last record of each place."""
        for where in _places(decoded):
            self._places_by_connector.setdefault(decoded.connector, {})[where] = decoded.position
        return iter(())

    def end(self) -> Iterator[Finding]:
        """Report the places of secrets, one finding per connector."""
        for name, places in self._places_by_connector.items():
            sentence = f"{name} has secrets in clear text in {', '.join(places)}"
            advice = (
                "Every reader of the topic sees them. Replace the values by references to a config "
                "provider (such as ${file:…}). Then change the secrets, because the old records "
                "remain until compaction removes them."
            )
            words, severity = FindingText(sentence, advice), Severity.WARNING
            evidence = sorted(set(places.values()))
            yield self._about.finding("secret-in-clear", severity, name, evidence, words)


def _places(decoded: DecodedRecord) -> Iterator[str]:
    match decoded.record:
        case SourcePartition(_, partition):  # first: nearly all records are offsets
            if decoded.previous is None and secrets_of(partition):
                yield "a source partition"
            is_searched = not _is_harmless_json(decoded.entry.value)
            if is_searched and isinstance(decoded.offset, Mapping) and secrets_of(decoded.offset):
                yield "a source offset"
        case ConnectorConfig(_, properties) if properties is not None:
            yield from (f"the setting {key}" for key in secrets_of(properties))
        case TaskConfig(_, _, properties):
            yield from (f"the setting {key} of a task" for key in secrets_of(properties))
        case ConnectorStatus(_, Status() as status) | TaskStatus(_, _, Status() as status):
            if _in_clear("", status.trace):
                yield "the trace of a failure"


def secrets_of(properties: Mapping[str, Any]) -> list[str]:
    """Keys of a map whose values are secrets in clear text."""
    return [key for key, value in properties.items() if _in_clear(key, value)]


def _in_clear(key: str, value: Any) -> bool:
    if value is None or isinstance(value, bool) or value in ("true", "false", ""):
        return False
    judged_by = "" if key.lower().endswith(_NAMES_NONE) else key
    if not is_secret(judged_by) and _is_harmless(value):
        return False
    if isinstance(value, str):
        bare = _REFERENCE.sub(_PLACEHOLDER, value)
        if bare != value:
            return _has_clear_part(bare)
    hidden: list[bool] = []
    redacted_value(judged_by, value, lambda text, shown: hidden.append(not _is_cut(text, shown)))
    return any(hidden)


def _is_harmless_json(document: bytes | None) -> bool:
    """True for a text of JSON in ASCII without escapes, references and words near secrets.

    No such word has a digit. So documents that differ only in digits, as offsets do, are searched
    once.
    """
    if document is None or len(document) > CACHED_SHAPE_BYTES or not document.isascii():
        return False
    return _is_harmless_shape(document.translate(None, b"0123456789"))


@lru_cache(CACHED_SHAPES)
def _is_harmless_shape(shape: bytes) -> bool:
    """`_is_harmless_json` of a document without its digits, which escapes may need."""
    return not any(mark in shape for mark in ESCAPE_MARKS) and _is_harmless(shape.decode())


def _is_harmless(value: Any) -> bool:
    """True for a number, and for a text without references in which no secret is found.

    Nearly all values are harmless: this check saves the time of redaction.
    """
    if isinstance(value, str):
        return "${" not in value and not may_hold_secrets(value)
    return isinstance(value, int | float)


def _is_cut(text: Any, shown: Any) -> bool:
    """True if only the end of a very long text is not shown: the rest has no secret."""
    is_long = isinstance(text, str) and len(text) > LOOKED_AT
    return is_long and str(shown).startswith(text[:LOOKED_AT])


def _has_clear_part(bare: str) -> bool:
    """True if a secret in a text has letters or digits beside the placeholders of references."""
    secrets: list[str] = []

    def noted(secret: str) -> str:
        secrets.append(secret)
        return secret

    text_without(bare[:LOOKED_AT], noted)
    return any(re.search(r"\w", _SCHEME.sub("", secret)) for secret in secrets)
