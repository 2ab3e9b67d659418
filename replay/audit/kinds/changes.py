"""Config changes with what differs, and changes of what is wanted: when, and by whom."""

from collections.abc import Iterator, Mapping
from typing import Any

from controlplane.core.codec.offsets import frozen
from controlplane.core.records import ConnectorConfig, Target, TargetState
from controlplane.core.safe_text import count
from controlplane.core.shown import change
from controlplane.core.state import Aspect
from replay.audit.about import About, Words, at
from replay.audit.reading import Told
from replay.audit.trail.trail import Verb
from replay.audit.who import who
from replay.findings import Finding, Severity

CHANGES_SHOWN = 8
"""Keys of a config whose change is spelled out; of the others there is the number."""


_ASKED_BY = {
    Target.STARTED: (Verb.RESUME,),
    Target.PAUSED: (Verb.PAUSE, Verb.STOP),  # a release without STOPPED reads a stop as PAUSED
    Target.STOPPED: (Verb.STOP,),
}


class Changes:
    """One finding for each record that changes a config, or what is wanted of a connector."""

    concerns = (ConnectorConfig, TargetState)

    def __init__(self, about: About) -> None:
        self._about = about

    def see(self, told: Told) -> Iterator[Finding]:
        """A config that is written again as it was changes nothing, nor does the same state."""
        match told.record:
            case ConnectorConfig(name, properties):
                before = told.before.connectors.get(name)
                if frozen(before) != frozen(properties):
                    yield self._config(told, before, properties)
            case TargetState(name, Target() as wanted):
                before_that = told.before.targets.get(name)
                if name in told.before.connectors and before_that is not wanted:
                    yield self._target(told, before_that, wanted)

    def end(self) -> Iterator[Finding]:
        """Nothing is left to tell."""
        return iter(())

    def _config(
        self, told: Told, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
    ) -> Finding:
        if after is None:
            return self._told(told, "connector-deleted", "was deleted", "", Verb.DELETE)
        if before is None:
            connector_class = after.get("connector.class", "no class")
            wanted = told.config.targets.get(told.connector, Target.STARTED)
            state = "" if wanted is Target.STARTED else f", {wanted.value}"
            more = f": {connector_class} with {count(len(after), 'setting')}{state}"
            verbs = Verb.CREATE, Verb.CONFIG
            return self._told(told, "connector-created", "was created", more, *verbs)
        more = f": {_differences(before, after)}"
        return self._told(told, "config-changed", "got another config", more, Verb.CONFIG)

    def _target(self, told: Told, before: Target | None, wanted: Target) -> Finding:
        was = (before or Target.STARTED).value
        happened = f"went from {was} to {wanted.value}"
        return self._told(told, "target-changed", happened, "", *_ASKED_BY[wanted])

    def _told(self, told: Told, kind: str, happened: str, more: str, *verbs: Verb) -> Finding:
        by = who(self._about, told, *verbs)
        sentence = f"{told.connector} {happened}{by} at {at(told.entry.timestamp)}{more}"
        severity, words = Severity.INFO, Words(sentence)
        return self._about.finding(kind, severity, told.connector, [told.position], words)


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """`rows: 2 → 4, topics: …`, without secrets."""
    absent = object()
    keys = [
        key
        for key in {**before, **after}
        if frozen(before.get(key, absent)) != frozen(after.get(key, absent))
    ]
    shown = [
        f"{key}: {change(Aspect.CONFIG, key, before.get(key), after.get(key))}"
        for key in keys[:CHANGES_SHOWN]
    ]
    more = [f"and {len(keys) - CHANGES_SHOWN} more"] if len(keys) > CHANGES_SHOWN else []
    return ", ".join([*shown, *more])
