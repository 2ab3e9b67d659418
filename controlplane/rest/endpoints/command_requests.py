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
from controlplane.rest.requests import Query
from controlplane.rest.signatures import Signature

PARSED_FIRST_BYTES = 1 << 13
"""Longest body of another worker's request that is parsed before the signature is checked. Kafka
parses a body of any length first."""


class CommandInput(NamedTuple):
    """The parts of a request that determine its command: release, query, body."""

    profile: Profile
    query: Query
    body: bytes | None = None
    signed: bool = False
    """True if a worker has signed the request with the cluster's key (KIP-507)."""
    signature: Signature | None = None
    """Signature that has not been verified yet."""
    existing: Container[str] = frozenset()
    """Names of existing connectors. Only `patch_config` reads this field, to see if the connector
    in the path exists. For other routes the field may be empty."""

    def flag(self, name: str) -> bool:
        """Read a query parameter as Java's `Boolean.valueOf`: everything but `true` is false."""
        return self.query.get(name, [""])[0].lower() == "true"


def create(request: CommandInput) -> AnyCommand:
    """`POST /connectors`. Only this request trims the name."""
    body = bodies.create(request.body, request.profile)
    name = java_library.trim(body.name or "")
    state = None if body.initial_state is None else _STATES[body.initial_state]
    offsets = None if body.initial_offsets is None else _changes(body.initial_offsets)
    return commands.CreateConnector(name, _named(name, body.config), state, offsets)


_STATES = {word: target for target, word in TARGETS.items()}


def put_config(request: CommandInput, name: str) -> AnyCommand:
    """`PUT /connectors/{c}/config`; `RestError` if the config holds another name."""
    config = bodies.config(request.body, request.profile)
    return commands.PutConfig(name, _named(name, config))


def patch_config(request: CommandInput, name: str) -> AnyCommand:
    """`PATCH /connectors/{c}/config`; `RestError` for a null patch."""
    patch = bodies.patch(request.body, request.profile)
    if patch is not None:
        return commands.PatchConfig(name, patch)
    if name not in request.existing:
        raise NotFound(f"Connector {name} not found")
    raise bodies.null_patch(request.profile)


def _named(name: str, config: bodies.RequestConfig) -> bodies.RequestConfig:
    """Return a config that holds its name (`ConnectorsResource#checkAndPutConnectorConfigName`)."""
    included = config.get("name")
    if included is not None and included != name:
        raise BadRequest(
            f"Connector name configuration ({included}) "
            f"doesn't match connector name in the URL ({name})"
        )
    return config | {"name": name}


def restart(request: CommandInput, name: str) -> AnyCommand:
    """`POST /connectors/{c}/restart` with `includeTasks` and `onlyFailed` (KIP-745)."""
    flags = request.flag("includeTasks"), request.flag("onlyFailed")
    return commands.RestartConnector(name, *flags)


def restart_task(_: CommandInput, name: str, task: str) -> AnyCommand:
    """`POST /connectors/{c}/tasks/{n}/restart`; `NotFound` if `n` is no Java `int`."""
    number = java_library.parse_int(task)
    if number is None:
        raise NotFound("HTTP 404 Not Found")  # the route has matched, so there is a content type
    return commands.RestartTask(name, number)


def alter_offsets(request: CommandInput, name: str) -> AnyCommand:
    """`PATCH /connectors/{c}/offsets`: only the named partitions change (KIP-875)."""
    offsets = bodies.alteration(request.body, request.profile)
    return commands.AlterOffsets(name, _changes(offsets))


def _changes(offsets: list[bodies.Offset]) -> tuple[commands.OffsetChange, ...]:
    return tuple(commands.OffsetChange(*offset) for offset in offsets)


def set_level(request: CommandInput, namespace: str) -> AnyCommand:
    """`PUT /admin/loggers/{l}?scope=cluster` (KIP-976); `BadRequest` without that scope."""
    level = bodies.level(request.body, request.profile)
    if request.query.get("scope", [""])[0].lower() != "cluster":
        raise BadRequest(
            "A command cannot set the level of one worker's logger: "
            "add ?scope=cluster to set it on all workers"
        )
    return commands.SetLoggerLevel(namespace, level)


def publish_tasks(request: CommandInput, name: str) -> AnyCommand:
    """The internal `POST /connectors/{c}/tasks`: a worker sends task configs to the leader."""
    configs = bodies.task_configs(request.body, request.profile)
    _check_signed(request)
    return commands.PublishTasks(name, tuple(config or {} for config in configs))


def fence_tasks(request: CommandInput, name: str) -> AnyCommand:
    """The internal `PUT /connectors/{c}/fence`; `RestError` if a required signature is missing."""
    _check_signed(request)
    return commands.FenceTasks(name)


def with_checked_signature(request: CommandInput, body: bytes | None) -> CommandInput:
    """Verify the signature of a long body before it is parsed.

    Raises:
        RestError: no worker of this cluster has signed the request.
    """
    if len(body or b"") <= PARSED_FIRST_BYTES:
        return request
    _check_signed(request._replace(body=body))
    return request._replace(signed=True, signature=None)


def _check_signed(request: CommandInput) -> None:
    if not request.profile.session_keys or request.signed:
        return
    if request.signature is None:
        raise BadRequest("Internal request missing required signature")
    request.signature.check(request.body or b"")
