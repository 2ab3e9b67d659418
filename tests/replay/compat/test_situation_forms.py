"""Situations with several forms, and the finding of each form.

A situation is a pattern of records that matters in some release changes. Each has a number in
`replay.compat.situations`.
"""

from collections.abc import Iterator

import pytest

from controlplane.core.entry import Entry
from controlplane.core.releases.profiles import Profile
from replay.compat import RolloutMode, roll
from replay.compat.assessment import ObservedSituation
from replay.compat.log_evidence import LogEvidence
from replay.compat.log_readings import LogReadings
from replay.compat.situations.hidden_offsets import aborted_offsets
from tests.replay.compat.pairs import (
    DANGER,
    INFO,
    PAIRS,
    V2_PAUSED,
    V2_STARTED,
    WARNING,
    fenced,
    observed_situations,
    own_topic,
    reused,
)
from tests.replay.compat.planted_log import CONFIG, OFFSETS, STOPPED, Planted, running, stopped


def test_some_workers_use_offsets_of_aborted_transactions() -> None:
    """Situation 14, second form: workers without exactly-once support use aborted offsets."""
    pair = PAIRS[14]
    log = running().offset("a", 1).abort().offset("a", 2).commit()
    (observation,) = observed_situations(pair, log, 14)
    assert observation.situation.name == "aborted-offsets"
    assert not observed_situations(
        pair, running().offset("a", 1).abort().offset("a", 2).commit().offset("a", 3), 14
    )


def own_topic_sighting(
    log: Planted, start: str, goal: str, mode: RolloutMode | None = None
) -> ObservedSituation:
    """Sighting of a connector with its own offsets topic."""
    (observation,) = observed_situations(
        PAIRS[14]._replace(start=start, goal=goal, mode=mode), log, 14
    )
    return observation


def test_the_newer_release_needs_offsets_in_the_own_topic() -> None:
    """Releases from 3.3 on read a connector's own topic alone, and ignore the worker's topic."""
    log = Planted().config("a", **{"offsets.storage.topic": "own"}).tasks("a", 1).offset("a", 1)
    observation = own_topic_sighting(log, "3.2", "3.9")
    assert observation.sighting.severity is DANGER
    assert "lacks the present value of 1 offset" in observation.sighting.sentence
    assert [place.topic for place in observation.sighting.evidence] == [CONFIG, OFFSETS]
    copied = own_topic_sighting(log.offset("a", 1, "own"), "3.2", "3.9")
    assert copied.sighting.severity is INFO
    assert "which has them all" in copied.sighting.sentence


def test_the_older_release_needs_a_copy_of_the_offsets() -> None:
    """A downgrade or a rolling change needs the newest offsets in the workers' topic, too."""
    log = own_topic("own")
    for start, goal, word in (
        ("3.9", "3.2", "stop"),
        ("3.4", "3.2", "pause"),
        ("3.2", "3.9", "pause"),
    ):
        observation = own_topic_sighting(
            log, start, goal, RolloutMode.ROLLING if word == "pause" else None
        )
        assert "lacks the present value of 1 offset" in observation.sighting.sentence
        assert [place.topic for place in observation.sighting.evidence] == [CONFIG, "own"]
        stop, copy, resume = observation.sighting.steps
        assert stop.command == f"controlplane {word} --wait a"
        assert resume.command == "controlplane resume a"
        assert " -t own " in copy.command.partition("|")[0]
        assert f" -t {OFFSETS} " in copy.command.partition("|")[2]
    same = own_topic_sighting(log.offset("a", 2), "3.9", "3.2")
    assert same.sighting.severity is INFO
    assert "which has them all" in same.sighting.sentence


def test_aborted_offsets_in_an_own_topic_are_harmless() -> None:
    """Every worker skips aborted records in a connector's own topic."""
    log = own_topic("own").offset("a", 2).abort().offset("a", 3, "own").commit()
    assert own_topic_sighting(log, "3.9", "3.2").sighting.severity is INFO


class CountedEntries(list[Entry]):
    """Entries that count the passes over them."""

    passes = 0

    def __iter__(self) -> Iterator[Entry]:
        self.passes += 1
        return super().__iter__()


def passes_for(connectors: str) -> int:
    """Passes over a log whose connectors all have an aborted offset."""
    log = Planted()
    for name in connectors:
        log.config(name).offset(name, 1).abort().offset(name, 2).commit()
    change = roll(Profile.of("3.9"), Profile.of("3.2"))
    readings = LogReadings(log.entries, [change])
    readings.entries = entries = CountedEntries(log.entries)
    assert len(list(aborted_offsets(LogEvidence(readings, change)))) == len(connectors)
    return entries.passes


