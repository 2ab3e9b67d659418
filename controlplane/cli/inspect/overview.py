"""The default view: all connectors, the unreadable records, and the end offsets."""

from typing import Any

import msgspec

from controlplane.cli.inspect.connector_facts import ConnectorFacts, all_facts
from controlplane.cli.inspect.unreadable_summary import UnreadableSummary, places_of, unreadable
from controlplane.cli.opened_log import InputLog
from controlplane.core import views
from controlplane.core.fold import Fold
from controlplane.core.plugins import Plugins
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState, Topics
from controlplane.core.text.record_text import place
from controlplane.core.text.safe_text import count
from controlplane.terminal.hazard_hits import worker_named
from controlplane.terminal.output import print_json, say
from controlplane.terminal.tables import table

UNREADABLE_SHOWN = 5
"""Number of unreadable records below the table; JSON has up to `unreadable_summary.KEPT`."""

_HEADS = ("CONNECTOR", "TYPE", "CLASS", "TARGET STATE", "TASKS", "STATUS", "TASK STATES", "REMARKS")
_SPARE = ("CLASS", "TYPE", "TASKS")


async def show(source: InputLog, profile: Profile, plugins: Plugins, output: str) -> None:
    """Print the connectors, the records that the worker cannot read, and the end offsets."""
    state = await source.state(profile)
    fold = Fold(profile, topics=source.topics, exactly_once=source.exactly_once)
    summary = await unreadable(source.batches(), fold)
    offsets = await places_of(views.unreadable_offsets(state), source, fold)
    for position, offset in offsets.items():
        summary.add(position, f"{offset.reason}; the worker keeps the record, but never shows it")
    rows = all_facts(state, plugins)
    if output == "json":
        print_json(_document(source, summary, state, rows))
        return
    _print_rows(rows)
    say()
    say(f"{count(len(state.config.connectors), 'connector')}, as {heading(profile, source)}")
    for line in _remarks(summary, source.topics):
        say(line)
    say(f"read up to {vector(source)}")


def heading(profile: Profile, source: InputLog, verb: str = "sees") -> str:
    """Headline of a view: `a worker of 3.9 sees state.db`."""
    worker = worker_named(profile, exactly_once=source.exactly_once)
    return f"{worker} {verb} {source.where}"


def vector(source: InputLog) -> str:
    """End offsets up to which a log was read, in the form that `--as-of` takes."""
    return msgspec.json.encode({topic: list(ends) for topic, ends in source.stop.items()}).decode()


def _remarks(summary: UnreadableSummary, topics: Topics) -> list[str]:
    """Lines on the records that the worker cannot read, or ignores: number, positions, reasons."""
    if not summary.count:
        return []
    shown = list(summary.records.items())[:UNREADABLE_SHOWN]
    lines = [f"{count(summary.count, 'record')} that the worker cannot read, or ignores:"]
    lines += [f"  {place(position, topics)}  {reason}" for position, reason in shown]
    unlisted = summary.count - len(shown)
    kept = len(summary.records)
    in_json = "them" if kept == summary.count else f"the first {kept:,} records"
    return lines + ([f"  … and {unlisted} more; -o json has {in_json}"] if unlisted else [])


def _print_rows(rows: list[ConnectorFacts]) -> None:
    heads: tuple[str, ...] = _HEADS
    troubled = {number: "yellow" for number, row in enumerate(rows) if row.flags}
    failed = {
        number: "red"
        for number, row in enumerate(rows)
        if "FAILED" in (row.status, *row.task_states.values())
    }
    cells = [row.cells() for row in rows]
    if not troubled:  # no row has remarks: leave out their column
        heads, cells = heads[:-1], [line[:-1] for line in cells]
    table(heads, cells, troubled | failed, spare=_SPARE)


def _document(
    source: InputLog, summary: UnreadableSummary, state: ClusterState, rows: list[ConnectorFacts]
) -> dict[str, Any]:
    return source.document_fields | {
        "profile": state.profile.release,
        "exactly_once": state.exactly_once,
        "connectors": [msgspec.to_builtins(row, str_keys=True) for row in rows],
        "unreadable": {
            "count": summary.count,
            "records": [
                {"position": position._asdict(), "reason": reason}
                for position, reason in summary.records.items()
            ],
        },
    }
