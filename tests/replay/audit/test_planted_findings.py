"""Every audit finds each planted finding once, and none in a log that only resembles one."""

import pytest

from controlplane.core.fold import fold
from controlplane.core.releases.profiles import Profile
from controlplane.core.text.record_text import place
from controlplane.core.views import source_offsets
from replay.audit import audit
from replay.audit.kinds import KINDS
from tests.replay.audit.cases import configs, offsets, statuses
from tests.replay.audit.planted_log import TOPICS, AuditCase, PlantedLog

CASES = {
    f"{case.kind}-{name}": case
    for module in (configs, offsets, statuses)
    for name, case in vars(module).items()
    if isinstance(case, AuditCase)
}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_each_planted_finding_is_reported_once(case: AuditCase) -> None:
    """An audit reports the planted finding with its records, or no finding of its kind."""
    everything = audit(case.clusters())
    assert {finding.kind for finding in everything} <= set(KINDS)
    of_kind = [finding for finding in everything if finding.kind == case.kind]
    if case.severity is None:
        assert of_kind == []
        return
    about_it = [finding for finding in of_kind if finding.connector == case.connector]
    assert len(about_it) == 1, of_kind
    (finding,) = about_it
    assert finding.severity is case.severity
    assert [place(position, TOPICS) for position in finding.evidence] == list(case.evidence)
    assert finding.sentence
    assert finding.advice or finding.severity.value == "info"


def test_half_done_stops_have_their_own_reasons() -> None:
    """The sentence of the finding gives the reason that the order of the records proves."""
    for case, words in (
        (configs.stop_died_after_the_tasks, "a stop was interrupted before STOPPED"),
        (configs.resume_without_tasks, "was resumed and is RUNNING"),
        (configs.stop_without_task_set, "another program than a worker wrote STOPPED"),
        (configs.tasks_after_a_stop, "were committed after the stop, by a leader of a release"),
    ):
        (stop_finding,) = (
            finding for finding in audit(case.clusters()) if finding.kind == "stop-half-done"
        )
        assert words in stop_finding.sentence


def test_a_stall_does_not_count_time_without_workers() -> None:
    """The sentence about a stall after an outage counts the two hours since the restart."""
    case = offsets.stalled_after_an_outage
    (stall,) = (finding for finding in audit(case.clusters()) if finding.kind == case.kind)
    assert "is RUNNING but has made no progress for 2 hours" in stall.sentence
    assert stall.sentence.endswith("moved 6 times, at least every 61 seconds while it ran")


def test_unreadable_records_have_a_command_for_archives() -> None:
    """The advice names a command that reads logs and archives."""
    (finding,) = (each for each in audit(configs.rest_of_batch_lost.clusters()) if each.advice)
    assert finding.advice.startswith("`replay lint --hazards` shows the records at which")


def test_the_value_of_a_split_key_is_written_after_its_tombstone() -> None:
    """A tombstone in the other partition would remove a value that was written before it."""
    case = offsets.split_key
    (finding,) = (finding for finding in audit(case.clusters()) if finding.kind == case.kind)
    assert finding.advice.index("a tombstone") < finding.advice.index("the correct value")
    for is_advised in (True, False):
        log = PlantedLog().offset("a", {"n": 4}).offset("a", {"n": 9}, partition=3)
        if is_advised:
            log.offset("a", None, partition=3).offset("a", {"n": 9})
        else:
            log.offset("a", {"n": 9}).offset("a", None, partition=3)
        state = fold(log.entries, Profile.of("kip"))
        positions = [view.offset for view in source_offsets(state, "a")]
        assert positions == ([{"n": 9}] if is_advised else [])


def test_every_kind_is_planted_and_resembled() -> None:
    """Each kind of finding has a log with the finding, and a similar log without it."""
    kinds = {case.kind for case in CASES.values()}
    assert {case.kind for case in CASES.values() if case.severity is not None} == kinds
    assert {case.kind for case in CASES.values() if case.severity is None} == kinds
    assert kinds == set(KINDS)
