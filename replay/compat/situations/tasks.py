"""Task sets, fencing and restarts that the two releases take for different things."""

from collections.abc import Iterator

from controlplane.core.entry import Position
from controlplane.core.profiles import Profile
from controlplane.core.records import (
    ConnectorConfig,
    RestartRequest,
    State,
    Target,
    TaskCommit,
    TaskConfig,
    TaskCount,
)
from controlplane.core.safe_text import count, safe
from replay.compat.evidence import Evidence, Told
from replay.compat.sightings import Sighting
from replay.compat.situations.keeping import kept_quiet
from replay.compat.steps import Step, When, copied, rerun, verb, written
from replay.findings import Severity


def disobeyed_restart(evidence: Evidence) -> Iterator[Sighting]:
    """8: a restart that some instances never heard of: their workers do not know such requests."""
    for name in evidence.connectors:
        told = evidence.last_of(RestartRequest, name)
        deaf = [] if told is None else _deaf(evidence, name, told)
        if told is None or not deaf:
            continue
        shown = ", ".join("the connector" if one is None else f"task {one}" for one in deaf)
        again = tuple(
            Step(When.BEFORE, _restart(name, one), "restarts it wherever it runs") for one in deaf
        )
        yield Sighting(
            connector=name,
            evidence=(told.position,),
            severity=Severity.WARNING,
            sentence=f"was to be restarted, but {shown} never was: workers of "
            f"{evidence.roll.older.release} do not see such requests",
            steps=again,
        )


def _deaf(evidence: Evidence, name: str, request: Told) -> list[int | None]:
    """The instances that a restart meant and that report nothing since."""
    last = evidence.last_statuses(name)
    meant: list[int | None] = [None]
    if request.record.include_tasks:
        meant += evidence.newer.config.task_ids(name)
    if request.record.only_failed:
        meant = [one for one in meant if _failed_before(evidence, name, one, request)]
    return [one for one in meant if one not in last or last[one].rank < request.rank]


def _failed_before(evidence: Evidence, name: str, instance: int | None, request: Told) -> bool:
    before = evidence.status_before(name, instance, request.rank)
    return before is not None and before.state is State.FAILED


def _restart(name: str, instance: int | None) -> str:
    if instance is None:
        return verb("restart connector", name)
    return verb("restart task", f"{name}/{instance}")


def unfenceable(evidence: Evidence) -> Iterator[Sighting]:
    """9: producers of the older release cannot be fenced, and it does not read who was."""
    for name in evidence.connectors:
        told, number = evidence.last_of(TaskCount, name), evidence.newer.config.fenced_counts
        if told is None or not number.get(name):
            continue
        commit = evidence.commit(name)
        pending = commit is not None and commit.rank > told.rank
        later = ", and tasks were committed since, so they are to be fenced" if pending else ""
        steps = _unfenced_steps(evidence, name)
        yield Sighting(
            connector=name,
            evidence=(told.position, commit.position) if commit and pending else (told.position,),
            severity=Severity.WARNING if steps else Severity.INFO,
            sentence=f"has {count(number[name], 'transactional producer')}{later}; "
            f"{evidence.roll.older.release} writes without transactions, which nobody can fence",
            steps=steps,
        )


def _unfenced_steps(evidence: Evidence, name: str) -> tuple[Step, ...]:
    """On the way back, of who is quiet, there is nothing to do."""
    if evidence.roll.goal is evidence.roll.older:
        return kept_quiet(evidence, name, "no task writes while the release changes")
    setting = "# exactly.once.source.support=preparing on every worker, one by one"
    return (Step(When.DURING, setting, "then fencing is safe"),)


