"""Secrets that lie in the log in clear, by the rule by which they are hidden (`core.redact`).

A reference to a config provider (`${file:/x:key}`) is none, also inside of a longer text. Where a
secret lies is told, never what it is. The command topic holds what was asked and is as secret as
the config topic by design; what was carried out of it lies there, too.
"""

import re
from collections.abc import Iterator, Mapping
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
from controlplane.core.redact import redacted_text, redacted_value
from replay.audit.about import About, Words
from replay.audit.reading import Told
from replay.findings import Finding, Severity

_REFERENCE = re.compile(r"""(["']?)\$\{[^{}]*:[^{}]*\}\1""")
"""What stands for a secret, with the quotes around it."""

_NAMES_NONE = (".url", ".uri", ".class", ".location", ".ms", ".enabled")
"""How keys end that only speak of secrets: `sasl.oauthbearer.token.endpoint.url`. What is a secret
by its form (a password in a URL) is found all the same."""


class SecretsInClear:
    """One finding for each connector, with every place where one of its secrets lies."""

    concerns = (ConnectorConfig, TaskConfig, ConnectorStatus, TaskStatus, SourcePartition)

    def __init__(self, about: About) -> None:
        self._about = about
        self._found: dict[str, dict[str, Position]] = {}

    def see(self, told: Told) -> Iterator[Finding]:
        """The last record for each place is the evidence."""
        for where in _places(told):
            self._found.setdefault(told.connector, {})[where] = told.position
        return iter(())

    def end(self) -> Iterator[Finding]:
        """Where they lie, connector by connector."""
        for name, places in self._found.items():
            sentence = f"{name} has secrets in clear in {', '.join(places)}"
            advice = (
                "Whoever reads the topic has them: replace the values by references to a config "
                "provider (${file:…} and the like), then change the secrets themselves, as the "
                "old records stay until they are compacted away."
            )
            words, severity = Words(sentence, advice), Severity.WARNING
            evidence = sorted(set(places.values()))
            yield self._about.finding("secret-in-clear", severity, name, evidence, words)


def _places(told: Told) -> Iterator[str]:
    match told.record:
        case ConnectorConfig(_, properties) if properties is not None:
            yield from (f"the setting {key}" for key in secrets_of(properties))
        case TaskConfig(_, _, properties):
            yield from (f"the setting {key} of a task" for key in secrets_of(properties))
        case ConnectorStatus(_, Status() as status) | TaskStatus(_, _, Status() as status):
            if _in_clear("", status.trace):
                yield "the trace of a failure"
        case SourcePartition(_, partition):
            if told.previous is None and secrets_of(partition):
                yield "a source partition"
            if isinstance(told.offset, Mapping) and secrets_of(told.offset):
                yield "a source offset"


def secrets_of(properties: Mapping[str, Any]) -> list[str]:
    """The keys of a map whose values are secrets in clear."""
    return [key for key, value in properties.items() if _in_clear(key, value)]


def _in_clear(key: str, value: Any) -> bool:
    if value is None or isinstance(value, bool) or value in ("true", "false", ""):
        return False
    judged_by = "" if key.lower().endswith(_NAMES_NONE) else key
    if isinstance(value, str):
        bare = _REFERENCE.sub("", value)
        if bare != value:
            return redacted_text(bare) != bare
    hidden: list[Any] = []
    redacted_value(judged_by, value, lambda one, _: hidden.append(one))
    return bool(hidden)
