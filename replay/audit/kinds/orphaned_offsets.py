"""Source offsets of deleted connectors: orphans, or inherited by a successor of the same name.

Deletion of a connector keeps its offsets. A connector created later under the same name continues
from them.
"""

from collections.abc import Iterator, Mapping

from controlplane.core.entry import Entry, Position
from controlplane.core.records import ConnectorConfig, SourcePartition
from controlplane.core.text.safe_text import count
from replay.audit.attribution import COMMAND_ID, header
from replay.audit.context import AuditContext
from replay.audit.decoded_log import DecodedRecord
from replay.findings import Finding, FindingText, Severity

_Live = dict[tuple[str, bytes | None], Entry]
"""Offsets with a value, by topic and raw key."""


class OrphanedOffsets:
    """Audit with a finding per absent connector with offsets, and per inheritance of them."""

    concerns = (ConnectorConfig, SourcePartition)

    def __init__(self, about: AuditContext) -> None:
        self._about = about
        self._live: dict[str, _Live] = {}
        self._deleted: dict[str, Position] = {}
        self._configured: Mapping[str, object] = {}

    def see(self, decoded: DecodedRecord) -> Iterator[Finding]:
        """Track offsets; those given at creation (KIP-995) are not inherited."""
        self._configured = decoded.config.connectors
        match decoded.record:
            case SourcePartition(name, _):
                self._offset(name, decoded.entry)
            case ConnectorConfig(name, None):
                if name in decoded.before.connectors:
                    self._deleted[name] = decoded.position
            case ConnectorConfig(name, _):
                if name not in decoded.before.connectors and name in self._deleted:
                    yield from self._inheritance(decoded, self._deleted.pop(name))

    def end(self) -> Iterator[Finding]:
        """Report the offsets of connectors that are absent at the end of the log."""
        for name, live in self._live.items():
            if name not in self._configured and live:
                yield self._orphans(name, live)

    def _offset(self, name: str, entry: Entry) -> None:
        live = self._live.setdefault(name, {})
        if entry.value is None:
            live.pop((entry.topic, entry.key), None)
        else:
            live[entry.topic, entry.key] = entry

    def _inheritance(self, decoded: DecodedRecord, deleted: Position) -> Iterator[Finding]:
        name, command = decoded.connector, header(decoded.entry, COMMAND_ID)
        inherited = [
            entry
            for entry in self._live.get(name, {}).values()
            if command is None or header(entry, COMMAND_ID) != command
        ]
        if not inherited:
            return
        sentence = (
            f"{name}, created again at {self._about.place(decoded.position)}, continues from "
            f"{count(len(inherited), 'source offset')} of its predecessor, deleted at "
            f"{self._about.place(deleted)}"
        )
        advice = (
            "It does not read the data before these offsets. If it should: stop it, reset its "
            "offsets (DELETE /connectors/…/offsets) and resume it."
        )
        evidence = [decoded.position, deleted, *(entry.position for entry in inherited)]
        words = FindingText(sentence, advice)
        yield self._about.finding("offsets-inherited", Severity.WARNING, name, evidence, words)

    def _orphans(self, name: str, live: _Live) -> Finding:
        number, deleted = count(len(live), "source offset"), self._deleted.get(name)
        gone = (
            f"deleted at {self._about.place(deleted)}"
            if deleted is not None
            else "without a config in this log"
        )
        sentence = (
            f"{name}, {gone}, left {number} behind: a new connector of this name continues from "
            "there"
        )
        advice = (
            "No action is needed, unless another connector will get this name. Then reset the "
            "offsets first, or choose another name."
        )
        first = [deleted] if deleted is not None else []
        evidence = [*first, *(entry.position for entry in live.values())]
        words = FindingText(sentence, advice)
        return self._about.finding("offsets-orphaned", Severity.INFO, name, evidence, words)
