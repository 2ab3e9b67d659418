"""Target states that the releases read differently, or that were lost between them.

Each rule's docstring begins with the number of its situation in `SITUATIONS`.
"""

from collections.abc import Iterator
from urllib.parse import quote

from controlplane.core.records import Target, TargetState
from controlplane.core.text.safe_text import count
from replay.compat.log_evidence import LogEvidence
from replay.compat.log_readings import EvidenceRecord
from replay.compat.preparation import PreparationStep, StepTime, verb
from replay.compat.situation import DetectedSituation
from replay.compat.situations.state_commands import forgotten, target_state_step
from replay.findings import Severity

V1, V2 = "state", "state.v2"


def stopped(evidence: LogEvidence) -> Iterator[DetectedSituation]:
    """1: STOPPED, which the older release reads as the nearest known state."""
    older = evidence.roll.older
    for name, record in _stopped(evidence):
        reads, tasks = _read_by_older(evidence, name), evidence.newer.config.task_ids(name)
        again = (
            target_state_step(
                evidence, name, Target.STOPPED, "writes the stop again, after an empty task set"
            ),
        )
        if not older.target_states:
            severity, then = (
                Severity.DANGER,
                "and runs it: this release can neither pause nor stop a connector",
            )
            steps = _removed(name)
        elif reads != Target.PAUSED.value:
            severity, then, steps = Severity.DANGER, "and runs it", again
        elif tasks:
            severity, then, steps = Severity.WARNING, "and keeps its tasks paused", again
        else:
            severity, then, steps = (
                Severity.INFO,
                f"and finds no tasks; a pause by a worker of {older.release} overwrites the stop",
                (),
            )
        yield DetectedSituation(
            connector=name,
            evidence=(record.position,),
            severity=severity,
            sentence=f"is STOPPED; {older.release} reads {reads} {then}",
            steps=steps,
        )


def resumed_by_older(evidence: LogEvidence) -> Iterator[DetectedSituation]:
    """2: a worker without STOPPED has resumed a stopped connector."""
    for name, was, now in _overwritten(evidence, Target.STARTED):
        tasks = len(evidence.newer.config.task_ids(name))
        then = (
            "its tasks were generated again since"
            if tasks
            else "its worker generates its tasks again"
        )
        yield DetectedSituation(
            connector=name,
            evidence=(was.position, now.position),
            severity=Severity.INFO,
            sentence=f"was STOPPED and resumed by a worker that does not know STOPPED; {then}",
        )


def paused_by_older(evidence: LogEvidence) -> Iterator[DetectedSituation]:
    """3: a worker without STOPPED has paused a stopped connector, which is now PAUSED."""
    for name, was, now in _overwritten(evidence, Target.PAUSED):
        again = evidence.roll.goal.target_state_v2
        why = "it was stopped before an older worker paused it; offsets need STOPPED"
        yield DetectedSituation(
            connector=name,
            evidence=(was.position, now.position),
            severity=Severity.WARNING if again else Severity.INFO,
            sentence="was STOPPED until a worker that does not know STOPPED paused it. Now all "
            "releases read PAUSED: until a resume it has no tasks, and its offsets cannot be "
            "changed",
            steps=(target_state_step(evidence, name, Target.STOPPED, why),) if again else (),
        )


def naive_stop(evidence: LogEvidence) -> Iterator[DetectedSituation]:
    """4: another program wrote STOPPED to the old field; members disagree permanently."""
    for name in evidence.connectors:
        record = evidence.target(name)
        if record is None or record.text(V1) != Target.STOPPED.value or record.text(V2) is not None:
            continue
        reads = _read_by_older(evidence, name)
        yield DetectedSituation(
            connector=name,
            evidence=(record.position,),
            severity=Severity.DANGER,
            sentence=f"was stopped by a record with STOPPED but without {V2}: "
            f"{evidence.roll.older.release} cannot read it and keeps {reads}",
            steps=(
                target_state_step(
                    evidence,
                    name,
                    Target.STOPPED,
                    "writes the stop in a form that every release can read",
                ),
            ),
        )


