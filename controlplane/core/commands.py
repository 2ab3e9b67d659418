"""What can be asked of a control plane: one value per command, as data.

A command says what is wanted, never how: `decide` answers with a `Plan`, or why not. Who asks, when
and under which id travels beside it, in `Asked`. Names are those of Connect's REST API; in brackets
the KIP that brought the command.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from controlplane.core.records import Properties, Target

Config = Mapping[str, str | None]
"""A config that is asked for. Those in a log are `Properties`, and may hold anything."""


class OffsetChange(msgspec.Struct, frozen=True, gc=False):
    """One offset that is wanted: of a source or sink partition as the asker wrote it.

    `offset` None takes the offset away; an empty map is an offset like any other.
    """

    partition: Mapping[str, Any] | None
    offset: Mapping[str, Any] | None = None
    kind: str | None = None
    """What the asker says that the connector is: `source`, `sink`; None: he does not say."""


class Command(msgspec.Struct, frozen=True, gc=False, tag_field="command"):
    """Base of all commands. The tag is how the command topic names them."""


class ConnectorCommand(Command, frozen=True):
    """Base of the commands about one connector; those of one connector are run in order."""

    connector: str


class CreateConnector(ConnectorCommand, frozen=True, tag="create"):
    """A new connector (initial state: KIP-980; initial offsets: KIP-995)."""

    config: Config
    initial_state: Target | None = None
    initial_offsets: tuple[OffsetChange, ...] | None = None


class PutConfig(ConnectorCommand, frozen=True, tag="put-config"):
    """The whole config of a connector, which is created if it is not there."""

    config: Config


class PatchConfig(ConnectorCommand, frozen=True, tag="patch-config"):
    """Some keys of a connector's config; None removes a key (KIP-477)."""

    patch: Config


class DeleteConnector(ConnectorCommand, frozen=True, tag="delete"):
    """A connector is gone; its offsets stay."""


class PauseConnector(ConnectorCommand, frozen=True, tag="pause"):
    """Tasks stay where they are but do nothing (KIP-52)."""


class ResumeConnector(ConnectorCommand, frozen=True, tag="resume"):
    """Out of PAUSED or STOPPED (KIP-52, KIP-875)."""


class StopConnector(ConnectorCommand, frozen=True, tag="stop"):
    """No tasks at all: the only state in which offsets may be changed (KIP-875)."""


class RestartConnector(ConnectorCommand, frozen=True, tag="restart"):
    """The connector, or it and its tasks (KIP-745), all of them or those that failed."""

    include_tasks: bool = False
    only_failed: bool = False


class RestartTask(ConnectorCommand, frozen=True, tag="restart-task"):
    """One task (KIP-52)."""

    task: int


class AlterOffsets(ConnectorCommand, frozen=True, tag="alter-offsets"):
    """Some offsets of a stopped connector (KIP-875)."""

    offsets: tuple[OffsetChange, ...]


class ResetOffsets(ConnectorCommand, frozen=True, tag="reset-offsets"):
    """No offsets of a stopped connector are left (KIP-875)."""


class ResetTopics(ConnectorCommand, frozen=True, tag="reset-topics"):
    """The set of topics that a connector has used is empty again (KIP-558)."""


class PublishTasks(ConnectorCommand, frozen=True, tag="publish-tasks"):
    """What the connector's owner tells the leader: the configs of all tasks, 0 to n-1."""

    configs: tuple[Config, ...]


class FenceTasks(ConnectorCommand, frozen=True, tag="fence-tasks"):
    """Producers of older task generations can write no more (KIP-618)."""


class RestoreConnector(ConnectorCommand, frozen=True, tag="restore"):
    """A connector as it once was (ours): undo. `undo.restoration` makes it of a state of the past.

    Without a config there was no such connector. With offsets, those not among them are taken away;
    None leaves them all as they are.
    """

    config: Properties | None
    target: Target | None = None
    offsets: tuple[OffsetChange, ...] | None = None
    moment: str | None = None
    """The moment to go back to, as the asker wrote it; a repeated request is recognised by it."""


class SetLoggerLevel(Command, frozen=True, tag="set-logger-level"):
    """The level of a logger on every worker (KIP-976)."""

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
"""Every command there is: what `decide` knows and the command topic can hold."""


TEXT_IN_A_PART = 1_000
"""Characters of a config that cost as much as a key."""


def size_of(command: AnyCommand) -> int:
    """Number of offsets and config keys that a command brings; long values count several times."""
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
            return len(command.config or ()) + len(command.offsets or ())
    return 0


def size_of_config(config: Config) -> int:
    """Number of keys and of further list members in a config; long values count several times.

    A member may be the alias of a transformation, whose validation costs as much as many keys.
    """
    texts = [value for value in config.values() if isinstance(value, str)]
    together = "".join(texts)  # looked at as one text: it is looked at often
    return len(config) + together.count(",") + len(together) // TEXT_IN_A_PART


class Asked(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A command with who asks, when (ms since 1970), and the id under which it is run once."""

    command: AnyCommand
    command_id: str
    at_ms: int
    principal: str = "anonymous"
    keyed: bool = True
    """True if the client chose the id and may repeat it. Only then is the answer stored."""
