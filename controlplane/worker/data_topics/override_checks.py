"""Checks of the client settings that a connector overrides (KIP-458).

The runtime checks them when it makes the connector or a task. The policy may by then be stricter
than the one under which the config was accepted. The policy also holds on a log of our own, where
most of these settings have no effect.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from controlplane.connect.errors import ConnectError
from controlplane.core.context import Context
from controlplane.core.text.override_refusal import override_refusal
from controlplane.core.validation.override_policy import (
    sink_task_clients,
    source_offset_clients,
    source_task_clients,
)
from controlplane.worker.data_topics.topic_rules import has_topic_rules
from controlplane.worker.settings import RuntimeSettings


def check_source_connector(
    config: Mapping[str, Any], context: Context, *, exactly_once: bool
) -> None:
    """Check the clients of a source connector itself; `check_source_task` checks those of tasks.

    In Java, a `SourceConnector` may read committed offsets. Since KIP-618, the worker makes clients
    for these reads. Connectors in Python cannot read offsets, but the check is the same.

    Raises:
        ConnectError: the policy forbids a setting.
    """
    if context.profile.own_offset_topics:
        _check(config, source_offset_clients(config, context, exactly_once=exactly_once), context)


def check_source_task(
    config: Mapping[str, str], context: Context, settings: RuntimeSettings
) -> None:
    """Check the clients of a source task; `config` is the connector's, resolved.

    Raises:
        ConnectError: the policy forbids a setting.
    """
    clients = source_task_clients(
        config,
        context,
        exactly_once=settings.exactly_once,
        creates_topics=settings.producer.create_topics and has_topic_rules(config),
    )
    _check(config, clients, context)


def check_sink_task(config: Mapping[str, str], context: Context) -> None:
    """Check the clients of a sink task; `config` is the connector's, resolved.

    Raises:
        ConnectError: the policy forbids a setting.
    """
    _check(config, sink_task_clients(config), context)


def _check(config: Mapping[str, Any], clients: Iterable[str], context: Context) -> None:
    refusal = override_refusal(config, clients, context)
    if refusal is not None:
        raise ConnectError(refusal)
