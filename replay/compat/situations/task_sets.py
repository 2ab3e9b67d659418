"""Task sets, fencing and restarts that the two releases treat differently.

Each rule's docstring begins with the number of its situation in `SITUATIONS`.
"""

from collections.abc import Iterator

from controlplane.core.entry import Position
from controlplane.core.records import (
    ConnectorConfig,
    RestartRequest,
    State,
    Target,
    TaskCommit,
    TaskConfig,
    TaskCount,
)
from controlplane.core.releases.profiles import Profile
from controlplane.core.text.safe_text import count, safe
from replay.compat.log_evidence import LogEvidence
from replay.compat.log_readings import EvidenceRecord
from replay.compat.preparation import PreparationStep, StepTime, append_command, copied, rerun, verb
from replay.compat.situation import DetectedSituation
from replay.compat.situations.state_commands import kept_quiet
from replay.findings import Severity, regeneration


def disobeyed_restart(evidence: LogEvidence) -> Iterator[DetectedSituation]:
    """8: a restart that some instances missed, because their workers do not know it."""
    for name in evidence.connectors:
        request = evidence.last_of(RestartRequest, name)
        unreached = [] if request is None else _unreached(evidence, name, request)
        if request is None or not unreached:
            continue
        shown = ", ".join("the connector" if task is None else f"task {task}" for task in unreached)
        again = tuple(
            PreparationStep(StepTime.BEFORE, _restart(name, task), "restarts it wherever it runs")
            for task in unreached
        )
        yield DetectedSituation(
            connector=name,
            evidence=(request.position,),
            severity=Severity.WARNING,
            sentence=f"has a restart request without effect on {shown}: workers of "
            f"{evidence.roll.older.release} do not read such requests",
            steps=again,
        )


def _unreached(evidence: LogEvidence, name: str, request: EvidenceRecord) -> list[int | None]:
    """Instances of a restart request that have not reported since."""
    last = evidence.last_statuses(name)
    meant: list[int | None] = [None]
    if request.record.include_tasks:
        meant += evidence.newer.config.task_ids(name)
    if request.record.only_failed:
        meant = [task for task in meant if _failed_before(evidence, name, task, request)]
    return [task for task in meant if task not in last or last[task].rank < request.rank]


def _failed_before(
    evidence: LogEvidence, name: str, instance: int | None, request: EvidenceRecord
) -> bool:
    before = evidence.status_before(name, instance, request.rank)
    return before is not None and before.state is State.FAILED


def _restart(name: str, instance: int | None) -> str:
    if instance is None:
        return verb("restart connector", name)
    return verb("restart task", f"{name}/{instance}")


def unfenceable(evidence: LogEvidence) -> Iterator[DetectedSituation]:
    """9: producers of the older release cannot be fenced, and it ignores fencing records."""
    for name in evidence.connectors:
        record, number = evidence.last_of(TaskCount, name), evidence.newer.config.fenced_counts
        if record is None or not number.get(name):
            continue
        commit = evidence.commit(name)
        pending = commit is not None and commit.rank > record.rank
        later = ", which must be fenced because tasks were committed since" if pending else ""
        steps = _unfenced_steps(evidence, name)
        yield DetectedSituation(
            connector=name,
            evidence=(record.position, commit.position)
            if commit and pending
            else (record.position,),
            severity=Severity.WARNING if steps else Severity.INFO,
            sentence=f"has {count(number[name], 'transactional producer')}{later}. Tasks on "
            f"{evidence.roll.older.release} write without transactions, so their producers cannot "
            "be fenced",
            steps=steps,
        )


def _unfenced_steps(evidence: LogEvidence, name: str) -> tuple[PreparationStep, ...]:
    """Steps for unfenced producers; quiet connectors need none on a downgrade."""
    if evidence.roll.goal is evidence.roll.older:
        return kept_quiet(evidence, name, "no task writes while the release changes")
    setting = "# exactly.once.source.support=preparing on every worker, one by one"
    return (PreparationStep(StepTime.DURING, setting, "makes fencing safe"),)


def older_tasks(evidence: LogEvidence) -> Iterator[DetectedSituation]:
    """12: tasks committed before the config; a starting worker may drop them (KAFKA-17719)."""
    for name in evidence.connectors:
        commit, config = evidence.commit(name), evidence.last_of(ConnectorConfig, name)
        if commit is None or config is None or commit.rank > config.rank:
            continue
        if commit.record.tasks <= 0 or evidence.removed_between(name, commit, config) is not None:
            continue
        dropping = [
            profile.release for profile in evidence.roll.starting if profile.commit_needs_config
        ]
        target = evidence.newer.config.targets.get(name)
        runs, waits = target is Target.STARTED, target is Target.PAUSED
        severity = Severity.WARNING if dropping and waits else Severity.INFO
        steps = _commit_again(evidence, name, commit) if severity is Severity.WARNING else ()
        yield DetectedSituation(
            connector=name,
            evidence=(commit.position, config.position),
            severity=severity,
            sentence=_older_tasks(evidence, commit.record.tasks, dropping, runs=runs),
            steps=steps,
        )


