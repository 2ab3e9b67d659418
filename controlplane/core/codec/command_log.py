"""Codec of our command topic: accepted, finished and refused commands, as records and as bytes.

The records are tagged, versioned JSON. Their key is the command's id.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from controlplane.core.commands import AnyCommand, CommandRequest, RestoreConnector
from controlplane.core.java.json_values import members
from controlplane.core.plan import Draft, Outcome, Plan, Reason, Rejected
from controlplane.core.records import (
    CommandAccepted,
    CommandFinished,
    CommandRecord,
    CommandRefused,
    CommandTrace,
    Invalid,
)

_DECODER: msgspec.json.Decoder[CommandRecord] = msgspec.json.Decoder(CommandRecord)
_ENCODER = msgspec.json.Encoder()
_SORTING_ENCODER = msgspec.json.Encoder(order="deterministic")
_VERSION = 1
"""Version of the format. New fields keep it; a change of meaning needs a new one."""


def decode_command(key: bytes | None, value: bytes | None) -> CommandRecord | Invalid | None:
    """Decode a record of the command topic; None: a tombstone, which removes its command."""
    if value is None:
        return None
    try:
        record = _decoded(value)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        return Invalid(f"not a command record: {error}")
    if record.version > _VERSION:
        return Invalid(f"command record of version {record.version}, newer than {_VERSION}")
    if key != record.command_id.encode("utf-8", "surrogatepass"):
        return Invalid("key is not the command's id")
    return record


def _decoded(value: bytes) -> CommandRecord:
    """Record of a value; raises `MsgspecError`, ValueError or RecursionError."""
    try:
        return _DECODER.decode(value)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        # msgspec refuses half a surrogate pair, but a config may contain one; `json` reads it.
        record: CommandRecord = msgspec.convert(json.loads(value), CommandRecord)
        return record


def encode_command(record: CommandRecord) -> tuple[bytes, bytes]:
    """Encode a record of the command topic to key and value."""
    return record.command_id.encode("utf-8", "surrogatepass"), _encoded(record, _ENCODER)


def _encoded(value: CommandRecord | AnyCommand, encoder: msgspec.json.Encoder) -> bytes:
    """JSON of a record or a command; the encoder decides the order of keys."""
    try:
        return encoder.encode(value)
    except UnicodeEncodeError:
        # msgspec cannot write half a surrogate pair; `json` writes it as an escape.
        sorts = encoder is _SORTING_ENCODER
        text = json.dumps(msgspec.to_builtins(value), separators=(",", ":"), sort_keys=sorts)
        return text.encode("ascii")


# --- a request and its answer as records ----------------------------------------------------------

DONE, FAILED = "done", "failed"

ESCAPE_BYTES = 12
"""Maximum bytes of one character in JSON: two escaped surrogates."""

LEVELS_MAX = 100
"""Maximum nesting of a config that is stored with an answer. REST accepts one level."""


def accepted(topic: str, request: CommandRequest, plan: Plan | None) -> Draft:
    """Record that the command begins.

    `plan` None: all records of the command are one atomic batch. It cannot be half done, so
    recovery never needs the plan.
    """
    stored_plan = None
    if plan is not None:
        bare = msgspec.structs.replace(plan, outcome=_without_answer(plan.outcome))
        stored_plan = msgspec.to_builtins(bare)
    command = msgspec.to_builtins(request.command)
    record = CommandAccepted(
        request.command_id, request.at_ms, request.principal, command, stored_plan
    )
    return _draft(topic, record)


def finished(topic: str, request: CommandRequest, at_ms: int, result: Outcome | Rejected) -> Draft:
    """Record that the command has ended, with its result.

    The whole answer is stored only if the client chose the id and may repeat it. The answer is
    never larger than the config and the reported statuses of the connector.
    """
    if isinstance(result, Rejected):
        stored = {"ended": FAILED, **msgspec.to_builtins(result)}
    else:
        stored = {"ended": DONE, **msgspec.to_builtins(_without_answer(result))}
        if request.keyed and _is_storable(result):
            stored |= _answer(request, result)
    return _draft(topic, CommandFinished(request.command_id, at_ms, stored))


def _draft(topic: str, record: CommandRecord) -> Draft:
    return Draft(topic, *encode_command(record))


def _without_answer(outcome: Outcome) -> Outcome:
    """The outcome without `release`, `connector` and `status` (`decide.with_complete_outcome`)."""
    return msgspec.structs.replace(outcome, release=None, connector=None, status=None)


def _answer(request: CommandRequest, outcome: Outcome) -> dict[str, Any]:
    """The answer as data. A config that equals the accepted command's is replaced by None."""
    stored: dict[str, Any] = msgspec.to_builtins(outcome)
    if outcome.connector is not None:
        requested: Mapping[str, Any] = getattr(request.command, "config", None) or {}
        if [*outcome.connector.config.items()] == [
            *requested.items()
        ]:  # lists compare the order, too
            stored["connector"]["config"] = None
    return stored


