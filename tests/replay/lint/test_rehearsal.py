"""Rehearsals of a compaction and a restart, compared with a real cluster that went through both."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.core.entry import Entry
from controlplane.core.fold import fold
from controlplane.core.releases.profiles import PROFILES, RELEASES, Profile
from controlplane.core.state import Topics
from controlplane.logs.dumps import read_dump
from controlplane.scenario.story import StoryStep, read_story
from replay.findings import Finding, Severity
from replay.lint import cleaned, lint
from tests.conftest import FEWER_EXAMPLES
from tests.laws.entries import logs
from tests.replay.compat.planted_log import (
    CONFIG,
    STATUS,
    STOPPED,
    Planted,
    running,
    stopped,
)

LOSES = "tasks-lost"
ZOMBIES = "zombie-tasks"
FIXED = "3.7.1"
"""Release that fixed KAFKA-16838 and introduced KAFKA-17719."""


@pytest.fixture(scope="module")
def log(histories: Path) -> list[Entry]:
    """Real log, just before Kafka's cleaner compacted it."""
    return read_dump(histories / "compacted-3.9.before.log.jsonl").entries


@pytest.fixture(scope="module")
def story(histories: Path) -> dict[int, StoryStep]:
    """Steps of the story, by number."""
    return {step.n: step for step in read_story(histories / "compacted-3.9.story.jsonl")}


def findings_above_info(findings: list[Finding]) -> set[tuple[str | None, str]]:
    """Connector and kind of each finding above INFO."""
    return {
        (finding.connector, finding.kind)
        for finding in findings
        if finding.severity is not Severity.INFO
    }


TARGETED = RELEASES[RELEASES.index("0.10.0.0") :]
"""Releases that read the real log to its end. Older workers fail at its commit `{"tasks":0}`."""


@pytest.mark.parametrize("release", TARGETED)
def test_only_the_affected_connector_of_the_recorded_log_is_found(
    log: list[Entry], release: str
) -> None:
    """From 3.7.1 on, connector `quiet` loses its tasks; before, `deleted` gets its tasks back.

    No other finding is above INFO.
    """
    mended = RELEASES.index(release) >= RELEASES.index(FIXED)
    wrong = {("quiet", LOSES)} if mended else {("deleted", ZOMBIES)}
    assert findings_above_info(lint(log, Profile.of(release))) == wrong


def test_a_lost_task_set_is_reported_with_advice(log: list[Entry]) -> None:
    """The finding names the commit, the later config, and the remedy."""
    (finding,) = lint(log, Profile.of("3.9.1"), cluster="lab")
    assert (finding.cluster, finding.connector, finding.kind) == ("lab", "quiet", LOSES)
    assert finding.severity is Severity.DANGER
    keys = [entry.key for entry in log if entry.position in finding.evidence]
    assert keys == [b"commit-quiet", b"connector-quiet"]
    assert "loses 2 tasks" in finding.sentence
    assert finding.advice == "controlplane resume --wait quiet; controlplane pause quiet"


AFTER_COMPACTION = {"3.9.1": 20, "3.4.1": 23}
"""Step of the story, by release, that first observes a worker started on the compacted log."""


@pytest.mark.parametrize("release", AFTER_COMPACTION)
def test_the_restarted_worker_did_as_predicted(
    log: list[Entry], story: dict[int, StoryStep], release: str
) -> None:
    """A worker that starts after compaction runs the predicted tasks of `quiet`: two, or none."""
    names = story[12].answers["/connectors/quiet"]
    assert len(names.answer["tasks"]) == 2
    after = story[AFTER_COMPACTION[release]]
    lost = ("quiet", LOSES) in findings_above_info(lint(log, Profile.of(release)))
    assert len(after.answers["/connectors/quiet"].answer["tasks"]) == (0 if lost else 2)


def test_tasks_of_the_deleted_connector_did_return(
    log: list[Entry], story: dict[int, StoryStep]
) -> None:
    """`deleted`, created again with a class without tasks, ran two tasks on 3.4 and none on 3.9."""
    for release, number in (("3.4.1", 25), ("3.9.1", 31)):
        is_reported = ("deleted", ZOMBIES) in findings_above_info(lint(log, Profile.of(release)))
        answer = story[number].answers["/connectors/deleted"].answer
        assert len(answer["tasks"]) == (2 if is_reported else 0)


def test_kafka_removed_no_other_records(log: list[Entry], histories: Path) -> None:
    """Each record that only Kafka removed has a later record of its key, written after `log`."""
    real = read_dump(histories / "compacted-3.9.log.jsonl").entries
    kept = {entry.position for entry in real}
    rewritten = {(entry.topic, entry.key) for entry in real if entry.offset >= _end(log, entry)}
    ours = {entry.position for entry in cleaned(log, Topics(), tombstones=False)}
    lost = [entry for entry in log if entry.position in ours - kept]
    assert lost
    assert all((entry.topic, entry.key) in rewritten for entry in lost)


