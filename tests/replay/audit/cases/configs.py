"""Logs with findings in config topics: changes, half-done commands, restarts, secrets."""

from replay.findings import Severity
from tests.replay.audit.planted_log import (
    HOUR,
    MINUTE,
    PAUSED,
    STARTED,
    STOPPED,
    TOPICS,
    PlantedLog,
    holds,
    resembles,
)

INFO, WARNING = Severity.INFO, Severity.WARNING

# --- changes ---------------------------------------------------------------------------------


@holds("connector-created", INFO, "a", "config@0")
def created() -> PlantedLog:
    """A connector is created."""
    return PlantedLog().config("a")


@resembles("connector-created")
def no_config() -> PlantedLog:
    """A name has a target state and a status, but never a config."""
    return PlantedLog().target("a", PAUSED).status("connector-a", "RUNNING").deleted("a")


@holds("connector-first-seen", INFO, "a", "config@5")
def older() -> PlantedLog:
    """The first record of a connector follows missing records."""
    return PlantedLog().incomplete().config("a")


@resembles("connector-first-seen")
def new() -> PlantedLog:
    """A connector is created in a log without missing records."""
    return PlantedLog().config("a")


@holds("connector-deleted", INFO, "a", "config@1")
def deleted() -> PlantedLog:
    """A connector is created and deleted."""
    return PlantedLog().config("a").deleted("a")


@resembles("connector-deleted")
def deleted_without_a_config() -> PlantedLog:
    """Tombstones for a name that had no config."""
    return PlantedLog().config("a").deleted("b")


@holds("config-changed", INFO, "a", "config@1")
def changed() -> PlantedLog:
    """A setting changes its value."""
    return PlantedLog().config("a", rows="1").config("a", rows="2")


@resembles("config-changed")
def written_again() -> PlantedLog:
    """A config is written again, with its members in another order."""
    log = PlantedLog().config("a", rows="1", topics="t")
    return log.config("a", topics="t", rows="1")


@holds("target-changed", INFO, "a", "config@1")
def paused() -> PlantedLog:
    return PlantedLog().config("a").target("a", PAUSED)


@holds("target-changed", WARNING, "a", "config@2")
def pause_removed() -> PlantedLog:
    """Another program removes the target state of a connector that was created PAUSED."""
    return PlantedLog().target("a", PAUSED).config("a").target("a", None)


@resembles("target-changed")
def target_state_of_a_started_connector_removed() -> PlantedLog:
    """The target state STARTED is removed, which changes nothing."""
    return PlantedLog().target("a", STARTED).config("a").target("a", None)


@resembles("target-changed")
def paused_until_its_deletion() -> PlantedLog:
    """The deletion of a connector that was created PAUSED removes its target state."""
    return PlantedLog().target("a", PAUSED).config("a").deleted("a")


@resembles("target-changed")
def started_twice() -> PlantedLog:
    """STARTED is written for a started connector; a deletion then removes the target state."""
    return PlantedLog().config("a").target("a", STARTED).deleted("a")


# --- half done --------------------------------------------------------------------------------


@holds("stop-half-done", WARNING, "a", "config@3", "status@0")
def stop_died_after_the_tasks() -> PlantedLog:
    """A stop is interrupted: it emptied the task set and never wrote STOPPED."""
    return PlantedLog().running("a").tasks("a", 0).wait(HOUR).config("other")


@resembles("stop-half-done")
def never_had_tasks() -> PlantedLog:
    """A connector without input makes no tasks."""
    log = PlantedLog().config("a").tasks("a", 0).status("connector-a", "RUNNING")
    return log.wait(HOUR).config("other")


@resembles("stop-half-done")
def failed_without_tasks() -> PlantedLog:
    """The connector fails to start, so its task set is empty; its status is FAILED."""
    log = PlantedLog().running("a").tasks("a", 0).status("connector-a", "FAILED")
    return log.wait(HOUR).config("other")


@resembles("stop-half-done")
def reconfigured_to_nothing() -> PlantedLog:
    """The connector had tasks until a new config ended them."""
    log = PlantedLog().running("a").config("a", tables="none").tasks("a", 0)
    return log.wait(HOUR).config("other")


@resembles("stop-half-done")
def stopped_whole() -> PlantedLog:
    """A whole stop empties the task set and then writes STOPPED."""
    log = (
        PlantedLog()
        .running("a")
        .tasks("a", 0)
        .target("a", STOPPED)
        .status("connector-a", "STOPPED")
    )
    return log.wait(HOUR).config("other")


@holds("stop-half-done", INFO, "a", "config@3", "status@0")
def stop_under_way() -> PlantedLog:
    """The log ends after the task set was emptied: the stop may still be running."""
    return PlantedLog().running("a").tasks("a", 0)


@holds("stop-half-done", WARNING, "a", "config@3", "status@2")
def resume_without_tasks() -> PlantedLog:
    """The connector is resumed and RUNNING, but its tasks were not made again."""
    log = PlantedLog().running("a").tasks("a", 0).target("a", STOPPED).target("a", STARTED)
    return log.status("connector-a", "RUNNING").wait(HOUR).config("other")


