"""`GET /commands`: audit trail with caller, command, time and outcome. Secrets are hidden."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import msgspec

from controlplane.core.codec import decode_command
from controlplane.core.entry import Entry, Position
from controlplane.core.moments import UnknownMoment, position_text, read_position, read_time_ms
from controlplane.core.order import EntrySorter
from controlplane.core.records import CommandAccepted, CommandFinished, CommandRefused, Invalid
from controlplane.core.state import ClusterState, Topics
from controlplane.core.text.redaction import redacted_refusal, redacted_value
from controlplane.event_loop import in_thread, sliced_parts
from controlplane.rest.errors import OK, Answer
from controlplane.rest.extensions.foreign_changes import foreign_changes
from controlplane.rest.extensions.pagination import Page
from controlplane.rest.requests import Call
from controlplane.rest.service import WritesEndsLater


class AuditRow(NamedTuple):
    """One command of the command topic, or one foreign change of the config topic."""

    first: CommandAccepted | CommandRefused
    """First record of the command."""
    entry: Entry
    """Entry of that record."""
    finished: CommandFinished | None = None
    is_foreign: bool = False
    """True for a change that was not requested here; its caller is unknown."""
    is_repeated_id: bool = False
    """True if an earlier command had the same id; the fold has forgotten that one."""

    @property
    def page_key(self) -> str:
        """Id of the command; a repeated id is followed by the offset of the record."""
        command_id = self.first.command_id
        return f"{command_id}@{self.entry.offset}" if self.is_repeated_id else command_id

    @property
    def outcome(self) -> str:
        """Outcome of the command, one of `query_parameters.OUTCOMES`."""
        if isinstance(self.first, CommandRefused):
            return "refused"
        if self.is_foreign:
            return "done"
        if self.finished is None:
            return "unfinished"
        return str(self.finished.outcome.get("ended", "done"))

    def document(self) -> dict[str, Any]:
        """Return the row as JSON; secrets are hidden."""
        first, finished = self.first, self.finished
        shown: dict[str, Any] = {
            "id": first.command_id,
            "at_ms": first.at_ms,
            "principal": None if self.is_foreign else first.principal,
            "command": first.command.get("command"),
            "connector": first.command.get("connector"),
            "outcome": self.outcome,
            "asked": redacted_value("", first.command),
            "record": self.entry.position._asdict(),
        }
        if finished is not None:
            shown["finished_at_ms"] = finished.at_ms
            # Earlier versions have stored keys of offsets with their secrets in `differences`.
            shown |= {
                name: redacted_value("", finished.outcome[name])
                for name in _COMPARED
                if name in finished.outcome
            }
        reason = _reason(first, finished)
        return shown if reason is None else shown | {"reason": redacted_refusal(reason)}


_COMPARED = ("compared", "differences", "records", "recovered")
"""Facts about a command of an attached cluster: its records compared with its plan."""


def _reason(
    first: CommandAccepted | CommandRefused, finished: CommandFinished | None
) -> str | None:
    if isinstance(first, CommandRefused):
        return first.reason
    text = None if finished is None else finished.outcome.get("text")
    return None if text is None else str(text)


class _AttachedLog(NamedTuple):
    """Config records of an attached cluster, and the state after them."""

    configs: Sequence[Entry]
    state: ClusterState


_OTHER_LOG = (
    "as_of= names a moment of the cluster's log, but the commands are in another log: "
    "use since= with a time"
)


async def show_trail(call: Call) -> Answer:
    """List the commands, the oldest first.

    `connector=`, `principal=`, `command=`, `outcome=` and `since=` (a time) filter. `limit=` and
    `after=` (an id) select the page.
    """
    log = call.service.trail or call.service.log
    if call.service.trail is not None:
        call.check_present(_OTHER_LOG)
    commands: object = call.service.commands
    if isinstance(commands, WritesEndsLater):
        await commands.write_ends()
    state, notices = await call.requested_state()
    topic = state.topics.commands
    ordering = EntrySorter()
    if topic in await log.topics():
        ends = state.ends_by_topic if log is call.service.log else await log.ends([topic])
        stop = ends.get(topic, [0])
        batches = log.read([topic], stop={topic: stop})
        async for entry in sliced_parts(batch.entries() async for batch in batches):
            ordering.keep(ordering.rank(entry))
    page: Page[AuditRow] = Page(call, lambda row: row.page_key)
    configs = await _configs(call, state) if call.service.trail is not None else ()
    cluster = _AttachedLog(configs, state)
    await in_thread(partial(_fill, page, ordering.entries(), call, cluster))
    page.check_after()
    return Answer(OK, {"commands": page.rows, "next": page.next}).with_notices(notices)


async def _configs(call: Call, state: ClusterState) -> Sequence[Entry]:
    """Records of the config topic, in which foreign changes are found."""
    log, topic = call.service.log, state.topics.config
    stop = {topic: state.ends_by_topic.get(topic, [0])}
    parts = (batch.entries() async for batch in log.read([topic], stop=stop))
    return [entry async for entry in sliced_parts(parts)]


def _fill(
    page: Page[AuditRow],
    entries: Iterable[Entry],
    call: Call,
    cluster: _AttachedLog,
    has_left: Callable[[], bool],
) -> None:
    """Fill a page with commands until it is full or the client has left."""
    commands = AuditRows()
    for entry in entries:
        commands.note(entry)
        if has_left():
            return
    rows = commands.rows
    shown = [*rows, *_foreign(rows, cluster)]
    if cluster.configs:
        shown.sort(key=lambda row: row.first.at_ms)
    for row in shown:
        if has_left():
            return
        if not _is_wanted(row, call):
            continue
        if page.is_in(row):
            page.put(row.document(), len(row.entry.value or b""))
        elif page.next is not None:
            return


def _foreign(rows: Iterable[AuditRow], cluster: _AttachedLog) -> Iterator[AuditRow]:
    """Yield a row for each config record that no command of the trail has caused.

    The records of a command that has not ended are not known yet, so its connector is left out.
    """
    configs, state = cluster
    if not configs:
        return
    own: dict[Position, str] = {}
    unfinished: set[str] = set()
    for row in rows:
        connector = str(row.first.command.get("connector"))
        if row.finished is not None:
            positions = _positions(row.finished.outcome.get("records"), state.topics)
            own |= dict.fromkeys(positions, connector)
        elif isinstance(row.first, CommandAccepted):
            unfinished.add(connector)
    for entry, command in foreign_changes(configs, state.profile, own):
        if command.connector not in unfinished:
            first = CommandAccepted(
                position_text(entry.position, state.topics),
                entry.timestamp,
                "",
                msgspec.to_builtins(command),
            )
            yield AuditRow(first, entry, is_foreign=True)


def _positions(records: object, topics: Topics) -> Iterator[Position]:
    """Yield the stored positions of records; another version may have stored something else."""
    for text in records if isinstance(records, list) else ():
        with suppress(UnknownMoment):
            yield read_position(str(text), topics)


class AuditRows:
    """Rows of all commands in the order of acceptance."""

    def __init__(self) -> None:
        self._rows: dict[Position, AuditRow] = {}
        self._latest: dict[str, Position] = {}
        """Position of the latest row of each command id."""

    @property
    def rows(self) -> Sequence[AuditRow]:
        """The rows so far."""
        return [*self._rows.values()]

    def note(self, entry: Entry) -> None:
        """Add a record's facts to its command's row.

        A finished command keeps its row if its id is accepted or refused again.
        """
        record = decode_command(entry.key, entry.value)
        if record is None or isinstance(record, Invalid):
            return
        place = self._latest.get(record.command_id)
        row = None if place is None else self._rows[place]
        if isinstance(record, CommandFinished):
            if place is not None and row is not None:
                self._rows[place] = row._replace(finished=record)
            return
        has_ended = row is not None and row.finished is not None
        if isinstance(record, CommandAccepted) and _is_accepted(row) and not has_ended:
            return  # a command of an attached cluster is recorded again before each of its requests
        if place is not None and not has_ended:
            del self._rows[place]  # an earlier refusal: the row moves to the end
        self._latest[record.command_id] = entry.position
        self._rows[entry.position] = AuditRow(record, entry, is_repeated_id=has_ended)


def _is_accepted(row: AuditRow | None) -> bool:
    return row is not None and isinstance(row.first, CommandAccepted)


def _is_wanted(row: AuditRow, call: Call) -> bool:
    command = row.first.command
    facts = {
        "connector": command.get("connector"),
        "principal": None if row.is_foreign else row.first.principal,
        "command": command.get("command"),
        "outcome": row.outcome,
    }
    selected = all(call.parameter(name) in (None, fact) for name, fact in facts.items())
    return selected and row.first.at_ms >= _since_ms(call)


def _since_ms(call: Call) -> int:
    time = call.moment("since")
    return 0 if time is None else read_time_ms(time)
