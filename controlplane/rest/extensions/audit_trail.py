"""`GET /commands`: audit trail with caller, command, time and outcome. Secrets are hidden."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec

from controlplane.core.codec import decode_command
from controlplane.core.entry import Entry, Position
from controlplane.core.moments import position_text, read_position, read_time_ms
from controlplane.core.order import EntrySorter
from controlplane.core.records import CommandAccepted, CommandFinished, CommandRefused, Invalid
from controlplane.core.state import ClusterState
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
    page: Page[AuditRow] = Page(call, lambda row: row.first.command_id)
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
    rows: dict[str, AuditRow] = {}
    for entry in entries:
        _note(entry, rows)
        if has_left():
            return
    shown = [*rows.values(), *_foreign(rows.values(), cluster)]
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
    own: set[Position] = set()
    unfinished: set[str] = set()
    for row in rows:
        if row.finished is not None:
            records = row.finished.outcome.get("records", ())
            own.update(read_position(text, state.topics) for text in records)
        elif isinstance(row.first, CommandAccepted):
            unfinished.add(str(row.first.command.get("connector")))
    for entry, command in foreign_changes(configs, state.profile, own):
        if command.connector not in unfinished:
            first = CommandAccepted(
                position_text(entry.position, state.topics),
                entry.timestamp,
                "",
                msgspec.to_builtins(command),
            )
            yield AuditRow(first, entry, is_foreign=True)


def _note(entry: Entry, rows: dict[str, AuditRow]) -> None:
    """Add a record's facts to its command's row in `rows`, which has the order of acceptance."""
    record = decode_command(entry.key, entry.value)
    match record:
        case CommandAccepted() if _is_accepted(rows.get(record.command_id)):
            return  # a command of an attached cluster is recorded again before each of its requests
        case CommandAccepted() | CommandRefused():
            rows.pop(record.command_id, None)  # an earlier refusal: the row moves to the end
            rows[record.command_id] = AuditRow(record, entry)
        case CommandFinished() if record.command_id in rows:
            rows[record.command_id] = rows[record.command_id]._replace(finished=record)
        case Invalid() | CommandFinished() | None:
            return


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
