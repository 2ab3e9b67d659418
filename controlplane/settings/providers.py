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

    def of_connector(self, key: str, text: str) -> tuple[str, frozenset[str]]:
        """Replace the references in a connector's config, as a worker does when it starts it.

        A reference without a value stays as it is (`ConfigTransformer`). The second result has the
        values that were inserted: they are secret.

        Raises:
            BadValue: a provider cannot run here, or cannot read its file.
        """
        values: set[str] = set()

        def looked_up(reference: re.Match[str]) -> str:
            if reference["name"] not in self._classes:
                return reference[0]
            value = self._value(key, reference)
            if value is None:
                return reference[0]
            values.add(value)
            return value

        return _REFERENCE.sub(looked_up, text), frozenset(values)

    def _looked_up(self, key: str, reference: re.Match[str]) -> str:
        if reference["name"] not in self._classes:
            return reference[0]
        try:
            value = self._value(key, reference)
        except _Unreadable:
            value = None
        if value is None:
            raise BadValue(
                key, f"is {reference[0]}, and the provider has no such value: check both"
            )
        return value

    def _value(self, key: str, reference: re.Match[str]) -> str | None:
        """Ask a provider for a value; None: it has none.

        Raises:
            BadValue: it cannot run here, or cannot read its file.
        """
        name = reference["name"]
        provider = self._known.get(self._classes[name])
        if provider is None:
            raise BadValue(
                key,
                f"comes from the config provider {name}, which cannot run here: "
                "use a copy of the file with the value written into it",
            )
        path = reference["path"] or ""
        try:
            return provider(path, reference["key"])
        except (OSError, UnicodeDecodeError, SettingsError):
            raise _Unreadable(key, f"is {reference[0]}: {path} could not be read") from None


class _Unreadable(BadValue):
    """A provider cannot read its file."""


def _in_file(path: str, key: str) -> str | None:
    if not Path(path).is_file():  # a pipe or device would hang
        raise FileNotFoundError(path)
    properties = properties_in(Path(path).read_text("utf-8"))
    return {entry.key: entry.value for entry in properties}.get(key)


def _in_directory(path: str, key: str) -> str | None:
    file = Path(path, key)
    if file.parent != Path(path):  # a key is a name, not a way out of the directory
        return None
    return file.read_text("utf-8") if file.is_file() else None
