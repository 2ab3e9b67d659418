"""Checks that the source offsets of a connector could be read: a state lacks unreadable topics."""

from collections.abc import Collection

from controlplane.core.commands import (
    AlterOffsets,
    AnyCommand,
    CreateConnector,
    ResetOffsets,
    RestoreConnector,
)
from controlplane.core.state import ClusterState
from controlplane.core.topics.source_partitions import own_offsets_topics
from controlplane.core.views import offsets_topics
from controlplane.logs.log import ReadableLog, check_readable


async def check_source_offsets(log: ReadableLog, state: ClusterState, connector: str) -> None:
    """Check that a state has the offsets of a connector.

    Raises:
        LogNotUsable: the user of the log may not read an offsets topic of the connector.
    """
    await _check(log, state, offsets_topics(state, connector))


async def check_offsets_of(log: ReadableLog, state: ClusterState, command: AnyCommand) -> None:
    """Check that a state has the offsets that a command reads or changes.

    Other commands need no check, so a new config can name another topic.

    Raises:
        LogNotUsable: the user of the log may not read an offsets topic of the connector.
    """
    match command:
        case AlterOffsets() | ResetOffsets():
            needs_offsets = True
        case CreateConnector():
            needs_offsets = command.initial_offsets is not None
        case RestoreConnector():
            needs_offsets = command.offsets is not None
        case _:
            needs_offsets = False
    if needs_offsets:
        await _check(log, state, own_offsets_topics(state, command))


async def _check(log: ReadableLog, state: ClusterState, topics: Collection[str]) -> None:
    followed = {topic for topic, _ in state.ends}
    await check_readable(log, {*topics} - followed)
