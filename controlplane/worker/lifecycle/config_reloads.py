"""Restarts of connectors whose values from config providers expire (KIP-297).

Kafka: `WorkerConfigTransformer#scheduleReload`, `HerderRequest`.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from controlplane.notices import Notices

ACTION = "config.action.reload"
"""Setting of a connector: `restart` (the default), or `none`."""


class _Timer(NamedTuple):
    """Timer of a value, and the config that has the reference to it."""

    config: Mapping[str, Any]
    handle: asyncio.TimerHandle


class ConfigReloads:
    """Timers by connector, provider and path. A timer is replaced when a new value is read."""

    def __init__(
        self, restart: Callable[[str, Mapping[str, Any]], None], notices: Notices, shortest_ms: int
    ) -> None:
        self._restart = restart
        self._notices = notices
        self._shortest_ms = shortest_ms
        self._timers: dict[str, dict[str, _Timer]] = {}
        self._loop = asyncio.get_running_loop()

    def schedule(
        self, connector: str, config: Mapping[str, Any], ttls_ms: Mapping[str, int]
    ) -> None:
        """Restart a connector when the first of these values expires; callable from any thread.

        The callback `restart` gets the config, which may be an old one by then.
        """
        action = str(config.get(ACTION) or "restart").strip().lower()
        if ttls_ms and action == "restart":
            self._loop.call_soon_threadsafe(self._set, connector, config, dict(ttls_ms))

    def cancel(self, connector: str) -> None:
        """Cancel the timers of a connector."""
        for timer in self._timers.pop(connector, {}).values():
            timer.handle.cancel()

    def close(self) -> None:
        """Cancel the timers of all connectors, without a restart."""
        for connector in [*self._timers]:
            self.cancel(connector)

    def _set(self, connector: str, config: Mapping[str, Any], ttls_ms: Mapping[str, int]) -> None:
        timers = self._timers.setdefault(connector, {})
        for path, ttl_ms in ttls_ms.items():
            if path in timers:
                timers[path].handle.cancel()
            pause_ms = max(ttl_ms, self._shortest_ms)
            self._notices.info("config_reload_scheduled", connector=connector, in_ms=pause_ms)
            handle = self._loop.call_later(pause_ms / 1_000, self._expired, connector, config)
            timers[path] = _Timer(config, handle)

    def _expired(self, connector: str, config: Mapping[str, Any]) -> None:
        """Restart a connector; its values are then read again, and set new timers.

        Only the timers of this config end. If the connector has a newer config by now, the callback
        restarts nothing.
        """
        timers = self._timers.pop(connector, {})
        for path, timer in timers.items():
            if timer.config == config:
                timer.handle.cancel()
            else:
                self._timers.setdefault(connector, {})[path] = timer
        self._restart(connector, config)
