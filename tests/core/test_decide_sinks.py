"""Offsets of sink connectors: their form, their group, and changes of it.

Labels such as O5 name laws: see `tests/laws/commands`.
"""

from typing import Any

import pytest

from controlplane.core.commands import AlterOffsets, OffsetChange, ResetOffsets
from controlplane.core.context import DecisionSettings
from controlplane.core.plan import (
    AlterGroup,
    AskGroup,
    AskHook,
    DeleteGroup,
    Outcome,
    Reason,
    Rejected,
)
from tests.core.decisions import SINK, decided, planned, refused
from tests.core.logs import Pair, tasks
from tests.core.offset_cases import ALTERING, STOPPED, SURE, SmallLog, alter

RESET = ResetOffsets("a")


def sink(*extra_members: str) -> Pair:
    """The config of a sink connector `a`."""
    members = ",".join((f'"connector.class":"{SINK}"', *extra_members))
    return "connector-a", f'{{"properties":{{{members}}}}}'


STOPPED_SINK: SmallLog = [sink(), STOPPED]


def at(topic: Any, partition: Any) -> dict[str, Any]:
    """A partition of a sink, in the form of requests."""
    return {"kafka_topic": topic, "kafka_partition": partition}


def to(offset: Any) -> dict[str, Any]:
    """An offset of a sink, in the form of Connect's JSON."""
    return {"kafka_offset": offset}


# --- what is refused ----------------------------------------------------------------------------

_PARTITION = (
    "Failed to parse the following Kafka partition value in the provided offsets: '{}'. Partition "
    "values for sink connectors need to be integers."
)
_OFFSET = (
    "Failed to parse the following Kafka offset value in the provided offsets: '{}'. Offset values "
    "for sink connectors need to be integers."
)
_KEYS = (
    "The partition for a sink connector offset must contain the keys 'kafka_topic' and "
    "'kafka_partition'"
)

FAULTS: list[tuple[Any, Any, str]] = [
    (None, to(1), "The partition for a sink connector offset cannot be null or missing"),
    ({}, to(1), _KEYS),
    ({"kafka_topic": "t"}, to(1), _KEYS),
    ({"kafka_partition": 0}, None, _KEYS),
    (at(None, 0), to(1), "Kafka topic names must be valid strings and may not be null"),
    (at("t", None), to(1), "Kafka partitions must be valid numbers and may not be null"),
    (at("t", 1.0), to(1), _PARTITION.format("1.0")),
    (at("t", "x"), to(1), _PARTITION.format("x")),
    (at("t", " 5"), to(1), _PARTITION.format(" 5")),
    (at("t", True), to(1), _PARTITION.format("true")),
    (at("t", [1, None]), to(1), _PARTITION.format("[1, null]")),
    (at("t", {"a": 1e10}), to(1), _PARTITION.format("{a=1.0E10}")),
    (at("t", 2**31), to(1), _PARTITION.format(2**31)),
    (
        at("t", 0),
        {},
        "The offset for a sink connector should either be null or contain the key 'kafka_offset'",
    ),
    (at("t", 0), to(None), _OFFSET.format("null")),
    (at("t", 0), to("1.5"), _OFFSET.format("1.5")),
    (at("t", 0), to(2**63), _OFFSET.format(2**63)),
]


@pytest.mark.parametrize(("partition", "offset", "message"), FAULTS)
@pytest.mark.parametrize("release", ["3.6", "4.3", "kip"])
def test_offsets_of_another_form_are_refused(
    partition: Any, offset: Any, message: str, release: str
) -> None:
    """The message is that of `SinkUtils`; no hook is called (O5)."""
    rejected = refused(STOPPED_SINK, alter((partition, offset)), release)
    assert rejected == Rejected(Reason.INVALID, message)


def test_a_sink_must_be_stopped_too() -> None:
    """The state is checked before the form of the offsets."""
    for log in ([sink()], [*STOPPED_SINK, *tasks("a", 1)]):
        assert refused(log, alter((None, None)), "3.9").reason is Reason.NOT_STOPPED
        assert refused(log, RESET, "3.9").reason is Reason.NOT_STOPPED


def test_source_offsets_of_a_sink_are_refused() -> None:
    """Source offsets for a sink are refused: the type is never guessed from the content."""
    command = AlterOffsets("a", (OffsetChange(at("t", 0), to(1), "source"),))
    message = "These are offsets of a source connector, but a is a sink connector"
    assert refused(STOPPED_SINK, command) == Rejected(Reason.INVALID, message)


