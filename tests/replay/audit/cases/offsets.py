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
    """The position of a running source falls from 9 to 4."""
    return PlantedLog().running("a").offset("a", {"position": 9}).offset("a", {"position": 4})


@holds("offsets-regressed", WARNING, "a", "offsets@1")
def file_fell() -> PlantedLog:
    """A source returns to a file with a lower number, and to a lower position."""
    log = PlantedLog().running("a").offset("a", {"file": "binlog.000010", "pos": 9})
    return log.offset("a", {"file": "binlog.000009", "pos": 4})


@resembles("offsets-regressed")
def next_file() -> PlantedLog:
    """The position falls because the next file begins."""
    log = PlantedLog().running("a").offset("a", {"file": "binlog.000009", "pos": 9})
    return log.offset("a", {"file": "binlog.000010", "pos": 4})


@resembles("offsets-regressed")
def two_partitions_of_a_source() -> PlantedLog:
    """Two tables of one source have the positions 9 and 4."""
    return PlantedLog().running("a").offset("a", {"n": 9}, "f").offset("a", {"n": 4}, "g")


@resembles("offsets-regressed")
def split() -> PlantedLog:
    """Records of one key lie in two partitions, so their order is unknown."""
    return PlantedLog().running("a").offset("a", {"n": 9}).offset("a", {"n": 4}, partition=3)


@resembles("offsets-regressed")
def began_again_after_a_reset() -> PlantedLog:
    """The offset 9 is removed, then 1 is written: a new beginning, not a regression."""
    log = PlantedLog().running("a").offset("a", {"n": 9}).tasks("a", 0).target("a", STOPPED)
    return log.offset("a", None).target("a", STARTED).tasks("a", 1).offset("a", {"n": 1})


@resembles("offsets-regressed")
def other_kind_of_offset() -> PlantedLog:
    """A new connector version writes other offset fields, which cannot be compared."""
    return PlantedLog().running("a").offset("a", {"n": 9}).offset("a", {"n": 4, "snapshot": False})


@holds("offsets-regressed", INFO, "a", "offsets@1")
def altered_back() -> PlantedLog:
    """The offset is set back while the connector is STOPPED (KIP-875)."""
    log = PlantedLog().running("a").offset("a", {"n": 9}).tasks("a", 0).target("a", STOPPED)
    return log.offset("a", {"n": 4})


# --- resets -----------------------------------------------------------------------------------


@holds("offsets-reset", INFO, "a", "offsets@2", "offsets@3")
def reset_while_stopped() -> PlantedLog:
    """Both offsets are removed while the connector is STOPPED: one reset, one finding."""
    log = PlantedLog().running("a").offset("a", {"n": 9}, "f").offset("a", {"n": 9}, "g")
    log.tasks("a", 0).target("a", STOPPED)
    return log.offset("a", None, "f").offset("a", None, "g")


@holds("offsets-reset", WARNING, "a", "offsets@1")
def reset_while_running() -> PlantedLog:
    """Another program removes an offset while the source is running."""
    return PlantedLog().running("a").offset("a", {"n": 9}).offset("a", None)


@resembles("offsets-reset")
def tombstones_without_an_offset() -> PlantedLog:
    """A tombstone without an earlier offset, and a repeated tombstone."""
    return PlantedLog().running("a").offset("a", None).offset("a", None)


# --- stalls -----------------------------------------------------------------------------------


@holds("source-stalled", WARNING, "a", "offsets@5")
def stalled() -> PlantedLog:
    """Offsets are written every minute, then none for a day, although the task is RUNNING."""
    return PlantedLog().running("a").moving("a", MINUTE).wait(DAY).config("other")


@holds("source-stalled", WARNING, "a", "offsets@5")
def repeats_one_offset() -> PlantedLog:
    """The connector repeats one offset: no progress."""
    log = PlantedLog().running("a").moving("a", MINUTE)
    for _ in range(5):
        log.wait(5 * HOUR).offset("a", {"position": 5})
    return log


@holds("source-stalled", INFO, "a", "offsets@5", "offsets@6")
def paused_then_continued() -> PlantedLog:
    """Offsets pause for a day and then continue."""
    return PlantedLog().running("a").moving("a", MINUTE).wait(DAY).offset("a", {"position": 6})


@holds("source-stalled", WARNING, "a", "offsets@5")
def stalled_after_an_outage() -> PlantedLog:
    """No worker runs for a day; then the task is RUNNING for two hours without an offset."""
    return shut_down(PlantedLog().running("a").moving("a", MINUTE)).wait(2 * HOUR).config("other")


