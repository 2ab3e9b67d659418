"""Connect's read endpoints: one table of routes, each answered from a state by a pure function.

What a worker of the state's release would answer, to the field: the set of endpoints, their shapes
and their errors follow `state.profile`.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

from controlplane.core import java, offset_order, views
from controlplane.core.plan import GroupOffsets
from controlplane.core.plugins import Plugins
from controlplane.core.profiles import Profile
from controlplane.core.state import ClusterState
from controlplane.rest import entities
from controlplane.rest.errors import OK, Answer, Failed, Forbidden, NoSuchPath, NotFound, RestError
from controlplane.rest.paths import matches, names_in, parse_target


class Reading(NamedTuple):
    """What a read request is answered from."""

    state: ClusterState
    plugins: Plugins = Plugins()
    cluster_id: str | None = None
    query: dict[str, list[str]] = {}  # noqa: RUF012 - never written to
    tracks_topics: bool = True
    """Whether active topics may be asked for: `topic.tracking.enable` (KIP-558)."""
    group: GroupOffsets | None = None
    """What the consumer group of the sink that is asked about has committed; None: nobody knows."""


View = Callable[..., Any]


class Route(NamedTuple):
    """A path template (`{}` takes any one segment), who has it, and what answers it."""

    template: tuple[str, ...]
    known: Callable[[Profile], bool]
    view: View
    of_group: bool = False
    """Whether a sink's consumer group has a say in it."""
    of_log: bool = True
    """Whether the log has; else it is told though the log cannot be read, or not yet."""


def answer(reading: Reading, target: str) -> Answer:
    """Answer `GET target`, a raw path with its query. Never raises."""
    profile = reading.state.profile
    try:
        path, query = parse_target(target, profile)
        route = find(path, profile)
        names = names_in(route.template, path)
        return Answer(OK, route.view(reading._replace(query=query), *names))
    except RestError as error:
        return error.answer()
    except views.ReadFailed as error:
        return Failed(str(error)).answer()


def find(path: tuple[str, ...], profile: Profile) -> Route:
    """The route of a path in this release. Raises `NoSuchPath`."""
    for route in ROUTES:
        if route.known(profile) and matches(route.template, path):
            return route
    raise NoSuchPath


def paths(state: ClusterState) -> Iterator[str]:
    """Every read endpoint of every connector in this release, as the stories list them."""
    for target in every_path(state):
        path, _ = parse_target(target, state.profile)
        if any(route.known(state.profile) and matches(route.template, path) for route in ROUTES):
            yield target


def every_path(state: ClusterState) -> Iterator[str]:
    """Every read endpoint of every connector; the release may lack some of them."""
    yield "/connectors"
    if state.profile.rest_expand:
        yield "/connectors?expand=status&expand=info"
    for name in views.connectors(state):
        base = f"/connectors/{quote(name, safe='', errors='surrogatepass')}"
        yield base
        yield from (f"{base}/{part}" for part in _PARTS)
        reported = state.status.tasks.get(name, {})
        yield from (f"{base}/tasks/{task}/status" for task in sorted(reported))


_PARTS = ("config", "status", "tasks", "topics", "offsets", "tasks-config")


# --- the views, as Connect spells them ------------------------------------------------------


def _root(reading: Reading) -> Any:
    shown: dict[str, Any] = {"version": reading.state.profile.kafka_release, "commit": "unknown"}
    if reading.state.profile.rest_cluster_id:
        shown["kafka_cluster_id"] = reading.cluster_id
    return shown


def _connectors(reading: Reading) -> Any:
    names = views.connectors(reading.state)
    if not reading.state.profile.rest_expand or "expand" not in reading.query:
        return names
    wanted = reading.query["expand"]
    expanded = {name: _expanded(reading, name, wanted) for name in names}
    # One that has no status yet is left out whole, not only its status.
    return {name: shown for name, shown in expanded.items() if shown is not None}


def _expanded(reading: Reading, name: str, wanted: list[str]) -> dict[str, Any] | None:
    shown = {}
    for expansion in wanted:
        if expansion == "status":
            status = views.status(reading.state, name, reading.plugins)
            if status is None:
                return None
            shown["status"] = entities.status(status, reading.state.profile)
        if expansion == "info":
            shown["info"] = _info(reading, name)
    return shown