@resembles("stop-half-done")
def resumed_whole() -> PlantedLog:
    """The connector is resumed, and its tasks are made again."""
    log = PlantedLog().running("a").tasks("a", 0).target("a", STOPPED).target("a", STARTED)
    return log.status("connector-a", "RUNNING").tasks("a", 1).wait(HOUR).config("other")


@holds("stop-half-done", WARNING, "a", "config@4", "config@6")
def tasks_after_a_stop() -> PlantedLog:
    """A leader of a release without STOPPED commits tasks of a connector that was stopped."""
    log = PlantedLog().running("a").tasks("a", 0).target("a", STOPPED).tasks("a", 1)
    return log.wait(HOUR).config("other")


@holds("stop-half-done", WARNING, "a", "config@3", "config@2")
def stop_without_task_set() -> PlantedLog:
    """Another program writes STOPPED and does not empty the task set."""
    return PlantedLog().running("a").target("a", STOPPED).wait(HOUR).config("other")


@resembles("stop-half-done")
def paused_with_tasks() -> PlantedLog:
    """A PAUSED connector keeps its tasks."""
    return PlantedLog().running("a").target("a", PAUSED).wait(HOUR).config("other")


@holds("tasks-not-running", WARNING, "a", "config@2", "status@0", "status@2")
def running_without_an_assigned_task() -> PlantedLog:
    """The connector is RUNNING; its only task is UNASSIGNED."""
    return PlantedLog().running("a").status("task-a-0", "UNASSIGNED").wait(HOUR).config("other")


@resembles("tasks-not-running")
def unassigned_beside_a_failed_task() -> PlantedLog:
    """One task is UNASSIGNED. The other one failed, so it had an owner."""
    log = PlantedLog().config("a").tasks("a", 2).status("connector-a", "RUNNING")
    log.status("task-a-0", "UNASSIGNED").status("task-a-1", "FAILED")
    return log.wait(HOUR).config("other")


@resembles("tasks-not-running")
def no_running_instances() -> PlantedLog:
    """The whole cluster is down: no connector or task is RUNNING."""
    log = (
        PlantedLog()
        .running("a")
        .status("connector-a", "UNASSIGNED")
        .status("task-a-0", "UNASSIGNED")
    )
    return log.wait(HOUR).config("other")


@holds("tasks-uncommitted", WARNING, "a", "config@4")
def task_set_without_commit() -> PlantedLog:
    """Two new task configs have no commit: their writer crashed."""
    return PlantedLog().running("a").task_configs("a", 2).wait(HOUR).config("other")


@resembles("tasks-uncommitted")
def task_set_committed_late() -> PlantedLog:
    """A task set is committed an hour late."""
    log = PlantedLog().running("a").task_configs("a", 2).wait(HOUR)
    return log.put(TOPICS.config, "commit-a", {"tasks": 2})


@holds("tasks-inconsistent", WARNING, "a", "config@1")
def commit_without_task_set() -> PlantedLog:
    """A commit of two tasks, neither of which has a config."""
    log = PlantedLog().config("a").put(TOPICS.config, "commit-a", {"tasks": 2})
    return log.wait(HOUR).config("other")


@resembles("tasks-inconsistent")
def healed() -> PlantedLog:
    """A whole task set follows a commit without task configs."""
    log = PlantedLog().config("a").put(TOPICS.config, "commit-a", {"tasks": 2})
    return log.tasks("a", 2).wait(HOUR).config("other")


@holds("command-unfinished", WARNING, "a", "commands@0")
def command_died() -> PlantedLog:
    """Our control plane crashes during a stop: the command has a begin record and no end record."""
    log = PlantedLog().config("a").accepted("17", command="stop", connector="a")
    return log.wait(HOUR).config("other")


@holds("command-unfinished", WARNING, None, "commands@0")
def command_without_a_connector_died() -> PlantedLog:
    """Our control plane crashes while it sets a logger level, which concerns no connector."""
    log = PlantedLog().config("a")
    log.accepted("17", command="set-logger-level", namespace="org.lab", level="DEBUG")
    return log.wait(HOUR).config("other")


@resembles("command-unfinished")
def command_ended() -> PlantedLog:
    """Two commands overlap, and both end."""
    log = PlantedLog().config("a").accepted("17", command="stop", connector="a")
    log.accepted("18", command="pause", connector="a").finished("17").finished("18")
    return log.wait(HOUR).config("other")


# --- restarts ---------------------------------------------------------------------------------


@holds("restart-storm", WARNING, "a", *(f"config@{offset}" for offset in range(1, 6)))
def restarted_every_minute() -> PlantedLog:
    """A connector is restarted five times in five minutes."""
    log = PlantedLog().config("a")
    for _ in range(5):
        log.wait(MINUTE).restart("a")
    return log


@resembles("restart-storm")
def restarted_every_hour() -> PlantedLog:
    """A connector is restarted five times, once an hour."""
    log = PlantedLog().config("a")
    for _ in range(5):
        log.wait(HOUR).restart("a")
    return log


