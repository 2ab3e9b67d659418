"""The table of what counts here of a worker's settings: key, type, unit, default, reason.

A field is its key in a worker's `.properties` file with `_` for a dot; the unit is its last word.
Defaults are Kafka's, unless the reason says otherwise. What else a worker's file may hold, and why
it does not count here, is in `known`.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from controlplane.core.context import Worker
from controlplane.core.moments import shown
from controlplane.core.state import Topics
from controlplane.core.topic_names import ALLOWED, is_legal
from controlplane.settings.kinds import REFUSED, BadValue

INT_MAX = 2**31 - 1
"""Kafka's INT."""


def _idle(why: str) -> Meta:
    """A setting that is known and checked, and of which nothing here takes notice yet."""
    return Meta(extra={"idle": why})


_NO_TASKS = _idle("no tasks run here")
_ONE_WORKER = _idle("no worker calls another one here")
_PLUGINS = _idle("connector classes are named by a catalogue, plugins.catalogue")

_Port = Annotated[int, Meta(ge=0, le=65_535)]
BROKERS_DEFAULT: Literal[-1] = -1
_Partitions = Literal[-1] | Annotated[int, Meta(ge=1, le=INT_MAX)]
_Int = Annotated[int, Meta(ge=0, le=INT_MAX)]


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's settings; how it gets in to a cluster is `access`'s."""

    # --- the cluster and its topics -----------------------------------------------------------

    bootstrap_servers: Annotated[str | None, REFUSED] = None
    """The brokers, `host:port[,host:port]`, of a log that is called `kafka://` and no more. No
    default, as in 4.x: a guess would be another cluster."""

    group_id: Annotated[str, REFUSED] = "connect-cluster"
    """The cluster's name: the transactional ids of its tasks begin with it. Kafka has no default;
    this is the one of its sample file, as are those of the topics."""

    config_storage_topic: Annotated[str, REFUSED] = "connect-configs"
    offset_storage_topic: Annotated[str, REFUSED] = "connect-offsets"
    status_storage_topic: Annotated[str, REFUSED] = "connect-status"

    command_storage_topic: Annotated[str, REFUSED] = "connect-commands"
    """Ours: commands with their plans and outcomes. A Java worker does not know it."""

    offset_storage_partitions: _Partitions = 25
    """Of the topic, when it is made with an embedded log: on a cluster, whoever runs the brokers
    makes it. -1 is the broker's default to Kafka, and ours here; of the statuses, too."""

    status_storage_partitions: _Partitions = 5

    plugins_catalogue: str | None = None
    """Ours: a file that lists connector classes and other plugins, as `--plugins` names it. A
    worker finds them on its class path."""

    plugins_trust_unknown: bool = False
    """Ours: whether a class that is neither Kafka's nor listed is taken to be there. A worker
    refuses a config that names such a class."""

    # --- what decides -------------------------------------------------------------------------

    exactly_once_source_support: Literal["DISABLED", "PREPARING", "ENABLED"] = "DISABLED"
    """KIP-618. Only ENABLED reads committed records alone, and demands fenced producers."""

    topic_tracking_enable: bool = True
    """KIP-558: whether a connector's active topics are known."""

    topic_tracking_allow_reset: bool = True
    """KIP-558: whether they may be reset."""

    connector_client_config_override_policy: str | None = None
    """KIP-458: which of its clients' settings a connector may set; an alias or a class. Not set it
    is All, and before Kafka 3.0 it was None."""

    consumer_group_id: str | None = None
    """The group of every sink connector that does not override it; else `connect-<name>`."""

    key_converter: Annotated[str | None, REFUSED] = None
    """What connectors use that name none; configs are validated by it, and records converted where
    connectors run. Of the values and the headers, too."""

    value_converter: Annotated[str | None, REFUSED] = None
    header_converter: Annotated[str, REFUSED] = Worker().header_converter

    config_providers: tuple[str, ...] = ()
    """KIP-297: names of those who know the values that are written `${name:path:key}`."""

    # --- the REST interface -------------------------------------------------------------------

    listeners: Annotated[tuple[str, ...], REFUSED] = ()
    """Where to listen, as URLs; the first counts. Kafka's default is port 8083 of every interface;
    ours, of this machine only."""

    admin_listeners: Annotated[tuple[str, ...] | None, Meta(extra={"empty": True})] = None
    """KIP-495: where to listen for what administers; the first counts. Not told it is there where
    all is; empty it is nowhere."""

    rest_host_name: str | None = None
    """Up to 2.8, where there are no `listeners`. Images set it still."""

    rest_port: _Port = 8083
    """Up to 2.8, where there are no `listeners`. Images set it still."""

    allowed_hosts: tuple[str, ...] = ()
    """Ours: further host names that a server without authentication answers to; `*` in a name
    stands for anything. A Java worker answers to every name."""

    rest_advertised_host_name: str | None = None
    """A host name under which this server is reached: requests to it are answered."""

    rest_advertised_port: Annotated[_Int | None, _ONE_WORKER] = None
    rest_advertised_listener: Annotated[str | None, _ONE_WORKER] = None

    # --- what is known and checked, and has no effect yet ---------------------------------------

    worker_sync_timeout_ms: Annotated[_Int, _ONE_WORKER] = 3_000
    """How long a leader reads to the end of the config topic before it decides."""

    inter_worker_key_ttl_ms: Annotated[_Int, _ONE_WORKER] = 3_600_000
    """KIP-507: how old the key of internal requests becomes."""

    task_shutdown_graceful_timeout_ms: Annotated[int, Meta(ge=0), _NO_TASKS] = 5_000
    """How long all tasks together may take to stop."""

    offset_flush_interval_ms: Annotated[int, Meta(ge=0), _NO_TASKS] = 60_000
    """How often a source task's offsets are committed: what is repeated after a crash."""

    offset_flush_timeout_ms: Annotated[int, Meta(ge=0), _NO_TASKS] = 5_000
    """How long a commit may wait for records on their way; then the next one takes them."""

    plugin_path: Annotated[tuple[str, ...], _PLUGINS] = ()
    """Where a Java worker finds the jars of its connectors."""

    def __post_init__(self) -> None:
        for role, key in _TOPIC_KEYS.items():
            name = getattr(self.topics, role)
            if not is_legal(name):
                raise BadValue(
                    key, f"is {shown(name)}, which no topic can be called: use {ALLOWED}"
                )
        shared = self.topics.shared
        if shared is not None:
            one, other = (_TOPIC_KEYS[role] for role in shared)
            name = getattr(self.topics, shared[0])
            wrong = f"is {name}, and so is {one}: give each topic a name of its own"
            raise BadValue(other, wrong, because=one)

    @property
    def topics(self) -> Topics:
        """The names of the cluster's topics."""
        return Topics(
            self.config_storage_topic,
            self.offset_storage_topic,
            self.status_storage_topic,
            self.command_storage_topic,
        )

    @property
    def exactly_once(self) -> bool:
        """Whether only committed records are read."""
        return self.exactly_once_source_support == "ENABLED"


