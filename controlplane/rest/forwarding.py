"""Forwarding of commands from a worker to the leader of its group.

A worker first does what it can do alone. It answers at once where it needs no leader. Otherwise it
forwards the request with method, path and body. Kafka: `HerderRequestHandler`, `DistributedHerder`.
"""

from collections.abc import Mapping

from controlplane.core import commands
from controlplane.core.commands import AnyCommand, CreateConnector
from controlplane.core.java import json_converter
from controlplane.core.plan import Reason, Rejected
from controlplane.core.releases.profiles import Profile
from controlplane.rest.endpoints.entities import TARGETS
from controlplane.rest.errors import Failed

_BY_ANYBODY = (
    commands.PauseConnector,
    commands.ResumeConnector,
    commands.ResetTopics,
    commands.SetLoggerLevel,
)
"""Commands whose records are not privileged. All others are for the leader alone."""

_INVALID = frozenset({Reason.INVALID, Reason.FAILED})
_UNKNOWN = frozenset({Reason.NO_SUCH_CONNECTOR, Reason.NO_SUCH_TASK})

_TOLD_AT_ONCE: Mapping[type, frozenset[Reason]] = {
    commands.CreateConnector: _INVALID,
    commands.PutConfig: _INVALID,
    commands.StopConnector: _UNKNOWN,
    commands.RestartConnector: _UNKNOWN,
    commands.RestartTask: _UNKNOWN,
}
"""Reasons for which a worker rejects each command before it looks for the leader."""


def forwards(command: AnyCommand, profile: Profile) -> bool:
    """Return True if a worker that does not lead forwards this command.

    A restart that writes no record goes to the worker that runs the connector or task. The leader
    knows that worker.
    """
    return not (profile.any_worker_writes and isinstance(command, _BY_ANYBODY))


def told_at_once(command: AnyCommand, rejected: Rejected) -> bool:
    """Return True if the worker itself sends this rejection, without forwarding."""
    return rejected.reason in _TOLD_AT_ONCE.get(type(command), ())


def body_passed_on(command: AnyCommand, body: bytes | None, profile: Profile) -> bytes | None:
    """Return the body that the leader receives.

    Releases with initial states always write that field, with null if the client sent none. A
    leader of an older release refuses the unknown field.
    """
    if not isinstance(command, CreateConnector) or not profile.forwards_null_state:
        return body
    wanted = command.initial_state
    passed_on = {
        "name": command.connector,
        "config": command.config,
        "initial_state": None if wanted is None else TARGETS[wanted],
    }
    return json_converter.encode(passed_on)


def unreachable() -> Failed:
    """Return the error for a leader that has left but is still in the group."""
    return _not_passed_on("java.net.ConnectException: Connection refused")


def broken_off() -> Failed:
    """Return the error for a leader that left before it answered. Its result is unknown."""
    return _not_passed_on("java.io.EOFException")


def _not_passed_on(reason: str) -> Failed:
    return Failed(f"IO Error trying to forward REST request: {reason}")
