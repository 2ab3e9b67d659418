"""Refusal of the client settings that a connector overrides, when the clients are made (KIP-458).

A worker checks the overrides when it accepts a config, and again when it makes the clients. In
between, the worker's policy may have changed.
"""

from collections.abc import Iterable
from typing import Any

from controlplane.core.context import Context
from controlplane.core.java.java_library import hash_map_order
from controlplane.core.java.json_values import value_text
from controlplane.core.records import Properties
from controlplane.core.text.redaction import redacted_value
from controlplane.core.validation.override_policy import policy_error


def override_refusal(config: Properties, clients: Iterable[str], context: Context) -> str | None:
    """Kafka's message for the first client with a forbidden override; None: all are allowed.

    Secrets are hidden; Kafka shows them. Kafka: `Worker#connectorClientConfigOverrides`.
    """
    if not context.profile.overrides_validated:
        return None
    for client in clients:
        prefix = f"{client}.override."
        overrides = {
            key.removeprefix(prefix): value
            for key, value in config.items()
            if key.startswith(prefix) and len(key) > len(prefix)
        }
        refused = [
            f"[{name},{_printed_value(name, overrides[name])},[],[{error}],true]"
            for name in hash_map_order(overrides)
            if (error := policy_error(name, context.worker, context.profile)) is not None
        ]
        if refused:
            return f"Client Config Overrides not allowed [{', '.join(refused)}]"
    return None


def _printed_value(name: str, value: Any) -> str:
    """Value as Java prints it, a secret hidden."""
    shown = redacted_value(name, value)
    return shown if isinstance(shown, str) else value_text(shown)
