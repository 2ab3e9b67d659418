"""Logs with findings in offsets topics: regressions, resets, stalls, leftovers, split keys."""

from replay.findings import Severity
from tests.replay.audit.planted_log import (
    DAY,
    HOUR,
    MINUTE,
    PAUSED,
    STARTED,
    STOPPED,
    PlantedLog,
    holds,
    resembles,
)

INFO, WARNING, DANGER = Severity.INFO, Severity.WARNING, Severity.DANGER


# --- regressions ------------------------------------------------------------------------------


@holds("offsets-regressed", WARNING, "a", "offsets@1")
def position_fell() -> PlantedLog:
    """A running source is at 4 after it was at 9."""
    return PlantedLog().running("a").offset("a", {"position": 9}).offset("a", {"position": 4})


@holds("offsets-regressed", WARNING, "a", "offsets@1")
def file_fell() -> PlantedLog:
    """An earlier file, told by the number at the end of its name; the position fell with it."""
    log = PlantedLog().running("a").offset("a", {"file": "binlog.000010", "pos": 9})
    return log.offset("a", {"file": "binlog.000009", "pos": 4})


@resembles("offsets-regressed")
def next_file() -> PlantedLog:
    """The position falls because the next file begins."""
    log = PlantedLog().running("a").offset("a", {"file": "binlog.000009", "pos": 9})
    return log.offset("a", {"file": "binlog.000010", "pos": 4})


@resembles("offsets-regressed")
def two_partitions_of_a_source() -> PlantedLog:
    """One table is at 9, another one at 4."""
    return PlantedLog().running("a").offset("a", {"n": 9}, "f").offset("a", {"n": 4}, "g")


@resembles("offsets-regressed")
def split() -> PlantedLog:
    """One key lies in two partitions, so the order of its records is unknown."""
    return PlantedLog().running("a").offset("a", {"n": 9}).offset("a", {"n": 4}, partition=3)


@resembles("offsets-regressed")
def began_again_after_a_reset() -> PlantedLog:
    """At 9, then taken away, then at 1: that is no way back but a beginning."""
    log = PlantedLog().running("a").offset("a", {"n": 9}).tasks("a", 0).target("a", STOPPED)
    return log.offset("a", None).target("a", STARTED).tasks("a", 1).offset("a", {"n": 1})


@resembles("offsets-regressed")
def other_kind_of_offset() -> PlantedLog:
    """A new version of the connector keeps other fields: nothing can be compared."""
    return PlantedLog().running("a").offset("a", {"n": 9}).offset("a", {"n": 4, "snapshot": False})


@holds("offsets-regressed", INFO, "a", "offsets@1")
def altered_back() -> PlantedLog:
    """Set back while it was STOPPED, as KIP-875 has it."""
    log = PlantedLog().running("a").offset("a", {"n": 9}).tasks("a", 0).target("a", STOPPED)
    return log.offset("a", {"n": 4})


# --- resets -----------------------------------------------------------------------------------


@holds("offsets-reset", INFO, "a", "offsets@2", "offsets@3")
def reset_while_stopped() -> PlantedLog:
    """Both offsets are taken away while it is STOPPED: one reset, one finding."""
    log = PlantedLog().running("a").offset("a", {"n": 9}, "f").offset("a", {"n": 9}, "g")
    log.tasks("a", 0).target("a", STOPPED)
    return log.offset("a", None, "f").offset("a", None, "g")


@holds("offsets-reset", WARNING, "a", "offsets@1")
def reset_while_running() -> PlantedLog:
    """By a foreign hand, under a source that runs."""
    return PlantedLog().running("a").offset("a", {"n": 9}).offset("a", None)


@resembles("offsets-reset")
def tombstones_of_nothing() -> PlantedLog:
    """A tombstone where there was no offset, and a second one."""
    return PlantedLog().running("a").offset("a", None).offset("a", None)


# --- stalls -----------------------------------------------------------------------------------


@holds("source-stalled", WARNING, "a", "offsets@5")
def stands_still() -> PlantedLog:
    """Every minute, and then not for a day, though its task is RUNNING."""
    return PlantedLog().running("a").moving("a", MINUTE).wait(DAY).config("other")


@holds("source-stalled", WARNING, "a", "offsets@5")
def says_the_same() -> PlantedLog:
    """The connector repeats one offset: no progress."""
    log = PlantedLog().running("a").moving("a", MINUTE)
    for _ in range(5):
        log.wait(5 * HOUR).offset("a", {"position": 5})
    return log


@holds("source-stalled", INFO, "a", "offsets@5", "offsets@6")
def stood_still() -> PlantedLog:
    """A day without news, and on it goes."""
    return PlantedLog().running("a").moving("a", MINUTE).wait(DAY).offset("a", {"position": 6})


