"""Commands to a control plane, one value per command.

A command states the goal; `decide` answers with a `Plan`, a question or a refusal. A
`CommandRequest` adds the principal, the time and the id. Names are those of Connect's REST API.
Brackets hold the KIP that introduced the command.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from controlplane.core.records import Properties, Target

Config = Mapping[str, str | None]
"""Config in a command. A config read from a log is `Properties`: values of any type."""


class OffsetChange(msgspec.Struct, frozen=True, gc=False):
    """A requested offset of one source or sink partition, as the client wrote it.

    `offset` None removes the offset; an empty map is an offset like any other.
    """

    partition: Mapping[str, Any] | None
    offset: Mapping[str, Any] | None = None
    kind: str | None = None
    """Kind of connector that the client states: `source` or `sink`; None: not stated."""


class Command(msgspec.Struct, frozen=True, gc=False, tag_field="command"):
    """Base of all commands. The tag is their name in the command topic."""


class ConnectorCommand(Command, frozen=True):
    """Base of commands about one connector. Commands about the same connector run in order."""

    connector: str


class CreateConnector(ConnectorCommand, frozen=True, tag="create"):
    """Create a connector (initial state: KIP-980; initial offsets: KIP-995)."""

    config: Config
    initial_state: Target | None = None
    initial_offsets: tuple[OffsetChange, ...] | None = None


class PutConfig(ConnectorCommand, frozen=True, tag="put-config"):
    """Replace a connector's config; create the connector if it is missing."""

    config: Config


class PatchConfig(ConnectorCommand, frozen=True, tag="patch-config"):
    """Change keys of a connector's config; None removes a key (KIP-477)."""

    patch: Config


class DeleteConnector(ConnectorCommand, frozen=True, tag="delete"):
    """Remove the connector; its offsets stay."""


class PauseConnector(ConnectorCommand, frozen=True, tag="pause"):
    """Pause a connector: its tasks stay assigned but do nothing (KIP-52)."""


class ResumeConnector(ConnectorCommand, frozen=True, tag="resume"):
    """Return a paused or stopped connector to STARTED (KIP-52, KIP-875)."""


class StopConnector(ConnectorCommand, frozen=True, tag="stop"):
    """Stop a connector: it runs no tasks, and its offsets can be changed (KIP-875)."""


class RestartConnector(ConnectorCommand, frozen=True, tag="restart"):
    """Restart a connector, with its tasks if `include_tasks` (KIP-745).

    `only_failed`: restart only instances whose reported state is FAILED.
    """

    include_tasks: bool = False
    only_failed: bool = False


class RestartTask(ConnectorCommand, frozen=True, tag="restart-task"):
    """Restart one task (KIP-52)."""

    task: int


class AlterOffsets(ConnectorCommand, frozen=True, tag="alter-offsets"):
    """Change offsets of a stopped connector; other partitions keep theirs (KIP-875)."""

    offsets: tuple[OffsetChange, ...]


class ResetOffsets(ConnectorCommand, frozen=True, tag="reset-offsets"):
    """Remove all offsets of a stopped connector (KIP-875)."""


class ResetTopics(ConnectorCommand, frozen=True, tag="reset-topics"):
    """Empty the set of topics that a connector has used (KIP-558)."""


class PublishTasks(ConnectorCommand, frozen=True, tag="publish-tasks"):
    """Task configs, 0 to n-1, that the connector's owner sends to the leader."""

    configs: tuple[Config, ...]


class FenceTasks(ConnectorCommand, frozen=True, tag="fence-tasks"):
    """Fence the producers of older task generations, so that they can no longer write (KIP-618)."""


class RestoreConnector(ConnectorCommand, frozen=True, tag="restore"):
    """Restore a connector to an earlier moment. Our own command; `undo.restoration` builds it.

    `config` None: the connector did not exist at that moment, so it is deleted. `offsets` None:
    every offset stays. Otherwise these offsets are set, and those of other partitions removed.
    """

    config: Properties | None
    target: Target | None = None
    offsets: tuple[OffsetChange, ...] | None = None
    moment: str | None = None
    """Moment to restore, as the client wrote it. A repeated request must have the same text."""


class SetLoggerLevel(Command, frozen=True, tag="set-logger-level"):
    """Set the level of a logger on every worker (KIP-976)."""

    namespace: str
    level: str


