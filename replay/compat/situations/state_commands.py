"""Commands that preserve a connector's state.

Some steps need a quiet connector: paused or stopped, so its tasks write nothing. The commands after
them restore its earlier target state. Other steps need one more record of the target state. Their
command requests the present state again.
"""

from collections.abc import Mapping

from controlplane.core.records import Target, TargetState
from controlplane.core.releases.profiles import Profile
from replay.compat.log_evidence import LogEvidence
from replay.compat.preparation import PreparationStep, StepTime, copied, quieted, verb

_WORDS: Mapping[Target, str] = {
    Target.STARTED: "resume",
    Target.PAUSED: "pause",
    Target.STOPPED: "stop",
}
"""Request for each target state, the most active first.

A worker writes the record even if the state is unchanged.
"""


def repeated_target_state(name: str, target: Target, release: Profile) -> str | None:
    """Command that writes a target state again; None if the release lacks the request."""
    return verb(_WORDS[target], name) if _knows(release, target) else None


def target_state_step(
    evidence: LogEvidence, name: str, target: Target, why: str
) -> PreparationStep:
    """Step that writes a target state: before the change if the old release knows the request."""
    when = StepTime.BEFORE if _knows(evidence.roll.start, target) else StepTime.AFTER
    return PreparationStep(when, verb(_WORDS[target], name), why)


def _knows(release: Profile, target: Target) -> bool:
    return release.stops if target is Target.STOPPED else release.target_states


def harmless_write(evidence: LogEvidence) -> str:
    """Command that writes a record which all members read and which changes nothing.

    It repeats the committed target state of a connector that both releases know, preferably of a
    running one. Without a suitable record or request, the result is a comment.
    """
    targets = evidence.committed.config.targets
    names = [name for name in evidence.connectors if _known_to_all(evidence, name)]
    for target in _WORDS:
        for name in names:
            if targets.get(name, Target.STARTED) is target:
                again = repeated_target_state(name, target, evidence.roll.start)
                return again or _record_again(evidence, name)
    return "# create a connector"


def _known_to_all(evidence: LogEvidence, name: str) -> bool:
    return name in evidence.older.config.connectors and name in evidence.committed.config.connectors


def _record_again(evidence: LogEvidence, name: str) -> str:
    """Command that copies the last target state, where workers cannot write it."""
    every = [record for record in evidence.all_of(TargetState, name) if not record.entry.aborted]
    return copied((every[-1].position,)) if every else "# create a connector"


def kept_quiet(
    evidence: LogEvidence, name: str, why: str, *meanwhile: PreparationStep
) -> tuple[PreparationStep, ...]:
    """Steps around a quiet period of a connector.

    Once all workers are replaced, a connector that should run (`meant`) is resumed. A paused or
    stopped connector is quiet already and stays so.
    """
    start = evidence.roll.start
    if evidence.read_by(start).config.targets.get(name, Target.STARTED) is not Target.STARTED:
        return meanwhile
    goal = meant(evidence, name)
    if goal is Target.STARTED:
        resume = PreparationStep(StepTime.AFTER, verb("resume", name), "resumes the connector")
        return PreparationStep(StepTime.BEFORE, quieted(name, start), why), *meanwhile, resume
    quiet = repeated_target_state(name, goal, start) or quieted(name, start)
    return PreparationStep(StepTime.BEFORE, quiet, why), *meanwhile


def meant(evidence: LogEvidence, name: str) -> Target:
    """Target state of a connector once its plan is carried out.

    Forgotten states, and those of aborted transactions, are corrected by then.
    """
    return forgotten(evidence, name) or evidence.committed.config.targets.get(name, Target.STARTED)


def forgotten(evidence: LogEvidence, name: str) -> Target | None:
    """State before the target state was removed, if PAUSED or STOPPED; None in all other cases.

    A running worker keeps this state until it restarts.
    """
    last = evidence.target(name)
    if last is None or last.record.state is not None:
        return None
    return _quiet_before(evidence, name) if evidence.configured_at(name, last.rank) else None


def _quiet_before(evidence: LogEvidence, name: str) -> Target | None:
    """PAUSED or STOPPED, by the previous target state or else the status; None if it runs."""
    every = evidence.all_of(TargetState, name)
    if len(every) > 1:
        before: Target | None = every[-2].record.state
        return before if before is not Target.STARTED else None
    reported = evidence.newer.status.connectors.get(name)
    state = reported.state.value if reported is not None else ""
    quiet = (Target.PAUSED, Target.STOPPED)
    return next((target for target in quiet if target.value == state), None)
