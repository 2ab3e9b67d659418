"""Logs with findings in status topics (flapping, zombies) and between clusters."""

from replay.findings import Severity
from tests.replay.audit.planted_log import HOUR, MINUTE, PlantedLog, holds, resembles

WARNING, DANGER = Severity.WARNING, Severity.DANGER


# --- flapping ---------------------------------------------------------------------------------


@holds("status-flapping", WARNING, "a", "status@2", "status@4", "status@6")
def fails_again_and_again() -> PlantedLog:
    """Three failures in six minutes, each time started again."""
    log = PlantedLog().running("a")
    for _ in range(3):
        log.wait(MINUTE).status("task-a-0", "FAILED", trace="java.lang.Error: broken\n\tat lab.X")
        log.wait(MINUTE).status("task-a-0", "RUNNING")
    return log


@resembles("status-flapping")
def fails_now_and_then() -> PlantedLog:
    """Return a log with three failures, an hour apart."""
    log = PlantedLog().running("a")
    for _ in range(3):
        log.wait(HOUR).status("task-a-0", "FAILED").wait(MINUTE).status("task-a-0", "RUNNING")
    return log


@resembles("status-flapping")
def says_it_again() -> PlantedLog:
    """One failure, reported again by each worker that starts."""
    log = PlantedLog().running("a")
    for generation in range(1, 5):
        log.status("task-a-0", "FAILED", generation=generation)
    return log


@resembles("status-flapping")
def all_fail_once() -> PlantedLog:
    """Ten tasks fail at once: the source is down, and nothing flaps."""
    log = PlantedLog().config("a").tasks("a", 10)
    for task in range(10):
        log.status(f"task-a-{task}", "RUNNING").status(f"task-a-{task}", "FAILED")
    return log


@holds("status-flapping", WARNING, "a", *(f"status@{2 * n}" for n in range(1, 11)))
def never_stays() -> PlantedLog:
    """Return a log with ten rebalances in less than ten minutes."""
    log = PlantedLog().running("a")
    for generation in range(2, 12):
        log.wait(50_000).status("task-a-0", "UNASSIGNED", generation=generation)
        log.status("task-a-0", "RUNNING", generation=generation)
    return log


@resembles("status-flapping")
def rolled() -> PlantedLog:
    """Three workers are rolled: the task moves three times, and rests."""
    log = PlantedLog().running("a")
    for generation in range(2, 5):
        log.wait(MINUTE).status("task-a-0", "UNASSIGNED", f"w{generation - 1}", generation - 1)
        log.status("task-a-0", "RUNNING", f"w{generation}", generation)
    return log


# --- two owners -------------------------------------------------------------------------------


@holds("two-owners", DANGER, "a", "status@1", "status@2")
def speaks_on() -> PlantedLog:
    """The second worker took over in generation 6; the first one still speaks in generation 5."""
    log = PlantedLog().config("a").tasks("a", 1)
    log.status("task-a-0", "RUNNING", "w1", 5).status("task-a-0", "RUNNING", "w2", 6)
    return log.status("task-a-0", "RUNNING", "w1", 5)


@holds("two-owners", DANGER, "a", "status@1", "status@2")
def both_in_one_generation() -> PlantedLog:
    """Both are in generation 5, and both run the task."""
    log = PlantedLog().config("a").tasks("a", 1).status("connector-a", "RUNNING", "w2", 5)
    return log.status("task-a-0", "RUNNING", "w1", 5).status("task-a-0", "RUNNING", "w2", 5)


@holds("two-owners", DANGER, "a", "status@0", "status@1")
def not_dead_after_all() -> PlantedLog:
    """Two claims in one generation; the first worker speaks again, about another connector."""
    log = PlantedLog().config("a").tasks("a", 1).status("task-a-0", "RUNNING", "w1", 1)
    return log.status("task-a-0", "RUNNING", "w2", 1).status("connector-b", "RUNNING", "w1", 1)


@resembles("two-owners")
def took_over_after_a_crash() -> PlantedLog:
    """The first worker died without a word; the second one has the task in a later generation."""
    log = PlantedLog().config("a").tasks("a", 1)
    return log.status("task-a-0", "RUNNING", "w1", 5).status("task-a-0", "RUNNING", "w2", 6)


@resembles("two-owners")
def gives_it_up_late() -> PlantedLog:
    """The first worker says UNASSIGNED after the second one runs it (KAFKA-12525)."""
    log = PlantedLog().config("a").tasks("a", 1)
    log.status("task-a-0", "RUNNING", "w1", 5).status("task-a-0", "RUNNING", "w2", 6)
    return log.status("task-a-0", "UNASSIGNED", "w1", 5)


@resembles("two-owners")
def there_and_back() -> PlantedLog:
    """From the first to the second and back, each time in a later generation."""
    log = PlantedLog().config("a").tasks("a", 1)
    log.status("task-a-0", "RUNNING", "w1", 5).status("task-a-0", "RUNNING", "w2", 6)
    return log.status("task-a-0", "RUNNING", "w1", 7)


