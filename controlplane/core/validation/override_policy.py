"""Policy for the client settings that a connector overrides (KIP-458).

Kafka: `connector.policy`; `Worker` for the clients.
"""

from controlplane.core.context import Context, DecisionSettings
from controlplane.core.records import Properties
from controlplane.core.releases.profiles import Profile

_PRINCIPAL_KEYS = frozenset(("sasl.jaas.config", "sasl.mechanism", "security.protocol"))
"""Settings that the policy `Principal` allows."""

_OWN_OFFSETS = "offsets.storage.topic"


def policy_error(name: str, worker: DecisionSettings, profile: Profile) -> str | None:
    """Error of an override by the worker's policy; None: allowed.

    `name`: setting of the client, without the prefix.
    """
    policy = worker.override_policy
    if policy is None:
        policy = "All" if profile.overrides_allowed else "None"
    if policy == "All" or (policy == "Principal" and name in _PRINCIPAL_KEYS):
        return None
    refused = f"The '{policy}' policy does not allow '{name}' to be overridden"
    return f"{refused} in the connector configuration."


SINK_OFFSET_CLIENTS = "admin", "consumer"
"""Clients whose settings locate the offsets of a sink, in the order of the worker's checks."""


def source_offset_clients(
    config: Properties, context: Context, *, exactly_once: bool
) -> tuple[str, ...]:
    """Clients that store the offsets of a source connector, in the order of the worker's checks."""
    if exactly_once or _has_own_topic(config, context):
        return "producer", "consumer", "admin"
    return ("producer",)


def source_task_clients(
    config: Properties, context: Context, *, exactly_once: bool, creates_topics: bool
) -> tuple[str, ...]:
    """Clients of a source task, in the order of the worker's checks.

    `creates_topics`: the task creates topics by the connector's `topic.creation.*`.
    """
    if exactly_once or _has_own_topic(config, context):
        return "producer", "admin", "consumer"
    return ("producer", "admin") if creates_topics else ("producer",)


def sink_task_clients(config: Properties) -> tuple[str, ...]:
    """Clients of a sink task, in the order of the worker's checks."""
    if config.get("errors.deadletterqueue.topic.name"):
        return "consumer", "producer", "admin"
    return ("consumer",)


def _has_own_topic(config: Properties, context: Context) -> bool:
    return context.profile.own_offset_topics and bool(config.get(_OWN_OFFSETS))
