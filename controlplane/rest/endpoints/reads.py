"""Connect's read endpoints: one table of routes, each answered from a state by a pure function.

The endpoints, their shapes and their errors follow `state.profile`, field by field.
"""

from collections.abc import Callable, Sequence
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple

from controlplane.core import views
from controlplane.core.java import java_library
from controlplane.core.plan import GroupOffsets
from controlplane.core.plugins import Plugins
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState
from controlplane.core.views import offset_order
from controlplane.core.views.group_progress import in_worker_order
from controlplane.rest.endpoints import entities
from controlplane.rest.endpoints.query_parameters import CONNECTOR
from controlplane.rest.errors import Forbidden, NotFound, RequestFailed
from controlplane.rest.requests import Query


class ReadInputs(NamedTuple):
    """State and facts from which a read endpoint computes its answer."""

    state: ClusterState
    plugins: Plugins = Plugins()
    cluster_id: str | None = None
    query: Query = MappingProxyType({})
    tracks_topics: bool = True
    """True if active topics are tracked: `topic.tracking.enable` (KIP-558)."""
    group: GroupOffsets | None = None
    """Committed offsets of the requested sink's consumer group; None if they are unknown."""


View = Callable[..., Any]


class ReadRoute(NamedTuple):
    """A path template (`{}` takes any one segment), the releases with it, and its view."""

    template: tuple[str, ...]
    is_offered: Callable[[Profile], bool]
    view: View
    reads_group: bool = False
    """True if the answer depends on a sink's consumer group."""
    reads_log: bool = True
    """True if the answer needs the log."""


# --- the views in Connect's JSON ------------------------------------------------------------


def _root(reading: ReadInputs) -> Any:
    shown: dict[str, Any] = {"version": reading.state.profile.kafka_release, "commit": "unknown"}
    if reading.state.profile.rest_cluster_id:
        shown["kafka_cluster_id"] = reading.cluster_id
    return shown


def _connectors(reading: ReadInputs) -> Any:
    names = views.connectors(reading.state)
    if not reading.state.profile.rest_expand or "expand" not in reading.query:
        return names
    expansions = tuple(dict.fromkeys(reading.query["expand"]))  # a repeated one has no effect
    expanded = {name: _expanded(reading, name, expansions) for name in names}
    # A connector without a status is left out completely.
    return {name: shown for name, shown in expanded.items() if shown is not None}


def _expanded(reading: ReadInputs, name: str, expansions: Sequence[str]) -> dict[str, Any] | None:
    shown = {}
    for expansion in expansions:
        if expansion == "status":
            status = views.status(reading.state, name, reading.plugins)
            if status is None:
                return None
            shown["status"] = entities.status(status, reading.state.profile)
        if expansion == "info":
            shown["info"] = _info(reading, name)
    return shown


def _info(reading: ReadInputs, name: str) -> Any:
    view = views.connector(reading.state, name, reading.plugins)
    if view is None:
        raise NotFound(f"Connector {name} not found")
    return entities.connector(view, reading.state.profile)


def _config(reading: ReadInputs, name: str) -> Any:
    return reading.state.config.connectors[_existing_name(reading, name)]


def _existing_name(reading: ReadInputs, name: str) -> str:
    if name not in reading.state.config.connectors:
        raise NotFound(f"Connector {name} not found")
    return name


def _tasks(reading: ReadInputs, name: str) -> Any:
    configs = views.task_configs(reading.state, _existing_name(reading, name))
    return [
        {"id": {"connector": name, "task": task}, "config": config}
        for task, config in configs.items()
    ]


def _tasks_config(reading: ReadInputs, name: str) -> Any:
    ids = views.task_ids(reading.state, _existing_name(reading, name))
    configs = views.task_configs(reading.state, name)
    return {f"{name}-{task}": configs.get(task) for task in ids}


def _status(reading: ReadInputs, name: str) -> Any:
    status = views.status(reading.state, name, reading.plugins)
    if status is None:
        raise NotFound(f"No status found for connector {name}")
    return entities.status(status, reading.state.profile)


def _task_status(reading: ReadInputs, name: str, task: str) -> Any:
    number = java_library.parse_int(task)
    if number is None:
        raise NotFound("HTTP 404 Not Found")  # the route has matched, so there is a content type
    status = views.task_status(reading.state, name, number)
    if status is None:
        raise NotFound(f"No status found for task {name}-{number}")
    return {"id": number, **entities.report(status, reading.state.profile)}


def _topics(reading: ReadInputs, name: str) -> Any:
    if not reading.tracks_topics:
        raise Forbidden("Topic tracking is disabled.")
    return {name: {"topics": views.active_topics(reading.state, name)}}


def _offsets(reading: ReadInputs, name: str) -> Any:
    sink = is_sink(reading, _existing_name(reading, name))
    shown = _group_offsets(reading, name) if sink else _source_offsets(reading, name)
    if not reading.state.profile.rest_kip_offsets:
        return {"offsets": shown}
    kind = "sink" if sink else "source"
    return {"offsets": {kind: [entry for entry in shown if entry["offset"] is not None]}}


def is_sink(reading: ReadInputs, name: str) -> bool:
    """Return True if a connector's offsets are in a consumer group."""
    return views.connector_type(reading.state, name, reading.plugins) == "sink"


def _source_offsets(reading: ReadInputs, name: str) -> list[dict[str, Any]]:
    offsets = offset_order.in_order(views.all_source_offsets(reading.state, name))
    return [{"partition": view.partition, "offset": view.offset} for view in offsets]


def _group_offsets(reading: ReadInputs, name: str) -> list[dict[str, Any]]:
    if reading.group is None:
        raise RequestFailed(offsets_not_in_log(name))
    return [group_offset(*row) for row in in_worker_order(reading.group)]


def no_group_offsets(name: str) -> str:
    """Return a worker's words when it cannot read the offsets of a sink."""
    return f"Failed to retrieve consumer group offsets for sink connector {name}"


def offsets_not_in_log(name: str) -> str:
    """Return the error text for a sink if no cluster can be asked for its consumer group."""
    where = "they lie in its consumer group, not in the log that is read here"
    return f"{no_group_offsets(name)}: {where}"


def group_offset(topic: str, partition: int, offset: int) -> dict[str, Any]:
    """Return a committed offset in Connect's JSON."""
    return {
        "partition": {"kafka_partition": partition, "kafka_topic": topic},
        "offset": {"kafka_offset": offset},
    }


def every_release(_: Profile) -> bool:
    """Return True: every release has it."""
    return True


ROUTES: tuple[ReadRoute, ...] = (
    ReadRoute((), every_release, _root, reads_log=False),  # many clients use it as a liveness check
    ReadRoute(("connectors",), every_release, _connectors),
    ReadRoute(CONNECTOR, every_release, _info),
    ReadRoute((*CONNECTOR, "config"), every_release, _config),
    ReadRoute((*CONNECTOR, "tasks"), every_release, _tasks),
    ReadRoute((*CONNECTOR, "tasks-config"), attrgetter("rest_tasks_config"), _tasks_config),
    ReadRoute((*CONNECTOR, "status"), attrgetter("statuses"), _status),
    ReadRoute((*CONNECTOR, "tasks", "{}", "status"), attrgetter("statuses"), _task_status),
    ReadRoute((*CONNECTOR, "topics"), attrgetter("rest_topics"), _topics),
    ReadRoute((*CONNECTOR, "offsets"), attrgetter("rest_offsets"), _offsets, reads_group=True),
)
