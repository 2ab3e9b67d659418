"""Changes of configs and target states, with time and author."""

from collections.abc import Iterator, Mapping
from typing import Any

from controlplane.core.codec.offsets import frozen
from controlplane.core.records import ConnectorConfig, Target, TargetState
from controlplane.core.state import Aspect
from controlplane.core.text.safe_text import count
from controlplane.core.text.value_text import change
from replay.audit.attribution import author
from replay.audit.context import AuditContext, at
from replay.audit.decoded_log import DecodedRecord
from replay.audit.trail.request_trail import TrailVerb
from replay.findings import Finding, FindingText, Severity

CHANGES_SHOWN = 8
"""Keys of a config whose change is listed; further ones are counted."""


_REQUESTED_BY = {
    Target.STARTED: (TrailVerb.RESUME,),
    Target.PAUSED: (
        TrailVerb.PAUSE,
        TrailVerb.STOP,
    ),  # releases without STOPPED read a stop as PAUSED
    Target.STOPPED: (TrailVerb.STOP,),
}


_QUIET = {Target.PAUSED: "Pause", Target.STOPPED: "Stop"}
"""Request for each target state in which a connector does not run."""

_OLDER = "; it may be older, because earlier offsets are not archived"
_EARLIER = "; earlier changes may be missing, because not all offsets are archived"


class ConfigChanges:
    """Audit with a finding per record that changes a config or a target state.

    The removal of a target state is reported if the connector exists and was PAUSED or STOPPED.
    Target states of absent connectors are not reported.
    """

    concerns = (ConnectorConfig, TargetState)

    def __init__(self, about: AuditContext) -> None:
        self._about = about

    def see(self, decoded: DecodedRecord) -> Iterator[Finding]:
        """Report a change; a record with an unchanged config or state is no change."""
        match decoded.record:
            case ConnectorConfig(name, properties):
                before = decoded.before.connectors.get(name)
                if frozen(before) != frozen(properties):
                    yield self._config(decoded, before, properties)
            case TargetState(name, Target() as target):
                before_that = decoded.before.targets.get(name)
                if name in decoded.before.connectors and before_that is not target:
                    yield self._target(decoded, before_that, target)
            case TargetState(name, None):
                was = decoded.before.targets.get(name)
                if name in decoded.before.connectors and was in _QUIET:
                    yield self._removal(decoded, was)

    def end(self) -> Iterator[Finding]:
        """Yield nothing: every change was reported when its record was seen."""
        return iter(())

    def _config(
        self,
        decoded: DecodedRecord,
        before: Mapping[str, Any] | None,
        after: Mapping[str, Any] | None,
    ) -> Finding:
        if after is None:
            return self._change_finding(
                decoded, "connector-deleted", "was deleted", "", TrailVerb.DELETE
            )
        if before is None:
            connector_class = after.get("connector.class", "no class")
            target = decoded.config.targets.get(decoded.connector, Target.STARTED)
            state = "" if target is Target.STARTED else f", {target.value}"
            details = f": {connector_class} with {count(len(after), 'setting')}{state}"
            verbs = TrailVerb.CREATE, TrailVerb.CONFIG
            if self._about.may_be_older(decoded.position):
                return self._change_finding(
                    decoded, "connector-first-seen", "was first seen", details + _OLDER
                )
            return self._change_finding(
                decoded, "connector-created", "was created", details, *verbs
            )
        details = f": {_differences(before, after)}{self._earlier(decoded)}"
        return self._change_finding(
            decoded, "config-changed", "was reconfigured", details, TrailVerb.CONFIG
        )

    def _target(self, decoded: DecodedRecord, before: Target | None, target: Target) -> Finding:
        was = (before or Target.STARTED).value
        happened, earlier = f"was changed from {was} to {target.value}", self._earlier(decoded)
        verbs = _REQUESTED_BY[target]
        return self._change_finding(decoded, "target-changed", happened, earlier, *verbs)

    def _earlier(self, decoded: DecodedRecord) -> str:
        """Remark on earlier changes that may be missing in an archive."""
        return _EARLIER if self._about.may_be_older(decoded.position) else ""

    def _removal(self, decoded: DecodedRecord, was: Target) -> Finding:
        """Finding for a removed target state: a worker does not act on such a record."""
        name, by, time = decoded.connector, author(self._about, decoded), decoded.entry.timestamp
        sentence = (
            f"the target state {was.value} of {name} was removed{by} at {at(time)}: a running "
            f"worker keeps the connector {was.value}, and a starting worker runs it"
        )
        request = _QUIET[was]
        advice = (
            f"{request} the connector again (PUT /connectors/…/{request.lower()}), or resume it if "
            "it should run."
        )
        words, severity = FindingText(sentence, advice), Severity.WARNING
        return self._about.finding("target-changed", severity, name, [decoded.position], words)

    def _change_finding(
        self, decoded: DecodedRecord, kind: str, happened: str, details: str, *verbs: TrailVerb
    ) -> Finding:
        by = author(self._about, decoded, *verbs)
        sentence = f"{decoded.connector} {happened}{by} at {at(decoded.entry.timestamp)}{details}"
        severity, words = Severity.INFO, FindingText(sentence)
        return self._about.finding(kind, severity, decoded.connector, [decoded.position], words)


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Format differences without secrets: `rows: 2 → 4, topics: …`."""
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
    ending = [f"and {len(keys) - CHANGES_SHOWN} more"] if len(keys) > CHANGES_SHOWN else []
    return ", ".join([*shown, *ending])
