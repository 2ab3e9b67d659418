"""Forwarding of commands from a worker to the leader of its group.

A worker checks a command first, and sends some refusals itself. It forwards the request with
method, path and body if only the leader can run the command. Kafka: `HerderRequestHandler`,
`DistributedHerder`.
"""

from collections.abc import Mapping

from controlplane.core import commands
from controlplane.core.commands import AnyCommand, CreateConnector
from controlplane.core.java import json_codec
from controlplane.core.plan import Reason, Rejected
from controlplane.core.releases.profiles import Profile
from controlplane.rest.endpoints.entities import TARGETS
from controlplane.rest.errors import RequestFailed

_UNPRIVILEGED = (
    commands.PauseConnector,
    commands.ResumeConnector,
    commands.ResetTopics,
    commands.SetLoggerLevel,
)
"""Commands whose records any worker may write in releases with `any_worker_writes`. In other
releases only the leader writes them. Every other command always runs on the leader."""

_INVALID = frozenset({Reason.INVALID, Reason.FAILED})
_UNKNOWN = frozenset({Reason.NO_SUCH_CONNECTOR, Reason.NO_SUCH_TASK})

_REJECTED_AT_ONCE: Mapping[type, frozenset[Reason]] = {
    commands.CreateConnector: _INVALID,
    commands.PutConfig: _INVALID,
    commands.StopConnector: _UNKNOWN,
    commands.RestartConnector: _UNKNOWN,
    commands.RestartTask: _UNKNOWN,
}
"""Reasons for which a worker itself rejects a command, before it looks for the leader."""


def forwards(command: AnyCommand, profile: Profile) -> bool:
    """Return True if a worker that does not lead forwards this command.

    This includes a restart that writes no record: the leader knows the worker that runs the
    connector or task.
    """
    return not (profile.any_worker_writes and isinstance(command, _UNPRIVILEGED))


def rejects_at_once(command: AnyCommand, rejected: Rejected) -> bool:
    """Return True if the worker itself sends this rejection, without forwarding."""
    return rejected.reason in _REJECTED_AT_ONCE.get(type(command), ())


def forwarded_body(command: AnyCommand, body: bytes | None, profile: Profile) -> bytes | None:
    """Return the body that the leader receives.

    Releases with initial states always write that field, with null if the client sent none. A
    leader of an older release refuses the unknown field.
    """
    if not isinstance(command, CreateConnector) or not profile.forwards_null_state:
        return body
    target = command.initial_state
    forwarded = {
        "name": command.connector,
        "config": command.config,
        "initial_state": None if target is None else TARGETS[target],
    }
    return json_codec.encode(forwarded)


def unreachable() -> RequestFailed:
    """Return the error for a leader that has ended, but that the group has not removed yet."""
    return _forwarding_error("java.net.ConnectException: Connection refused")


def no_response() -> RequestFailed:
    """Return the error for a leader that left before it answered: the result is unknown."""
    return _forwarding_error("java.io.EOFException")


def _forwarding_error(reason: str) -> RequestFailed:
    return RequestFailed(f"IO Error trying to forward REST request: {reason}")
