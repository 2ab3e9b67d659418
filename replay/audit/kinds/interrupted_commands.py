"""Commands of the control plane that started and never ended: a crash interrupted them."""

from collections.abc import Iterator
from types import NoneType

from controlplane.core.records import CommandAccepted, CommandFinished
from replay.audit.context import AuditContext, at
from replay.audit.decoded_log import DecodedRecord
from replay.audit.kinds.partial_commits import severity_by_age
from replay.findings import Finding, FindingText


class InterruptedCommands:
    """Tracks commands until they end. Their arguments may hold secrets and are not shown."""

    concerns = (CommandAccepted, CommandFinished, NoneType)

    def __init__(self, about: AuditContext) -> None:
        self._about = about
        self._begun: dict[bytes | None, DecodedRecord] = {}

    def see(self, decoded: DecodedRecord) -> Iterator[Finding]:
        """Track a command; the record of its end, or its tombstone, has the same key."""
        if isinstance(decoded.record, CommandAccepted):
            self._begun[decoded.entry.key] = decoded.without_states
        else:
            self._begun.pop(decoded.entry.key, None)
        return iter(())

    def end(self) -> Iterator[Finding]:
        """Report commands with neither a record of their end nor a tombstone."""
        for decoded in self._begun.values():
            command: CommandAccepted = decoded.record
            verb = command.command.get("command", "a command")
            connector = command.command.get("connector")
            name = connector if isinstance(connector, str) else None
            sentence = (
                f"{verb}{f' of {name}' if name else ''}, requested by {command.principal} at "
                f"{at(command.at_ms)} (command {command.command_id}), started and never finished"
            )
            advice = (
                "Start the control plane on this log: it repeats the interrupted command from its "
                "first step."
            )
            words, patience_ms = FindingText(sentence, advice), self._about.thresholds.under_way_ms
            severity, words = severity_by_age(
                [decoded], words, self._about.clock.now_ms, patience_ms
            )
            evidence = [decoded.position]
            yield self._about.finding("command-unfinished", severity, name, evidence, words)
