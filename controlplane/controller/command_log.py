"""Records of the command topic – accepted, finished, refused – and reading them back."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from controlplane.controller.command_excerpt import excerpt
from controlplane.core.codec import encode_command
from controlplane.core.commands import AnyCommand, CommandRequest, RestoreConnector
from controlplane.core.decide.outcome_details import without_answer
from controlplane.core.plan import Draft, Outcome, Plan, Reason, Rejected
from controlplane.core.records import (
    CommandAccepted,
    CommandFinished,
    CommandRecord,
    CommandRefused,
)
from controlplane.core.state import CommandTrace

DONE, FAILED = "done", "failed"

ESCAPE_BYTES = 12
"""The longest form of one character in JSON: two escaped surrogates."""

NESTED_MOST = 100
"""Levels of a config that is stored with an answer. REST takes one level."""


def accepted(topic: str, asked: CommandRequest, plan: Plan | None) -> Draft:
    """The command begins. A plan of a single batch need not be kept: there is no half of it."""
    told = None
    if plan is not None:
        bare = msgspec.structs.replace(plan, outcome=without_answer(plan.outcome))
        told = msgspec.to_builtins(bare)
    record = CommandAccepted(
        asked.command_id, asked.at_ms, asked.principal, msgspec.to_builtins(asked.command), told
    )
    return _draft(topic, record)


def finished(topic: str, asked: CommandRequest, at_ms: int, ended: Outcome | Rejected) -> Draft:
    """The command has ended, with what the asker is told.

    The whole answer is stored only under a key of the asker's, who may use it again. It is never
    larger than the config and the reported statuses of the connector.
    """
    if isinstance(ended, Rejected):
        return _ended_draft(topic, asked, at_ms, {"ended": FAILED, **msgspec.to_builtins(ended)})
    bare = {"ended": DONE, **msgspec.to_builtins(without_answer(ended))}
    told = bare | _answer(asked, ended) if asked.keyed and _is_storable(ended) else bare
    return _ended_draft(topic, asked, at_ms, told)


def _ended_draft(topic: str, asked: CommandRequest, at_ms: int, told: dict[str, Any]) -> Draft:
    return _draft(topic, CommandFinished(asked.command_id, at_ms, told))


def _answer(asked: CommandRequest, ended: Outcome) -> dict[str, Any]:
    """The answer; a config that the accepted command has already is not stored again."""
    told: dict[str, Any] = msgspec.to_builtins(ended)
    if ended.connector is not None:
        known: Mapping[str, Any] = getattr(asked.command, "config", None) or {}
        if [*ended.connector.config.items()] == [*known.items()]:  # in the same order
            told["connector"]["config"] = None
    return told


def _is_storable(ended: Outcome) -> bool:
    return ended.connector is None or _is_flat_enough(ended.connector.config)


def _is_flat_enough(config: Mapping[str, Any]) -> bool:
    """True if the command topic can hold a config: foreign ones nest more deeply than JSON may."""
    level: list[Any] = [config]
    for _ in range(NESTED_MOST):
        level = [member for item in level for member in _members(item)]
    return not level


def _members(item: Any) -> Iterable[Any]:
    if isinstance(item, Mapping):
        return item.values()
    return item if isinstance(item, list | tuple) else ()


def refused(topic: str, asked: CommandRequest, rejected: Rejected, most: int) -> Draft:
    """The command was refused and wrote nothing.

    A command that takes more than `most` bytes is kept as an excerpt, with its size and the
    beginning of the reason: refusals must not be able to fill the log.
    """
    command, reason = msgspec.to_builtins(asked.command), rejected.sentence
    record = CommandRefused(asked.command_id, asked.at_ms, asked.principal, command, reason)
    draft = _draft(topic, record)
    size = len(draft.value or b"")
    if size <= most:
        return draft
    named = {name: command[name] for name in ("command", "connector") if name in command}
    named = {name: _short(str(told), most // 4) for name, told in named.items()}
    kept = excerpt(command, most // 4) | named | {"whole_bytes": size}
    record = msgspec.structs.replace(record, command=kept, reason=_short(reason, most // 4))
    return _draft(topic, record)


def _short(text: str, most: int) -> str:
    """The beginning of a text, in so many bytes of JSON."""
    if len(text) <= most and len(json.dumps(text)) <= most:
        return text
    kept = text[:most]
    return f"{kept if len(json.dumps(kept)) <= most else kept[: most // ESCAPE_BYTES]}…"


def ended(trace: CommandTrace) -> Outcome | Rejected | None:
    """Answer of a finished command; None while it is not finished."""
    if trace.finished is None:
        return None
    told = dict(trace.finished.outcome)
    if told.pop("ended", DONE) != DONE:
        return msgspec.convert(told, Rejected)
    connector = told.get("connector")
    if connector is not None and connector["config"] is None:
        assert trace.accepted is not None
        told["connector"] = {**connector, "config": trace.accepted.command["config"]}
    return msgspec.convert(told, Outcome)


def is_of(trace: CommandTrace, command: AnyCommand) -> bool:
    """True if this was the accepted command."""
    accepted = command_of(trace)
    if isinstance(command, RestoreConnector) and getattr(accepted, "moment", None) is None:
        command = msgspec.structs.replace(command, moment=None)  # earlier versions did not keep it
    return accepted == command


def command_of(trace: CommandTrace) -> AnyCommand | None:
    """The command that was accepted; None: none was, or its record is no use."""
    if trace.accepted is None:
        return None
    try:
        accepted: AnyCommand = msgspec.convert(trace.accepted.command, AnyCommand)
    except msgspec.ValidationError:
        return None
    return accepted


def other_command(asked: CommandRequest) -> Rejected:
    """Refusal of an idempotency key that already belongs to another command."""
    return Rejected(
        Reason.CONFLICT,
        f"The idempotency key {asked.command_id} belongs to another command: use a new one",
    )


def asked_of(trace: CommandTrace) -> CommandRequest | None:
    """A command that was accepted, as it was asked, if it can be taken up again.

    None: its record is no use, having been written by a newer version or by a foreign hand.
    """
    accepted = trace.accepted
    assert accepted is not None
    try:
        command = msgspec.convert(accepted.command, AnyCommand)
        msgspec.convert(accepted.plan, Plan)
    except msgspec.ValidationError:
        return None
    return CommandRequest(
        command=command,
        command_id=accepted.command_id,
        at_ms=accepted.at_ms,
        principal=accepted.principal,
    )


def _draft(topic: str, record: CommandRecord) -> Draft:
    return Draft(topic, *encode_command(record))
