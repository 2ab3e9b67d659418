"""Config provider, declared as by a package."""

from collections.abc import Mapping

from controlplane.connect import ConfigProvider, ProvidedValue


class Vault(ConfigProvider):
    """Returns its own settings as values."""

    def configure(self, settings: Mapping[str, str]) -> None:
        """Keep the settings of the provider."""
        self._settings = settings

    def get(self, path: str, key: str) -> ProvidedValue | None:
        """Return the path, followed by the setting of this key."""
        value = self._settings.get(key)
        return None if value is None else ProvidedValue(f"{path}{value}", ttl_ms=60_000)
