"""Who carries out a command: the worker that is asked, or the leader, to whom it is passed on.

A worker first does what it can by itself. What it can tell without the leader it answers at once;
only then it forwards, with method, path and body. Kafka: `HerderRequestHandler`,
`DistributedHerder`.
"""

from collections.abc import Mapping

from controlplane.core import commands, javajson
from controlplane.core.commands import AnyCommand, CreateConnector
from controlplane.core.plan import Reason, Rejected
from controlplane.core.profiles import Profile
from controlplane.rest.entities import TARGETS
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
"""What the worker that is asked refuses before it looks for the leader."""


def forwards(command: AnyCommand, profile: Profile) -> bool:
    """Whether a worker that does not lead passes this on.

    A restart that leaves no record is the affair of whoever runs the connector or task; the leader
    knows who that is.
    """
    return not (profile.any_worker_writes and isinstance(command, _BY_ANYBODY))


def told_at_once(command: AnyCommand, rejected: Rejected) -> bool:
    """Whether the worker that is asked says so itself, though it would have to forward."""
    return rejected.reason in _TOLD_AT_ONCE.get(type(command), ())


def body_passed_on(command: AnyCommand, body: bytes | None, profile: Profile) -> bytes | None:
    """The body as the leader gets it.

    Releases that know of initial states write one in any case, as null where none was asked for: a
    leader that has never heard of the field refuses it.
    """
    if not isinstance(command, CreateConnector) or not profile.forwards_null_state:
        return body
    wanted = command.initial_state
    passed_on = {
        "name": command.connector,
        "config": command.config,
        "initial_state": None if wanted is None else TARGETS[wanted],
    }
    return javajson.encode(passed_on)


def unreachable() -> Failed:
    """The leader does not answer: it is gone, and the group has not noticed yet."""
    return _not_passed_on("java.net.ConnectException: Connection refused")


def broken_off() -> Failed:
    """The leader has gone away before it answered. Nobody knows what it has done."""
    return _not_passed_on("java.io.EOFException")


def _not_passed_on(reason: str) -> Failed:
    return Failed(f"IO Error trying to forward REST request: {reason}")
