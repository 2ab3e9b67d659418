"""Mapping of requests to commands, from path, query and body alone.

`core.decide` decides whether a command can be done, because it knows the state.
"""

from collections.abc import Container
from typing import NamedTuple

from controlplane.core import commands
from controlplane.core.commands import AnyCommand
from controlplane.core.java import java_library
from controlplane.core.releases.profiles import Profile
from controlplane.rest import bodies
from controlplane.rest.endpoints.entities import TARGETS
from controlplane.rest.errors import BadRequest, NotFound
from controlplane.rest.signatures import Signature

WORKERS_ORDER_BYTES = 1 << 13
"""Longest body of another worker that is read before its signature is checked, as a worker does."""


class Asking(NamedTuple):
    """The parts of a request that determine its command: release, query, body."""

    profile: Profile
    query: dict[str, list[str]]
    body: bytes | None = None
    signed: bool = False
    """True if a worker has signed the request with the cluster's key (KIP-507)."""
    signature: Signature | None = None
    """Signature that has not been verified yet."""
    known: Container[str] = frozenset()
    """Names of the connectors that exist; filled only for routes that need it."""

    def flag(self, name: str) -> bool:
        """Read a query parameter as Java's `Boolean.valueOf`: everything but `true` is false."""
        return self.query.get(name, [""])[0].lower() == "true"


def create(asking: Asking) -> AnyCommand:
    """`POST /connectors`. Only this request trims the name."""
    given = bodies.create(asking.body, asking.profile)
    name = java_library.trim(given.name or "")
    state = None if given.initial_state is None else _STATES[given.initial_state]
    offsets = None if given.initial_offsets is None else _changes(given.initial_offsets)
    return commands.CreateConnector(name, _named(name, given.config), state, offsets)


_STATES = {word: target for target, word in TARGETS.items()}


def put_config(asking: Asking, name: str) -> AnyCommand:
    """`PUT /connectors/{c}/config`."""
    config = bodies.config(asking.body, asking.profile)
    return commands.PutConfig(name, _named(name, config))


def patch_config(asking: Asking, name: str) -> AnyCommand:
    """`PATCH /connectors/{c}/config`."""
    found = bodies.patch(asking.body, asking.profile)
    if found is not None:
        return commands.PatchConfig(name, found)
    if name not in asking.known:
        raise NotFound(f"Connector {name} not found")
    raise bodies.null_patch(asking.profile)


def _named(name: str, config: bodies.RequestConfig) -> bodies.RequestConfig:
    """Return a config that holds its name (`ConnectorsResource#checkAndPutConnectorConfigName`)."""
    included = config.get("name")
    if included is not None and included != name:
        raise BadRequest(
            f"Connector name configuration ({included}) "
            f"doesn't match connector name in the URL ({name})"
        )
    return config | {"name": name}


def restart(asking: Asking, name: str) -> AnyCommand:
    """`POST /connectors/{c}/restart`."""
    flags = asking.flag("includeTasks"), asking.flag("onlyFailed")
    return commands.RestartConnector(name, *flags)


def restart_task(_: Asking, name: str, task: str) -> AnyCommand:
    """`POST /connectors/{c}/tasks/{n}/restart`."""
    number = java_library.parse_int(task)
    if number is None:
        raise NotFound("HTTP 404 Not Found")  # the route has matched: with a content type
    return commands.RestartTask(name, number)


def alter_offsets(asking: Asking, name: str) -> AnyCommand:
    """`PATCH /connectors/{c}/offsets`."""
    offsets = bodies.alteration(asking.body, asking.profile)
    return commands.AlterOffsets(name, _changes(offsets))


def _changes(offsets: list[bodies.Offset]) -> tuple[commands.OffsetChange, ...]:
    return tuple(commands.OffsetChange(*offset) for offset in offsets)


def set_level(asking: Asking, namespace: str) -> AnyCommand:
    """`PUT /admin/loggers/{l}?scope=cluster`."""
    level = bodies.level(asking.body, asking.profile)
    if asking.query.get("scope", [""])[0].lower() != "cluster":
        raise BadRequest(
            "The loggers of one worker are no affair of the cluster: ask with ?scope=cluster "
            "for the loggers of all workers"
        )
    return commands.SetLoggerLevel(namespace, level)


def publish_tasks(asking: Asking, name: str) -> AnyCommand:
    """The internal `POST /connectors/{c}/tasks`: a worker sends task configs to the leader."""
    configs = bodies.task_configs(asking.body, asking.profile)
    _check_signed(asking)
    return commands.PublishTasks(name, tuple(config or {} for config in configs))


def fence_tasks(asking: Asking, name: str) -> AnyCommand:
    """The internal `PUT /connectors/{c}/fence`."""
    _check_signed(asking)
    return commands.FenceTasks(name)


def checked_first(asking: Asking, body: bytes | None) -> Asking:
    """Verify a worker's signature before its long body is parsed.

    Raises:
        RestError: no worker of this cluster has signed the request.
    """
    if len(body or b"") <= WORKERS_ORDER_BYTES:
        return asking
    _check_signed(asking._replace(body=body))
    return asking._replace(signed=True, signature=None)


def _check_signed(asking: Asking) -> None:
    if not asking.profile.session_keys or asking.signed:
        return
    if asking.signature is None:
        raise BadRequest("Internal request missing required signature")
    asking.signature.check(asking.body or b"")