def _older_tasks(evidence: LogEvidence, tasks: int, dropping: list[str], *, runs: bool) -> str:
    since = f"has {count(tasks, 'task')}, committed before its config"
    if not dropping:
        return f"{since}; {evidence.roll.goal.release} reads them unchanged"
    lost = f"After a compaction, a starting worker of {dropping[-1]} drops them"
    return f"{since}. {lost}; {regeneration(runs=runs)}"


def _commit_again(
    evidence: LogEvidence, name: str, commit: EvidenceRecord
) -> tuple[PreparationStep, ...]:
    """Steps that commit tasks again.

    A worker with `commit_needs_config` commits them itself once the connector runs.
    """
    if evidence.roll.start.commit_needs_config:
        why = "lets it run until its tasks are committed after its config, then pauses it again"
        return (PreparationStep(StepTime.BEFORE, rerun(name), why),)
    places = *_last_configs(evidence, name, commit.record.tasks), commit.position
    why = "appends its task configs and their commit again, after its config"
    return (PreparationStep(StepTime.BEFORE, copied(places), why),)


def _last_configs(evidence: LogEvidence, name: str, tasks: int) -> tuple[Position, ...]:
    last = {record.record.task: record.position for record in evidence.all_of(TaskConfig, name)}
    return tuple(last[task] for task in range(tasks) if task in last)


def leftover_tasks(evidence: LogEvidence) -> Iterator[DetectedSituation]:
    """13: tasks of a deleted connector return when its name is reused (KAFKA-16838)."""
    for name in evidence.names_of(TaskCommit):
        commit = evidence.commit(name)
        if commit is None or commit.record.tasks <= 0 or not _outlived(evidence, name, commit):
            continue
        affected = [
            profile for profile in evidence.roll.starting if not profile.commit_needs_config
        ]
        worker = f"worker of {affected[0].release}" if affected else "worker"
        beginning = _comes_back(evidence, commit, affected[0]) if affected else "No starting"
        yield DetectedSituation(
            connector=name,
            evidence=(commit.position,),
            severity=Severity.WARNING if affected else Severity.INFO,
            sentence=f"{_leftovers(evidence, commit)}. {beginning} {worker} gives them to a "
            "connector of this name",
            steps=(_emptied(evidence, commit),) if affected else (),
        )


def _leftovers(evidence: LogEvidence, commit: EvidenceRecord) -> str:
    """Fate of the connector, and the tasks that are left of it."""
    name, tasks = commit.record.connector, count(commit.record.tasks, "task")
    if evidence.last_of(ConnectorConfig, name) is None:
        return f"has no config, and the log still has {tasks} of it"
    again = " and created again" if _exists(evidence, name) else ""
    return f"was deleted{again}, and the log still has {tasks} of the deleted connector"


def _exists(evidence: LogEvidence, name: str) -> bool:
    return name in evidence.newer.config.connectors


def _comes_back(evidence: LogEvidence, commit: EvidenceRecord, release: Profile) -> str:
    """Time at which a task set returns: the beginning of a sentence, up to the word `worker`.

    Some releases drop the task set at a later tombstone of the config. The config of a new
    connector replaces that tombstone once the log is compacted.
    """
    name = commit.record.connector
    is_dropped = any(
        record.rank > commit.rank and record.record.properties is None
        for record in evidence.all_of(ConnectorConfig, name)
    )
    if not release.removal_drops_tasks or not is_dropped:
        return "A starting"
    if _exists(evidence, name):
        return "Once the log is compacted, a starting"
    return "Once compaction has removed the config's tombstone, a starting"


def _outlived(evidence: LogEvidence, name: str, commit: EvidenceRecord) -> bool:
    """True if the connector of a task set is deleted, or was deleted and created again."""
    config = evidence.last_of(ConnectorConfig, name)
    if config is None or config.record.properties is None:
        return True
    return evidence.removed_between(name, commit, config) is not None


def _emptied(evidence: LogEvidence, commit: EvidenceRecord) -> PreparationStep:
    if any(profile.commit_needs_deferred for profile in evidence.roll.starting):
        # An empty task set crashes each worker with `commit_needs_deferred`, now or when it starts.
        warning = f"# create no connector {safe(commit.record.connector)}"
        return PreparationStep(
            StepTime.AFTER,
            warning,
            "its tasks cannot be removed: an empty task set crashes the workers",
        )
    key, place = (commit.entry.key or b"").decode("utf-8", "replace"), commit.position
    command = append_command(place.topic, place.partition, key, '{"tasks":0}')
    return PreparationStep(
        StepTime.BEFORE, command, "empties its task set; no REST request does this"
    )