@resembles("restart-storm")
def restarts_of_a_deleted_connector() -> PlantedLog:
    """A script requests restarts of a deleted connector, which have no effect."""
    log = PlantedLog().config("a").deleted("a")
    for _ in range(5):
        log.restart("a")
    return log


@resembles("restart-storm")
def restarted_at_unknown_times() -> PlantedLog:
    """Restart records without timestamps: they may be years apart."""
    log = PlantedLog().timeless().config("a")
    for _ in range(5):
        log.restart("a")
    return log


@resembles("restart-storm")
def many_restarted_once() -> PlantedLog:
    """Ten connectors are restarted once each, within ten seconds."""
    log = PlantedLog()
    for number in range(10):
        log.config(f"c{number}")
    for number in range(10):
        log.restart(f"c{number}")
    return log


# --- secrets ----------------------------------------------------------------------------------


@holds("secret-in-clear", WARNING, "a", "config@0")
def password_in_config() -> PlantedLog:
    """A config has a password in clear text."""
    return PlantedLog().config("a", database_password="correct horse")


@holds("secret-in-clear", WARNING, "a", "config@0")
def password_in_url() -> PlantedLog:
    """A URL has a password in its user part, under a key that does not suggest a secret."""
    return PlantedLog().config("a", connection="jdbc:mysql://ada:horse@db/shop")


@holds("secret-in-clear", WARNING, "a", "status@0")
def password_in_trace() -> PlantedLog:
    """A trace repeats the password of a failed login."""
    trace = "java.sql.SQLException: refused: user=ada password=horse\n\tat lab.Source.start"
    return PlantedLog().config("a").status("connector-a", "FAILED", trace=trace)


@resembles("secret-in-clear")
def references() -> PlantedLog:
    """Config provider references, alone and within longer texts."""
    jaas = 'lab.Login required username="ada" password="${file:/etc/kafka:password}";'
    return PlantedLog().config(
        "a", database_password="${file:/etc/db:password}", sasl_jaas_config=jaas
    )


@resembles("secret-in-clear")
def references_before_other_text() -> PlantedLog:
    """References are followed by other settings, or preceded by a scheme of authorization."""
    reference = "${file:/etc/kafka:password}"
    return PlantedLog().config(
        "a",
        sasl_jaas_config=f"lab.Login required password='{reference}' username='ada';",
        headers=f"Authorization: Bearer {reference}",
        basic_auth_user_info=f"ada:{reference}",
    )


@holds("secret-in-clear", WARNING, "a", "config@0")
def password_beside_a_reference() -> PlantedLog:
    """Only the user's name in a URL is a reference, and the password is not."""
    return PlantedLog().config("a", connection="jdbc:mysql://${file:/etc/db:user}:horse@db/shop")


@resembles("secret-in-clear")
def names_without_secrets() -> PlantedLog:
    """Settings whose names suggest a secret: a URL, a number, and an empty password."""
    return PlantedLog().config(
        "a",
        sasl_oauthbearer_token_endpoint_url="https://login.example.org/token",
        token_refresh_ms="60000",
        password="",
    )


@resembles("secret-in-clear")
def very_long_texts() -> PlantedLog:
    """A setting and a trace are longer than the text that is searched, and have no secret."""
    trace = "java.lang.StackOverflowError\n" + "\tat lab.Source.poll(Source.java:7)\n" * 10_000
    return PlantedLog().config("a", query=trace).status("connector-a", "FAILED", trace=trace)


@holds("secret-in-clear", WARNING, "a", "config@0")
def password_in_a_very_long_text() -> PlantedLog:
    """A setting has a password, and is longer than the text that is searched."""
    return PlantedLog().config("a", query="password=horse;" + "x" * 300_000)


# --- unreadable records ----------------------------------------------------------------------


@holds("unreadable-records", INFO, None, "config@1", "config@2")
def ignored_records() -> PlantedLog:
    """Records that workers ignore: an unknown key, and a value that is no JSON."""
    return (
        PlantedLog()
        .config("a")
        .put(TOPICS.config, "no-such-key", {})
        .put(TOPICS.config, "task-a-0", b"{")
    )


@holds("unreadable-records", INFO, None, "offsets@0", "offsets@1")
def no_offsets() -> PlantedLog:
    """Records that are no offsets: a key without a source partition, and a malformed value."""
    return PlantedLog().put(TOPICS.offsets, "no pair", {}).put(TOPICS.offsets, '["a",{}]', b"{")


@holds("unreadable-records", WARNING, None, "config@1", "config@0")
def rest_of_batch_lost() -> PlantedLog:
    """A task count (`tasks-fencing-a`) that is no number: a worker loses the rest of its batch."""
    log = PlantedLog().put(TOPICS.config, "no-such-key", {})
    return log.put(TOPICS.config, "tasks-fencing-a", {"task-count": "one"})


@resembles("unreadable-records")
def harmless_records() -> PlantedLog:
    """Tombstones, empty offsets, and a topic that does not belong to the cluster."""
    log = PlantedLog().running("a").offset("a", {}).offset("a", None).deleted("a")
    return log.put("elsewhere", "no pair", b"{")
