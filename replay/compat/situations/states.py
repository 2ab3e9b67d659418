"""Target states that the two releases read differently, or that got lost between them."""

from collections.abc import Iterator

from controlplane.core.records import Target, TargetState
from controlplane.core.safe_text import count
from replay.compat.evidence import Evidence, Told
from replay.compat.sightings import Sighting
from replay.compat.situations.keeping import forgotten, wanted
from replay.compat.steps import Step, When, verb
from replay.findings import Severity

V1, V2 = "state", "state.v2"


def stopped(evidence: Evidence) -> Iterator[Sighting]:
    """1: STOPPED, which the older release reads as the nearest state that it knows."""
    older = evidence.roll.older
    for name, told in _stopped(evidence):
        reads, tasks = _read_by_older(evidence, name), evidence.newer.config.task_ids(name)
        again = (
            wanted(
                evidence, name, Target.STOPPED, "writes the stop anew, behind an empty task set"
            ),
        )
        if not older.target_states:
            severity, then = Severity.DANGER, "and runs it: it knows no way to keep it quiet"
            steps = _removed(name)
        elif reads != Target.PAUSED.value:
            severity, then, steps = Severity.DANGER, "and runs it", again
        elif tasks:
            severity, then, steps = Severity.WARNING, "and holds its tasks ready", again
        else:
            severity, then = Severity.INFO, "without tasks; to pause it there is to forget its stop"
            steps = ()
        yield Sighting(
            connector=name,
            evidence=(told.position,),
            severity=severity,
            sentence=f"is STOPPED; {older.release} reads {reads} {then}",
            steps=steps,
        )


def resumed_by_older(evidence: Evidence) -> Iterator[Sighting]:
    """2: a worker that knows no STOPPED has resumed a stopped connector."""
    for name, was, now in _overwritten(evidence, Target.STARTED):
        tasks = len(evidence.newer.config.task_ids(name))
        then = "its tasks were made anew since" if tasks else "whoever owns it makes its tasks anew"
        yield Sighting(
            connector=name,
            evidence=(was.position, now.position),
            severity=Severity.INFO,
            sentence=f"was STOPPED and resumed by a worker older than STOPPED; {then}",
        )


def paused_by_older(evidence: Evidence) -> Iterator[Sighting]:
    """3: a worker that knows no STOPPED has paused a stopped connector: it is PAUSED by now."""
    for name, was, now in _overwritten(evidence, Target.PAUSED):
        again = evidence.roll.goal.target_state_v2
        why = "it was stopped before an older worker paused it; offsets need STOPPED"
        yield Sighting(
            connector=name,
            evidence=(was.position, now.position),
            severity=Severity.WARNING if again else Severity.INFO,
            sentence="was STOPPED until a worker older than STOPPED paused it: it is PAUSED for "
            "all now, without tasks until it is resumed, and its offsets cannot be changed",
            steps=(wanted(evidence, name, Target.STOPPED, why),) if again else (),
        )


def naive_stop(evidence: Evidence) -> Iterator[Sighting]:
    """4: a foreign hand wrote STOPPED where older releases look: members disagree for good."""
    for name in evidence.connectors:
        told = evidence.target(name)
        if told is None or told.text(V1) != Target.STOPPED.value or told.text(V2) is not None:
            continue
        reads = _read_by_older(evidence, name)
        yield Sighting(
            connector=name,
            evidence=(told.position,),
            severity=Severity.DANGER,
            sentence=f"was stopped by a record that says STOPPED without {V2}: "
            f"{evidence.roll.older.release} cannot read it and stays with {reads}",
            steps=(
                wanted(
                    evidence,
                    name,
                    Target.STOPPED,
                    "writes the stop so that every release can read it",
                ),
            ),
        )


def forgotten_target(evidence: Evidence) -> Iterator[Sighting]:
    """5: the target state of a living connector was removed: it is STARTED at its next start."""
    for name in evidence.connectors:
        told, was = evidence.target(name), forgotten(evidence, name)
        if told is None or was is None:
            continue
        yield Sighting(
            connector=name,
            evidence=(told.position,),
            severity=Severity.WARNING,
            sentence=f"is {was.value} only as long as nobody starts it anew: its target state was "
            "removed, so any worker that starts runs it",
            steps=(wanted(evidence, name, was, f"unless it may run: keeps it {was.value}"),),
        )


def stopped_with_new_tasks(evidence: Evidence) -> Iterator[Sighting]:
    """6: an older leader committed tasks of a STOPPED connector, which newer ones refuse to do."""
    older, newer = evidence.roll.older.release, evidence.roll.newer.release
    for name, told in _stopped(evidence):
        commit, tasks = evidence.commit(name), len(evidence.newer.config.task_ids(name))
        if commit is None or commit.rank < told.rank or not tasks:
            continue
        yield Sighting(
            connector=name,
            evidence=(told.position, commit.position),
            severity=Severity.WARNING,
            sentence=f"is STOPPED, and an older leader has committed {count(tasks, 'task')} of it "
            f"since: {older} holds them ready, on {newer} they shut themselves down",
            steps=(wanted(evidence, name, Target.STOPPED, "commits its empty task set again"),),
        )


def created_in_state(evidence: Evidence) -> Iterator[Sighting]:
    """17: created paused or stopped: its target state was written before there was a config."""
    for name in evidence.connectors:
        told = evidence.target(name)
        if told is None or told.record.state is None or evidence.configured_at(name, told.rank):
            continue
        state, reads = told.record.state.value, _read_by_older(evidence, name)
        differs = (
            "" if reads == state else f", which {evidence.roll.older.release} reads as {reads}"
        )
        yield Sighting(
            connector=name,
            evidence=(told.position,),
            severity=Severity.INFO,
            sentence=f"was created {state}{differs}; while a worker of "
            f"{evidence.roll.older.release} leads, a creation with initial_state is refused",
        )


# --- what they have in common -------------------------------------------------------------------


def _stopped(evidence: Evidence) -> Iterator[tuple[str, Told]]:
    """Connectors that the newer release reads as STOPPED because `state.v2` says so."""
    for name in evidence.connectors:
        told = evidence.target(name)
        target = evidence.newer.config.targets.get(name)
        if told is not None and target is Target.STOPPED and told.text(V2) is not None:
            yield name, told


def _overwritten(evidence: Evidence, by: Target) -> Iterator[tuple[str, Told, Told]]:
    """Connectors whose last STOPPED was replaced by workers that write no `state.v2`."""
    for name in evidence.connectors:
        every = [one for one in evidence.all_of(TargetState, name) if one.record.state is not None]
        ours = [index for index, one in enumerate(every) if one.text(V2) is not None]
        if not ours:
            continue
        was, now = every[ours[-1]], every[-1]
        if was.record.state is not Target.STOPPED or now.record.state is not by:
            continue
        if evidence.removed_between(name, was, now) is None and evidence.target(name) is now:
            yield name, was, now


def _read_by_older(evidence: Evidence, name: str) -> str:
    """How the older release runs a connector; without target states it runs them all."""
    wanted = evidence.older.config.targets.get(name, Target.STARTED)
    return wanted.value


def _removed(name: str) -> tuple[Step, ...]:
    kept = verb("get connectors", name, "-o", "yaml") + " > kept.yaml"
    return (
        Step(When.BEFORE, kept, "to create it again, one day"),
        Step(When.BEFORE, verb("delete connector", name), "or else it runs"),
    )
