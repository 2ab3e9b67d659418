"""The default view: all connectors, what could not be read, and how far it was read."""

from typing import Any

import msgspec

from controlplane.cli.inspect.facts import Facts, all_facts
from controlplane.cli.printing import count, print_json, safe, say, table
from controlplane.cli.records import place
from controlplane.cli.sources import Source
from controlplane.core.evolve import Fold
from controlplane.core.plugins import Plugins
from controlplane.core.profiles import KIP, Profile
from controlplane.core.state import ClusterState

UNREADABLE_SHOWN = 5
"""How many records of no use are named in the table view; JSON has all that the fold kept."""

_HEADS = ("CONNECTOR", "TYPE", "TARGET STATE", "TASKS", "STATUS", "TASK STATES", "REMARKS")


async def show(source: Source, profile: Profile, plugins: Plugins | None, output: str) -> None:
    """Print the connectors of a log."""
    fold = await source.fold(profile)
    state = fold.snapshot()
    rows = all_facts(state, plugins or Plugins())
    if output == "json":
        print_json(_document(source, fold, state, rows))
        return
    _print_rows(rows, typed=plugins is not None)
    say()
    say(f"{count(len(state.config.connectors), 'connector')}, as {heading(profile, source)}")
    for line in unreadable(fold, state):
        say(line)
    say(f"read up to {vector(source)}")


def heading(profile: Profile, source: Source) -> str:
    """Whose view it is, and of what."""
    support = " with exactly-once support" if source.exactly_once else ""
    release = profile.release
    worker = "our own worker (kip)" if release == KIP else f"a worker of {release}"
    return f"{worker}{support} sees {source.where}"


def vector(source: Source) -> str:
    """How far a log was read, such that `--as-of` takes it."""
    return msgspec.json.encode({topic: list(ends) for topic, ends in source.stop.items()}).decode()


def unreadable(fold: Fold, state: ClusterState) -> list[str]:
    """Lines on the records that were of no use to the worker: how many, the first, why."""
    if not fold.unreadable_count:
        return []
    shown = list(state.unreadable.items())[:UNREADABLE_SHOWN]
    lines = [f"{count(fold.unreadable_count, 'record')} of no use to it:"]
    lines += [f"  {place(position, state.topics)}  {safe(why)}" for position, why in shown]
    more = fold.unreadable_count - len(shown)
    return lines + ([f"  … and {more} more; `-o json` names them"] if more else [])


def _print_rows(rows: list[Facts], *, typed: bool) -> None:
    heads = _HEADS if typed else (_HEADS[0], "CLASS", *_HEADS[2:])
    troubled = {number: "yellow" for number, row in enumerate(rows) if row.flags}
    failed = {
        number: "red"
        for number, row in enumerate(rows)
        if "FAILED" in (row.status, *row.task_states.values())
    }
    table(heads, [row.cells(typed=typed) for row in rows], troubled | failed)


def _document(source: Source, fold: Fold, state: ClusterState, rows: list[Facts]) -> dict[str, Any]:
    return source.about | {
        "profile": state.profile.release,
        "exactly_once": state.exactly_once,
        "connectors": [msgspec.to_builtins(row, str_keys=True) for row in rows],
        "unreadable": {
            "count": fold.unreadable_count,
            "records": [
                {"position": position._asdict(), "reason": why}
                for position, why in state.unreadable.items()
            ],
        },
    }
