"""For each of the nineteen situations, a log that shows it and a similar log that does not.

A situation is a pattern of records that matters in some release changes; its rule detects it
(`replay.compat.situations`). The second log resembles the first, but lacks the fact that the rule
checks.
"""

from typing import NamedTuple

from controlplane.core.releases.profiles import Profile
from replay.compat import ClusterAssessment, RolloutMode, assess, roll
from replay.compat.assessment import ObservedSituation
from replay.findings import Severity
from tests.replay.compat.planted_log import (
    CONFIG,
    OFFSETS,
    STATUS,
    STOPPED,
    Planted,
    running,
    stopped,
)


class SituationPair(NamedTuple):
    """Log with a situation, a similar log without it, and the releases of the change."""

    name: str
    start: str
    goal: str
    planted: Planted
    alike: Planted
    severity: Severity
    connector: str | None = "a"
    mode: RolloutMode | None = None


INFO, WARNING, DANGER = Severity.INFO, Severity.WARNING, Severity.DANGER
V2_STARTED = {"state": "STARTED", "state.v2": "STARTED"}
V2_PAUSED = {"state": "PAUSED", "state.v2": "PAUSED"}
ENVELOPE = {"schema": {"type": "struct"}, "payload": {"properties": {"name": "a"}}}


def restarted(*instances: str) -> Planted:
    """Connector restarted with its two tasks; only the given instances have reported since."""
    log = running(tasks=2).status("task-a-0", "RUNNING").status("task-a-1", "RUNNING")
    log.put(CONFIG, "restart-connector-a", {"include-tasks": True, "only-failed": False})
    for instance in instances:
        log.status(instance, "RUNNING")
    return log


def created(state: str) -> Planted:
    """Connector that was created with an initial state (KIP-980): the state comes first."""
    return Planted().target("a", {"state": state, "state.v2": state}).config("a").tasks("a", 1)


def reused(*, again: bool) -> Planted:
    """Connector that was deleted and created again, with or without tasks of its own."""
    log = running(tasks=2).gone("a").config("a")
    return log.tasks("a", 1) if again else log


def fenced(tasks: int) -> Planted:
    """Connector with a recorded count of transactional producers."""
    return running().put(CONFIG, "tasks-fencing-a", {"task-count": tasks})


def own_topic(topic: str) -> Planted:
    """Connector with the setting `offsets.storage.topic`; only this topic has the newest offset."""
    log = Planted().config("a", **{"offsets.storage.topic": topic}).tasks("a", 1)
    return log.offset("a", 1).offset("a", 2, topic)


PAIRS = {
    1: SituationPair("stopped", "3.9", "3.4", stopped(), running().target("a", V2_PAUSED), INFO),
    2: SituationPair(
        "resumed-by-older",
        "3.4",
        "3.9",
        stopped().target("a", {"state": "STARTED"}),
        stopped().target("a", V2_STARTED),
        INFO,
    ),
    3: SituationPair(
        "paused-by-older",
        "3.4",
        "3.9",
        stopped().target("a", {"state": "PAUSED"}),
        stopped().target("a", V2_PAUSED),
        WARNING,
    ),
    4: SituationPair(
        "naive-stop",
        "3.4",
        "3.9",
        running().target("a", {"state": "STOPPED"}),
        running().target("a", {"state": "STOPPED", "state.v2": "STOPPED"}),
        DANGER,
        mode=RolloutMode.ROLLING,
    ),
    5: SituationPair(
        "forgotten-target",
        "3.9",
        "4.3",
        running().target("a", V2_PAUSED).target("a", None),
        running().target("a", V2_PAUSED).gone("a").config("a"),
        WARNING,
    ),
    6: SituationPair(
        "stopped-with-new-tasks",
        "3.4",
        "3.9",
        stopped().tasks("a", 2),
        running(tasks=2).target("a", STOPPED),
        WARNING,
        mode=RolloutMode.ROLLING,
    ),
    7: SituationPair(
        "unreadable-status",
        "3.9",
        "3.4",
        running().status("connector-a", "STOPPED"),
        running().status("connector-a", "STOPPED").status("connector-a", "PAUSED"),
        INFO,
    ),
    8: SituationPair(
        "disobeyed-restart",
        "2.8",
        "3.9",
        restarted("connector-a", "task-a-0"),
        restarted("connector-a", "task-a-0", "task-a-1"),
        WARNING,
        mode=RolloutMode.ROLLING,
    ),
    9: SituationPair("unfenceable", "3.9", "3.2", fenced(1), fenced(0), WARNING),
    10: SituationPair(
        "session-key",
        "2.3",
        "2.8",
        running().put(
            CONFIG, "session-key", {"key": "AQ", "algorithm": "A", "creation-timestamp": 1}
        ),
        running().put(
            CONFIG, "session-keys", {"key": "AQ", "algorithm": "A", "creation-timestamp": 1}
        ),
        WARNING,
        connector=None,
        mode=RolloutMode.ROLLING,
    ),
    11: SituationPair(
        "active-topics",
        "2.4",
        "2.8",
        running().active("a", "t").gone("a"),
        running().active("a", "t").put(STATUS, "status-topic-t:connector-a", None).gone("a"),
        WARNING,
    ),
    12: SituationPair(
        "older-tasks",
        "3.4",
        "3.9",
        running().target("a", V2_PAUSED).config("a", rows="2"),
        running().target("a", V2_PAUSED).config("a", rows="2").tasks("a", 1),
        WARNING,
    ),
    13: SituationPair(
        "leftover-tasks", "3.9", "3.4", reused(again=False), reused(again=True), WARNING
    ),
    14: SituationPair(
        "own-offsets-topic", "3.9", "3.2", own_topic("own"), own_topic(OFFSETS), DANGER
    ),
    15: SituationPair(
        "aborted-configs",
        "3.9",
        "4.3",
        running().abort().target("a", V2_PAUSED).commit().config("b"),
        running().abort().target("a", V2_PAUSED).commit().target("a", V2_STARTED),
        DANGER,
    ),
    16: SituationPair(
        "envelopes",
        "2.8",
        "3.9",
        running().put(CONFIG, "connector-b", ENVELOPE),
        running().put(CONFIG, "connector-b", {"properties": ENVELOPE}),
        DANGER,
        connector=None,
    ),
    17: SituationPair(
        "created-in-state",
        "3.6",
        "3.9",
        created("PAUSED"),
        running().target("a", V2_PAUSED).config("a", rows="2"),
        INFO,
    ),
    18: SituationPair(
        "plugin-version",
        "4.3",
        "3.9",
        running().status("connector-a", "RUNNING", version="1.0"),
        running().status("connector-a", "RUNNING", version=None),
        INFO,
    ),
    19: SituationPair(
        "refused-clients",
        "2.0",
        "4.3",
        running().status("connector-a", "RUNNING", version="1.0"),
        running().status("connector-a", "RUNNING"),
        WARNING,
        connector=None,
    ),
}


def assessed(pair: SituationPair, log: Planted) -> ClusterAssessment:
    """Assessment of a planted log for the pair's change of release."""
    change = roll(Profile.of(pair.start), Profile.of(pair.goal), pair.mode)
    return assess(log.entries, change, cluster="lab")


def observed_situations(pair: SituationPair, log: Planted, number: int) -> list[ObservedSituation]:
    """Sightings of a situation in a planted log."""
    observations = (
        situation for each in assessed(pair, log).assessed for situation in each.situations
    )
    return [observation for observation in observations if observation.situation.number == number]
