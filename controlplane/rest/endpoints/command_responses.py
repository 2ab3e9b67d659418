"""Answers to completed commands, per release."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from controlplane.core import views
from controlplane.core.commands import AnyCommand, ConnectorCommand, CreateConnector
from controlplane.core.plan import Outcome
from controlplane.core.plugins import UNKNOWN_TYPE, Plugins
from controlplane.core.records import State, Status
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState
from controlplane.core.views import ConnectorView, StatusView
from controlplane.rest.endpoints import entities
from controlplane.rest.endpoints.location_header import location_of
from controlplane.rest.errors import ACCEPTED, CREATED, NO_CONTENT, OK, Answer


class CompletedCommand(NamedTuple):
    """A command that was carried out, and the state once its records have been read back.

    State and release matter only for an outcome that does not hold its whole answer. Such an
    outcome is planned, or an earlier version of this program stored it.
    """

    command: AnyCommand
    outcome: Outcome
    state: ClusterState
    profile: Profile
    plugins: Plugins = Plugins()

    @property
    def connector(self) -> str:
        """Name of the command's connector."""
        assert isinstance(self.command, ConnectorCommand)
        return self.command.connector

    @property
    def as_first(self) -> "CompletedCommand":
        """Return the command with the release that answered it first."""
        release = self.outcome.release
        return self if release is None else self._replace(profile=Profile.of(release))

    def view(self) -> ConnectorView | None:
        """The connector as the command left it; None if there was none."""
        left = self.outcome.connector
        if left is not None:
            return ConnectorView(self.connector, left.config, range(left.tasks), left.type)
        if self.outcome.release is not None:
            return None
        return views.connector(self.state, self.connector, self.plugins)

    def status(self) -> StatusView | None:
        """Status of the connector when its restart was requested; None if it is unknown."""
        left = self.outcome.status
        if left is not None:
            return StatusView(self.connector, left.connector, dict(left.tasks), left.type)
        return views.status(self.state, self.connector, self.plugins)


def nothing(_: CompletedCommand) -> Answer:
    """Answer 204: the command is done."""
    return Answer(NO_CONTENT, "", None)


def accepted(_: CompletedCommand) -> Answer:
    """Answer 202: the workers follow the new target."""
    return Answer(ACCEPTED, "", None)


def topics_reset(done: CompletedCommand) -> Answer:
    """Answer 200 in KIP-558 and 202 in Kafka: running tasks add topics again."""
    return Answer(OK if done.profile.rest_kip_topics_reset else ACCEPTED, "", None)


def config_written(done: CompletedCommand) -> Answer:
    """Return the connector as it is now, with its `Location` if it is new.

    A connector that was created with offsets is answered with them, as KIP-995 says.
    """
    name, profile = done.connector, done.profile
    found = done.view()
    shown = _as_asked(done) if found is None else entities.connector(found, profile)
    if not done.outcome.created:
        return Answer(OK, shown)
    location = {"location": location_of(name, profile)}
    if isinstance(done.command, CreateConnector) and done.command.initial_offsets is not None:
        return Answer(OK, {**shown, **done.outcome.facts}, headers=location)
    return Answer(CREATED, shown, headers=location)


def _as_asked(done: CompletedCommand) -> dict[str, Any]:
    """Describe a connector that has been deleted since, from the request.

    Earlier versions of this program stored no more.
    """
    return {"name": done.connector, "config": getattr(done.command, "config", {}), "tasks": []}


def restored(done: CompletedCommand) -> Answer:
    """Return the restored connector; 204 if the restored state has none."""
    found = done.view()
    return nothing(done) if found is None else Answer(OK, entities.connector(found, done.profile))


def offsets_altered(done: CompletedCommand) -> Answer:
    """Return the message about the connector's new offsets."""
    return Answer(OK, {"message": done.outcome.message})


def offsets_reset(done: CompletedCommand) -> Answer:
    """Return the message as after an alteration; KIP-875 defines no body."""
    return nothing(done) if done.profile.rest_kip_offsets else offsets_altered(done)


def restarted(done: CompletedCommand) -> Answer:
    """Return the instances that a restart concerns, if all workers take part in it (KIP-745)."""
    concerned = done.outcome.facts.get("restarting")
    if concerned is None:
        return nothing(done)
    found = done.status() or _restarting_only(done, concerned)
    marked = StatusView(
        found.name,
        _marked(found.connector, concerned=None in concerned),
        {task: _marked(one, concerned=task in concerned) for task, one in found.tasks.items()},
        found.type,
    )
    return Answer(ACCEPTED, entities.status(marked, done.profile))


def _restarting_only(done: CompletedCommand, concerned: Sequence[int | None]) -> StatusView:
    """Return the status of a connector that has been deleted since, if no status was stored."""
    unknown = Status(State.RESTARTING, None, "", 0)
    tasks = {task: unknown for task in concerned if task is not None}
    return StatusView(done.connector, unknown, tasks, UNKNOWN_TYPE)


def _marked(reported: Status, *, concerned: bool) -> Status:
    return msgspec.structs.replace(reported, state=State.RESTARTING) if concerned else reported