def _info(reading: Reading, name: str) -> Any:
    found = views.connector(reading.state, name, reading.plugins)
    if found is None:
        raise NotFound(f"Connector {name} not found")
    return entities.connector(found, reading.state.profile)


def _config(reading: Reading, name: str) -> Any:
    return reading.state.config.connectors[_known(reading, name)]


def _known(reading: Reading, name: str) -> str:
    if name not in reading.state.config.connectors:
        raise NotFound(f"Connector {name} not found")
    return name


def _tasks(reading: Reading, name: str) -> Any:
    configs = views.task_configs(reading.state, _known(reading, name))
    return [
        {"id": {"connector": name, "task": task}, "config": config}
        for task, config in configs.items()
    ]


def _tasks_config(reading: Reading, name: str) -> Any:
    ids = views.task_ids(reading.state, _known(reading, name))
    configs = views.task_configs(reading.state, name)
    return {f"{name}-{task}": configs.get(task) for task in ids}


def _status(reading: Reading, name: str) -> Any:
    found = views.status(reading.state, name, reading.plugins)
    if found is None:
        raise NotFound(f"No status found for connector {name}")
    return entities.status(found, reading.state.profile)


def _task_status(reading: Reading, name: str, task: str) -> Any:
    number = java.parse_int(task)
    if number is None:
        # The route has matched, so this one does carry a content type.
        raise NotFound("HTTP 404 Not Found")
    found = views.task_status(reading.state, name, number)
    if found is None:
        raise NotFound(f"No status found for task {name}-{number}")
    return {"id": number, **entities.report(found, reading.state.profile)}


def _topics(reading: Reading, name: str) -> Any:
    if not reading.tracks_topics:
        raise Forbidden("Topic tracking is disabled.")
    return {name: {"topics": views.active_topics(reading.state, name)}}


def _offsets(reading: Reading, name: str) -> Any:
    sink = is_sink(reading, _known(reading, name))
    shown = _group_offsets(reading, name) if sink else _source_offsets(reading, name)
    if not reading.state.profile.rest_kip_offsets:
        return {"offsets": shown}
    kind = "sink" if sink else "source"
    return {"offsets": {kind: [one for one in shown if one["offset"] is not None]}}


def is_sink(reading: Reading, name: str) -> bool:
    """Whether a connector's offsets lie in a consumer group."""
    return views.connector_type(reading.state, name, reading.plugins) == "sink"


def _source_offsets(reading: Reading, name: str) -> list[dict[str, Any]]:
    found = offset_order.in_order(views.all_source_offsets(reading.state, name))
    return [{"partition": view.partition, "offset": view.offset} for view in found]


def _group_offsets(reading: Reading, name: str) -> list[dict[str, Any]]:
    if reading.group is None:
        raise Failed(
            f"Failed to retrieve consumer group offsets for sink connector {name}: "
            "they lie in its consumer group, not in the log that is read here"
        )
    return [
        {
            "partition": {"kafka_partition": partition, "kafka_topic": topic},
            "offset": {"kafka_offset": offset},
        }
        for topic, partition, offset in reading.group
    ]


def _always(_: Profile) -> bool:
    return True


_CONNECTOR = ("connectors", "{}")

ROUTES: tuple[Route, ...] = (
    Route((), _always, _root, of_log=False),  # what many ask to see whether a worker lives
    Route(("connectors",), _always, _connectors),
    Route(_CONNECTOR, _always, _info),
    Route((*_CONNECTOR, "config"), _always, _config),
    Route((*_CONNECTOR, "tasks"), _always, _tasks),
    Route((*_CONNECTOR, "tasks-config"), lambda profile: profile.rest_tasks_config, _tasks_config),
    Route((*_CONNECTOR, "status"), lambda profile: profile.statuses, _status),
    Route((*_CONNECTOR, "tasks", "{}", "status"), lambda profile: profile.statuses, _task_status),
    Route((*_CONNECTOR, "topics"), lambda profile: profile.rest_topics, _topics),
    Route((*_CONNECTOR, "offsets"), lambda profile: profile.rest_offsets, _offsets, of_group=True),
)