def test_aborted_offsets_of_many_connectors_need_no_more_passes() -> None:
    """An outage may abort a transaction of every source; the time grows with the log only."""
    assert passes_for("abc") == passes_for("a")


def test_a_resume_by_an_older_worker_says_whether_tasks_exist_again() -> None:
    """The sentence of situation 2 changes once the tasks were generated again."""
    log = stopped().target("a", {"state": "STARTED"})
    (observation,) = observed_situations(PAIRS[2], log, 2)
    assert observation.sighting.sentence.endswith("its worker generates its tasks again")
    (observation,) = observed_situations(PAIRS[2], log.tasks("a", 1), 2)
    assert observation.sighting.sentence.endswith("its tasks were generated again since")


@pytest.mark.parametrize(("number", "state"), [(2, "STARTED"), (3, "PAUSED")])
def test_only_a_stop_can_be_forgotten(number: int, state: str) -> None:
    """Situations 2 and 3 need a stop that an older worker's target state has replaced."""
    by_older = {"state": state}
    for log in (
        running().target("a", V2_PAUSED).target("a", by_older),
        stopped().gone("a").config("a").target("a", by_older),
        stopped().target("a", by_older).target("a", None),
        stopped(),
    ):
        assert not observed_situations(PAIRS[number], log, number)


@pytest.mark.parametrize("number", [7, 18])
def test_a_removed_status_is_ignored(number: int) -> None:
    """A removed status has no version, and does not count as unreadable."""
    pair = PAIRS[number]
    log = running().status("connector-a", "STOPPED", version="1.0").status("connector-a", None)
    assert not observed_situations(pair, log, number)


def test_an_unreadable_status_of_a_task_names_the_task() -> None:
    """Situation 7: each sentence has the state of the connector or tasks in the older release."""
    pair = PAIRS[7]._replace(start="3.4", goal="2.8")
    log = running(tasks=4).status("task-a-0", "FAILED").status("task-a-1", "FAILED")
    for instance in ("connector-a", "task-a-0", "task-a-1", "task-a-2"):
        log.status(instance, "RESTARTING")
    observations = observed_situations(pair, log.status("task-a-3", "RUNNING"), 7)
    expected = (
        ("is reported", "RUNNING"),
        ("has tasks 0, 1 reported", "FAILED"),
        ("has task 2 reported", "no status at all (404)"),
    )
    assert [observation.sighting.sentence for observation in observations] == [
        f"{reported} RESTARTING, which 2.8.2 cannot read: it shows {shown} until one of its own "
        "workers reports"
        for reported, shown in expected
    ]
    assert [len(observation.sighting.evidence) for observation in observations] == [1, 2, 1]


def test_active_topics_are_left_behind() -> None:
    """Situation 11 concerns deleted connectors, and living ones that may be deleted later."""
    pair = PAIRS[11]
    (observation,) = observed_situations(pair, running().active("a", "t"), 11)
    assert observation.sighting.sentence.endswith("a deletion there leaves them behind")
    (observation,) = observed_situations(pair, pair.planted, 11)
    assert observation.sighting.sentence.startswith("was deleted and still has active topics")


def test_producers_are_fenced_in_both_directions() -> None:
    """Situation 9: a downgrade stops the connector; an upgrade sets all workers to `preparing`."""
    (observation,) = observed_situations(PAIRS[9], fenced(1), 9)
    assert [step.command for step in observation.sighting.steps] == [
        "controlplane stop --wait a",
        "controlplane resume a",
    ]
    upgrade = PAIRS[9]._replace(start="3.2", goal="3.9")
    (observation,) = observed_situations(upgrade, fenced(1).tasks("a", 1), 9)
    assert "exactly.once.source.support=preparing" in observation.sighting.steps[0].command
    assert "must be fenced because tasks were committed since" in observation.sighting.sentence
    assert len(observation.sighting.evidence) == 2


def test_an_empty_task_set_of_a_stopped_connector_is_harmless() -> None:
    """Situation 6 is about tasks: an empty commit does no harm."""
    assert not observed_situations(PAIRS[6], stopped().tasks("a", 0), 6)


def test_an_initial_state_is_named_as_the_older_release_reads_it() -> None:
    """Situation 17 names the state in the older release if it differs."""
    pair = PAIRS[17]._replace(start="3.4")
    log = Planted().target("a", STOPPED).config("a")
    (observation,) = observed_situations(pair, log, 17)
    assert "was created STOPPED, which 3.4.1 reads as PAUSED;" in observation.sighting.sentence
    (observation,) = observed_situations(pair, pair.planted, 17)
    assert "was created PAUSED;" in observation.sighting.sentence


def test_tasks_of_a_stopped_connector_may_be_dropped() -> None:
    """Situation 12 is harmless for a stopped connector, which needs no tasks."""
    (observation,) = observed_situations(
        PAIRS[12], running().target("a", STOPPED).config("a", rows="2"), 12
    )
    assert observation.sighting.severity is INFO


