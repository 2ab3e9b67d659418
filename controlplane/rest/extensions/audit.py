"""`GET /commands`: audit trail with caller, command, time and outcome. Secrets are hidden."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

from controlplane.core.codec import decode_command
from controlplane.core.entry import Entry
from controlplane.core.moments import read_time_ms
from controlplane.core.order import Ordering
from controlplane.core.records import CommandAccepted, CommandFinished, CommandRefused, Invalid
from controlplane.core.text.redaction import redacted_refusal, redacted_value
from controlplane.event_loop import in_thread, sliced_parts
from controlplane.rest.errors import OK, Answer
from controlplane.rest.extensions.pagination import Page
from controlplane.rest.service import Call


class AuditRow(NamedTuple):
    """One command, as recorded in the command topic."""

    begun: CommandAccepted | CommandRefused
    entry: Entry
    finished: CommandFinished | None = None

    @property
    def outcome(self) -> str:
        """Outcome of the command, one of `query_parameters.OUTCOMES`."""
        if isinstance(self.begun, CommandRefused):
            return "refused"
        if self.finished is None:
            return "unfinished"
        return str(self.finished.outcome.get("ended", "done"))

    def shown(self) -> dict[str, Any]:
        """Return the row as JSON."""
        begun, finished = self.begun, self.finished
        told: dict[str, Any] = {
            "id": begun.command_id,
            "at_ms": begun.at_ms,
            "principal": begun.principal,
            "command": begun.command.get("command"),
            "connector": begun.command.get("connector"),
            "outcome": self.outcome,
            "asked": redacted_value("", begun.command),
            "record": self.entry.position._asdict(),
        }
        if finished is not None:
            told["finished_at_ms"] = finished.at_ms
        reason = _reason(begun, finished)
        return told if reason is None else told | {"reason": redacted_refusal(reason)}


def _reason(
    begun: CommandAccepted | CommandRefused, finished: CommandFinished | None
) -> str | None:
    if isinstance(begun, CommandRefused):
        return begun.reason
    text = None if finished is None else finished.outcome.get("text")
    return None if text is None else str(text)


async def show_trail(call: Call) -> Answer:
    """List the commands, the oldest first.

    `connector=`, `principal=`, `command=`, `outcome=`, `since=` (a time) filter; `limit=` and
    `after=` (an id) page.
    """
    log = call.service.log
    assert log is not None  # the endpoint exists only with a log
    state, notices = await call.then()
    topic = state.topics.commands
    ordering = Ordering()
    if topic in await log.topics():
        stop = state.ends_by_topic.get(topic, [0])
        batches = log.read([topic], stop={topic: stop})
        async for entry in sliced_parts(batch.entries() async for batch in batches):
            ordering.keep(ordering.rank(entry))
    page: Page[AuditRow] = Page(call, lambda row: row.begun.command_id)
    await in_thread(partial(_fill, page, ordering.entries(), call))
    page.check_begun()
    return Answer(OK, {"commands": page.rows, "next": page.next}).noticed(notices)


def _fill(
    page: Page[AuditRow], entries: Iterable[Entry], call: Call, left: Callable[[], bool]
) -> None:
    """Fill a page with commands until it is full or the client has left."""
    rows: dict[str, AuditRow] = {}
    for entry in entries:
        _note(entry, rows)
        if left():
            return
    for row in rows.values():
        if left():
            return
        if not _is_wanted(row, call):
            continue
        if page.is_in(row):
            page.put(row.shown(), len(row.entry.value or b""))
        elif page.next is not None:
            return


def _note(entry: Entry, rows: dict[str, AuditRow]) -> None:
    """Add a record's facts to the row of its command, in the order of acceptance."""
    record = decode_command(entry.key, entry.value)
    match record:
        case CommandAccepted() | CommandRefused():
            rows[record.command_id] = AuditRow(record, entry)
        case CommandFinished() if record.command_id in rows:
            rows[record.command_id] = rows[record.command_id]._replace(finished=record)
        case Invalid() | CommandFinished() | None:
            return


def _is_wanted(row: AuditRow, call: Call) -> bool:
    asked = row.begun.command
    facts = {
        "connector": asked.get("connector"),
        "principal": row.begun.principal,
        "command": asked.get("command"),
        "outcome": row.outcome,
    }
    chosen = all(call.asked(name) in (None, fact) for name, fact in facts.items())
    return chosen and row.begun.at_ms >= _since(call)


def _since(call: Call) -> int:
    given = call.asked("since")
    return 0 if given is None else read_time_ms(given)
