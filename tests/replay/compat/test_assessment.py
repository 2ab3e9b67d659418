"""Verdicts that follow from divergences and hazards, without a known situation.

A divergence is a difference between the states that two releases read. A hazard is a record at
which a worker fails, or which members of a group read differently.
"""

import pytest

from controlplane.core.releases.profiles import Profile
from controlplane.core.state import Aspect, Topics
from controlplane.core.views.hazards import Danger
from replay.compat import ClusterAssessment, ReleaseVerdict, RolloutMode, assess, roll
from replay.compat.assessment_report import reported as plain
from replay.compat.preparation import StepTime
from replay.compat.report_formats import document, junit
from tests.replay.compat.planted_log import CONFIG, STOPPED, Planted, running, stopped

ODD = '{"properties":{"name":"a","rows":01}}'
"""A config with a leading zero in a number: valid from 3.6 on, and no JSON before that."""


def assessment_of(
    log: Planted, start: str, goal: str, mode: RolloutMode | None = None
) -> ClusterAssessment:
    """Assess a planted log for a change of release."""
    return assess(log.entries, roll(Profile.of(start), Profile.of(goal), mode))


def dangers(assessment: ClusterAssessment) -> list[Danger]:
    """Return the dangers of all reported hazards."""
    return [hazard.danger for connector in assessment.assessed for hazard in connector.hazards]


def test_an_unaffected_connector_has_no_findings() -> None:
    """Both releases read the connector alike: the assessment has both views and no findings."""
    assessment = assessment_of(running(), "3.4", "3.9")
    (connector,) = assessment.assessed
    assert (connector.connector, assessment.verdict) == ("a", ReleaseVerdict.COMPATIBLE)
    old, new = connector.views
    assert (old.release, new.release) == ("3.4.1", "3.9.2")
    assert (old.target, old.tasks, old.reported) == (new.target, new.tasks, new.reported)
    assert not (connector.divergences)
    assert not (connector.situations)
    assert not (connector.hazards)
    assert not connector.writes
    assert not assessment.plan
    (remark,) = assessment.remarks
    assert "UNASSIGNED" in remark


def test_an_empty_log_is_compatible() -> None:
    """An empty log has no connectors and is compatible."""
    assessment = assessment_of(Planted(), "3.4", "3.9", RolloutMode.ROLLING)
    assert (assessment.assessed, assessment.verdict) == ((), ReleaseVerdict.COMPATIBLE)


def test_unassigned_comes_before_running() -> None:
    """During a worker's replacement the status is UNASSIGNED, unless it is FAILED or missing."""
    log = running().config("b").status("connector-b", "FAILED").config("c")
    views = {
        connector.connector: connector.views
        for connector in assessment_of(log, "3.4", "3.9").assessed
    }
    assert {name: [view.meanwhile for view in both] for name, both in views.items()} == {
        "a": ["UNASSIGNED"] * 2,
        "b": [None] * 2,
        "c": [None] * 2,
    }
    assert views["a"][1].will_report == "RUNNING"
    failed = Planted().config("b").status("connector-b", "FAILED")
    assert not assessment_of(failed, "3.4", "3.9").remarks


@pytest.mark.parametrize(
    ("start", "goal", "mode", "remark"),
    [
        (
            "3.4",
            "3.9",
            RolloutMode.ROLLING,
            (
                "while both releases run, GET /connectors/{c}/offsets is answered 404 "
                "if a worker of 3.4.1 receives the request, or handles it as the leader"
            ),
        ),
        (
            "3.9",
            "3.4",
            RolloutMode.ROLLING,
            (
                "while both releases run, GET /connectors/{c}/offsets is answered 404 "
                "if a worker of 3.4.1 receives the request, or handles it as the leader"
            ),
        ),
        (
            "3.9",
            "3.4",
            None,
            "once all workers run 3.4.1, GET /connectors/{c}/offsets is answered 404",
        ),
        (
            "3.9",
            "3.6",
            None,
            "once all workers run 3.6.2, PATCH /connectors/{c}/config is answered 405",
        ),
        (
            "3.9",
            "4.3",
            None,
            "once all workers run 4.3.0, GET /connectors/{c}/tasks-config is an",
        ),
        (
            "3.9",
            "4.3",
            RolloutMode.ROLLING,
            (
                "while both releases run, GET /connectors/{c}/tasks-config is answered 404 "
                "if a worker of 4.3.0 receives the request"
            ),
        ),
        (
            "4.3",
            "3.9",
            RolloutMode.ROLLING,
            (
                "while both releases run, GET /connectors/{c}/tasks-config is answered 404 "
                "if a worker of 4.3.0 receives the request"
            ),
        ),
        (
            "3.8",
            "3.9",
            RolloutMode.ROLLING,
            (
                "while both releases run, GET /health is answered 404 "
                "if a worker of 3.8.1 receives the request, or handles it as the leader"
            ),
        ),
        (
            "2.3",
            "2.4",
            RolloutMode.ROLLING,
            (
                "while both releases run, GET and PUT /admin/loggers are answered 404 "
                "if a worker of 2.3.1 receives the request, or handles it as the leader"
            ),
        ),
    ],
)
def test_changed_endpoints_are_listed(
    start: str, goal: str, mode: RolloutMode | None, remark: str
) -> None:
    """The assessment lists endpoints that change while both releases run, and after the change."""
    remarks = assessment_of(running(), start, goal, mode).remarks
    assert [text for text in remarks if text.startswith(remark)]


