"""Commands that leave a connector in the state in which they find it, or which is meant.

Whoever only has to be quiet for a while does afterwards what he did before; whoever is told
something once more is told what he was told.
"""

from collections.abc import Mapping

from controlplane.core.profiles import Profile
from controlplane.core.records import Target, TargetState
from replay.compat.evidence import Evidence
from replay.compat.steps import Step, When, copied, quieted, verb

_WORDS: Mapping[Target, str] = {
    Target.STARTED: "resume",
    Target.PAUSED: "pause",
    Target.STOPPED: "stop",
}
"""The request that writes a target state, the liveliest first. It is written even if it is so."""


def told_again(name: str, target: Target, release: Profile) -> str | None:
    """Write what is wanted of a connector; None: workers of the release have no such request."""
    return verb(_WORDS[target], name) if _knows(release, target) else None


def wanted(evidence: Evidence, name: str, target: Target, why: str) -> Step:
    """The same, as soon as whoever leads knows such a request."""
    when = When.BEFORE if _knows(evidence.roll.start, target) else When.AFTER
    return Step(when, verb(_WORDS[target], name), why)


def _knows(release: Profile, target: Target) -> bool:
    return release.stops if target is Target.STOPPED else release.target_states


def anything_again(evidence: Evidence) -> str:
    """Any record that all members can read, and that changes nothing.

    What is wanted of a connector that both releases know, as it was committed; of one that runs, if
    there is any.
    """
    targets = evidence.committed.config.targets
    names = [name for name in evidence.connectors if _known_to_all(evidence, name)]
    for target in _WORDS:
        for name in names:
            if targets.get(name, Target.STARTED) is target:
                again = told_again(name, target, evidence.roll.start)
                return again or _record_again(evidence, name)
    return "# create a connector"


def _known_to_all(evidence: Evidence, name: str) -> bool:
    return name in evidence.older.config.connectors and name in evidence.committed.config.connectors


def _record_again(evidence: Evidence, name: str) -> str:
    """The record itself once more, where workers could not write it."""
    every = [one for one in evidence.all_of(TargetState, name) if not one.entry.aborted]
    return copied((every[-1].position,)) if every else "# create a connector"


def kept_quiet(evidence: Evidence, name: str, why: str, *meanwhile: Step) -> tuple[Step, ...]:
    """Do something while a connector writes nothing; it goes on when all workers are changed.

    One that is paused or stopped is quiet, and is left alone.
    """
    start = evidence.roll.start
    if evidence.read_by(start).config.targets.get(name, Target.STARTED) is not Target.STARTED:
        return meanwhile
    goal = meant(evidence, name)
    if goal is Target.STARTED:
        resume = Step(When.AFTER, verb("resume", name), "goes on as it did before")
        return Step(When.BEFORE, quieted(name, start), why), *meanwhile, resume
    quiet = told_again(name, goal, start) or quieted(name, start)
    return Step(When.BEFORE, quiet, why), *meanwhile


def meant(evidence: Evidence, name: str) -> Target:
    """What a connector is to do once its plan is carried out.

    What was forgotten, or came of an aborted transaction, is put right by then.
    """
    return forgotten(evidence, name) or evidence.committed.config.targets.get(name, Target.STARTED)


def forgotten(evidence: Evidence, name: str) -> Target | None:
    """The target state of a connector that runs on without it; None: it has one, or needs none."""
    last = evidence.target(name)
    if last is None or last.record.state is not None:
        return None
    return _quiet_before(evidence, name) if evidence.configured_at(name, last.rank) else None


def _quiet_before(evidence: Evidence, name: str) -> Target | None:
    """PAUSED or STOPPED, if a connector was, or is still reported to be; None: it runs."""
    every = evidence.all_of(TargetState, name)
    if len(every) > 1:
        before: Target | None = every[-2].record.state
        return before if before is not Target.STARTED else None
    reported = evidence.newer.status.connectors.get(name)
    state = reported.state.value if reported is not None else ""
    quiet = (Target.PAUSED, Target.STOPPED)
    return next((one for one in quiet if one.value == state), None)
