"""`GET /connectors/{c}/progress`: lag of a sink, last changes of source offsets."""

from functools import partial
from typing import Any

from controlplane.controller.external import ExternalActionFailed
from controlplane.core import views
from controlplane.core.moments import position_text, time_text
from controlplane.core.state import ClusterState
from controlplane.core.views.group_progress import GroupProgress, PartitionProgress
from controlplane.core.views.source_progress import (
    SourceProgress,
    last_changes,
    source_progress,
)
from controlplane.event_loop import in_thread_if_large
from controlplane.projection.past_states import read_offset_records
from controlplane.rest.endpoints import reads
from controlplane.rest.errors import OK, Answer, InvalidParameter, NotFound, RequestFailed
from controlplane.rest.requests import Call


async def show_progress(call: Call) -> Answer:
    """Show the offsets of a connector, with the facts that Connect does not show.

    A sink's offsets have the end of the partition and the lag. A source's offsets have the record
    that last changed them, with its time. Each list has the order of Connect's `GET …/offsets`.

    Raises:
        NotFound: there is no such connector.
        InvalidParameter: `as_of=` asks for past offsets of a sink.
        RequestFailed: the consumer group cannot be read.
    """
    (name,) = call.names
    state, notices = await call.requested_state()
    if name not in state.config.connectors:
        raise NotFound(f"Connector {name} not found")
    kind = views.connector_type(state, name, call.service.plugins)
    shown = await (_of_sink if kind == "sink" else _of_source)(call, state, name)
    return Answer(OK, {"connector": name, "type": kind, **shown}).with_notices(notices)


async def _of_sink(call: Call, _: ClusterState, name: str) -> dict[str, Any]:
    if call.request.as_of is not None:
        raise InvalidParameter(
            "as_of= asks for past offsets of a group, which no broker keeps: leave as_of= out"
        )
    groups = call.service.groups
    try:
        progress = None if groups is None else await groups.group_progress(name)
    except ExternalActionFailed as failure:
        raise RequestFailed(f"{reads.no_group_offsets(name)}: {failure}") from failure
    if progress is None:
        raise RequestFailed(reads.offsets_not_in_log(name))
    return _group(progress)


def _group(progress: GroupProgress) -> dict[str, Any]:
    offsets = [_partition(part) for part in progress.partitions]
    return {"group": progress.group, "lag": progress.lag, "offsets": offsets}


def _partition(part: PartitionProgress) -> dict[str, Any]:
    shown = reads.group_offset(part.topic, part.partition, part.committed)
    shown |= {"end": part.end.offset, "lag": part.lag}
    return shown | ({"reason": part.end.reason} if part.end.reason else {})


async def _of_source(call: Call, state: ClusterState, name: str) -> dict[str, Any]:
    log = call.service.log
    records = await read_offset_records(log, state, name)
    building = partial(_changes, state, name, records)
    return {"offsets": await in_thread_if_large(building, len(records))}


def _changes(state: ClusterState, name: str, records: Any) -> list[dict[str, Any]]:
    offsets, topics = views.all_source_offsets(state, name), views.offsets_topics(state, name)
    shown = source_progress(offsets, topics, last_changes(records))
    return [_change(progress, state) for progress in shown]


def _change(progress: SourceProgress, state: ClusterState) -> dict[str, Any]:
    view, entry = progress.offset, progress.changed
    return {
        "partition": view.partition,
        "offset": view.offset,
        "changed_at": None if entry is None else time_text(entry.timestamp),
        "record": None if entry is None else position_text(entry.position, state.topics),
    }