def test_removed_target_states_are_recovered() -> None:
    """Situation 5 needs an earlier record or a status that shows a pause or a stop."""
    pair = PAIRS[5]
    for log, command in (
        (stopped().target("a", None), "controlplane stop a"),
        (running().target("a", V2_PAUSED).target("a", None), "controlplane pause a"),
        (running().target("a", None).status("connector-a", "PAUSED"), "controlplane pause a"),
        (running().target("a", None).status("connector-a", "STOPPED"), "controlplane stop a"),
    ):
        (observation,) = observed_situations(pair, log, 5)
        assert [step.command for step in observation.sighting.steps] == [command]
    assert not observed_situations(pair, running().target("a", V2_STARTED).target("a", None), 5)
    assert not observed_situations(pair, running().target("a", None), 5)
    assert not observed_situations(pair, Planted().config("a").tasks("a", 1).target("a", None), 5)


def test_a_stop_without_its_empty_task_set_needs_preparation() -> None:
    """An older worker reads PAUSED and would keep the tasks, paused; a second stop removes them."""
    pair = PAIRS[1]
    (observation,) = observed_situations(pair, running().target("a", STOPPED), 1)
    assert observation.sighting.severity is WARNING
    assert [step.command for step in observation.sighting.steps] == ["controlplane stop a"]


def test_a_second_stop_repairs_a_stop_that_older_releases_ignore() -> None:
    """A second stop repairs a record that older releases read as STARTED, and newer as STOPPED."""
    pair = PAIRS[1]
    (observation,) = observed_situations(
        pair, running().target("a", {"state": "STARTED", "state.v2": "STOPPED"}), 1
    )
    assert observation.sighting.severity is DANGER
    assert [step.command for step in observation.sighting.steps] == ["controlplane stop a"]


def test_a_release_without_target_states_runs_stopped_connectors() -> None:
    """Release 0.9 runs every existing connector, so the plan deletes a stopped one."""
    (observation,) = observed_situations(PAIRS[1]._replace(goal="0.9.0.1"), stopped(), 1)
    assert observation.sighting.severity is DANGER
    assert observation.sighting.steps[-1].command == "controlplane delete connector a"


def test_tasks_of_a_running_connector_are_made_anew() -> None:
    """Situation 12 is INFO if the connector runs, or if the new release drops no tasks."""
    pair = PAIRS[12]
    (observation,) = observed_situations(pair, running().config("a", rows="2"), 12)
    assert observation.sighting.severity is INFO
    back = pair._replace(start="3.9", goal="3.4")
    (observation,) = observed_situations(back, back.planted, 12)
    assert observation.sighting.severity is INFO


def test_workers_generate_tasks_again() -> None:
    """Situation 12: the worker generates the tasks again, at once or when they are resumed."""
    pair = PAIRS[12]
    (observation,) = observed_situations(pair, running().config("a", rows="2"), 12)
    assert observation.sighting.sentence.endswith(
        "the worker that runs the connector generates them again"
    )
    (observation,) = observed_situations(pair, pair.planted, 12)
    assert observation.sighting.sentence.endswith(
        "no worker generates them again until the connector runs"
    )


def test_older_tasks_are_those_of_the_same_life() -> None:
    """Situation 12 ignores deleted connectors, tasks from before a deletion and empty task sets."""
    pair = PAIRS[12]
    assert not observed_situations(pair, running().gone("a"), 12)
    assert not observed_situations(pair, reused(again=False), 12)
    assert not observed_situations(pair, running().tasks("a", 0).config("a", rows="2"), 12)


def test_a_deleted_connector_leaves_tasks() -> None:
    """Situation 13 is reported before and after the name is used again.

    The severity is INFO if no worker that the change starts is affected.
    """
    pair = PAIRS[13]
    log = running(tasks=2).gone("a")
    (observation,) = observed_situations(pair, log, 13)
    assert observation.sighting.severity is WARNING
    assert observation.sighting.sentence.startswith("was deleted, and the log still has 2 tasks")
    assert "Once compaction has removed the config's tombstone" in observation.sighting.sentence
    (observation,) = observed_situations(pair, pair.planted, 13)
    assert observation.sighting.sentence.startswith(
        "was deleted and created again, and the log still has 2 tasks"
    )
    (observation,) = observed_situations(pair._replace(start="3.4", goal="3.9"), log, 13)
    assert observation.sighting.severity is INFO
    (observation,) = observed_situations(pair, Planted().tasks("a", 1), 13)
    assert observation.sighting.connector == "a"
    assert observation.sighting.sentence == (
        "has no config, and the log still has 1 task of it. A starting worker of 3.4.1 gives them "
        "to a connector of this name"
    )
    (observation,) = observed_situations(pair, running().gone("a").tasks("a", 1), 13)
    assert "A starting worker of 3.4.1 gives them" in observation.sighting.sentence
    assert not observed_situations(pair, running().tasks("a", 0).gone("a"), 13)


