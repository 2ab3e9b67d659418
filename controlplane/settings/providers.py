"""Config providers: resolve `${provider:path:key}` in a worker's settings (KIP-297).

Kafka's three providers are supported, as in `ConfigTransformer`: a properties file, a directory
with a file per key, the environment. Installed packages may declare other providers
(`controlplane.connect.ConfigProvider`).
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from controlplane.failure_text import description_of, shortened
from controlplane.settings.config_references import (
    ConfigReference,
    has_references,
    replace_references,
)
from controlplane.settings.errors import BadValue, SettingsError
from controlplane.settings.properties import properties_in
from controlplane.settings.provider_limits import NameLimit, PathLimit

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "controlplane.config_providers"
"""Group of the entry points that declare providers."""


class _CachedValue(NamedTuple):
    """A value with its lifetime, in ms; None: it does not expire."""

    value: str
    ttl_ms: int | None = None


Provider = Callable[[str, str], _CachedValue | None]
"""Function from (path, key) to the value; None if there is none."""

_KAFKAS = "org.apache.kafka.common.config.provider."

PATHS = "allowed.paths"
"""Parameter of the providers of files: the paths that they may read."""

PATTERN = "allowlist.pattern"
"""Parameter of the provider of environment variables: a pattern for their names."""

_WRITE_VALUE_ADVICE = "use a copy of the file with the value written into it"
INSTALL_ADVICE = f"install a package that declares its class (entry point {GROUP})"
"""Advice about a provider whose class no package declares."""


class ResolvedText(NamedTuple):
    """A value of a connector's config with its references replaced."""

    text: str
    secrets: Mapping[str, str]
    """Secret values that were inserted, each with the reference that it has replaced."""
    ttls_ms: Mapping[str, int]
    """Lifetimes of expiring values, in ms, by `provider:path` of their reference."""
    refused: Mapping[str, str]
    """References that stay because a limit of their provider forbids them.

    Each reference is mapped to the name of the setting that holds the limit.
    """
    unresolved: Mapping[str, str]
    """References that stay because no provider has their value, each with the reason."""


class Providers:
    """Configured providers of a worker, by name; `parameters`: their `param.*` settings.

    `folder`: directory to which relative paths belong; None: the current one.
    """

    def __init__(
        self,
        classes: Mapping[str, str],
        variables: Mapping[str, str],
        parameters: Mapping[str, Mapping[str, str]] | None = None,
        folder: Path | None = None,
    ) -> None:
        self._classes = classes
        self._parameters = parameters or {}
        # Relative paths stay valid if a connector changes the working directory.
        if folder is None:
            folder = Path.cwd() if classes else Path()
        self._limits: list[PathLimit | NameLimit] = []
        self._providers: dict[str, Provider] = {
            name: _without_expiry(provider)
            for name, class_name in classes.items()
            if (provider := self._kafkas(name, class_name, folder, variables)) is not None
        }
        self._loading = Lock()
        self._is_loaded = False

    def _kafkas(
        self, name: str, class_name: str, folder: Path, variables: Mapping[str, str]
    ) -> Callable[[str, str], str | None] | None:
        """Return one of Kafka's providers within its limits; None: another class."""
        parameters, prefix = self._parameters.get(name, {}), f"config.providers.{name}.param."
        if class_name == f"{_KAFKAS}EnvVarConfigProvider":
            names = NameLimit(f"{prefix}{PATTERN}", parameters.get(PATTERN))
            self._limits.append(names)
            return partial(_variable_within, names, variables)
        readers = {
            f"{_KAFKAS}FileConfigProvider": _value_in_file,
            f"{_KAFKAS}DirectoryConfigProvider": _value_in_directory,
        }
        if class_name not in readers:
            return None
        paths = PathLimit(f"{prefix}{PATHS}", parameters.get(PATHS, ""))
        self._limits.append(paths)
        return partial(_value_within, paths, partial(readers[class_name], folder))

    def load(self) -> None:
        """Import the configured providers that packages declare; later calls do nothing.

        Configs of connectors can use the imported providers only after this call: no request may
        import code. The call also checks the limits of Kafka's providers, which apply even before.

        Raises:
            SettingsError: a provider cannot be loaded, or a limit is invalid.
        """
        with self._loading:
            if self._is_loaded:
                return
            for limit in self._limits:
                limit.check()
            points = _declared() if self.missing else ()
            declared = {point.value.replace(":", "."): point for point in points}
            for name, class_name in self._classes.items():
                if name not in self._providers and class_name in declared:
                    parameters = self._parameters.get(name, {})
                    self._providers[name] = _loaded(name, declared[class_name], parameters)
            self._is_loaded = True

    @property
    def missing(self) -> Mapping[str, str]:
        """Configured providers that cannot run here: class by name.

        Before `load`, these include providers that it will import.
        """
        return {name: self._classes[name] for name in self._classes.keys() - self._providers.keys()}

    def resolved(self, key: str, text: str) -> str:
        """Replace the references in a key's value; all other text stays.

        References to a name that is not in `config.providers` stay, too.

        Raises:
            BadValue: a provider fails, or lacks the value.
            SettingsError: a provider cannot be loaded.
        """
        if has_references(text):
            self.load()
        return replace_references(text, partial(self._required_value, key))

    def of_connector(self, key: str, text: str) -> ResolvedText:
        """Replace the references in the config of a connector that starts, as a worker does.

        A reference without a value is not replaced (`ConfigTransformer`).

        Raises:
            BadValue: a provider cannot run here, or cannot read the value.
        """
        values: dict[str, str] = {}
        ttls_ms: dict[str, int] = {}
        refused: dict[str, str] = {}
        unresolved: dict[str, str] = {}

        def looked_up(reference: ConfigReference) -> str:
            if reference.provider not in self._classes:
                unresolved[reference.text] = f"config.providers does not name {reference.provider}"
                return reference.text
            try:
                provided = self._read_value(key, reference, INSTALL_ADVICE)
            except _ForbiddenReference as limit:
                refused[reference.text] = limit.setting
                return reference.text
            if provided is None:
                unresolved[reference.text] = f"the provider {reference.provider} has no such value"
                return reference.text
            values[provided.value] = reference.text
            if provided.ttl_ms is not None:
                ttls_ms[f"{reference.provider}:{reference.path}"] = provided.ttl_ms
            return provided.value

        resolved = replace_references(text, looked_up)
        return ResolvedText(resolved, values, ttls_ms, refused, unresolved)

    def _required_value(self, key: str, reference: ConfigReference) -> str:
        if reference.provider not in self._classes:
            return reference.text
        try:
            provided = self._read_value(key, reference, _WRITE_VALUE_ADVICE)
        except _ForbiddenReference as limit:
            raise BadValue(key, f"is {reference.text}: {limit.setting} forbids it") from None
        except _Unreadable:
            provided = None
        if provided is None:
            raise BadValue(
                key,
                f"is {reference.text}, and the provider cannot give this value: check the "
                "reference and the provider",
            )
        return provided.value

    def _read_value(self, key: str, reference: ConfigReference, advice: str) -> _CachedValue | None:
        """Read a value from a provider; None if it has none.

        `advice`: end of the error about a provider that cannot run here.

        Raises:
            BadValue: the provider cannot run here.
            _ForbiddenReference: a limit forbids the reference.
            _Unreadable: the provider cannot read the value.
        """
        name, path = reference.provider, reference.path
        provider = self._providers.get(name)
        if provider is None:
            raise BadValue(
                key,
                f"comes from the config provider {name}, which cannot run here: {advice}",
            )
        try:
            return provider(path, reference.key)
        except _ForbiddenReference:
            raise
        except (OSError, UnicodeDecodeError, SettingsError):
            raise _Unreadable(key, f"is {reference.text}: {path} could not be read") from None
        except (Exception, SystemExit) as failure:
            reason = shortened(description_of(failure))
            raise _Unreadable(
                key, f"is {reference.text}: the config provider {name} failed: {reason}"
            ) from failure


