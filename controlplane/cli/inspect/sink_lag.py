"""Consumer group of a sink, for the view of one connector: committed offsets, ends and lag."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from controlplane.cli.opened_log import InputLog
from controlplane.core import views
from controlplane.core.context import Context
from controlplane.core.plan import GroupOffsets
from controlplane.core.plugins import Plugins
from controlplane.core.state import ClusterState
from controlplane.core.text.safe_text import count
from controlplane.core.views.group_progress import GroupProgress
from controlplane.logs.names import is_cluster, is_embedded
from controlplane.settings.worker_settings import decision_settings
from controlplane.terminal.log_options import LogOptions
from controlplane.terminal.output import say
from controlplane.terminal.tables import table

if TYPE_CHECKING:
    from controlplane.controller.external import HasGroups

_UNKNOWN = "?"
"""Cell for an unknown end or lag."""


async def consumer_group(
    source: InputLog, reading: LogOptions, state: ClusterState, name: str
) -> dict[str, Any] | None:
    """Read the consumer group of a sink as JSON; None if the log has no groups, such as a dump.

    If the read fails, the JSON has only `problem`, the reason: the view is printed nevertheless.
    """
    # Imported here, because the view of a source needs no controller.
    from controlplane.controller.external import (  # noqa: PLC0415
        ExternalActionFailed,
        sink_progress,
    )

    async with _groups(source, reading) as groups:
        if groups is None:
            return None
        try:
            return _document(await sink_progress(state, name, _context(reading, state), groups))
        except ExternalActionFailed as failure:
            return {"problem": str(failure)}


async def stored_offsets(
    source: InputLog, reading: LogOptions, state: ClusterState, plugins: Plugins
) -> dict[str, GroupOffsets]:
    """Read the offsets that workers have stored in an embedded log, by sink; other logs have none.

    A sink whose offsets cannot be read is absent.
    """
    from controlplane.controller.external import (  # noqa: PLC0415
        ExternalActionFailed,
        sink_offsets,
    )

    offsets: dict[str, GroupOffsets] = {}
    if not is_embedded(source.where):
        return offsets
    context = _context(reading, state)
    async with _groups(source, reading) as groups:
        if groups is None:
            return offsets
        for name in views.connectors(state):
            if views.connector_type(state, name, plugins) == "sink":
                with suppress(ExternalActionFailed):
                    offsets[name] = await sink_offsets(state, name, context, groups)
    return offsets


def _context(reading: LogOptions, state: ClusterState) -> Context:
    """Context of a worker with the settings of the command."""
    from controlplane.controller.external import known_policy  # noqa: PLC0415

    worker = decision_settings(reading.settings)
    return known_policy(Context(profile=state.profile, worker=worker, plugins=Plugins()))


@asynccontextmanager
async def _groups(source: InputLog, reading: LogOptions) -> AsyncIterator["HasGroups | None"]:
    """Open the groups of a cluster, or those that an embedded log has; None: there are none."""
    if is_cluster(source.where):
        # Imported here: the import of aiokafka takes longer than the reading of a small dump.
        from controlplane.controller.kafka_actions import cluster_groups  # noqa: PLC0415

        async with cluster_groups(source.where, reading.configuration) as actions:
            yield actions
        return
    from controlplane.controller.log_groups import StoredGroups  # noqa: PLC0415

    groups = StoredGroups(source.log)
    yield groups if is_embedded(source.where) and await groups.refresh() else None


def _document(progress: GroupProgress) -> dict[str, Any]:
    offsets = [
        {
            "topic": part.topic,
            "partition": part.partition,
            "offset": part.committed,
            "end": part.end.offset,
            "lag": part.lag,
            "reason": part.end.reason or None,
        }
        for part in sorted(progress.partitions, key=lambda part: (part.topic, part.partition))
    ]
    return {"group": progress.group, "lag": progress.lag, "offsets": offsets}


def print_group(shown: Mapping[str, Any]) -> None:
    """Print the offsets of a group, and the sum of the lags."""
    if "problem" in shown:
        say(f"its consumer group cannot be asked: {shown['problem']}")
        return
    if not shown["offsets"]:
        say(f"consumer group {shown['group']} has committed nothing")
        return
    fields = ("topic", "partition", "offset", "end", "lag")
    rows = [tuple(_cell(entry[field]) for field in fields) for entry in shown["offsets"]]
    table(("TOPIC", "PARTITION", "OFFSET", "END", "LAG"), rows)
    lag = _UNKNOWN if shown["lag"] is None else count(shown["lag"], "record")
    say(f"lag of consumer group {shown['group']}: {lag}")
    for entry in shown["offsets"]:
        if entry["reason"]:
            say(f"  {entry['topic']}-{entry['partition']}: {entry['reason']}")


def _cell(value: Any) -> str:
    return _UNKNOWN if value is None else str(value)
