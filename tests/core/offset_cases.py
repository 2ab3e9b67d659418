"""A stopped source connector `a`, its offsets, and requests to change them."""

from typing import Any

from controlplane.core.commands import AlterOffsets, OffsetChange, ResetOffsets
from controlplane.core.entry import Entry
from controlplane.core.plan import HookSuccess
from tests.core.decisions import SOURCE, steps
from tests.core.logs import Pair

SmallLog = list[Pair | Entry]


def connector(*extra_members: str, name: str = "a") -> Pair:
    """The config of a source connector; `extra_members` are further members of its properties."""
    members = ",".join((f'"connector.class":"{SOURCE}"', *extra_members))
    return f"connector-{name}", f'{{"properties":{{{members}}}}}'


STOPPED: Pair = ("target-state-a", '{"state":"PAUSED","state.v2":"STOPPED"}')
STOPPED_A: SmallLog = [connector(), STOPPED]
STOPPED_WITH_OWN: SmallLog = [connector('"offsets.storage.topic":"own"'), STOPPED]

SURE, PERHAPS = (HookSuccess(definite=True),), (HookSuccess(definite=False),)

ALTERING = ("3.6", "3.7", "3.8", "3.9", "4.3", "kip")
"""One release for each way of writing offsets."""


def after(log: SmallLog, *later: Pair | Entry) -> SmallLog:
    """Return a log with further records after it."""
    return [*log, *later]


def alter(*changes: tuple[Any, Any]) -> AlterOffsets:
    """Return a command that alters these offsets of connector `a`."""
    return AlterOffsets("a", tuple(OffsetChange(*change) for change in changes))


def page(number: int) -> dict[str, int]:
    """Return the source partition of a page."""
    return {"page": number}


def key(number: int) -> str:
    """Return the record key of a page's offset."""
    return f'["a",{{"page":{number}}}]'


ONE = alter((page(0), {"row": 1}))
RESET = ResetOffsets("a")


def written_records(
    log: SmallLog, command: Any, release: str = "kip", **settings: Any
) -> dict[str, list[str]]:
    """The written records as text, by step, if the hook accepts."""
    return steps(log, command, release, hooks=SURE, **settings)
