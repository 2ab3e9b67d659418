"""`--history CONNECTOR`: every change of a connector, with its record, its time, and the diff."""

from controlplane.cli.failing import Refused
from controlplane.cli.inspect.overview import heading
from controlplane.cli.printing import print_json, say
from controlplane.cli.sources import Source
from controlplane.cli.tables import table
from controlplane.core import shown_records as records
from controlplane.core.history import Event, history
from controlplane.core.moments import time_text
from controlplane.core.profiles import Profile
from controlplane.core.safe_text import count
from controlplane.core.state import Topics


async def show(source: Source, profile: Profile, output: str, name: str) -> None:
    """Print the history of one connector.

    Raises:
        Refused: no record concerns it.
    """
    told = history(
        await source.entries(),
        name,
        profile,
        topics=source.topics,
        exactly_once=source.exactly_once,
    )
    if not told.records:
        raise Refused(f"no record of this log concerns a connector {name!r}: check the name")
    if output == "json":
        about = source.about | {"profile": profile.release, "connector": name}
        entries = {event.entry.position: event.entry for event in told.events}
        print_json(
            about
            | {"events": [records.of_event(event, source.topics) for event in told.events]}
            | {"records": [records.document(entry) for entry in entries.values()]}
        )
        return
    _print(told.events, source.topics)
    acted = {event.entry.position for event in told.events}
    quiet = len({entry.position for entry in told.records} - acted)
    say()
    hidden = f" ({quiet} changed nothing and are not shown)" if quiet else ""
    say(f"{count(len(told.records), 'record')}{hidden}, as {heading(profile, source)}")


# --- printing -------------------------------------------------------------------------------


def _print(found: list[Event], topics: Topics) -> None:
    rows: list[tuple[str, str, str, str]] = []
    last = None
    for event in records.shortened(found):
        again = event.entry.position == last
        last = event.entry.position
        where = "" if again else records.place(event.entry.position, topics)
        time = "" if again else time_text(event.entry.timestamp)
        rows.append((where, time, event.what, event.words))
    table(("RECORD", "TIME", "WHAT", "CHANGE"), rows, spare=("TIME",))
