"""Logs with findings in status topics (flapping, zombies) and about several clusters."""

from replay.findings import Severity
from tests.replay.audit.planted_log import HOUR, MINUTE, PlantedLog, holds, resembles

WARNING, DANGER = Severity.WARNING, Severity.DANGER


# --- flapping ---------------------------------------------------------------------------------


@holds("status-flapping", WARNING, "a", "status@2", "status@4", "status@6")
def fails_again_and_again() -> PlantedLog:
    """A task fails three times in six minutes and is started again each time."""
    log = PlantedLog().running("a")
    for _ in range(3):
        log.wait(MINUTE).status("task-a-0", "FAILED", trace="java.lang.Error: broken\n\tat lab.X")
        log.wait(MINUTE).status("task-a-0", "RUNNING")
    return log


@resembles("status-flapping")
def fails_now_and_then() -> PlantedLog:
    """A task fails three times, once an hour."""
    log = PlantedLog().running("a")
    for _ in range(3):
        log.wait(HOUR).status("task-a-0", "FAILED").wait(MINUTE).status("task-a-0", "RUNNING")
    return log


@resembles("status-flapping")
def one_failure_reported_again() -> PlantedLog:
    """One failure is reported in each of four generations; the task never runs in between."""
    log = PlantedLog().running("a")
    for generation in range(1, 5):
        log.status("task-a-0", "FAILED", generation=generation)
    return log


@resembles("status-flapping")
def all_fail_once() -> PlantedLog:
    """Ten tasks fail once each within seconds, because the source is down; no task flaps."""
    log = PlantedLog().config("a").tasks("a", 10)
    for task in range(10):
        log.status(f"task-a-{task}", "RUNNING").status(f"task-a-{task}", "FAILED")
    return log


@holds("status-flapping", WARNING, "a", *(f"status@{2 * n}" for n in range(1, 11)))
def moved_in_each_rebalance() -> PlantedLog:
    """Ten rebalances within ten minutes interrupt the task: UNASSIGNED, then RUNNING again."""
    log = PlantedLog().running("a")
    for generation in range(2, 12):
        log.wait(50_000).status("task-a-0", "UNASSIGNED", generation=generation)
        log.status("task-a-0", "RUNNING", generation=generation)
    return log


@resembles("status-flapping")
def rolled() -> PlantedLog:
    """Workers are restarted one by one: the task moves three times, and then stays."""
    log = PlantedLog().running("a")
    for generation in range(2, 5):
        log.wait(MINUTE).status("task-a-0", "UNASSIGNED", f"w{generation - 1}", generation - 1)
        log.status("task-a-0", "RUNNING", f"w{generation}", generation)
    return log


# --- two owners -------------------------------------------------------------------------------


@holds("two-owners", DANGER, "a", "status@1", "status@2")
def old_owner_still_reports() -> PlantedLog:
    """The second worker owns the task in generation 6; the first still reports in generation 5."""
    log = PlantedLog().config("a").tasks("a", 1)
    log.status("task-a-0", "RUNNING", "w1", 5).status("task-a-0", "RUNNING", "w2", 6)
    return log.status("task-a-0", "RUNNING", "w1", 5)


@holds("two-owners", DANGER, "a", "status@1", "status@2")
def both_in_one_generation() -> PlantedLog:
    """`w2` is in generation 5; then `w1` and `w2` both report the task RUNNING in generation 5."""
    log = PlantedLog().config("a").tasks("a", 1).status("connector-a", "RUNNING", "w2", 5)
    return log.status("task-a-0", "RUNNING", "w1", 5).status("task-a-0", "RUNNING", "w2", 5)


@holds("two-owners", DANGER, "a", "status@0", "status@1")
def first_owner_still_alive() -> PlantedLog:
    """Two workers claim the task in one generation; later `w1` still reports `connector-b`."""
    log = PlantedLog().config("a").tasks("a", 1).status("task-a-0", "RUNNING", "w1", 1)
    return log.status("task-a-0", "RUNNING", "w2", 1).status("connector-b", "RUNNING", "w1", 1)


@resembles("two-owners")
def took_over_after_a_crash() -> PlantedLog:
    """The first worker crashed; the second one has the task in a later generation."""
    log = PlantedLog().config("a").tasks("a", 1)
    return log.status("task-a-0", "RUNNING", "w1", 5).status("task-a-0", "RUNNING", "w2", 6)


@resembles("two-owners")
def late_unassigned() -> PlantedLog:
    """The first worker reports UNASSIGNED after the second reports RUNNING (KAFKA-12525)."""
    log = PlantedLog().config("a").tasks("a", 1)
    log.status("task-a-0", "RUNNING", "w1", 5).status("task-a-0", "RUNNING", "w2", 6)
    return log.status("task-a-0", "UNASSIGNED", "w1", 5)


@resembles("two-owners")
def moved_and_returned() -> PlantedLog:
    """The task moves to the second worker and back, each time in a later generation."""
    log = PlantedLog().config("a").tasks("a", 1)
    log.status("task-a-0", "RUNNING", "w1", 5).status("task-a-0", "RUNNING", "w2", 6)
    return log.status("task-a-0", "RUNNING", "w1", 7)


