"""Create, configure, patch, delete: the connector config, which is the connector.

What is there is decided by one record, so every plan here commits with it. A target state that the
new connector shall have is written before it: no reader may see the connector in another one. A
deletion goes the other way round, and for the same reason: without a config no worker starts
anything, whatever else is still there. Kafka: `DistributedHerder`, `KafkaConfigBackingStore`.
"""

from controlplane.core.commands import (
    ConnectorCommand,
    CreateConnector,
    DeleteConnector,
    PatchConfig,
    PutConfig,
)
from controlplane.core.context import Context
from controlplane.core.decide.drafting import privileged
from controlplane.core.decide.tasks import task_set
from controlplane.core.decide.writable import harmful
from controlplane.core.java import patched_hash_map
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
from controlplane.core.validation import refusal

COMMIT_POINT = "config"
"""The step with which a connector is there, is another, or is gone."""


def create(state: ClusterState, command: CreateConnector, context: Context) -> Plan | Rejected:
    """A connector that was not there before, in the state that is wished for (KIP-980)."""
    config = config_to_create(state, command, context)
    if isinstance(config, Rejected):
        return config
    steps = creation(state, command.connector, config, command.initial_state, context)
    return Plan(steps, Outcome(created=True), COMMIT_POINT)


def put(state: ClusterState, command: PutConfig, context: Context) -> Plan | Rejected:
    """The whole config of a connector; one that is not there is created."""
    name = command.connector
    config = _valid(state, name, command.config, context)
    if isinstance(config, Rejected):
        return config
    if name in state.config.connectors:
        return Plan(_change(state, name, config, context), commit_point=COMMIT_POINT)
    steps = creation(state, name, config, None, context)
    return Plan(steps, Outcome(created=True), COMMIT_POINT)


def patch(state: ClusterState, command: PatchConfig, context: Context) -> Plan | Rejected:
    """The config that is there, with some keys changed (KIP-477)."""
    name = command.connector
    if not context.profile.patches_configs:
        return Rejected(Reason.NOT_OFFERED, None)
    present = state.config.connectors.get(name)
    if present is None:
        return not_found(command)
    config = patched_hash_map(present, command.patch)
    refused = None if context.profile.patch_may_rename else _misnamed(name, config)
    refused = refused or refusal(config, context) or harmful(state, name, config, context)
    if refused is not None:
        return refused
    return Plan(_change(state, name, config, context), commit_point=COMMIT_POINT)


def delete(state: ClusterState, command: DeleteConnector, context: Context) -> Plan | Rejected:
    """Config and target state are gone, even where the latter never was; offsets stay."""
    name = command.connector
    if name not in state.config.connectors:
        return not_found(command)
    records: dict[str, ConfigRecord] = {COMMIT_POINT: ConnectorConfig(name, None)}
    if context.profile.target_states:
        records["state"] = TargetState(name, None)
    return Plan(privileged(state, records, COMMIT_POINT, context), commit_point=COMMIT_POINT)


def config_to_create(
    state: ClusterState, command: CreateConnector, context: Context
) -> Properties | Rejected:
    """The config as it is written, or why there can be no such connector.

    That it is wrong is told before that the name is taken.
    """
    profile, name = context.profile, command.connector
    unknown_state = command.initial_state is not None and not profile.creates_in_state
    unknown_offsets = command.initial_offsets is not None and not profile.creates_with_offsets
    if unknown_state or unknown_offsets:
        return Rejected(Reason.NOT_OFFERED, None)
    config = _valid(state, name, command.config, context)
    if not isinstance(config, Rejected) and name in state.config.connectors:
        return Rejected(Reason.ALREADY_EXISTS, f"Connector {name} already exists")
    return config


def creation(
    state: ClusterState, name: str, config: Properties, wanted: Target | None, context: Context
) -> tuple[Step, ...]:
    """The records of a new connector.

    An older target state of that name counts as soon as the config is there. Releases let it
    (`inherits_target_state`); we take it away, unless a new one stands in its place anyway.
    """
    records: dict[str, ConfigRecord] = {}
    orphan = name in state.config.targets and not context.profile.inherits_target_state
    if wanted is not None or orphan:
        records["state"] = TargetState(name, wanted)
    records[COMMIT_POINT] = ConnectorConfig(name, config)
    return privileged(state, records, COMMIT_POINT, context)


def not_found(command: ConnectorCommand) -> Rejected:
    """There is no such connector, in the words of what only a leader does."""
    return Rejected(Reason.NO_SUCH_CONNECTOR, f"Connector {command.connector} not found")


def _valid(
    state: ClusterState, name: str, config: Properties, context: Context
) -> Properties | Rejected:
    """The config with its name in it, at the place where the asker put it, or else at the end."""
    if config.get("name") is None:
        config = {**config, "name": name}
    refused = _misnamed(name, config) or refusal(config, context)
    return refused or harmful(state, name, config, context) or config


def _misnamed(name: str, config: Properties) -> Rejected | None:
    given = config.get("name")
    if given is None or given == name:
        return None
    text = f"Connector name configuration ({given}) doesn't match connector name in the URL"
    return Rejected(Reason.INVALID, f"{text} ({name})")


def _change(
    state: ClusterState, name: str, config: Properties, context: Context
) -> tuple[Step, ...]:
    """The record of another config; under our own profile with the tasks behind it.

    Releases drop tasks whose commit is older than the config of their connector (KAFKA-17719).
    After the config of a running connector has changed, its owner commits them anew; nobody does
    for one that does not run, so that compaction would take them.
    """
    records: dict[str, ConfigRecord] = {COMMIT_POINT: ConnectorConfig(name, config)}
    if context.profile.writes_tasks_when_reconfigured and not _runs(state, name):
        records |= _present_tasks(state, name)
    return privileged(state, records, COMMIT_POINT, context)


def _runs(state: ClusterState, name: str) -> bool:
    reported = state.status.connectors.get(name)
    failed = reported is not None and reported.state is State.FAILED
    return state.config.targets.get(name) is Target.STARTED and not failed


def _present_tasks(state: ClusterState, name: str) -> dict[str, ConfigRecord]:
    """The committed task set; nothing where there is none, or it is not whole."""
    if name not in state.config.task_counts or name in state.config.inconsistent:
        return {}
    configs = state.config.tasks.get(name, {})
    return task_set(name, [configs[task] for task in state.config.task_ids(name)])