AnyCommand = (
    CreateConnector
    | PutConfig
    | PatchConfig
    | DeleteConnector
    | PauseConnector
    | ResumeConnector
    | StopConnector
    | RestartConnector
    | RestartTask
    | AlterOffsets
    | ResetOffsets
    | ResetTopics
    | PublishTasks
    | FenceTasks
    | RestoreConnector
    | SetLoggerLevel
)
"""All commands: `decide` handles them and the command topic can hold them."""

OffsetsCommand = (
    CreateConnector | PutConfig | PatchConfig | AlterOffsets | ResetOffsets | RestoreConnector
)
"""Commands that depend on offsets, or may give a connector an offsets topic of its own."""


TEXT_IN_A_PART = 1_000
"""Number of characters of config values that count as one part (`size_of_config`).

The size of a config is a number of parts. One part is the work for one key. So this number of
characters takes as much work as one key.
"""

PATTERN_IN_A_PART = 10
"""Number of characters of regular expressions that count as one part."""

_PATTERN_KEYS = (".regex", ".pattern", ".include", ".exclude")
"""Ends of the keys that may have a regular expression."""


def size_of(command: AnyCommand) -> int:
    """Size of a command, to predict its work: offsets and config keys (`size_of_config`)."""
    match command:
        case AlterOffsets():
            return len(command.offsets)
        case CreateConnector():
            return size_of_config(command.config) + len(command.initial_offsets or ())
        case PutConfig():
            return size_of_config(command.config)
        case PatchConfig():
            return size_of_config(command.patch)
        case PublishTasks():
            return sum(map(size_of_config, command.configs))
        case RestoreConnector():
            return size_of_config(command.config or {}) + len(command.offsets or ())
    return 0


def size_of_config(config: Config) -> int:
    """Number of keys in a config, plus one per comma and per `TEXT_IN_A_PART` characters.

    A comma separates list members. A member may be the alias of a transformation, whose validation
    costs as much as many keys. Regular expressions are parsed, so their characters count more.
    """
    texts = [value for value in config.values() if isinstance(value, str)]
    # This runs for every command, and one count of a joined text is faster than one per value.
    all_text = "".join(texts)
    pattern_length = sum(
        len(value)
        for key, value in config.items()
        if key.endswith(_PATTERN_KEYS) and isinstance(value, str)
    )
    return (
        len(config)
        + all_text.count(",")
        + len(all_text) // TEXT_IN_A_PART
        + pattern_length // PATTERN_IN_A_PART
    )


class CommandRequest(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Command with its principal, time (ms since 1970) and id.

    An id runs at most once, as long as the state has its command (`ClusterState.commands`).
    """

    command: AnyCommand
    command_id: str
    at_ms: int
    principal: str = "anonymous"
    keyed: bool = True
    """True if the client chose the id and may repeat it. The answer is stored only then."""


def as_stored(command: AnyCommand) -> AnyCommand:
    """Return the command as it is read back from a log: nested values are dicts and lists.

    Raises:
        TypeError, AttributeError, RecursionError, ValidationError: a value cannot be stored.
    """
    for name in command.__struct_fields__:
        if name not in ("offsets", "initial_offsets"):  # there Kafka's converter writes base64, too
            _check_texts(getattr(command, name))
    fields = _in_lists(msgspec.to_builtins(command, enc_hook=_dict_of))
    return msgspec.convert(fields, type(command))  # decoding the union would be slower


def _check_texts(value: Any) -> None:
    """Check that no text is given as bytes: `to_builtins` would replace them by base64.

    Raises:
        TypeError: there are bytes.
    """
    if type(value) is str:
        return  # the usual case: the checks below are slow
    if isinstance(value, Mapping):
        for key, item in value.items():
            _check_texts(key)
            _check_texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            _check_texts(item)
    elif isinstance(value, bytes | bytearray | memoryview):
        raise TypeError("bytes are no text: decode them")


def _in_lists(stored: Any) -> Any:
    """Replace tuples by lists at every level: a log returns no tuples."""
    if isinstance(stored, dict):
        return {key: _in_lists(value) for key, value in stored.items()}
    if isinstance(stored, list | tuple):
        return [_in_lists(value) for value in stored]
    return stored


def _dict_of(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a value of type {type(value).__name__} cannot be stored as JSON")