@resembles("two-owners")
def group_began_anew() -> PlantedLog:
    """All workers were gone, and the group counts from 1 again: the same number by chance."""
    log = PlantedLog().config("a").tasks("a", 1).status("task-a-0", "RUNNING", "w1", 1)
    log.wait(HOUR).status("task-a-0", "RUNNING", "w2", 1)
    return log.status("connector-a", "RUNNING", "w1", 2)


@resembles("two-owners")
def group_began_anew_and_counts_on() -> PlantedLog:
    """The generation restarted and is at 5 again: this worker was not in the old generation 5."""
    log = PlantedLog().config("a").tasks("a", 1).status("task-a-0", "RUNNING", "w1", 6)
    log.status("connector-b", "RUNNING", "w2", 5)
    return log.status("task-a-0", "RUNNING", "w2", 5)


@resembles("two-owners")
def last_word_came_late() -> PlantedLog:
    """In generation 7 already when the first worker's word of generation 6 arrives."""
    log = PlantedLog().config("a").tasks("a", 1).status("connector-b", "RUNNING", "w2", 7)
    log.status("task-a-0", "RUNNING", "w1", 6)
    return log.status("task-a-0", "RUNNING", "w2", 7)


# --- two clusters -----------------------------------------------------------------------------


@holds("two-clusters-one-topic", DANGER, None, "status@5", "status@6")
def two_groups() -> PlantedLog:
    """One group counts from 40, another one from 3, and both go on."""
    log = PlantedLog().config("a")
    for step in range(3):
        log.status("connector-a", "RUNNING", "east", 40 + step)
        log.status("connector-a", "RUNNING", "west", 3 + step)
    return log.status("connector-a", "RUNNING", "east", 43)


@resembles("two-clusters-one-topic")
def one_group_that_began_anew() -> PlantedLog:
    """At 40 all are gone; it begins with 3 and catches up."""
    log = PlantedLog().config("a").status("connector-a", "RUNNING", "w1", 2)
    log.status("connector-a", "RUNNING", "w2", 40).status("connector-a", "RUNNING", "w1", 3)
    for generation in range(4, 45):
        log.status("connector-a", "RUNNING", "w1", generation)
        log.status("connector-b", "RUNNING", "w2", generation)
    return log


@resembles("two-clusters-one-topic")
def groups_that_begin_anew() -> PlantedLog:
    """Again and again all workers are gone: the first ones back count from 1."""
    log = PlantedLog().config("a")
    for turn in range(3):
        log.status("connector-b", "RUNNING", "w2", 40 + turn)
        log.status("connector-a", "RUNNING", "w1", 1).status("connector-a", "RUNNING", "w1", 2)
    return log


@resembles("two-clusters-one-topic")
def comes_back_lower() -> PlantedLog:
    """A last word of the old group comes late; then all are in the new one."""
    log = PlantedLog().config("a")
    for _ in range(3):
        log.status("connector-a", "RUNNING", "w1", 1).status("connector-b", "RUNNING", "w2", 40)
        log.status("connector-a", "RUNNING", "w1", 2).status("connector-b", "RUNNING", "w2", 3)
    return log


@holds("two-clusters-one-topic", DANGER, None, "config@0", "config@1")
def one_session_key() -> list[PlantedLog]:
    """Two clusters with one session key: it is one config topic."""
    key = "c2FtZS1rZXktZm9yLWJvdGg="
    return [PlantedLog().session_key(key), PlantedLog().config("b").session_key(key)]


@resembles("two-clusters-one-topic")
def a_key_each() -> list[PlantedLog]:
    """Each has its own, at the same place."""
    return [
        PlantedLog().session_key("b25lLWtleS1mb3ItZWFzdA=="),
        PlantedLog().session_key("b25lLWtleS1mb3Itd2VzdA=="),
    ]


@holds("two-clusters-one-topic", WARNING, "a", "status@2", "status@2")
def one_topic_from_two() -> list[PlantedLog]:
    """The same source was moved and never stopped where it was."""
    return [_source("a", "orders"), _source("a", "orders")]


@resembles("two-clusters-one-topic")
def moved() -> list[PlantedLog]:
    """The connector moved to another cluster; its topic is remembered in both."""
    return [_source("a", "orders").deleted("a"), _source("a", "orders")]


@resembles("two-clusters-one-topic")
def sinks() -> list[PlantedLog]:
    """Two sinks read one topic, which is what topics are for."""
    return [PlantedLog().running("a").active("a", "orders") for _ in range(2)]


@resembles("two-clusters-one-topic")
def two_sources_of_one_cluster() -> list[PlantedLog]:
    """Two sources of one cluster share a topic, which is probably intended."""
    return [
        _source("a", "orders").running("b").offset("b", {"n": 1}).active("b", "orders"),
        PlantedLog(),
    ]


def _source(name: str, topic: str) -> PlantedLog:
    return PlantedLog().running(name).offset(name, {"n": 1}).active(name, topic)