def _is_storable(outcome: Outcome) -> bool:
    """True if the command topic can hold the answer.

    The answer includes the connector's config. REST accepts only configs of one level. But another
    program may have written a config with more than `LEVELS_MAX` levels to the config topic.
    """
    level: list[Any] = [] if outcome.connector is None else [outcome.connector.config]
    for _ in range(LEVELS_MAX):
        level = [member for value in level for member in members(value)]
    return not level


def refused(topic: str, request: CommandRequest, rejected: Rejected, most: int) -> Draft:
    """Record that the command was refused and wrote nothing.

    Refusals must not be able to fill the log. So a record of more than `most` bytes is shortened.
    It keeps an excerpt of the command, the whole record's size, and the beginning of the reason.
    """
    command, reason = msgspec.to_builtins(request.command), rejected.sentence
    record = CommandRefused(request.command_id, request.at_ms, request.principal, command, reason)
    draft = _draft(topic, record)
    size = len(draft.value or b"")
    if size <= most:
        return draft
    # A quarter of `most` each: excerpt, name of the command, name of the connector, reason.
    names = {name: command[name] for name in ("command", "connector") if name in command}
    names = {name: _beginning(str(value), most // 4) for name, value in names.items()}
    stored = excerpt(command, most // 4) | names | {"whole_bytes": size}
    record = msgspec.structs.replace(record, command=stored, reason=_beginning(reason, most // 4))
    return _draft(topic, record)


def _beginning(text: str, most: int) -> str:
    """The beginning of a text, in at most `most` bytes of JSON before the ellipsis."""
    if len(text) <= most and len(json.dumps(text)) <= most:
        return text
    kept = text[:most]
    return f"{kept if len(json.dumps(kept)) <= most else kept[: most // ESCAPE_BYTES]}…"


# --- records as a request and its answer ----------------------------------------------------------


def ended(trace: CommandTrace) -> Outcome | Rejected | None:
    """Result of a finished command; None while it is not finished.

    An unusable result of a newer version or another program becomes a failure. Returning None would
    let a repeated command run again.
    """
    if trace.finished is None:
        return None
    try:
        return _result(trace.finished.outcome, trace.accepted)
    except msgspec.ValidationError:
        text = _UNUSABLE_RESULT.format(trace.finished.command_id)
        return Rejected(Reason.FAILED, text)


def _result(outcome: Mapping[str, Any], accepted: CommandAccepted | None) -> Outcome | Rejected:
    """Result of a command from its data; raises `ValidationError`."""
    stored = dict(outcome)
    if stored.pop("ended", DONE) != DONE:
        return msgspec.convert(stored, Rejected)
    match stored.get("connector"):
        case {"config": None, **others}:  # equals the command's (`_answer`)
            assert accepted is not None
            stored["connector"] = {**others, "config": accepted.command.get("config") or {}}
    return msgspec.convert(stored, Outcome)


_UNUSABLE_RESULT = (
    "The command {0} has ended, but this version cannot read its result, which a newer version or "
    "another program wrote"
)


def is_of(trace: CommandTrace, command: AnyCommand) -> bool:
    """True if this command was accepted under the id."""
    accepted = command_of(trace)
    if isinstance(command, RestoreConnector) and getattr(accepted, "moment", None) is None:
        command = msgspec.structs.replace(command, moment=None)  # earlier versions did not keep it
    return accepted is not None and are_equal(accepted, command)


def are_equal(first: AnyCommand, other: AnyCommand) -> bool:
    """True if two commands are equal as JSON, where 1, 1.0 and true differ."""
    # `==` would call them equal; comparing members in Python would block the event loop for long.
    return _encoded(first, _SORTING_ENCODER) == _encoded(other, _SORTING_ENCODER)


def command_of(trace: CommandTrace) -> AnyCommand | None:
    """The command that was accepted; None: none was, or its record cannot be used."""
    if trace.accepted is None:
        return None
    try:
        accepted: AnyCommand = msgspec.convert(trace.accepted.command, AnyCommand)
    except msgspec.ValidationError:
        return None
    return accepted


def other_command(request: CommandRequest) -> Rejected:
    """Refusal of an idempotency key that already belongs to another command."""
    return Rejected(
        Reason.CONFLICT,
        f"The idempotency key {request.command_id} belongs to another command: use a new one",
    )


def request_of(trace: CommandTrace) -> CommandRequest | None:
    """The request of an accepted command, if the command can be continued.

    None: its record cannot be used, because a newer version or another program wrote it.
    """
    assert trace.accepted is not None
    try:
        msgspec.convert(trace.accepted.plan, Plan)
    except msgspec.ValidationError:
        return None
    return accepted_request(trace)


def accepted_request(trace: CommandTrace) -> CommandRequest | None:
    """The request of an accepted command, also of one whose record has no plan.

    None: none was accepted, or its record cannot be used (`command_of`).
    """
    accepted, command = trace.accepted, command_of(trace)
    if accepted is None or command is None:
        return None
    return CommandRequest(
        command=command,
        command_id=accepted.command_id,
        at_ms=accepted.at_ms,
        principal=accepted.principal,
    )


# --- excerpts ------------------------------------------------------------------------------------

TEXT_KEPT = 256
"""Maximum characters of a text that an excerpt keeps."""

DEPTH = 6
"""Levels of nesting that an excerpt keeps; the configs of tasks have three."""

_LONG = 1 << 64
"""Absolute value from which an integer is replaced by a note."""


def excerpt(value: Mapping[str, Any], room: int) -> dict[str, Any]:
    """The first members that fit into `room` bytes of JSON.

    The excerpt keeps the shape: names and short values, until the room is used up. A long text is
    replaced by its length, never cut. Half of a secret would not be recognised as a secret.
    """
    return _Excerpt(room).members(value, DEPTH)


class _Excerpt:
    """Builds an excerpt and counts down the room, in bytes of JSON with all escapes."""

    def __init__(self, room: int) -> None:
        self._room = room

    def members(self, value: Mapping[str, Any], depth: int) -> dict[str, Any]:
        """The members that fit. A member with a long name is left out: it may be secret."""
        kept: dict[str, Any] = {}
        for name, member in value.items():
            if len(name) > TEXT_KEPT:
                continue
            abridged = _abridged(member, depth)
            if not (self._reserve(name) and self._reserve(abridged)):
                break
            kept[name] = self._content_of(member, abridged, depth)
        return kept

    def _items(self, value: Iterable[Any], depth: int) -> list[Any]:
        kept: list[Any] = []
        for item in value:
            abridged = _abridged(item, depth)
            if not self._reserve(abridged):
                break
            kept.append(self._content_of(item, abridged, depth))
        return kept

    def _content_of(self, value: Any, abridged: Any, depth: int) -> Any:
        """Return an abridged value; a container gets the members that fit."""
        if abridged == {}:
            return self.members(value, depth - 1)
        return self._items(value, depth - 1) if abridged == [] else abridged

    def _reserve(self, abridged: Any) -> bool:
        """Reserve the room of a text, a number or an empty container; False if it does not fit."""
        room = self._room - len(json.dumps(abridged)) - 2  # 2: a comma or colon, and a space
        if room < 0:
            return False
        self._room = room
        return True


def _abridged(value: Any, depth: int) -> Any:
    """Form of a value in an excerpt: empty containers, notes in place of long texts and numbers."""
    match value:
        case Mapping():
            return {} if depth else "…"
        case list() | tuple():
            return [] if depth else "…"
        case str() if len(value) > TEXT_KEPT:
            return f"… ({len(value)} characters)"
        case int() if abs(value) >= _LONG:
            return "… (a long number)"
    return value