@resembles("two-owners")
def group_restarted() -> PlantedLog:
    """All workers stopped, and the new group reaches the same generation number by chance."""
    log = PlantedLog().config("a").tasks("a", 1).status("task-a-0", "RUNNING", "w1", 1)
    log.wait(HOUR).status("task-a-0", "RUNNING", "w2", 1)
    return log.status("connector-a", "RUNNING", "w1", 2)


@resembles("two-owners")
def group_restarted_and_reached_the_number() -> PlantedLog:
    """`w1` reports generation 6; later, `w2` joins generation 5 of the restarted group."""
    log = PlantedLog().config("a").tasks("a", 1).status("task-a-0", "RUNNING", "w1", 6)
    log.status("connector-b", "RUNNING", "w2", 5)
    return log.status("task-a-0", "RUNNING", "w2", 5)


@resembles("two-owners")
def last_report_came_late() -> PlantedLog:
    """A report of `w1` in generation 6 arrives between two reports of `w2` in generation 7."""
    log = PlantedLog().config("a").tasks("a", 1).status("connector-b", "RUNNING", "w2", 7)
    log.status("task-a-0", "RUNNING", "w1", 6)
    return log.status("task-a-0", "RUNNING", "w2", 7)


# --- two clusters -----------------------------------------------------------------------------


@holds("two-clusters-one-topic", DANGER, None, "status@5", "status@6")
def two_groups() -> PlantedLog:
    """One group counts generations from 40, another one from 3; both continue."""
    log = PlantedLog().config("a")
    for step in range(3):
        log.status("connector-a", "RUNNING", "east", 40 + step)
        log.status("connector-a", "RUNNING", "west", 3 + step)
    return log.status("connector-a", "RUNNING", "east", 43)


@resembles("two-clusters-one-topic")
def one_group_that_restarted() -> PlantedLog:
    """All workers stop in generation 40; the restarted group reports 3, and later passes 40."""
    log = PlantedLog().config("a").status("connector-a", "RUNNING", "w1", 2)
    log.status("connector-a", "RUNNING", "w2", 40).status("connector-a", "RUNNING", "w1", 3)
    for generation in range(4, 45):
        log.status("connector-a", "RUNNING", "w1", generation)
        log.status("connector-b", "RUNNING", "w2", generation)
    return log


@resembles("two-clusters-one-topic")
def groups_that_restart() -> PlantedLog:
    """The group restarts three times at generation 1; `w1` always rejoins first."""
    log = PlantedLog().config("a")
    for turn in range(3):
        log.status("connector-b", "RUNNING", "w2", 40 + turn)
        log.status("connector-a", "RUNNING", "w1", 1).status("connector-a", "RUNNING", "w1", 2)
    return log


@resembles("two-clusters-one-topic")
def returns_in_a_lower_generation() -> PlantedLog:
    """Three times, a late report of the old group arrives between reports of the new group."""
    log = PlantedLog().config("a")
    for _ in range(3):
        log.status("connector-a", "RUNNING", "w1", 1).status("connector-b", "RUNNING", "w2", 40)
        log.status("connector-a", "RUNNING", "w1", 2).status("connector-b", "RUNNING", "w2", 3)
    return log


@holds("two-clusters-one-topic", DANGER, None, "config@0", "config@1")
def one_session_key() -> list[PlantedLog]:
    """Two clusters have the same session key, so they share a config topic."""
    key = "c2FtZS1rZXktZm9yLWJvdGg="
    return [PlantedLog().session_key(key), PlantedLog().config("b").session_key(key)]


@resembles("two-clusters-one-topic")
def different_session_keys() -> list[PlantedLog]:
    """Two clusters have different session keys at the same offset."""
    return [
        PlantedLog().session_key("b25lLWtleS1mb3ItZWFzdA=="),
        PlantedLog().session_key("b25lLWtleS1mb3Itd2VzdA=="),
    ]


@holds("two-clusters-one-topic", WARNING, "a", "status@2", "status@2")
def one_topic_from_two() -> list[PlantedLog]:
    """Sources of two clusters write one topic: a moved source still runs in the first cluster."""
    return [_source("a", "orders"), _source("a", "orders")]


@resembles("two-clusters-one-topic")
def moved() -> list[PlantedLog]:
    """The connector moved to another cluster; both clusters list its topic as active."""
    return [_source("a", "orders").deleted("a"), _source("a", "orders")]


@resembles("two-clusters-one-topic")
def sinks() -> list[PlantedLog]:
    """Sinks of two clusters read one topic, which is normal."""
    return [PlantedLog().running("a").active("a", "orders") for _ in range(2)]


@resembles("two-clusters-one-topic")
def two_sources_of_one_cluster() -> list[PlantedLog]:
    """Two sources of one cluster write one topic, which is probably intended."""
    return [
        _source("a", "orders").running("b").offset("b", {"n": 1}).active("b", "orders"),
        PlantedLog(),
    ]


def _source(name: str, topic: str) -> PlantedLog:
    return PlantedLog().running(name).offset(name, {"n": 1}).active(name, topic)