def older_tasks(evidence: Evidence) -> Iterator[Sighting]:
    """12: the tasks were committed before the config: a cold start may drop them (KAFKA-17719)."""
    for name in evidence.connectors:
        commit, config = evidence.commit(name), evidence.last_of(ConnectorConfig, name)
        if commit is None or config is None or commit.rank > config.rank:
            continue
        if commit.record.tasks <= 0 or evidence.removed_between(name, commit, config) is not None:
            continue
        dropping = [one.release for one in evidence.roll.ahead if one.commit_needs_config]
        wanted = evidence.newer.config.targets.get(name)
        runs, waits = wanted is Target.STARTED, wanted is Target.PAUSED
        severity = Severity.WARNING if dropping and waits else Severity.INFO
        steps = _commit_again(evidence, name, commit) if severity is Severity.WARNING else ()
        yield Sighting(
            connector=name,
            evidence=(commit.position, config.position),
            severity=severity,
            sentence=_older_tasks(evidence, commit.record.tasks, dropping, runs=runs),
            steps=steps,
        )


def _older_tasks(evidence: Evidence, tasks: int, dropping: list[str], *, runs: bool) -> str:
    since = f"has {count(tasks, 'task')}, committed before its config"
    if not dropping:
        return f"{since}; {evidence.roll.goal.release} takes them as they are"
    lost = f"once the log is compacted, {dropping[-1]} drops them when a worker starts"
    then = "whoever runs it makes them anew" if runs else "nobody makes them anew until it runs"
    return f"{since}: {lost}, and {then}"


def _commit_again(evidence: Evidence, name: str, commit: Told) -> tuple[Step, ...]:
    """A worker that remembers from which config tasks were made commits them anew by itself."""
    if evidence.roll.start.commit_needs_config:
        why = "commits its tasks behind its config once they run; then it is paused as before"
        return (Step(When.BEFORE, rerun(name), why),)
    places = *_last_configs(evidence, name, commit.record.tasks), commit.position
    why = "appends its task configs and their commit once more, behind its config"
    return (Step(When.BEFORE, copied(places), why),)


def _last_configs(evidence: Evidence, name: str, tasks: int) -> tuple[Position, ...]:
    last = {one.record.task: one.position for one in evidence.all_of(TaskConfig, name)}
    return tuple(last[task] for task in range(tasks) if task in last)


def leftover_tasks(evidence: Evidence) -> Iterator[Sighting]:
    """13: tasks of a connector that was deleted, which come back with its name (KAFKA-16838)."""
    for name in evidence.names_of(TaskCommit):
        commit = evidence.commit(name)
        if commit is None or commit.record.tasks <= 0 or not _outlived(evidence, name, commit):
            continue
        falling = [one for one in evidence.roll.ahead if not one.commit_needs_config]
        who = f"a worker of {falling[0].release}" if falling else "no worker"
        there = name in evidence.newer.config.connectors
        when = _comes_back(falling[0], there=there) if falling else ""
        yield Sighting(
            connector=name,
            evidence=(commit.position,),
            severity=Severity.WARNING if falling else Severity.INFO,
            sentence=f"{'is there again' if there else 'was deleted'}, and "
            f"{count(commit.record.tasks, 'task')} of its first life left in the log: {when}{who} "
            "that starts takes that for whatever bears the name",
            steps=(_emptied(evidence, commit),) if falling else (),
        )


def _comes_back(release: Profile, *, there: bool) -> str:
    """When a task set comes back: a release that drops it with its connector reads the tombstone.

    The config of a new connector takes the place of that tombstone as soon as the log is compacted.
    """
    if not release.removal_drops_tasks:
        return ""
    if there:
        return "once the log is compacted, "
    return "once the log is compacted and its tombstones have expired, "


def _outlived(evidence: Evidence, name: str, commit: Told) -> bool:
    """Whether a task set is of a connector that is gone, or was gone since and is back."""
    config = evidence.last_of(ConnectorConfig, name)
    if config is None or config.record.properties is None:
        return True
    return evidence.removed_between(name, commit, config) is not None


def _emptied(evidence: Evidence, commit: Told) -> Step:
    if any(one.commit_needs_deferred for one in evidence.roll.ahead):
        # An empty set would end the worker, and every one that starts after it.
        shunned = f"# create no connector {safe(commit.record.connector)}"
        return Step(When.AFTER, shunned, "no record that takes its tasks away can be read")
    key, place = (commit.entry.key or b"").decode("utf-8", "replace"), commit.position
    command = written(place.topic, place.partition, key, '{"tasks":0}')
    return Step(When.BEFORE, command, "no worker has a request for it: empties its task set")
