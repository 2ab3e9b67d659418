"""Decides create, put, patch and delete: the commands that write a connector config.

A connector exists exactly while it has a config record, so every plan here commits with that
record. The target state of a new connector is written before its config. No reader may see the
connector in another state. A deletion removes the config first: without a config no worker starts
anything, whatever else is left. Kafka: `DistributedHerder`, `KafkaConfigBackingStore`.
"""

from controlplane.core.commands import (
    ConnectorCommand,
    CreateConnector,
    DeleteConnector,
    PatchConfig,
    PutConfig,
)
from controlplane.core.context import Context
from controlplane.core.decide.steps import privileged_steps
from controlplane.core.decide.task_configs import task_set
from controlplane.core.java.java_library import patched_hash_map
from controlplane.core.java.json_codec import encode_key
from controlplane.core.plan import Outcome, Plan, Reason, Rejected, Step
from controlplane.core.records import (
    ConfigRecord,
    ConnectorConfig,
    Properties,
    State,
    Target,
    TargetState,
)
from controlplane.core.state import ClusterState
from controlplane.core.topic_names import ALLOWED, is_legal
from controlplane.core.topics.source_partitions import OFFSETS_TOPIC
from controlplane.core.validation import refusal

COMMIT_POINT = "config"
"""Step that makes the connector appear, change or disappear."""


def create(state: ClusterState, command: CreateConnector, context: Context) -> Plan | Rejected:
    """Create a connector in the requested state (KIP-980)."""
    config = config_to_create(state, command, context)
    if isinstance(config, Rejected):
        return config
    steps = creation(state, command.connector, config, command.initial_state, context)
    return Plan(steps, Outcome(created=True), COMMIT_POINT)


def put(state: ClusterState, command: PutConfig, context: Context) -> Plan | Rejected:
    """Replace the config of a connector, or create the connector."""
    name = command.connector
    config = _valid_config(state, name, command.config, context)
    if isinstance(config, Rejected):
        return config
    if name in state.config.connectors:
        return Plan(_config_change(state, name, config, context), commit_point=COMMIT_POINT)
    steps = creation(state, name, config, None, context)
    return Plan(steps, Outcome(created=True), COMMIT_POINT)


def patch(state: ClusterState, command: PatchConfig, context: Context) -> Plan | Rejected:
    """Set keys of the present config, or remove them by null (KIP-477)."""
    name = command.connector
    if not context.profile.patches_configs:
        return Rejected(Reason.NOT_OFFERED, None)
    present = state.config.connectors.get(name)
    if present is None:
        return not_found(command)
    config = patched_hash_map(present, command.patch)
    refused = None if context.profile.patch_may_rename else _misnamed(name, config)
    refused = refused or refusal(config, context) or _harmful(state, name, config, context)
    if refused is not None:
        return refused
    return Plan(_config_change(state, name, config, context), commit_point=COMMIT_POINT)


def delete(state: ClusterState, command: DeleteConnector, context: Context) -> Plan | Rejected:
    """Remove config and target state, even if there is no target state; offsets stay."""
    name = command.connector
    if name not in state.config.connectors:
        return not_found(command)
    records: dict[str, ConfigRecord] = {COMMIT_POINT: ConnectorConfig(name, None)}
    if context.profile.target_states:
        records["state"] = TargetState(name, None)
    return Plan(privileged_steps(state, records, COMMIT_POINT, context), commit_point=COMMIT_POINT)


def config_to_create(
    state: ClusterState, command: CreateConnector, context: Context
) -> Properties | Rejected:
    """Config to write for a new connector, or the refusal.

    An invalid config is reported before a name that is taken.
    """
    profile, name = context.profile, command.connector
    unknown_state = command.initial_state is not None and not profile.creates_in_state
    unknown_offsets = command.initial_offsets is not None and not profile.creates_with_offsets
    if unknown_state or unknown_offsets:
        return Rejected(Reason.NOT_OFFERED, None)
    config = _valid_config(state, name, command.config, context)
    if not isinstance(config, Rejected) and name in state.config.connectors:
        return Rejected(Reason.ALREADY_EXISTS, f"Connector {name} already exists")
    return config


