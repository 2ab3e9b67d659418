"""Changes of an attached cluster that were not requested here: what and when, not by whom.

An attached cluster is a Connect cluster whose workers get commands from this service by REST.
Connect's topics do not record who has sent a request. A record that no command of the trail has
caused comes from another client: curl, Terraform, a console.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from controlplane.core.codec.config import decode_config
from controlplane.core.commands import (
    ConnectorCommand,
    CreateConnector,
    DeleteConnector,
    PauseConnector,
    PutConfig,
    RestartConnector,
    ResumeConnector,
    StopConnector,
)
from controlplane.core.entry import Entry, Position
from controlplane.core.records import ConnectorConfig, RestartRequest, Target, TargetState
from controlplane.core.releases.profiles import Profile

_TARGETING = {
    Target.STARTED: ResumeConnector,
    Target.PAUSED: PauseConnector,
    Target.STOPPED: StopConnector,
}


class ForeignChange(NamedTuple):
    """A record of the config topic, and the command that writes such a record."""

    entry: Entry
    command: ConnectorCommand


def foreign_changes(
    entries: Iterable[Entry], profile: Profile, own: Mapping[Position, str]
) -> Iterator[ForeignChange]:
    """Yield the changes in config records, without those of own commands.

    `own` has the connector of each record of an own command. A record about another connector at
    such a position is foreign: the topic was deleted and created again.

    A target state that comes before its config belongs to a creation. A removed target state
    belongs to a deletion. Neither is yielded.
    """
    connectors: set[str] = set()
    for entry in entries:
        command = _command(entry, profile, connectors)
        match command:
            case CreateConnector():
                connectors.add(command.connector)
            case DeleteConnector():
                connectors.discard(command.connector)
        if command is not None and own.get(entry.position) != command.connector:
            yield ForeignChange(entry, command)


def _command(entry: Entry, profile: Profile, connectors: set[str]) -> ConnectorCommand | None:
    """Return the command that writes a record; None if workers write it by themselves."""
    record = None if entry.aborted else decode_config(entry.key, entry.value, profile)
    match record:
        case ConnectorConfig(connector=name, properties=None):
            return DeleteConnector(name) if name in connectors else None
        case ConnectorConfig(connector=name, properties=config) if config is not None:
            return (PutConfig if name in connectors else CreateConnector)(name, config)
        case TargetState(connector=name, state=target) if target is not None and name in connectors:
            return _TARGETING[target](name)
        case RestartRequest(connector=name):
            return RestartConnector(name, record.include_tasks, record.only_failed)
    return None