def _end(log: list[Entry], entry: Entry) -> int:
    """End offset of an entry's partition in a log."""
    place = entry.topic, entry.partition
    return max(
        (other.offset + 1 for other in log if (other.topic, other.partition) == place), default=0
    )


# --- for each kind of finding, a log with it and a similar log without it ------------------------

PAUSED = {"state": "PAUSED"}


def half_a_set() -> Planted:
    """Set of two tasks, then an uncommitted config for one of them."""
    log = running(tasks=2)
    return log.put(CONFIG, "task-a-1", {"properties": {"task": "1b"}})


KINDS: dict[str, tuple[str, Planted, Planted]] = {
    LOSES: (
        "3.9",
        running().target("a", PAUSED).config("a", rows="2"),
        running().target("a", PAUSED).config("a", rows="2").tasks("a", 1),
    ),
    ZOMBIES: ("3.4", running().gone("a"), running().gone("a").tasks("a", 0)),
    "inconsistent": ("3.9", half_a_set(), half_a_set().tasks("a", 2)),
    "status-lost": (
        "3.4",
        running().status("connector-a", "STOPPED"),
        stopped().status("connector-a", "PAUSED"),
    ),
    "chokes": (
        "0.9.0.1",
        Planted().config("a").tasks("a", 1).put(CONFIG, "task-a-0", {"properties": {}}),
        Planted().config("a").tasks("a", 1),
    ),
}
"""By kind: a release, a log with the finding, and a similar log without it."""


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_finding_is_found_once(kind: str) -> None:
    """Each kind is found once, with existing records as evidence."""
    release, planted, _ = KINDS[kind]
    (finding,) = (
        finding for finding in lint(planted.entries, Profile.of(release)) if finding.kind == kind
    )
    assert finding.connector == (None if kind == "chokes" else "a")  # `chokes` names a record's key
    assert {*finding.evidence} <= {entry.position for entry in planted.entries}
    assert finding.evidence