_TOPIC_KEYS = {
    "config": "config.storage.topic",
    "offsets": "offset.storage.topic",
    "status": "status.storage.topic",
    "commands": "command.storage.topic",
}
"""By what a topic is for, as `Topics` names it."""

POLICIES = ("All", "None", "Principal")
_POLICY_CLASS = "ConnectorClientConfigOverridePolicy"


def deciding(settings: WorkerSettings) -> Worker:
    """What a decision needs to know of a worker's settings.

    Raises:
        BadValue: a policy for overrides that only its own Java class knows.
    """
    return Worker(
        group_id=settings.group_id,
        consumer_group_id=settings.consumer_group_id,
        bootstrap_servers=settings.bootstrap_servers or "",
        topic_tracking_enable=settings.topic_tracking_enable,
        topic_tracking_allow_reset=settings.topic_tracking_allow_reset,
        override_policy=_policy(settings.connector_client_config_override_policy),
        exactly_once_source=settings.exactly_once,
        key_converter=settings.key_converter,
        value_converter=settings.value_converter,
        header_converter=settings.header_converter,
        config_providers=settings.config_providers,
    )


def _policy(told: str | None) -> str | None:
    """The alias of a policy, which may be told by its class."""
    policy = told and told.rpartition(".")[2].removesuffix(_POLICY_CLASS)
    if policy is not None and policy not in POLICIES:
        raise BadValue(
            "connector.client.config.override.policy",
            f"is {told!r}, which only a Java worker can ask: use {', '.join(POLICIES)}",
        )
    return policy