@pytest.mark.parametrize("releases", [("3.9", "3.9"), ("3.6.1", "3.6.2"), ("3.9", "4.3")])
def test_equal_behaviour_is_no_finding(releases: tuple[str, str]) -> None:
    """No finding is made if both releases treat outdated tasks and leftover tasks alike."""
    log = running().gone("a").config("b").tasks("b", 1).target("b", {"state": "PAUSED"})
    assessment = assessment_of(log.config("b", rows="2"), *releases)
    assert assessment.verdict is ReleaseVerdict.COMPATIBLE
    assert not assessment.findings
    assert not assessment.plan


def test_later_steps_are_no_preparation() -> None:
    """Steps after the change are in the plan, but do not make the change need preparation."""
    log = stopped().target("a", {"state": "PAUSED"})
    assessment = assessment_of(log, "3.4", "3.9")
    assert assessment.verdict is ReleaseVerdict.COMPATIBLE
    assert [(step.when, step.command) for step in assessment.plan] == [
        (StepTime.AFTER, "controlplane stop a")
    ]


def test_an_unexplained_difference_names_its_record() -> None:
    """The difference names the record that causes it."""
    log = running().put(CONFIG, "connector-a", ODD, raw=True).config("b").tasks("b", 0)
    assessment = assessment_of(log, "3.4", "3.9")
    assert assessment.verdict is ReleaseVerdict.NEEDS_PREPARATION
    divergences = [divergence for each in assessment.assessed for divergence in each.divergences]
    assert {divergence.change.aspect for divergence in divergences} == {Aspect.CONFIG}
    assert {divergence.explained for divergence in divergences} == {None}
    odd = next(entry for entry in log.entries if entry.value == ODD.encode())
    assert {divergence.change.cause for divergence in divergences} == {odd.position}


def test_a_difference_in_reports_heals() -> None:
    """From 3.6 on, the worker that lost a task cannot overwrite the new owner's report."""
    log = running().status("task-a-0", "RUNNING", generation=2)
    log.status("task-a-0", "UNASSIGNED", worker_id="w2")
    assessment = assessment_of(log, "3.4", "3.9")
    (connector,) = assessment.assessed
    (divergence,) = connector.divergences
    assert divergence.change.aspect is Aspect.TASK_STATUS
    assert assessment.verdict is ReleaseVerdict.COMPATIBLE


def test_a_record_that_stops_workers_of_the_target_release_is_unsafe() -> None:
    """Before release 3.3, a task config without properties stops each worker that starts."""
    log = running().put(CONFIG, "task-a-0", {})
    back = assessment_of(log, "3.9", "3.2")
    assert (back.verdict, dangers(back)) == (ReleaseVerdict.UNSAFE, [Danger.STOPS_WORKER])
    assert back.plan[0].command.endswith("the record at config@3, and let the topic be compacted")
    assert assessment_of(log, "3.9", "3.4").verdict is ReleaseVerdict.COMPATIBLE


def test_a_record_stops_restarted_workers() -> None:
    """A record with which no worker of either release can start is reported.

    Running workers may have survived it, but the change starts new ones.
    """
    log = running().put(CONFIG, "task-a-0", {})
    assert dangers(assessment_of(log, "3.1", "3.2")) == [Danger.STOPS_WORKER]


def test_hazards_of_both_releases_are_not_reported() -> None:
    """A hazard that both releases meet is not reported, unless it stops a starting worker.

    A commit without a number makes both lose the rest of its poll batch.
    """
    log = running().put(CONFIG, "commit-a", {})
    assert not dangers(assessment_of(log, "3.4", "3.9"))