def test_every_record_that_throws_is_found() -> None:
    """All commits that old workers cannot read after compaction are found.

    This log has two commits; compaction removes the task configs before them.
    """
    log = Planted()
    for name in "ab":
        log.config(name).tasks(name, 1).put(CONFIG, f"task-{name}-0", {"properties": {}})
    keys = {entry.position: entry.key for entry in log.entries}
    findings = lint(log.entries, Profile.of("0.9.0.1"))
    thrown = [finding.evidence for finding in findings if finding.kind == "chokes"]
    assert [[keys[place] for place in evidence] for evidence in thrown] == [
        [b"commit-a"],
        [b"commit-b"],
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_similar_logs_have_no_finding(kind: str) -> None:
    """A similar log without the cause of a finding does not have the finding."""
    release, _, alike = KINDS[kind]
    assert kind not in {finding.kind for finding in lint(alike.entries, Profile.of(release))}


def test_statuses_of_a_deleted_connector_return() -> None:
    """A tombstone of a connector's status hides the statuses of its tasks until it is removed.

    With a tombstone for the task, too, no status returns.
    """
    log = running().status("task-a-0", "RUNNING").gone("a").status("connector-a", None)
    (finding,) = lint(log.entries, Profile.of("3.9"))
    assert finding.kind == "status-returns"
    assert finding.sentence.endswith("once compaction has removed the log's tombstones, too")
    assert not lint(log.put(STATUS, "status-task-a-0", None).entries, Profile.of("3.9"))


def test_workers_generate_tasks_again() -> None:
    """A finding about lost tasks says when a worker generates them again.

    A running connector gets its tasks again from its worker. A paused connector gets none until it
    runs. Tasks that were written after the deletion of their connector are no finding.
    """
    profile = Profile.of("3.9")
    (finding,) = lint(running().config("a", rows="2").entries, profile)
    assert finding.sentence.endswith("The worker that runs the connector generates them again")
    (finding,) = lint(KINDS[LOSES][1].entries, profile)
    assert finding.sentence.endswith("No worker generates them again until the connector runs")
    assert not lint(Planted().config("a").gone("a").tasks("a", 1).entries, profile)


def test_a_running_connector_heals() -> None:
    """The tasks of a running connector are generated again, so the finding has no advice."""
    (finding,) = lint(running().config("a", rows="2").entries, Profile.of("3.9"))
    assert (finding.kind, finding.severity, finding.advice) == (LOSES, Severity.WARNING, "")


def test_advice_is_a_line_for_a_shell() -> None:
    """The advice resumes and pauses a paused connector; running and stopped ones need no advice."""
    profile, again = Profile.of("3.9"), "controlplane resume --wait a; controlplane pause a"
    paused = half_a_set().target("a", PAUSED)
    for log, advice in ((KINDS[LOSES][1], again), (half_a_set(), ""), (paused, again)):
        assert lint(log.entries, profile)[0].advice == advice
    log = running().target("a", STOPPED).config("a", rows="2")
    (finding,) = lint(log.entries, profile)
    assert (finding.kind, finding.severity, finding.advice) == (LOSES, Severity.INFO, "")


def test_changed_readings_are_named(histories: Path) -> None:
    """The sentence names the changed setting, or the source partition of a changed offset."""
    entries = read_dump(histories / "aborted-3.9.log.jsonl").entries
    sentences = [finding.sentence for finding in lint(entries, Profile.of("3.4"))]
    assert any("config tasks.max: 1 → ∅" in sentence for sentence in sentences)
    assert any('source offset {"page":9}: {"row": 1} → ∅' in sentence for sentence in sentences)


def test_secrets_are_hidden() -> None:
    """A finding that shows the values of a changed setting hides secret values."""
    log = Planted().config("a", password="s3cret").abort().config("a", password="other s3cret")
    text = " ".join(finding.sentence for finding in lint(log.entries, Profile.of("3.9")))
    assert "config password: [hidden] → [hidden]" in text
    assert "s3cret" not in text


# --- laws -----------------------------------------------------------------------------------------


@settings(max_examples=FEWER_EXAMPLES)
@given(log=logs(), tombstones=st.booleans())
def test_cleaning_twice_is_cleaning_once(log: list[Entry], tombstones: Any) -> None:
    """A second cleaning removes nothing from the cleaned log."""
    once = cleaned(log, Topics(), tombstones=tombstones)
    assert cleaned(once, Topics(), tombstones=tombstones) == once
    assert {entry.position for entry in once} <= {entry.position for entry in log}


OPERATIONS: list[Callable[[Planted, str], Planted]] = [
    lambda log, name: log.config(name),
    lambda log, name: log.tasks(name, 1),
    lambda log, name: log.tasks(name, 2),
    lambda log, name: log.target(name, STOPPED),
    lambda log, name: log.target(name, {"state": "PAUSED"}),
    lambda log, name: log.status(f"connector-{name}", "RUNNING"),
    lambda log, name: log.status(f"task-{name}-0", "FAILED"),
    lambda log, name: log.offset(name, 1),
]


@st.composite
def lives(draw: st.DrawFn) -> list[Entry]:
    """Logs of two connectors that have configs from the start, so a log can be without findings."""
    log = Planted().config("a").config("b")
    steps = st.tuples(st.sampled_from(OPERATIONS), st.sampled_from("ab"))
    for operation, name in draw(st.lists(steps, max_size=8)):
        operation(log, name)
    return log.entries


@pytest.mark.slow
@settings(max_examples=FEWER_EXAMPLES)
@given(log=logs(), profile=st.sampled_from(PROFILES))
def test_any_log_can_be_rehearsed(log: list[Entry], profile: Profile) -> None:
    """A rehearsal of any bytes ends; without findings, no view changes."""
    check_rehearsal(log, profile)


@given(log=lives(), profile=st.sampled_from(PROFILES))
def test_no_view_changes_without_a_finding(log: list[Entry], profile: Profile) -> None:
    """Without findings, a cleaning of two connectors changes no view; most logs have no finding."""
    check_rehearsal(log, profile)


def check_rehearsal(log: list[Entry], profile: Profile) -> None:
    """Check that a cleaning without findings changes no view, and that findings have sentences."""
    findings = lint(log, profile)
    if not findings:
        check_views(log, profile)
    assert all(finding.sentence for finding in findings)


def check_views(log: list[Entry], profile: Profile) -> int:
    """Compare the views before and after a cleaning; return the number of connectors."""
    before = fold(log, profile)
    after = fold(cleaned(log, Topics(), tombstones=True), profile)
    assert after.config.connectors == before.config.connectors
    assert after.config.targets == before.config.targets
    for name in before.config.connectors:
        assert after.config.task_ids(name) == before.config.task_ids(name)
    assert after.status.connectors == before.status.connectors
    return len(before.config.connectors)


@pytest.mark.parametrize("sound", [running(tasks=2), stopped()], ids=["running", "stopped"])
def test_a_sound_connector_has_no_finding(sound: Planted) -> None:
    """A sound connector has no finding, and a cleaning leaves it as it is.

    The laws above compare views only of logs without findings: this shows that such logs exist.
    """
    assert lint(sound.entries, Profile.of("3.9")) == []
    assert check_views(sound.entries, Profile.of("3.9")) == 1