@resembles("source-stalled")
def slow() -> PlantedLog:
    """Offsets are written once a day; only half a day has passed since the last one."""
    return PlantedLog().running("a").moving("a", DAY).wait(DAY // 2).config("other")


@resembles("source-stalled")
def paused() -> PlantedLog:
    """The connector is PAUSED for a day."""
    log = PlantedLog().running("a").moving("a", MINUTE).target("a", PAUSED)
    return log.wait(DAY).config("other")


@resembles("source-stalled")
def failed() -> PlantedLog:
    """The task has the status FAILED, and writes no offsets for a day."""
    log = PlantedLog().running("a").moving("a", MINUTE).status("task-a-0", "FAILED")
    return log.wait(DAY).config("other")


@resembles("source-stalled")
def failed_and_mended() -> PlantedLog:
    """The task failed, and was started again a day later."""
    log = PlantedLog().running("a").moving("a", MINUTE).status("task-a-0", "FAILED").wait(DAY)
    return log.status("task-a-0", "RUNNING").offset("a", {"position": 6})


@resembles("source-stalled")
def no_worker_runs() -> PlantedLog:
    """The whole cluster was shut down: the only task is UNASSIGNED."""
    log = PlantedLog().running("a").moving("a", MINUTE).status("task-a-0", "UNASSIGNED")
    return log.wait(DAY).config("other")


@resembles("source-stalled")
def continued_after_an_outage() -> PlantedLog:
    """No worker runs for a day; then the task runs again, and its offset moves."""
    log = shut_down(PlantedLog().running("a").moving("a", MINUTE))
    return log.offset("a", {"position": 6})


@resembles("source-stalled")
def started_just_now() -> PlantedLog:
    """No worker runs for a day; the task was started again seconds ago."""
    return shut_down(PlantedLog().running("a").moving("a", MINUTE)).config("other")


@resembles("source-stalled")
def moved_while_no_task_was_running() -> PlantedLog:
    """Another program writes an offset of a source whose only task is UNASSIGNED for a day."""
    log = PlantedLog().running("a").moving("a", MINUTE).status("task-a-0", "UNASSIGNED")
    return log.wait(DAY).offset("a", {"position": 6})


def shut_down(log: PlantedLog) -> PlantedLog:
    """Append a day without workers."""
    return log.status("task-a-0", "UNASSIGNED").wait(DAY).status("task-a-0", "RUNNING")


@resembles("source-stalled")
def set_by_hand() -> PlantedLog:
    """Six offsets are set while the connector is STOPPED; its tasks never wrote an offset."""
    log = PlantedLog().running("a").tasks("a", 0).target("a", STOPPED).moving("a", MINUTE)
    return log.wait(DAY).config("other")


@resembles("source-stalled")
def deleted() -> PlantedLog:
    """The connector is deleted, and writes no offsets for a day."""
    return PlantedLog().running("a").moving("a", MINUTE).deleted("a").wait(DAY).config("other")


# --- leftovers --------------------------------------------------------------------------------


@holds("offsets-orphaned", INFO, "a", "config@3", "offsets@0")
def orphan() -> PlantedLog:
    """An offset outlives its connector."""
    return PlantedLog().running("a").offset("a", {"n": 9}).deleted("a")


@holds("offsets-orphaned", INFO, "ghost", "offsets@0")
def never_seen() -> PlantedLog:
    """An offset belongs to a connector that has no config in this log."""
    return PlantedLog().running("a").offset("ghost", {"n": 9})


@resembles("offsets-orphaned")
def cleaned_up() -> PlantedLog:
    """The offset is removed before the connector is deleted."""
    log = PlantedLog().running("a").offset("a", {"n": 9}).tasks("a", 0).target("a", STOPPED)
    return log.offset("a", None).deleted("a")


@holds("offsets-inherited", WARNING, "a", "config@5", "config@3", "offsets@1")
def inherited() -> PlantedLog:
    """A recreated connector inherits an offset that was written after the deletion."""
    log = PlantedLog().running("a").offset("a", {"n": 8}).deleted("a").offset("a", {"n": 9})
    return log.running("a")


@resembles("offsets-inherited")
def created_again_after_a_reset() -> PlantedLog:
    """A connector is recreated after its offset was removed."""
    log = PlantedLog().running("a").offset("a", {"n": 9}).tasks("a", 0).target("a", STOPPED)
    return log.offset("a", None).deleted("a").running("a")


@resembles("offsets-inherited")
def created_with_offsets() -> PlantedLog:
    """A connector is recreated with offsets in the request (KIP-995)."""
    log = PlantedLog().running("a").deleted("a").by("ada", "17").offset("a", {"n": 9})
    return log.config("a")


@resembles("offsets-inherited")
def config_written_again() -> PlantedLog:
    """A connector with offsets gets a new config; it is not a new connector."""
    return PlantedLog().running("a").offset("a", {"n": 9}).config("a", rows="2")


# --- keys -------------------------------------------------------------------------------------


@holds("key-in-two-partitions", DANGER, "a", "offsets@0", "offsets@3:0")
def split_key() -> PlantedLog:
    """One raw key has different values in the partitions 0 and 3."""
    return PlantedLog().running("a").offset("a", {"n": 4}).offset("a", {"n": 9}, partition=3)


@holds("key-in-two-partitions", INFO, "a", "offsets@0", "offsets@3:0")
def split_key_that_agrees() -> PlantedLog:
    """One raw key has the same value in both partitions: no harm yet."""
    return PlantedLog().running("a").offset("a", {"n": 9}).offset("a", {"n": 9}, partition=3)


@resembles("key-in-two-partitions")
def one_key_each() -> PlantedLog:
    """Two source partitions, each with its key in one Kafka partition."""
    return PlantedLog().running("a").offset("a", {"n": 4}).offset("a", {"n": 9}, "g", partition=3)


@resembles("key-in-two-partitions")
def own_topic() -> PlantedLog:
    """One raw key in both the connector's own topic and the workers' topic."""
    return (
        PlantedLog()
        .running("a")
        .offset("a", {"n": 4})
        .put("own-offsets", '["a",{"file":"f"}]', {"n": 9})
    )
