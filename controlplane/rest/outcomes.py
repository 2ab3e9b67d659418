"""Outcomes → answers: what a release tells somebody whose command has been done."""

from typing import Any, NamedTuple

import msgspec

from controlplane.core import views
from controlplane.core.commands import AnyCommand, ConnectorCommand, CreateConnector
from controlplane.core.plan import Outcome
from controlplane.core.plugins import Plugins
from controlplane.core.profiles import Profile
from controlplane.core.records import State, Status
from controlplane.core.state import ClusterState
from controlplane.core.views import StatusView
from controlplane.rest import entities
from controlplane.rest.errors import ACCEPTED, CREATED, NO_CONTENT, OK, Answer
from controlplane.rest.locations import location_of


class Done(NamedTuple):
    """A command that was done, and what is known once its records have been read back."""

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
    found = views.connector(done.state, name, done.plugins)
    if found is None:  # it has been deleted since: this is the same request once more
        return _as_asked(done)
    shown = entities.connector(found, profile)
    if not done.outcome.created:
        return Answer(OK, shown)
    location = {"location": location_of(name, profile)}
    if isinstance(done.command, CreateConnector) and done.command.initial_offsets is not None:
        return Answer(OK, {**shown, **done.outcome.facts}, headers=location)
    return Answer(CREATED, shown, headers=location)


def _as_asked(done: Done) -> Answer:
    """What a creation or an update answered when it was done, as far as it says so itself."""
    told: dict[str, Any] = {
        "name": done.connector,
        "config": getattr(done.command, "config", {}),
        "tasks": [],
    }
    return Answer(CREATED if done.outcome.created else OK, told)


def restored(done: Done) -> Answer:
    """The connector as it is again; nothing, where there is none again."""
    found = views.connector(done.state, done.connector, done.plugins)
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
    found = views.status(done.state, done.connector, done.plugins)
    assert found is not None  # a connector without status is not restarted so
    marked = StatusView(
        found.name,
        _marked(found.connector, concerned=None in concerned),
        {task: _marked(one, concerned=task in concerned) for task, one in found.tasks.items()},
        found.type,
    )
    return Answer(ACCEPTED, entities.status(marked, done.profile))


def _marked(reported: Status, *, concerned: bool) -> Status:
    return msgspec.structs.replace(reported, state=State.RESTARTING) if concerned else reported
