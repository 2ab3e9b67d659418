"""`--history CONNECTOR`: every change of a connector, with its record, its time, and the diff."""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

from controlplane.cli import records
from controlplane.cli.failing import Refused
from controlplane.cli.inspect.overview import heading
from controlplane.cli.inspect.owners import owner
from controlplane.cli.inspect.shown import change, item, shown
from controlplane.cli.printing import count, print_json, say
from controlplane.cli.sources import Source
from controlplane.cli.tables import table
from controlplane.core.codec.config import decode_config
from controlplane.core.codec.offsets import decode_offset, decode_partition, frozen
from controlplane.core.diff import Aspect, diff
from controlplane.core.entry import Entry
from controlplane.core.evolve import Fold, Kind
from controlplane.core.order import in_order
from controlplane.core.profiles import Profile
from controlplane.core.records import (
    Invalid,
    RestartRequest,
    SourcePartition,
    TaskConfig,
    TaskCount,
)
from controlplane.core.redact import redacted_text
from controlplane.core.state import ClusterState, Topics

OFFSETS_IN_A_ROW = 10
"""A run of source offsets longer than this is shortened in the table; JSON has them all."""


class Event(NamedTuple):
    """One thing that a record did to a connector. Words are made when they are asked for."""

    entry: Entry
    aspect: Aspect | None
    """The fact that changed; None: no fact, but something worth a line."""
    item: Any
    """Which one: config key, task id, topic, source partition; or what it was about instead."""
    before: Any = None
    after: Any = None
    note: str = ""

    @property
    def what(self) -> str:
        """What changed: `target state`, `config rows`, `task status 0`."""
        if self.aspect is None:
            return str(self.item)
        return f"{self.aspect.value} {item(self.aspect, self.item)}".strip()

    @property
    def words(self) -> str:
        """What became of it: `PAUSED → STOPPED`."""
        if self.aspect is None:
            return self.note
        return change(self.aspect, self.item, self.before, self.after)


async def show(source: Source, profile: Profile, output: str, name: str) -> None:
    """Print the history of one connector.

    Raises:
        Refused: no record concerns it.
    """
    worker = Fold(profile, topics=source.topics, exactly_once=source.exactly_once)
    entries = [
        entry
        for entry in in_order(await source.entries())
        if not entry.aborted or worker.sees_aborted(entry.topic)
    ]
    concerned = list(concerning(entries, name, source.topics, profile))
    if not concerned:
        raise Refused(f"no record of this log concerns a connector {name!r}: check the name")
    found = list(events(concerned, name, profile, source.topics))
    if output == "json":
        told = {"profile": profile.release, "connector": name}
        print_json(source.about | told | {"events": [_document(event) for event in found]})
        return
    _print(found, source.topics)
    quiet = len({entry.position for entry in concerned} - {one.entry.position for one in found})
    say()
    hidden = f" ({quiet} changed nothing and are not shown)" if quiet else ""
    say(f"{count(len(concerned), 'record')}{hidden}, as {heading(profile, source)}")


# --- which records concern a connector ------------------------------------------------------


def concerning(
    entries: Iterable[Entry], name: str, topics: Topics, profile: Profile
) -> Iterator[Entry]:
    """The records about one connector, in the order given: as the worker reads their keys."""
    owners: dict[tuple[str, bytes | None], str | None] = {}
    for entry in entries:
        place = entry.topic, entry.key
        if place not in owners:
            owners[place] = owner(*place, topics, profile)
        if owners[place] == name:
            yield entry


# --- what they did --------------------------------------------------------------------------


def events(
    entries: Iterable[Entry], name: str, profile: Profile, topics: Topics
) -> Iterator[Event]:
    """What each record did. A connector's facts follow from its own records alone."""
    fold = Fold(profile, topics=topics)
    before = fold.snapshot()
    offsets = _Offsets(profile)
    for entry in entries:
        if entry.topic not in (topics.config, topics.status):
            yield from offsets.apply(entry)
            continue
        outcome = fold.apply(entry)
        after = fold.snapshot()
        if outcome.kind is not Kind.ACCEPTED:
            yield Event(entry, None, _FATES[outcome.kind], note=redacted_text(outcome.reason))
        elif entry.topic == topics.config:
            yield from _spoken(entry, profile)
        yield from _changes(entry, name, before, after)
        before = after


