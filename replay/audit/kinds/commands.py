"""Commands of our own control plane that began and never ended: a crash lies in between."""

from collections.abc import Iterator
from types import NoneType

from controlplane.core.records import CommandAccepted, CommandFinished
from replay.audit.about import About, Words, at
from replay.audit.kinds.half_done import judged
from replay.audit.reading import Told
from replay.findings import Finding


class Commands:
    """Remembers commands until they end. What a command asked for may hold secrets: not shown."""

    concerns = (CommandAccepted, CommandFinished, NoneType)

    def __init__(self, about: About) -> None:
        self._about = about
        self._begun: dict[bytes | None, Told] = {}

    def see(self, told: Told) -> Iterator[Finding]:
        """A record that ends a command, or forgets it, has the same key."""
        if isinstance(told.record, CommandAccepted):
            self._begun[told.entry.key] = told.kept
        else:
            self._begun.pop(told.entry.key, None)
        return iter(())

    def end(self) -> Iterator[Finding]:
        """Those that have not ended."""
        for told in self._begun.values():
            command: CommandAccepted = told.record
            asked = command.command.get("command", "a command")
            connector = command.command.get("connector")
            name = connector if isinstance(connector, str) else ""
            sentence = (
                f"{asked}{f' of {name}' if name else ''}, asked by {command.principal} at "
                f"{at(command.at_ms)} (command {command.command_id}), began and never ended"
            )
            advice = (
                "Start the control plane on this log: it carries out again what a crash left half "
                "done, from the first step."
            )
            words, patience_ms = Words(sentence, advice), self._about.thresholds.under_way_ms
            severity, words = judged([told], words, self._about.clock.now_ms, patience_ms)
            evidence = [told.position]
            yield self._about.finding("command-unfinished", severity, name, evidence, words)