def test_negative_numbers_are_no_offsets() -> None:
    """`kip` refuses negative partitions and offsets. A release fails at the offset alone."""
    message = "Failed to modify offsets for sink connector a"
    assert refused(STOPPED_SINK, alter((at("t", 0), to(-1))), "3.9") == Rejected(
        Reason.FAILED, message
    )
    assert isinstance(decided(STOPPED_SINK, alter((at("t", -1), to(1))), "3.9"), AskHook)
    for partition, offset in ((0, -1), (-1, 0), (-1, None)):
        command = alter((at("t", partition), None if offset is None else to(offset)))
        rejected = refused(STOPPED_SINK, command)
        assert rejected.reason is Reason.INVALID
        assert "can be negative: partition" in str(rejected.text)


# --- which group --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("override", "workers", "group"),
    [
        ([], None, "connect-a"),
        ([], "shared", "shared"),
        (['"consumer.override.group.id":"mine"'], None, "mine"),
        (['"consumer.override.group.id":"mine"'], "shared", "mine"),
    ],
)
def test_the_connectors_group_comes_before_the_workers(
    override: list[str], workers: str | None, group: str
) -> None:
    """The group is the connector's setting, else the worker's, else `connect-<name>`."""
    worker = DecisionSettings(consumer_group_id=workers)
    log: SmallLog = [sink(*override), STOPPED]
    assert decided(log, RESET, "3.9", worker=worker) == AskGroup("a", group)


# --- plans and hooks ----------------------------------------------------------------------------


def test_the_hook_is_shown_numbers() -> None:
    """The hook gets integers and text; other members are dropped."""
    command = alter(
        ({"kafka_topic": 7, "kafka_partition": "+1", "more": []}, {"kafka_offset": "5", "x": 1}),
        (at("t", 0), None),
    )
    question = decided(STOPPED_SINK, command)
    assert isinstance(question, AskHook)
    assert question.offsets == ((at("7", 1), to(5)), (at("t", 0), None))


def test_altering_sets_and_removes_at_once() -> None:
    """One action sets and removes offsets, without records."""
    command = alter((at("t", 0), to(5)), (at("t", 1), None), (at("u", 0), to(0)))
    plan = planned(STOPPED_SINK, command, hooks=SURE)
    (step,) = plan.steps
    assert (step.name, step.records) == ("write", ())
    put = (("t", 0, 5), ("u", 0, 0))
    assert step.action == AlterGroup("a", "connect-a", put, (("t", 1),))
    text = "The offsets for this connector have been altered successfully"
    assert (plan.outcome, plan.commit_point) == (Outcome(message=text), "write")


def test_text_and_number_are_one_partition() -> None:
    """For repeated partitions the last offset counts; a worker reads them in another order."""
    command = alter((at("t", 10), to(1)), (at("t", "10"), to(2)))
    for release, offset in (("kip", 2), ("3.9", 1)):
        (step,) = planned(STOPPED_SINK, command, release, hooks=SURE).steps
        assert step.action == AlterGroup("a", "connect-a", (("t", 10, offset),))


@pytest.mark.parametrize("release", ALTERING)
def test_a_reset_deletes_the_group(release: str) -> None:
    """A reset deletes the group (KIP-875); the hook gets its offsets, possibly none."""
    committed = (("t", 0, 5), ("u", 3, 9))
    for group, hook_offsets in (((), ()), (committed, ((at("t", 0), None), (at("u", 3), None)))):
        question = decided(STOPPED_SINK, RESET, release, group=group)
        assert isinstance(question, AskHook)
        assert question.offsets == hook_offsets
        plan = planned(STOPPED_SINK, RESET, release, group=group, hooks=SURE)
        (step,) = plan.steps
        assert (step.name, step.action) == ("wipe", DeleteGroup("a", "connect-a"))


def test_sinks_are_not_fenced() -> None:
    """Kafka refuses to change the group of a sink whose tasks still run."""
    log = [sink(), *tasks("a", 1), ("commit-a", '{"tasks":0}'), STOPPED]
    plan = planned(log, RESET, "3.9", group=(), hooks=SURE, exactly_once=True)
    assert [step.name for step in plan.steps] == ["wipe"]
