"""Decisions about active topics and logger levels.

Labels such as A3 name laws: see `tests/laws/commands`.
"""

import pytest

from controlplane.core.commands import ResetTopics, SetLoggerLevel
from controlplane.core.context import DecisionSettings
from controlplane.core.plan import Reason, Rejected
from tests.core.decisions import planned, refused, steps
from tests.core.logs import Pair, status


def used(topic: str, name: str, value_topic: str | None = None) -> Pair:
    """An active topic; its value may name another one than its key."""
    members = f'"name":"{value_topic or topic}","connector":"{name}","task":0,"discoverTimestamp":1'
    return f"status-topic-{topic}:connector-{name}", f'{{"topic":{{{members}}}}}'


USED = status(used("y", "a"), used("x", "a"), used("z", "b"))
reset = ResetTopics("a")


def test_each_topic_gets_its_tombstone() -> None:
    """A3: the reset writes a tombstone per topic; releases send each alone, we send one batch."""
    x, y = "status-topic-x:connector-a ", "status-topic-y:connector-a "
    assert steps(USED, reset, "2.5") == {"topic-0": [x], "topic-1": [y]}
    assert steps(USED, reset) == {"topics": [x, y]}
    assert planned(USED, reset).steps[0].read_back == ("connect-status",)
    assert all(step.read_back == () for step in planned(USED, reset, "3.9").steps)


@pytest.mark.parametrize("release", ["2.5", "3.9", "kip"])
def test_nothing_to_reset_is_no_fault(release: str) -> None:
    """Resetting the topics of an unknown connector writes nothing (A5)."""
    assert steps([], ResetTopics("nobody"), release) == {}


def test_the_tombstone_has_the_key_of_the_record() -> None:
    """Releases build the tombstone's key from the value, and miss the record if they differ."""
    odd = status(used("x", "a", "other"))
    assert steps(odd, reset) == {"topics": ["status-topic-x:connector-a "]}
    assert steps(odd, reset, "3.9") == {"topic-0": ["status-topic-other:connector-a "]}


TRACKING = [
    (DecisionSettings(topic_tracking_enable=False), "Topic tracking is disabled."),
    (DecisionSettings(topic_tracking_allow_reset=False), "Topic tracking reset is disabled."),
    (
        DecisionSettings(topic_tracking_enable=False, topic_tracking_allow_reset=False),
        "Topic tracking is disabled.",
    ),
]


@pytest.mark.parametrize(("worker", "text"), TRACKING)
def test_settings_can_forbid_a_reset(worker: DecisionSettings, text: str) -> None:
    """Settings can disable tracking, or the reset alone (KIP-558)."""
    assert refused(USED, reset, "3.9", worker=worker) == Rejected(Reason.FORBIDDEN, text)


def test_the_message_of_the_kip_has_no_full_stop() -> None:
    """The message of `kip` ends without the full stop that ends the message of releases."""
    forbidden = DecisionSettings(topic_tracking_allow_reset=False)
    text = "Topic tracking reset is disabled"
    assert refused(USED, reset, worker=forbidden) == Rejected(Reason.FORBIDDEN, text)


def test_releases_without_tracking_refuse_a_reset() -> None:
    """2.4 refuses a reset of active topics, which came with KIP-558."""
    assert refused(USED, reset, "2.4") == Rejected(Reason.NOT_OFFERED, None)


ASKED = [
    ("WARN", "3.7 3.9 4.3 kip", ""),
    ("warn", "3.7 3.9 4.3 kip", ""),
    ("Off", "3.7 3.9 4.3 kip", ""),
    ("FATAL", "3.7 3.9 4.3 kip", ""),
    (" INFO\n", "4.0 4.3", "3.7 3.9 kip"),
    ("\u00a0INFO", "", "3.7 3.9 4.3 kip"),
    ("NONSENSE", "", "3.7 3.9 4.3 kip"),
    (" ", "", "3.7 3.9 4.3 kip"),
    ("", "", "3.7 3.9 kip"),
]


@pytest.mark.parametrize(("level", "taken", "not_taken"), ASKED)
def test_levels_of_log4j_are_accepted_in_any_case(level: str, taken: str, not_taken: str) -> None:
    """Levels in upper or lower case are accepted, and written as requested; others are refused."""
    command = SetLoggerLevel("org.apache", level)
    for release in taken.split():
        (written,) = steps([], command, release)["level"]
        assert written == f'logger-cluster-org.apache {{"level":"{level}"}}'.replace("\n", "\\n")
    rejected = Rejected(Reason.NO_SUCH_LOGGER_LEVEL, f"invalid log level '{level}'.")
    for release in not_taken.split():
        assert refused([], command, release) == rejected


def test_an_empty_level_fails_newer_workers() -> None:
    """4.3 refuses an empty level, at which Log4j 2 throws."""
    rejected = Rejected(Reason.FAILED, "Illegal null or empty Level name.")
    assert refused([], SetLoggerLevel("x", ""), "4.3") == rejected


def test_releases_without_cluster_wide_levels_refuse_one() -> None:
    """3.6 refuses cluster-wide levels, which came with KIP-976."""
    assert refused([], SetLoggerLevel("x", "INFO"), "3.6") == Rejected(Reason.NOT_OFFERED, None)
