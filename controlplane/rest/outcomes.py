"""Outcomes → answers: what a release tells somebody whose command has been done."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from controlplane.core import views
from controlplane.core.commands import AnyCommand, ConnectorCommand, CreateConnector
from controlplane.core.plan import Outcome
from controlplane.core.plugins import UNKNOWN_TYPE, Plugins
from controlplane.core.profiles import Profile
from controlplane.core.records import State, Status
from controlplane.core.state import ClusterState
from controlplane.core.views import ConnectorView, StatusView
from controlplane.rest import entities
from controlplane.rest.errors import ACCEPTED, CREATED, NO_CONTENT, OK, Answer
from controlplane.rest.locations import location_of


class Done(NamedTuple):
    """A command that was carried out, and the state once its records have been read back.

    The state and the release count only for an outcome that does not hold its whole answer: one
    that is planned, or was stored by an earlier version of this program.
    """

    command: AnyCommand
    outcome: Outcome
    state: ClusterState
    profile: Profile
    plugins: Plugins = Plugins()

    @property
    def connector(self) -> str:
        """Whom it was about."""
        assert isinstance(self.command, ConnectorCommand)
        return self.command.connector

    @property
    def as_first(self) -> "Done":
        """The same, for the release that answered first."""
        release = self.outcome.release
        return self if release is None else self._replace(profile=Profile.of(release))

    def view(self) -> ConnectorView | None:
        """The connector as the command left it; None: there was none."""
        left = self.outcome.connector
        if left is not None:
            return ConnectorView(self.connector, left.config, range(left.tasks), left.type)
        if self.outcome.release is not None:
            return None
        return views.connector(self.state, self.connector, self.plugins)

    def status(self) -> StatusView | None:
        """The status of the connector when its restart was requested; None: it is not known."""
        left = self.outcome.status
        if left is not None:
            return StatusView(self.connector, left.connector, dict(left.tasks), left.type)
        return views.status(self.state, self.connector, self.plugins)


def nothing(_: Done) -> Answer:
    """It is done; there is no more to say."""
    return Answer(NO_CONTENT, "", None)


def accepted(_: Done) -> Answer:
    """It is wanted from now on; the workers follow."""
    return Answer(ACCEPTED, "", None)


def topics_reset(done: Done) -> Answer:
    """KIP-558 says done, Kafka says accepted: what tasks use meanwhile is added again."""
    return Answer(OK if done.profile.rest_kip_topics_reset else ACCEPTED, "", None)


def config_written(done: Done) -> Answer:
    """The connector as it is now, and where it is found if it is new.

    One that was created with offsets has them told of as well, and is answered as KIP-995 says.
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


def _as_asked(done: Done) -> dict[str, Any]:
    """A connector that has been deleted since, as far as the request describes it.

    Earlier versions of this program stored no more.
    """
    return {"name": done.connector, "config": getattr(done.command, "config", {}), "tasks": []}


def restored(done: Done) -> Answer:
    """The connector as it is again; nothing, where there is none again."""
    found = done.view()
    return nothing(done) if found is None else Answer(OK, entities.connector(found, done.profile))


def offsets_altered(done: Done) -> Answer:
    """How sure it is that the connector will see its new offsets."""
    return Answer(OK, {"message": done.outcome.message})


def offsets_reset(done: Done) -> Answer:
    """The same, in the releases; KIP-875 has nothing to say."""
    return nothing(done) if done.profile.rest_kip_offsets else offsets_altered(done)


def restarted(done: Done) -> Answer:
    """Of a restart that all workers take part in: which instances it concerns (KIP-745)."""
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


def _restarting_only(done: Done, concerned: Sequence[int | None]) -> StatusView:
    """The status of a connector that has been deleted since, if no status was stored."""
    unknown = Status(State.RESTARTING, None, "", 0)
    tasks = {task: unknown for task in concerned if task is not None}
    return StatusView(done.connector, unknown, tasks, UNKNOWN_TYPE)


def _marked(reported: Status, *, concerned: bool) -> Status:
    return msgspec.structs.replace(reported, state=State.RESTARTING) if concerned else reported
