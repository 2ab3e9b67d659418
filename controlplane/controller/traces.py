"""What the command topic is told of a command: accepted, finished, refused; and reading it back."""

from typing import Any

import msgspec

from controlplane.core.codec import encode_command
from controlplane.core.commands import AnyCommand, Asked, Command
from controlplane.core.plan import Draft, Outcome, Plan, Reason, Rejected
from controlplane.core.records import (
    CommandAccepted,
    CommandFinished,
    CommandRecord,
    CommandRefused,
)
from controlplane.core.state import CommandTrace

DONE, FAILED = "done", "failed"


def accepted(topic: str, asked: Asked, plan: Plan | None) -> Draft:
    """The command begins. A plan of a single batch need not be kept: there is no half of it."""
    told = None if plan is None else msgspec.to_builtins(plan)
    record = CommandAccepted(
        asked.command_id, asked.at_ms, asked.principal, msgspec.to_builtins(asked.command), told
    )
    return _draft(topic, record)


def finished(topic: str, command_id: str, at_ms: int, ended: Outcome | Rejected) -> Draft:
    """The command has ended, with what the asker is told."""
    kind = DONE if isinstance(ended, Outcome) else FAILED
    told: dict[str, Any] = {"ended": kind, **msgspec.to_builtins(ended)}
    return _draft(topic, CommandFinished(command_id, at_ms, told))


def refused(topic: str, asked: Asked, rejected: Rejected, most: int) -> Draft:
    """The command was refused and wrote nothing.

    Of one that takes more than `most` bytes only what and whom it concerned is kept, and the
    beginning of the reason: who is refused must not be able to fill the log.
    """
    command, reason = msgspec.to_builtins(asked.command), rejected.sentence
    record = CommandRefused(asked.command_id, asked.at_ms, asked.principal, command, reason)
    draft = _draft(topic, record)
    if len(draft.value or b"") <= most:
        return draft
    named = {name: command[name] for name in ("command", "connector") if name in command}
    named = {name: _short(str(told), most // 4) for name, told in named.items()}
    record = msgspec.structs.replace(record, command=named, reason=_short(reason, most // 4))
    return _draft(topic, record)


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def ended(trace: CommandTrace) -> Outcome | Rejected | None:
    """What the asker of a finished command was told; None while it is not finished."""
    if trace.finished is None:
        return None
    told = dict(trace.finished.outcome)
    if told.pop("ended", DONE) == DONE:
        return msgspec.convert(told, Outcome)
    return msgspec.convert(told, Rejected)


def is_of(trace: CommandTrace, command: AnyCommand) -> bool:
    """Whether this was the command that was accepted: JSON knows no tuples, so it is read first."""
    assert trace.accepted is not None
    try:
        accepted: Command = msgspec.convert(trace.accepted.command, AnyCommand)
    except msgspec.ValidationError:
        return False
    return accepted == command


def other_command(asked: Asked) -> Rejected:
    """Why an idempotency key cannot be used for this: it stands for another command already."""
    return Rejected(
        Reason.CONFLICT,
        f"The idempotency key {asked.command_id} belongs to another command: use a new one",
    )


def asked_of(trace: CommandTrace) -> Asked | None:
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
    return Asked(
        command=command,
        command_id=accepted.command_id,
        at_ms=accepted.at_ms,
        principal=accepted.principal,
    )


def _draft(topic: str, record: CommandRecord) -> Draft:
    return Draft(topic, *encode_command(record))
