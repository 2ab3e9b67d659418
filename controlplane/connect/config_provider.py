"""Custom config providers: sources of values that configs name as `${name:path:key}` (KIP-297).

A package declares the class as an entry point of the group `controlplane.config_providers`. A
worker's `config.providers.NAME.class` names it as `module.Class`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import NamedTuple


class ProvidedValue(NamedTuple):
    """A value, and the time after which it must be read again (Kafka: `ConfigData`)."""

    value: str
    ttl_ms: int | None = None
    """Lifetime in milliseconds; None: the value does not expire.

    Once it has expired, the connectors that use it are restarted, unless they have
    `config.action.reload=none`.
    """


class ConfigProvider(ABC):
    """Source of values. Any thread calls it; a call may block (Kafka: `ConfigProvider`)."""

    def configure(self, settings: Mapping[str, str]) -> None:  # noqa: B027 - may be left out
        """Take the settings `config.providers.NAME.param.*`, without this prefix."""

    @abstractmethod
    def get(self, path: str, key: str) -> ProvidedValue | None:
        """Return the value of a key; None: there is none.

        A reference without a value stays as it is in a connector's config. In a setting of the
        worker it is an error.

        Raises:
            Exception: the value cannot be read. The connector or task is FAILED; a worker whose
                setting has the reference does not start.
        """