def test_an_instance_that_never_reported_was_not_restarted() -> None:
    """Situation 8: a task without any status was not restarted, if the request includes tasks."""
    log = running(tasks=1)
    log.put(CONFIG, "restart-connector-a", {"include-tasks": True, "only-failed": False})
    (observation,) = observed_situations(PAIRS[8], log.status("connector-a", "RUNNING"), 8)
    assert [step.command for step in observation.sighting.steps] == [
        "controlplane restart task a/0"
    ]
    log = running(tasks=1)
    log.put(CONFIG, "restart-connector-a", {"include-tasks": False, "only-failed": False})
    assert not observed_situations(PAIRS[8], log.status("connector-a", "RUNNING"), 8)


def test_a_restart_of_failed_instances_expects_no_report_of_others() -> None:
    """Instances that had not failed need not report."""
    pair = PAIRS[8]
    log = running(tasks=2).status("task-a-0", "FAILED").status("task-a-1", "RUNNING")
    log.put(CONFIG, "restart-connector-a", {"include-tasks": True, "only-failed": True})
    (observation,) = observed_situations(pair, log, 8)
    assert [step.command for step in observation.sighting.steps] == [
        "controlplane restart task a/0"
    ]
    assert not observed_situations(pair, log.status("task-a-0", "RUNNING"), 8)


def test_an_aborted_end_of_the_config_topic_keeps_members_apart() -> None:
    """Workers disagree on the topic's end, although the aborted record only repeats a state."""
    pair = PAIRS[15]._replace(mode=RolloutMode.ROLLING)
    log = running().target("a", V2_PAUSED).abort().target("a", V2_PAUSED).commit()
    (observation,) = observed_situations(pair, log, 15)
    assert (observation.sighting.connector, observation.sighting.severity) == (None, DANGER)


def test_members_are_brought_together_by_any_record() -> None:
    """Any new record lets workers agree again: that of a repeated request, or a new connector."""
    pair = PAIRS[15]
    alone = Planted().abort().put(CONFIG, "commit-a", {"tasks": 0}).commit()
    commands = [
        observation.sighting.steps[0].command
        for log in (alone, running().abort().target("a", V2_PAUSED).commit())
        for observation in observed_situations(pair, log, 15)
        if not observation.sighting.connector
    ]
    assert commands == ["# create a connector", "controlplane resume a"]


@pytest.mark.parametrize(("number", "goal"), [(16, "2.8"), (19, "3.9")])
def test_a_change_from_2_0_has_neither_situation_16_nor_19(number: int, goal: str) -> None:
    """Situation 16 needs a release from 3.0 on, and 19 one from 4.1 on; these goals are older."""
    pair = PAIRS[number]._replace(start="2.0", goal=goal)
    assert not observed_situations(pair, pair.planted, number)


def test_a_value_that_is_no_object_is_no_envelope() -> None:
    """A list is a malformed value, not an envelope, even with the words of an envelope."""
    pair = PAIRS[16]
    log = running().put(CONFIG, "connector-b", ["payload", "schema"])
    assert not observed_situations(pair, log, 16)


def test_each_connector_has_its_own_aborted_records() -> None:
    """Each of two connectors in one aborted transaction gets only the records about itself."""
    log = running().config("b").tasks("b", 1)
    log.abort().target("a", V2_PAUSED).target("b", V2_PAUSED).commit().config("c")
    sighting, other = (
        observation.sighting for observation in observed_situations(PAIRS[15], log, 15)
    )
    assert (sighting.connector, other.connector) == ("a", "b")
    assert sighting.evidence == (log.entries[-3].position,)
    assert other.evidence == (log.entries[-2].position,)


def test_a_session_key_matters_only_in_rolling_changes() -> None:
    """With all workers stopped in between, the session key is information only."""
    pair = PAIRS[10]
    (mixed,) = observed_situations(pair, pair.planted, 10)
    assert mixed.sighting.sentence.endswith("the whole group falls back to unsigned ones")
    pair = pair._replace(mode=None)
    (observation,) = observed_situations(pair, pair.planted, 10)
    assert observation.sighting.severity is INFO
    assert observation.sighting.sentence.endswith("it ignores the session key")


def test_active_topics_of_a_downgrade_are_information() -> None:
    """In a downgrade, the active topics of an existing connector are information only."""
    pair = PAIRS[11]._replace(start="2.8", goal="2.4")
    (observation,) = observed_situations(pair, running().active("a", "t"), 11)
    assert observation.sighting.severity is INFO
