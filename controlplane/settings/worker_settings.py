"""Table of the supported worker settings: key, type, unit, default, description.

A field is named like its key in a worker's `.properties` file, with `_` for a dot. Names of times
end in the unit (`_ms`). Defaults are Kafka's, unless the description says otherwise.
`known_settings` lists the unsupported keys of a worker's file with reasons.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from controlplane.core.context import DecisionSettings
from controlplane.core.moments import quoted
from controlplane.core.state import Topics
from controlplane.core.topic_names import ALLOWED, is_legal
from controlplane.settings.errors import BadValue
from controlplane.settings.kinds import REFUSED, Codec

INT_MAX = 2**31 - 1
"""Maximum of Kafka's INT."""


def _idle(why: str) -> Meta:
    """Return the annotation of a setting that is checked but has no effect in a service.

    `why`: reason for the user.
    """
    return Meta(extra={"idle": why})


_ONE_WORKER = _idle("no worker calls another one here")
_STANDALONE = _idle("only a standalone worker reads it")

LAST_PORT = 65_535
_Port = Annotated[int, Meta(ge=0, le=LAST_PORT)]
BROKERS_DEFAULT: Literal[-1] = -1
_TopicPartitions = Literal[-1] | Annotated[int, Meta(ge=1, le=INT_MAX)]
_Replicas = Literal[-1] | Annotated[int, Meta(ge=1, le=2**15 - 1)]
_Int = Annotated[int, Meta(ge=0, le=INT_MAX)]


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a worker, without those of its access to a cluster (`AccessSettings`)."""

    # --- the cluster and its topics -----------------------------------------------------------

    bootstrap_servers: Annotated[str | None, REFUSED] = None
    """Brokers of the log `kafka://`, as `host:port[,host:port]`. There is no default, as in 4.x: a
    default could select a wrong cluster."""

    group_id: Annotated[str, REFUSED] = "connect-cluster"
    """Name of the cluster; transactional ids of its tasks begin with it. Kafka has no default; this
    default is from its sample file, as are those of the topics."""

    config_storage_topic: Annotated[str, REFUSED] = "connect-configs"
    offset_storage_topic: Annotated[str, REFUSED] = "connect-offsets"
    status_storage_topic: Annotated[str, REFUSED] = "connect-status"

    command_storage_topic: Annotated[str, REFUSED] = "connect-commands"
    """This project's own: topic of the commands with their plans and outcomes. Java workers do not
    read it."""

    offset_storage_partitions: _TopicPartitions = 25
    """Partitions of a new topic of offsets. -1: in Kafka the brokers' default, in an embedded log
    Connect's default, which is 25."""

    status_storage_partitions: _TopicPartitions = 5
    """Partitions of a new topic of statuses; -1 as for offsets."""

    config_storage_replication_factor: _Replicas = 3
    """Replicas of a new config or command topic in Kafka (`serve --own`); -1: the brokers' default.
    An embedded log has no replicas. The settings for offsets and statuses are alike."""

    offset_storage_replication_factor: _Replicas = 3
    status_storage_replication_factor: _Replicas = 3

    compression_type: Codec = "none"
    """Compression of records in the four topics in Kafka (`serve --own`). A worker passes this
    setting of producers on to the writers of its topics. `writer.compression` takes precedence."""

    plugins_catalogue: str | None = None
    """This project's own: file that lists connector classes and other plugins, as for `--plugins`.
    A Java worker finds plugins on its class path."""

    plugins_trust_unknown: bool = False
    """This project's own: true to accept classes that are neither Kafka's nor listed. A worker
    refuses a config that names such a class."""

    # --- settings of decisions -----------------------------------------------------------------

    exactly_once_source_support: Literal["DISABLED", "PREPARING", "ENABLED"] = "DISABLED"
    """KIP-618. ENABLED: only committed records are read, and producers must be fenced. The other
    values have neither effect."""

    topic_tracking_enable: bool = True
    """KIP-558: true to track a connector's active topics."""

    topic_tracking_allow_reset: bool = True
    """KIP-558: true to permit resets of active topics."""

    connector_client_config_override_policy: str | None = None
    """KIP-458: policy for a connector's client settings; an alias or a class. The default is All;
    before Kafka 3.0 it was None."""

    consumer_group_id: str | None = None
    """Consumer group of every sink connector that does not override it; default
    `connect-<name>`."""

    producer_bootstrap_servers: str = ""
    """Brokers of the producers of sources that do not override them; default: the worker's."""

    key_converter: Annotated[str | None, REFUSED] = None
    """Converter of keys for connectors that name none; their configs are validated with it, too.
    The settings for values and headers are alike."""

    value_converter: Annotated[str | None, REFUSED] = None
    header_converter: Annotated[str, REFUSED] = DecisionSettings().header_converter

    config_providers: tuple[str, ...] = ()
    """KIP-297: names of the providers for values like `${name:path:key}`."""

    # --- the REST interface -------------------------------------------------------------------

    listeners: Annotated[tuple[str, ...], REFUSED] = ()
    """URLs to listen on; only the first applies. Default: port 8083 of the loopback interface; in
    Kafka, of every interface."""

    admin_listeners: Annotated[tuple[str, ...] | None, Meta(extra={"empty": True})] = None
    """KIP-495: listeners of the endpoints for administrators; only the first applies. Unset: the
    main listener has these endpoints. Empty: they are disabled."""

    rest_host_name: str | None = None
    """Host if `listeners` is unset. Kafka has it up to 2.8; images still set it."""

    rest_port: _Port = 8083
    """Port if `listeners` is unset. Kafka has it up to 2.8; images still set it."""

    allowed_hosts: tuple[str, ...] = ()
    """This project's own: further names that a server without authentication accepts in the `Host`
    header. `*` stands for any text. A Java worker accepts every name."""

    rest_advertised_host_name: str | None = None
    """Host name of this server; requests with this name in `Host` are accepted."""

    rest_advertised_port: Annotated[_Int | None, _ONE_WORKER] = None
    """Checked, without effect so far: port to which other workers forward requests."""

    rest_advertised_listener: Annotated[str | None, _ONE_WORKER] = None
    """Checked, without effect so far: protocol of the listener for other workers."""

    # --- connectors that run here ----------------------------------------------------------------

    plugin_path: tuple[str, ...] = ()
    """Python modules, and directories (`./plugins`), whose connectors run here; empty: none runs.
    Classes that installed packages declare are always imported, to validate configs. For a Java
    worker it is the path of connector jars."""

    connectors_folders: tuple[str, ...] = ()
    """This project's own: folders that the connectors for files may touch; empty: none."""

    task_shutdown_graceful_timeout_ms: Annotated[int, Meta(ge=0)] = 5_000
    """Time limit within which all tasks of a connector must stop."""

    topic_creation_enable: bool = True
    """KIP-158: true to create topics of source connectors according to their `topic.creation.*`."""

    offset_flush_interval_ms: Annotated[int, Meta(ge=0)] = 60_000
    """Commit interval of the offsets of sources and sinks; records since the last commit are
    repeated after a crash."""

    offset_flush_timeout_ms: Annotated[int, Meta(ge=0)] = 5_000
    """Time limit of a commit of offsets; the next commit repeats a late one. Also the longest wait
    for records in flight when a source task ends."""

    # --- a standalone worker ---------------------------------------------------------------------

    offset_storage_file_filename: Annotated[str | None, _STANDALONE] = None
    """File of source offsets; a standalone worker needs it."""

    records_log: Annotated[str | None, _STANDALONE] = None
    """This project's own: embedded log of the topics that connectors read and write,
    `sqlite:///path`. Unset: the topics are on `bootstrap.servers`. Without brokers: they are in a
    file named like the offsets file, plus `.records.db`."""

    # --- checked settings without effect so far --------------------------------------------------

    worker_sync_timeout_ms: Annotated[_Int, _ONE_WORKER] = 3_000
    """Time limit for a worker that is behind to read to the end of the config topic."""

    inter_worker_key_ttl_ms: Annotated[_Int, _ONE_WORKER] = 3_600_000
    """KIP-507: lifetime of the key for internal requests."""

    def __post_init__(self) -> None:
        for role, key in _TOPIC_KEYS.items():
            name = getattr(self.topics, role)
            if not is_legal(name):
                raise BadValue(
                    key, f"is {quoted(name)}, which no topic can be called: use {ALLOWED}"
                )
        shared = self.topics.shared
        if shared is not None:
            first, second = (_TOPIC_KEYS[role] for role in shared)
            name = getattr(self.topics, shared[0])
            problem = f"is {name}, and so is {first}: give each topic a name of its own"
            raise BadValue(second, problem, because=first)

    @property
    def topics(self) -> Topics:
        """Names of the cluster's topics, from the four `*.storage.topic` settings."""
        return Topics(
            self.config_storage_topic,
            self.offset_storage_topic,
            self.status_storage_topic,
            self.command_storage_topic,
        )

    @property
    def exactly_once(self) -> bool:
        """True if only committed records are read."""
        return self.exactly_once_source_support == "ENABLED"