_FATES = {
    Kind.IGNORED: "ignored",
    Kind.UNDECODABLE: "unreadable",
    Kind.LOSES_BATCH: "loses its batch",
    Kind.POISON: "stops a worker",
}
"""What came of a record that is not simply accepted."""


def _changes(entry: Entry, name: str, before: ClusterState, after: ClusterState) -> Iterator[Event]:
    was_there, is_there = (name in state.config.connectors for state in (before, after))
    if was_there != is_there:
        yield Event(entry, None, "connector", note="created" if is_there else "removed")
    for one in diff(before, after):
        if one.connector == name:
            yield Event(entry, one.aspect, one.item, one.before, one.after)


class _Offsets:
    """The source offsets of a connector: the raw key decides, as it does for the worker."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._partitions: dict[bytes | None, Any] = {}
        self._known: dict[tuple[str, bytes | None], Any] = {}

    def apply(self, entry: Entry) -> Iterator[Event]:
        place = entry.topic, entry.key
        before, after = self._known.get(place), _decoded(entry.value, self._profile)
        self._known[place] = after
        if frozen(before) != frozen(after):
            partition = self._partition(entry.key)
            yield Event(entry, Aspect.SOURCE_OFFSET, partition, before, after)

    def _partition(self, key: bytes | None) -> Any:
        if key not in self._partitions:
            subject = decode_partition(key, self._profile)
            assert isinstance(subject, SourcePartition)  # else it would concern nobody
            self._partitions[key] = subject.partition
        return self._partitions[key]


def _decoded(value: bytes | None, profile: Profile) -> Any:
    found = decode_offset(value, profile)
    return f"undecodable: {found.reason}" if isinstance(found, Invalid) else found


def _spoken(entry: Entry, profile: Profile) -> Iterator[Event]:
    """What a record says that changes no fact, or not yet."""
    record = decode_config(entry.key, entry.value, profile)
    for kind, (what, words) in _SPOKEN.items():
        if isinstance(record, kind):
            yield Event(entry, None, what, note=words(record))


_SPOKEN: dict[type, tuple[str, Callable[[Any], str]]] = {
    TaskConfig: ("task config", lambda record: f"of task {record.task} waits for the commit"),
    TaskCount: ("fencing", lambda record: f"the producers of {record.tasks} tasks are fenced"),
    RestartRequest: (
        "restart",
        lambda record: (
            "requested"
            + (", tasks too" if record.include_tasks else "")
            + (", failed ones only" if record.only_failed else "")
        ),
    ),
}


# --- printing -------------------------------------------------------------------------------


def _print(found: list[Event], topics: Topics) -> None:
    rows: list[tuple[str, str, str, str]] = []
    last = None
    for event in _shortened(found):
        again = event.entry.position == last
        last = event.entry.position
        where = "" if again else records.place(event.entry.position, topics)
        rows.append((where, "" if again else time(event.entry), event.what, event.words))
    table(("RECORD", "TIME (UTC)", "WHAT", "CHANGE"), rows, spare=("TIME (UTC)",))


def _shortened(found: list[Event]) -> Iterator[Event]:
    """The events; of a long run of source offsets only the first few."""
    run, left_out = 0, 0
    for event in found:
        run = run + 1 if event.aspect is Aspect.SOURCE_OFFSET else 0
        if run > OFFSETS_IN_A_ROW:
            left_out, last = left_out + 1, event
            continue
        if left_out:
            yield _left_out(last, left_out)
            left_out = 0
        yield event
    if left_out:
        yield _left_out(last, left_out)


def _left_out(last: Event, count: int) -> Event:
    note = f"… {count} more up to here; -o json has them"
    return Event(last.entry, None, "source offsets", note=note)


def time(entry: Entry) -> str:
    """When a record was written, in ISO 8601; `unknown` where the log does not tell."""
    try:
        moment = datetime.fromtimestamp(entry.timestamp / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{entry.timestamp} ms"
    if entry.timestamp < 0:
        return "unknown"
    return moment.isoformat(sep=" ", timespec="milliseconds").removesuffix("+00:00")


def _document(event: Event) -> dict[str, Any]:
    values = event.before, event.after
    if event.aspect is not None:
        before, after = (shown(event.aspect, event.item, value) for value in values)
    else:
        before, after = values
    return {
        "record": records.document(event.entry),
        "what": event.what,
        "words": event.words,
        "before": before,
        "after": after,
    }