class _ForbiddenReference(Exception):
    """A limit forbids a reference."""

    def __init__(self, setting: str) -> None:
        super().__init__(setting)
        self.setting = setting
        """Name of the setting with the limit."""


class _Unreadable(BadValue):
    """A provider cannot read its file, or has failed."""


def _without_expiry(provider: Callable[[str, str], str | None]) -> Provider:
    """Wrap a function as a provider whose values do not expire."""

    def provided(path: str, key: str) -> _CachedValue | None:
        value = provider(path, key)
        return None if value is None else _CachedValue(value)

    return provided


def _declared() -> Iterable["EntryPoint"]:
    from importlib.metadata import entry_points  # noqa: PLC0415 - 10 ms, and rarely needed

    return sorted(entry_points(group=GROUP), key=lambda point: point.value)


def _loaded(name: str, point: "EntryPoint", parameters: Mapping[str, str]) -> Provider:
    """Import a provider, and configure it.

    Raises:
        SettingsError: the provider cannot be imported, created or configured.
    """
    try:
        instance: Any = point.load()()
        instance.configure(dict(parameters))
    except (Exception, SystemExit) as failure:
        reason = shortened(description_of(failure))
        raise SettingsError(
            f"config.providers.{name}.class: {point.value} cannot be loaded: {reason}"
        ) from failure

    def provided(path: str, key: str) -> _CachedValue | None:
        answer = instance.get(path, key)
        if answer is None:
            return None
        if not isinstance(answer, list | tuple) or len(answer) != 2:
            raise TypeError(f"get returned {type(answer).__name__}, not a ProvidedValue or None")
        value, ttl_ms = answer
        if not isinstance(value, str) or not (ttl_ms is None or isinstance(ttl_ms, int)):
            kinds = f"({type(value).__name__}, {type(ttl_ms).__name__})"
            raise TypeError(f"get returned {kinds}, not a text and milliseconds")
        return _CachedValue(value, ttl_ms)

    return provided


def _value_within(
    limit: PathLimit, reader: Callable[[str, str], str | None], path: str, key: str
) -> str | None:
    """Read a value below the allowed paths.

    Raises:
        _ForbiddenReference: the path is not allowed.
    """
    allowed = limit.allowed(path)
    if allowed is None:
        raise _ForbiddenReference(limit.key)
    return reader(allowed, key)


def _variable_within(
    limit: NameLimit, variables: Mapping[str, str], _path: str, name: str
) -> str | None:
    """Return the value of an environment variable.

    Raises:
        _ForbiddenReference: its name is not allowed.
    """
    if not limit.allows(name):
        raise _ForbiddenReference(limit.key)
    return variables.get(name)


def _value_in_file(folder: Path, path: str, key: str) -> str | None:
    file = Path(folder, path)
    if not file.is_file():  # a pipe or device would hang
        raise FileNotFoundError(path)
    properties = properties_in(file.read_text("utf-8"))
    return {entry.key: entry.value for entry in properties}.get(key)


def _value_in_directory(folder: Path, path: str, key: str) -> str | None:
    file = Path(folder, path, key)
    if file.parent != Path(folder, path):  # a key must not lead out of the directory
        return None
    # Bytes: a text file would lose its carriage returns.
    return file.read_bytes().decode("utf-8") if file.is_file() else None
