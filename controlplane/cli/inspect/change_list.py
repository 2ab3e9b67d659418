"""`--history CONNECTOR`: every change of a connector, with its record and time."""

from controlplane.cli.inspect.overview import heading
from controlplane.cli.opened_log import InputLog
from controlplane.core.moments import time_text
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import Topics
from controlplane.core.text import record_text
from controlplane.core.text.safe_text import count
from controlplane.core.views.history import HistoryEvent, history
from controlplane.core.views.history_text import event_document, shortened
from controlplane.terminal.command_errors import InputRefused
from controlplane.terminal.output import print_json, say
from controlplane.terminal.tables import table


async def show(source: InputLog, profile: Profile, output: str, name: str) -> None:
    """Print the history of one connector.

    Raises:
        InputRefused: no record concerns it.
    """
    changes = history(
        await source.entries(),
        name,
        profile,
        topics=source.topics,
        exactly_once=source.exactly_once,
    )
    if not changes.records:
        raise InputRefused(f"no record of this log concerns a connector {name!r}: check the name")
    if output == "json":
        about = source.document_fields | {"profile": profile.release, "connector": name}
        entries = {event.entry.position: event.entry for event in changes.events}
        print_json(
            about
            | {"events": [event_document(event, source.topics) for event in changes.events]}
            | {"records": [record_text.document(entry) for entry in entries.values()]}
        )
        return
    _print(changes.events, source.topics)
    effective = {event.entry.position for event in changes.events}
    ineffective = len({entry.position for entry in changes.records} - effective)
    say()
    hidden = f" ({ineffective} changed nothing and are not shown)" if ineffective else ""
    say(f"{count(len(changes.records), 'record')}{hidden}, as {heading(profile, source)}")


# --- printing -------------------------------------------------------------------------------


def _print(events: list[HistoryEvent], topics: Topics) -> None:
    rows: list[tuple[str, str, str, str]] = []
    last = None
    for event in shortened(events):
        again = event.entry.position == last
        last = event.entry.position
        where = "" if again else record_text.place(event.entry.position, topics)
        time = "" if again else time_text(event.entry.timestamp)
        rows.append((where, time, event.what, event.words))
    table(("RECORD", "TIME", "WHAT", "CHANGE"), rows, spare=("TIME",))
