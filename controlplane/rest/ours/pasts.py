"""`GET /connectors/{c}/history` and `POST /connectors/{c}/undo`: what was, and putting it back."""

from typing import Any

from controlplane.asof import read_history
from controlplane.core.commands import RestoreConnector
from controlplane.core.shown_records import of_event
from controlplane.core.undo import restoration
from controlplane.rest.calls import Call
from controlplane.rest.errors import OK, Answer, BadQuestion, NotFound
from controlplane.rest.ours.pages import page_of


async def show_history(call: Call) -> Answer:
    """Every change of a connector, with its record, the oldest first. Secrets are hidden.

    `limit=` and `after=` (the record behind which to go on, as `connect-configs:0:57`) page.
    """
    (name,) = call.names
    log = call.service.log
    assert log is not None  # else this endpoint is not there
    state, notices = await call.then()
    told = await read_history(log, state, name)
    if not told.records:
        raise NotFound(f"No record of this log concerns a connector {name}")
    events, further = page_of(told.events, call, lambda event: _place(event.entry.position))
    shown: dict[str, Any] = {
        "connector": name,
        "profile": state.profile.release,
        "events": [of_event(event) for event in events],
        "next": further,
    }
    return Answer(OK, shown).noticed(notices)


def _place(position: Any) -> str:
    return f"{position.topic}:{position.partition}:{position.offset}"


async def meant_by_undo(call: Call) -> RestoreConnector:
    """The command that puts a connector back as it was at `to=`, with its offsets if asked for.

    Raises:
        BadQuestion: nobody says when.
        UnknownMoment: the log has nothing there.
    """
    (name,) = call.names
    moment = call.asked("to")
    if not moment:
        raise BadQuestion("to= is missing: give a moment to go back to, e.g. to=config@57")
    offsets = call.flag("offsets")
    if (known := _repeated(call, name, moment, offsets=offsets)) is not None:
        return known
    follower = call.service.follower
    then = (await follower.state_at(moment, call.profile)).state
    now = await follower.state(call.profile)
    if name not in then.config.connectors and name not in now.config.connectors:
        raise NotFound(f"There is no connector {name}, neither then nor now")
    return restoration(then, name, offsets=offsets, moment=moment)


def _repeated(call: Call, name: str, moment: str, *, offsets: bool) -> RestoreConnector | None:
    """The undo that the request's key stands for, if it is the one that is asked for now.

    The log may no longer hold that moment, and the connector may no longer be there.
    """
    commands = call.service.commands
    if commands is None or call.key is None:
        return None
    known = commands.command_of(call.key)
    if not isinstance(known, RestoreConnector):
        return None
    asked = name, moment, offsets
    return known if (known.connector, known.moment, known.offsets is not None) == asked else None
