"""Config providers: resolve `${provider:path:key}` in a worker's settings (KIP-297).

Kafka's own three providers are supported, as in `ConfigTransformer`: a properties file, a directory
with a file for each key, the environment. Other providers exist only as Java classes.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from controlplane.settings.errors import BadValue, SettingsError
from controlplane.settings.properties import properties_in

_REFERENCE = re.compile(r"\$\{(?P<name>[^}:]*):((?P<path>[^}:]*):)?(?P<key>[^}]*)\}")

Provider = Callable[[str, str], str | None]
"""Function from (path, key) to the value; None if there is none."""

_KAFKAS = "org.apache.kafka.common.config.provider."


class Providers:
    """Configured providers of a worker, by name."""

    def __init__(self, classes: Mapping[str, str], variables: Mapping[str, str]) -> None:
        self._classes = classes
        self._known: Mapping[str, Provider] = {
            f"{_KAFKAS}FileConfigProvider": _in_file,
            f"{_KAFKAS}DirectoryConfigProvider": _in_directory,
            f"{_KAFKAS}EnvVarConfigProvider": lambda _, name: variables.get(name),
        }

    def resolved(self, key: str, text: str) -> str:
        """Replace the references in a key's value; all other text stays.

        Raises:
            BadValue: a provider fails, or lacks the value.
        """
        return _REFERENCE.sub(lambda reference: self._looked_up(key, reference), text)

    def _looked_up(self, key: str, reference: re.Match[str]) -> str:
        name = reference["name"]
        if name not in self._classes:
            return reference[0]
        provider = self._known.get(self._classes[name])
        if provider is None:
            raise BadValue(
                key,
                f"comes from the config provider {name}, which cannot run here: "
                "use a copy of the file with the value written into it",
            )
        value = provider(reference["path"] or "", reference["key"])
        if value is None:
            raise BadValue(
                key, f"is {reference[0]}, and the provider has no such value: check both"
            )
        return value


def _in_file(path: str, key: str) -> str | None:
    try:
        properties = properties_in(Path(path).read_text("utf-8"))
        return {entry.key: entry.value for entry in properties}.get(key)
    except (OSError, UnicodeDecodeError, SettingsError):
        return None


def _in_directory(path: str, key: str) -> str | None:
    try:
        return Path(path, key).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return None
