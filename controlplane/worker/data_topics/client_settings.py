"""Settings of the clients of tasks: those of the worker, overridden by a connector (KIP-458)."""

from collections.abc import Mapping
from typing import Literal

ClientKind = Literal["producer", "consumer", "admin"]
"""Kind of a client, and the prefix of its settings in a worker's file and a connector's config."""


def client_overrides(config: Mapping[str, str], client: ClientKind) -> dict[str, str]:
    """Return `<client>.override.*` of a connector's config, without the prefix."""
    prefix = f"{client}.override."
    return {
        key.removeprefix(prefix): value for key, value in config.items() if key.startswith(prefix)
    }
