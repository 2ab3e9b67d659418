"""Commands as records of the command topic, with any configs and offsets."""

from typing import Any

import msgspec
import pytest

from controlplane.core.codec import command_log, decode_command, encode_command
from controlplane.core.commands import (
    AlterOffsets,
    AnyCommand,
    CommandRequest,
    CreateConnector,
    OffsetChange,
    PublishTasks,
)
from controlplane.core.plan import Draft, Plan, Reason, Rejected, Step
from controlplane.core.records import CommandAccepted, CommandFinished, CommandTrace

HALF = "\ud801"
"""Half a surrogate pair: valid in Java's text, but not in UTF-8."""

CHANGES = (
    OffsetChange({"file": HALF}, {"at": 2**63, "far": 1e300}),
    OffsetChange({"file": "b"}, None),
)

COMMANDS = [
    CreateConnector("a", {"name": "a", "k": HALF}, initial_offsets=CHANGES),
    AlterOffsets("a", CHANGES),
    PublishTasks("a", ({"k": HALF}, {"k": "v"})),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: type(command).__name__)
def test_a_command_with_half_a_surrogate_comes_back(command: AnyCommand) -> None:
    """The decoded command and plan equal the accepted ones."""
    request = CommandRequest(command=command, command_id=f"id-{HALF}", at_ms=1)
    step = Step("write", (Draft("t", b"k", b"\xff\x00"), Draft("t", b"k", None)), doing=HALF)
    plan = Plan((step, Step("config", read_back=("t",))), commit_point="config")
    draft = command_log.accepted("commands", request, plan)
    record = decode_command(draft.key, draft.value)
    assert isinstance(record, CommandAccepted)
    trace = CommandTrace(record)
    assert command_log.request_of(trace) == request
    assert command_log.is_of(trace, command)
    assert msgspec.convert(record.plan, Plan) == plan
    assert record.plan["steps"][1]["barrier"] == ["t"], "the name that earlier versions stored"


@pytest.mark.parametrize("text", ["", HALF])
def test_both_encoders_write_what_the_decoder_reads(text: str) -> None:
    """Half a surrogate needs the slow encoder; other texts have the fast one."""
    command: Any = {"list": ({"n": 2**63}, 1.5, None, True, "\x00é\U0001f600"), "text": text}
    record = CommandAccepted("id", 1, "ana", command)
    decoded = decode_command(*encode_command(record))
    assert decoded == CommandAccepted("id", 1, "ana", {**command, "list": list(command["list"])})


ALIKE_IN_PYTHON = [
    (OffsetChange({"p": 1}), OffsetChange({"p": True})),
    (OffsetChange({"p": 1}), OffsetChange({"p": 1.0})),
    (OffsetChange({"p": HALF}, {"o": [0]}), OffsetChange({"p": HALF}, {"o": [False]})),
]


@pytest.mark.parametrize(("first", "other"), ALIKE_IN_PYTHON)
def test_commands_with_values_of_other_types_differ(
    first: OffsetChange, other: OffsetChange
) -> None:
    """An id does not belong to a command whose JSON differs, even if Python's `==` is true."""
    commands = [AlterOffsets("a", (change,)) for change in (first, other)]
    assert commands[0] == commands[1]
    request = CommandRequest(command=commands[0], command_id="id", at_ms=1)
    draft = command_log.accepted("commands", request, None)
    record = decode_command(draft.key, draft.value)
    assert isinstance(record, CommandAccepted)
    owned = [command_log.is_of(CommandTrace(record), command) for command in commands]
    assert owned == [True, False]


@pytest.mark.parametrize("text", ["", HALF])
def test_the_order_of_keys_makes_no_other_command(text: str) -> None:
    """Commands are equal if only the order of keys differs, also with the slow encoder."""
    first, other = {"a": text, "b": 1}, {"b": 1, "a": text}
    commands = [AlterOffsets("a", (OffsetChange(fields),)) for fields in (first, other)]
    assert command_log.are_equal(*commands)


UNUSABLE_RESULTS: list[dict[str, Any]] = [
    {"ended": "failed", "reason": "of a newer version", "text": None},
    {"ended": "failed"},
    {"ended": "done", "message": 1},
    {"ended": "done", "connector": 1},
    {"ended": "done", "connector": {}},
]


@pytest.mark.parametrize("outcome", UNUSABLE_RESULTS)
def test_a_result_of_a_newer_version_is_a_failure(outcome: dict[str, Any]) -> None:
    """A command with an unusable result has ended: its key must not run it again."""
    accepted = CommandAccepted("id", 1, "ana", {"command": "pause", "connector": "a"})
    result = command_log.ended(CommandTrace(accepted, CommandFinished("id", 2, outcome)))
    assert isinstance(result, Rejected)
    assert result.reason is Reason.FAILED
    assert "The command id has ended" in result.sentence