@resembles("source-stalled")
def slow() -> PlantedLog:
    """The connector moves once a day, and the day is not over."""
    return PlantedLog().running("a").moving("a", DAY).wait(DAY // 2).config("other")


@resembles("source-stalled")
def paused() -> PlantedLog:
    log = PlantedLog().running("a").moving("a", MINUTE).target("a", PAUSED)
    return log.wait(DAY).config("other")


@resembles("source-stalled")
def failed() -> PlantedLog:
    """The task failed; the status tells that."""
    log = PlantedLog().running("a").moving("a", MINUTE).status("task-a-0", "FAILED")
    return log.wait(DAY).config("other")


@resembles("source-stalled")
def failed_and_mended() -> PlantedLog:
    """The task failed, and was started again a day later."""
    log = PlantedLog().running("a").moving("a", MINUTE).status("task-a-0", "FAILED").wait(DAY)
    return log.status("task-a-0", "RUNNING").offset("a", {"position": 6})


@resembles("source-stalled")
def nobody_runs_it() -> PlantedLog:
    """The whole cluster was shut down."""
    log = PlantedLog().running("a").moving("a", MINUTE).status("task-a-0", "UNASSIGNED")
    return log.wait(DAY).config("other")


@resembles("source-stalled")
def set_by_hand() -> PlantedLog:
    """Six offsets are set while it is STOPPED; its tasks said no last word."""
    log = PlantedLog().running("a").tasks("a", 0).target("a", STOPPED).moving("a", MINUTE)
    return log.wait(DAY).config("other")


@resembles("source-stalled")
def deleted() -> PlantedLog:
    return PlantedLog().running("a").moving("a", MINUTE).deleted("a").wait(DAY).config("other")


# --- leftovers --------------------------------------------------------------------------------


@holds("offsets-orphaned", INFO, "a", "config@3", "offsets@0")
def orphan() -> PlantedLog:
    """Return a log in which an offset outlives its connector."""
    return PlantedLog().running("a").offset("a", {"n": 9}).deleted("a")


@holds("offsets-orphaned", INFO, "ghost", "offsets@0")
def never_seen() -> PlantedLog:
    """An offset of a name that has no config in this log."""
    return PlantedLog().running("a").offset("ghost", {"n": 9})


@resembles("offsets-orphaned")
def cleaned_up() -> PlantedLog:
    """The offset was removed before the connector was deleted."""
    log = PlantedLog().running("a").offset("a", {"n": 9}).tasks("a", 0).target("a", STOPPED)
    return log.offset("a", None).deleted("a")


@holds("offsets-inherited", WARNING, "a", "config@5", "config@3", "offsets@1")
def inherited() -> PlantedLog:
    """Created again, with the offset of its former life; the last one came after the deletion."""
    log = PlantedLog().running("a").offset("a", {"n": 8}).deleted("a").offset("a", {"n": 9})
    return log.running("a")


@resembles("offsets-inherited")
def created_again_after_a_reset() -> PlantedLog:
    """Created again, and nothing was left."""
    log = PlantedLog().running("a").offset("a", {"n": 9}).tasks("a", 0).target("a", STOPPED)
    return log.offset("a", None).deleted("a").running("a")


@resembles("offsets-inherited")
def brings_its_own() -> PlantedLog:
    """Created again by a command that brings its offsets along (KIP-995)."""
    log = PlantedLog().running("a").deleted("a").by("ada", "17").offset("a", {"n": 9})
    return log.config("a")


@resembles("offsets-inherited")
def config_written_again() -> PlantedLog:
    """A connector with offsets gets a new config: it stays the same connector."""
    return PlantedLog().running("a").offset("a", {"n": 9}).config("a", rows="2")


# --- keys -------------------------------------------------------------------------------------


@holds("key-in-two-partitions", DANGER, "a", "offsets@0", "offsets@3:0")
def split_key() -> PlantedLog:
    """One raw key in partitions 0 and 3, with different values."""
    return PlantedLog().running("a").offset("a", {"n": 4}).offset("a", {"n": 9}, partition=3)


@holds("key-in-two-partitions", INFO, "a", "offsets@0", "offsets@3:0")
def split_key_that_agrees() -> PlantedLog:
    """The same value in both: no harm yet."""
    return PlantedLog().running("a").offset("a", {"n": 9}).offset("a", {"n": 9}, partition=3)


@resembles("key-in-two-partitions")
def one_key_each() -> PlantedLog:
    """Two source partitions, each in a partition of its own."""
    return PlantedLog().running("a").offset("a", {"n": 4}).offset("a", {"n": 9}, "g", partition=3)


@resembles("key-in-two-partitions")
def own_topic() -> PlantedLog:
    """The same raw key in two topics: the connector's own, and the worker's."""
    return (
        PlantedLog()
        .running("a")
        .offset("a", {"n": 4})
        .put("own-offsets", '["a",{"file":"f"}]', {"n": 9})
    )