def forgotten_target(evidence: LogEvidence) -> Iterator[DetectedSituation]:
    """5: the target state of a living connector was removed; a starting worker runs it."""
    for name in evidence.connectors:
        record, was = evidence.target(name), forgotten(evidence, name)
        if record is None or was is None:
            continue
        yield DetectedSituation(
            connector=name,
            evidence=(record.position,),
            severity=Severity.WARNING,
            sentence=f"is {was.value} only until its worker restarts: its target state was "
            "removed, so every starting worker runs it",
            steps=(
                target_state_step(
                    evidence, name, was, f"keeps it {was.value}; skip this step if it may run"
                ),
            ),
        )


def stopped_with_new_tasks(evidence: LogEvidence) -> Iterator[DetectedSituation]:
    """6: an older leader committed tasks of a STOPPED connector; newer ones refuse that."""
    older, newer = evidence.roll.older.release, evidence.roll.newer.release
    for name, record in _stopped(evidence):
        commit, tasks = evidence.commit(name), len(evidence.newer.config.task_ids(name))
        if commit is None or commit.rank < record.rank or not tasks:
            continue
        yield DetectedSituation(
            connector=name,
            evidence=(record.position, commit.position),
            severity=Severity.WARNING,
            sentence=f"is STOPPED, but an older leader has since committed {count(tasks, 'task')}: "
            f"{older} keeps them paused, {newer} shuts them down",
            steps=(
                target_state_step(
                    evidence, name, Target.STOPPED, "commits its empty task set again"
                ),
            ),
        )


def created_in_state(evidence: LogEvidence) -> Iterator[DetectedSituation]:
    """17: created with an initial state; the target state precedes the config."""
    for name in evidence.connectors:
        record = evidence.target(name)
        if (
            record is None
            or record.record.state is None
            or evidence.configured_at(name, record.rank)
        ):
            continue
        state, reads = record.record.state.value, _read_by_older(evidence, name)
        differs = (
            "" if reads == state else f", which {evidence.roll.older.release} reads as {reads}"
        )
        yield DetectedSituation(
            connector=name,
            evidence=(record.position,),
            severity=Severity.INFO,
            sentence=f"was created {state}{differs}; while a worker of "
            f"{evidence.roll.older.release} leads, a creation with initial_state is refused",
        )


# --- what they have in common -------------------------------------------------------------------


def _stopped(evidence: LogEvidence) -> Iterator[tuple[str, EvidenceRecord]]:
    """Connectors that the newer release reads as STOPPED because of `state.v2`."""
    for name in evidence.connectors:
        record = evidence.target(name)
        target = evidence.newer.config.targets.get(name)
        if record is not None and target is Target.STOPPED and record.text(V2) is not None:
            yield name, record


def _overwritten(
    evidence: LogEvidence, by: Target
) -> Iterator[tuple[str, EvidenceRecord, EvidenceRecord]]:
    """Connectors whose last STOPPED was replaced by workers that write no `state.v2`."""
    for name in evidence.connectors:
        every = [
            record
            for record in evidence.all_of(TargetState, name)
            if record.record.state is not None
        ]
        ours = [index for index, record in enumerate(every) if record.text(V2) is not None]
        if not ours:
            continue
        was, now = every[ours[-1]], every[-1]
        if was.record.state is not Target.STOPPED or now.record.state is not by:
            continue
        if evidence.removed_between(name, was, now) is None and evidence.target(name) is now:
            yield name, was, now


def _read_by_older(evidence: LogEvidence, name: str) -> str:
    """State in which the older release runs a connector; without target states, STARTED."""
    target = evidence.older.config.targets.get(name, Target.STARTED)
    return target.value


def _removed(name: str) -> tuple[PreparationStep, ...]:
    # Encoded: each connector has a file of its own, and the name needs no quotes in a shell.
    file = f"kept-{quote(name, safe='')}.yaml"
    kept = f"{verb('get connectors', name, '-o', 'yaml')} > {file}"
    return (
        PreparationStep(StepTime.BEFORE, kept, "saves its config for a later creation"),
        PreparationStep(StepTime.BEFORE, verb("delete connector", name), "otherwise it would run"),
    )