def test_members_disagree_if_only_one_reads_the_last_record() -> None:
    """Members disagree in a rolling change if only one of them reads the last record."""
    log = running().put(CONFIG, "connector-b", ODD, raw=True)
    mixed = assessment_of(log, "3.4", "3.9", RolloutMode.ROLLING)
    assert dangers(mixed) == [Danger.OFFSETS_DISAGREE]
    assert mixed.plan[0].command == "controlplane resume a"
    assert not dangers(assessment_of(log, "3.4", "3.9"))
    assert not dangers(assessment_of(log.target("a", STOPPED), "3.4", "3.9", RolloutMode.ROLLING))


def test_members_disagree_about_an_aborted_last_record() -> None:
    """One member sees an aborted last record, and the other does not."""
    log = running().abort().config("b").commit()
    change = roll(Profile.of("3.2"), Profile.of("3.9"), RolloutMode.ROLLING)
    (hazard,) = assess(log.entries, change, exactly_once=True).assessed[0].hazards
    assert hazard.position == log.entries[-1].position


def test_failing_reads_make_a_change_unsafe() -> None:
    """From 2.6 on, a negative count makes requests fail."""
    log = running().put(CONFIG, "commit-a", {"tasks": -1})
    assessment = assessment_of(log, "2.5", "2.8")
    assert dangers(assessment) == [Danger.READ_FAILS]
    assert assessment.verdict is ReleaseVerdict.UNSAFE
    assert [view.tasks for view in assessment.assessed[0].views] == [0, None]


def test_future_writes_are_predicted_in_a_rolling_change() -> None:
    """Future writes are predicted only for connectors that the two releases read differently."""
    log = stopped().config("b").tasks("b", 1)
    assessment = assessment_of(log, "3.9", "3.4", RolloutMode.ROLLING)
    a, b = assessment.assessed
    assert [write.request for write in a.writes] == ["pause", "resume"]
    assert not b.writes
    assert not any(connector.writes for connector in assessment_of(log, "3.9", "3.4").assessed)


def test_a_plan_says_each_thing_once() -> None:
    """A step that two situations need appears once; earlier steps come first."""
    log = Planted().config("a", **{"offsets.storage.topic": "own"}).tasks("a", 1)
    log.put(CONFIG, "tasks-fencing-a", {"task-count": 1}).offset("a", 1, "own")
    plan = assessment_of(log, "3.9", "3.2").plan
    stop, _, resume = plan
    assert stop.command == "controlplane stop --wait a"
    assert resume.command == "controlplane resume a"
    assert [step.when for step in plan] == [StepTime.BEFORE, StepTime.BEFORE, StepTime.AFTER]
    assert len(stop.why.split("; ")) == 2


def test_aborted_records_matter_only_without_exactly_once_support() -> None:
    """Workers of releases without exactly-once support still obey aborted records."""
    log = running().abort().target("a", STOPPED).commit().config("b")
    connectors = [
        assess(log.entries, roll(Profile.of("3.9"), Profile.of(goal)), exactly_once=True).assessed[
            -2
        ]
        for goal in ("3.4", "3.2")
    ]
    assert [[view.target for view in connector.views] for connector in connectors] == [
        ["STARTED", "STARTED"],
        ["STARTED", "PAUSED"],
    ]


def test_the_empty_name_is_a_name() -> None:
    """A connector may have an empty name; its findings are not those of the cluster."""
    log = Planted().config("b").status("task--0", "RUNNING").status("task--0", "STOPPED")
    assessment = assessment_of(log, "3.9", "3.4")
    assert [connector.connector for connector in assessment.assessed] == ["", "b"]
    (divergence,) = assessment.assessed[0].divergences
    assert divergence.change.aspect is Aspect.TASK_STATUS
    shown = [plain(assessment, Topics())]
    connectors = document(shown)["rolls"][0]["connectors"]
    assert [connector["connector"] for connector in connectors] == ["", "b"]
    assert 'name="&quot;&quot;"' in junit(shown)


@pytest.mark.parametrize(("start", "goal"), [("2.8", "3.2"), ("3.2", "2.8")])
def test_releases_without_exactly_once_support_see_aborted_records(start: str, goal: str) -> None:
    """The setting of exactly-once support means nothing to releases that lack it."""
    log = stopped().abort().target("a", None).commit()
    change = roll(Profile.of(start), Profile.of(goal))
    assert assess(log.entries, change, exactly_once=True) == assess(log.entries, change)
    assert assess(log.entries, change).plan