_TOPIC_KEYS = {
    "config": "config.storage.topic",
    "offsets": "offset.storage.topic",
    "status": "status.storage.topic",
    "commands": "command.storage.topic",
}
"""Setting of each topic, by the field of `Topics`."""

POLICIES = ("All", "None", "Principal")
_POLICY_CLASS = "ConnectorClientConfigOverridePolicy"


def decision_settings(settings: WorkerSettings) -> DecisionSettings:
    """Return the settings that decisions depend on.

    Raises:
        BadValue: the override policy exists only as a Java class.
    """
    return DecisionSettings(
        group_id=settings.group_id,
        consumer_group_id=settings.consumer_group_id,
        bootstrap_servers=settings.bootstrap_servers or "",
        producer_bootstrap_servers=settings.producer_bootstrap_servers,
        topic_tracking_enable=settings.topic_tracking_enable,
        topic_tracking_allow_reset=settings.topic_tracking_allow_reset,
        override_policy=_policy(settings.connector_client_config_override_policy),
        exactly_once_source=settings.exactly_once,
        key_converter=settings.key_converter,
        value_converter=settings.value_converter,
        header_converter=settings.header_converter,
        config_providers=settings.config_providers,
    )


def _policy(name: str | None) -> str | None:
    """Return the alias of a policy; `name` is an alias or a class."""
    policy = name and name.rpartition(".")[2].removesuffix(_POLICY_CLASS)
    if policy is not None and policy not in POLICIES:
        raise BadValue(
            "connector.client.config.override.policy",
            f"is {name!r}, which exists only in Java: use {', '.join(POLICIES)}",
        )
    return policy