def creation(
    state: ClusterState, name: str, config: Properties, target: Target | None, context: Context
) -> tuple[Step, ...]:
    """Steps that write a new connector.

    A target state left by an earlier connector of that name takes effect with the new config.
    Releases keep this state (`inherits_target_state`). The profile `kip` removes it, unless a
    requested state replaces it.
    """
    records: dict[str, ConfigRecord] = {}
    orphan = name in state.config.targets and not context.profile.inherits_target_state
    if target is not None or orphan:
        records["state"] = TargetState(name, target)
    records[COMMIT_POINT] = ConnectorConfig(name, config)
    return privileged_steps(state, records, COMMIT_POINT, context)


def not_found(command: ConnectorCommand) -> Rejected:
    """Refusal of an unknown connector, as Kafka words it for patches, deletions and offsets.

    For other commands Kafka has other texts: see `target_states` and `restarts`.
    """
    return Rejected(Reason.NO_SUCH_CONNECTOR, f"Connector {command.connector} not found")


def _valid_config(
    state: ClusterState, name: str, config: Properties, context: Context
) -> Properties | Rejected:
    """The config, or the refusal. A missing `name` is appended; a given one keeps its place."""
    if config.get("name") is None:
        config = {**config, "name": name}
    refused = _misnamed(name, config) or refusal(config, context)
    return refused or _harmful(state, name, config, context) or config


def _misnamed(name: str, config: Properties) -> Rejected | None:
    """Refuse a config whose `name` is another connector's; None: the name matches or is absent."""
    configured_name = config.get("name")
    if configured_name is None or configured_name == name:
        return None
    text = (
        f"Connector name configuration ({configured_name}) doesn't match connector name in the URL"
    )
    return Rejected(Reason.INVALID, f"{text} ({name})")


def _config_change(
    state: ClusterState, name: str, config: Properties, context: Context
) -> tuple[Step, ...]:
    """Steps that write a changed config; under `kip` also the tasks, if the connector does not run.

    Compaction can leave a task commit before its connector's config. A worker that reads such a log
    drops the tasks (KAFKA-17719, `commit_needs_config`). The owner of a running connector avoids
    that: it commits the tasks again after a config change. No worker does so for a connector that
    does not run.
    """
    records: dict[str, ConfigRecord] = {COMMIT_POINT: ConnectorConfig(name, config)}
    if context.profile.writes_tasks_when_reconfigured and not _runs(state, name):
        records |= _present_tasks(state, name)
    return privileged_steps(state, records, COMMIT_POINT, context)


def _runs(state: ClusterState, name: str) -> bool:
    """True if the target state is STARTED and the reported state is not FAILED."""
    reported = state.status.connectors.get(name)
    failed = reported is not None and reported.state is State.FAILED
    return state.config.targets.get(name) is Target.STARTED and not failed


def _present_tasks(state: ClusterState, name: str) -> dict[str, ConfigRecord]:
    """Records of the committed task set by step name; empty if no set or an incomplete one."""
    if name not in state.config.task_counts or name in state.config.inconsistent:
        return {}
    configs = state.config.tasks.get(name, {})
    return task_set(name, [configs[task] for task in state.config.task_ids(name)])


def _harmful(
    state: ClusterState, name: str, config: Properties, context: Context
) -> Rejected | None:
    """Refuse a harmful config; None: harmless, or the profile accepts it as releases do."""
    fault = None
    if not context.profile.names_lose_surrogates:
        fault = _surrogate_fault(name)
    if fault is None and not context.profile.own_offsets_anywhere:
        fault = _offsets_topic_fault(state, config, context)
    return None if fault is None else Rejected(Reason.INVALID, fault)


def _surrogate_fault(name: str) -> str | None:
    """Error for a name with half a surrogate pair; None: no such half.

    Java writes such a half as a question mark. So the key would be another connector's.
    """
    written = encode_key(name).decode()
    if written == name:
        return None
    return (
        f"The name {name!a} holds half a surrogate pair, so its record's key would name connector "
        f"{written}: choose another name"
    )


def _offsets_topic_fault(state: ClusterState, config: Properties, context: Context) -> str | None:
    """Error for an offsets topic with an illegal name or another role in the cluster, or None."""
    topic, topics = config.get(OFFSETS_TOPIC), state.topics
    if not isinstance(topic, str) or context.worker.is_provided(topic):
        return None
    if not is_legal(topic):
        return f"{OFFSETS_TOPIC} is {topic!a}, which cannot be the name of a topic: use {ALLOWED}"
    if topic in {topics.config, topics.status, topics.commands}:
        return (
            f"{OFFSETS_TOPIC} is {topic}, which is the cluster's {topics.short(topic)} topic: "
            "choose a topic of its own for offsets"
        )
    return None
