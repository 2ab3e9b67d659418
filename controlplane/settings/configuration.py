"""Configuration: all sources in their order, and the settings built from them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import inspect

from controlplane.core.java.java_library import trim
from controlplane.settings.errors import BadValue, SettingsError
from controlplane.settings.kinds import (
    empty_is_unset,
    extra,
    fields_of,
    parse_value,
    required_values,
    split_list,
)
from controlplane.settings.providers import PATTERN, Providers
from controlplane.settings.sources import DEFAULT, SourcedValue, SourceValues, ValueSource

Table = TypeVar("Table", bound=msgspec.Struct)
Made = TypeVar("Made")


class EffectiveValue(NamedTuple):
    """Effective value of a setting, with its source."""

    key: str
    value: Any
    source: ValueSource
    text: str = ""
    """The value as it was written, trimmed; its references are not resolved."""
    idle: str = ""
    """Reason why it has no effect here; empty: it has an effect."""


class Configuration:
    """Values from several sources, the strongest first.

    An empty value counts as unset, except where the setting gives it a meaning (`admin.listeners`).
    In a file or flag it is an error where Kafka refuses it, or where a worker would not start. An
    environment variable may always be empty: container images pass on unset variables as empty.
    """

    def __init__(
        self,
        *sources: SourceValues,
        variables: Mapping[str, str] = MappingProxyType({}),
        folder: Path | None = None,
    ) -> None:
        """`folder`: directory to which relative paths belong; None: the current one."""
        self._sources = sources
        self._variables = variables
        self._folder = _current_directory() if folder is None else folder
        """Fixed here: code of a connector may change the current directory later."""

    @property
    def values(self) -> dict[str, SourcedValue]:
        """Return the value of each key from its strongest source."""
        keys = dict.fromkeys(chain.from_iterable(reversed(self._sources)))
        return {key: value for key in keys if (value := self._value(key))}

    @property
    def keys(self) -> set[str]:
        """Return every key of any source, empty or not."""
        return {*chain.from_iterable(self._sources)}

    def only(self, trusted: Callable[[ValueSource], bool]) -> "Configuration":
        """Return the configuration with only the values from trusted sources."""
        sources = (
            {key: value for key, value in values.items() if trusted(value.source)}
            for values in self._sources
        )
        return Configuration(*sources, variables=self._variables, folder=self._folder)

    def beneath(self, *stronger: SourceValues) -> "Configuration":
        """Return the configuration with stronger sources before its own."""
        return Configuration(
            *stronger, *self._sources, variables=self._variables, folder=self._folder
        )

    def effective(self, table: type[msgspec.Struct], prefix: str = "") -> Iterator[EffectiveValue]:
        """Yield every setting of a table with its effective value; keys begin with `prefix`.

        Raises:
            SettingsError: a value is invalid.
        """
        for key, field in _keyed(table, prefix):
            if isinstance(field.type, inspect.StructType):
                yield from self.effective(field.type.cls, key + ".")
            else:
                yield self._effective(key, field)

    def settings(self, table: type[Table], prefix: str = "") -> Table:
        """Build the settings of a table.

        Raises:
            SettingsError: a value is invalid, or contradicts another one.
        """
        values = {
            field.name: self.settings(field.type.cls, key + ".")
            if isinstance(field.type, inspect.StructType)
            else self._located(field, self._effective(key, field).value)
            for key, field in _keyed(table, prefix)
        }
        with self._errors_with_source(hides_values=True):
            return table(**values)

    def make(self, table: type[Table], build: Callable[[Table], Made], prefix: str = "") -> Made:
        """Build a value from the settings of a table with the function `build`.

        Raises:
            SettingsError: a value is invalid, or the function refuses it.
        """
        settings = self.settings(table, prefix)
        with self._errors_with_source(hides_values=True):
            return build(settings)

    def empty(
        self, table: type[msgspec.Struct], prefix: str = ""
    ) -> Iterator[tuple[str, ValueSource]]:
        """Yield the settings that a file or flag leaves empty and that count as unset."""
        for key, field in _keyed(table, prefix):
            if isinstance(field.type, inspect.StructType):
                yield from self.empty(field.type.cls, key + ".")
            elif (source := self._empty_in(key)) and empty_is_unset(field.type, field.default):
                yield key, source

    def _empty_in(self, key: str) -> ValueSource | None:
        """Return the file or flag that leaves a key empty, unless a stronger source sets it."""
        for values in self._sources:
            value = values.get(key)
            if value is not None and trim(value.text):
                return None
            # An environment value with a line number comes from a file inside of a variable.
            if value is not None and (value.source.kind != "environment" or value.source.line):
                return value.source
        return None

    def _effective(self, key: str, field: inspect.Field) -> EffectiveValue:
        empty_in = self._empty_in(key)
        if empty_in is not None and (allowed := required_values(field.type)):
            raise SettingsError(f"{empty_in}: {key} is empty: use {allowed}, or leave it out")
        written = self._value(key, empty=extra(field.type, "empty") is True)
        idle = extra(field.type, "idle") or ""
        if written is None:
            return EffectiveValue(key, field.default, DEFAULT, idle=idle)
        with self._errors_with_source():
            text = self.providers.resolved(key, written.text)
        with self._errors_with_source(hides_values=True):
            value = parse_value(key, trim(text), field.type)
        return EffectiveValue(key, value, written.source, written.text, idle)

    def _located(self, field: inspect.Field, value: Any) -> Any:
        """Return the value of a setting; a path is made absolute."""
        is_path = value is not None and extra(field.type, "path") is True
        return str(self._folder / value) if is_path else value

    @contextmanager
    def _errors_with_source(self, *, hides_values: bool = False) -> Iterator[None]:
        """Translate `BadValue` within the block to a `SettingsError` that names the source.

        `hides_values`: show the reference in place of a value that a config provider has resolved.
        """
        try:
            yield
        except BadValue as bad:
            values = (self._value(key, empty=True) for key in bad.keys)
            sources = [value.source for value in values if value]
            message = self._without_secret(bad) if hides_values else str(bad)
            raise SettingsError(f"{sources[0]}: {message}" if sources else message) from None

    def _without_secret(self, bad: BadValue) -> str:
        """Return the message of an error, without a value from a config provider: it is secret."""
        key = bad.keys[0]
        written = self._value(key)
        shows_value = str(bad).startswith(f"{key} is ")
        if written is None or not shows_value:
            return str(bad)
        if self.providers.resolved(key, written.text) == written.text:
            return str(bad)
        remedy = str(bad).rpartition(": ")[2]
        return f"{key} is {written.text}, and the provider's value is invalid: {remedy}"

    def texts_under(self, prefix: str) -> dict[str, str]:
        """Return the texts of all keys that begin with a prefix, references resolved.

        Raises:
            SettingsError: a config provider fails.
        """
        names = {key for values in self._sources for key in values if key.startswith(prefix)}
        texts_by_key = {}
        for key in sorted(names):
            if (value := self._value(key)) is not None:
                with self._errors_with_source():
                    texts_by_key[key] = self.providers.resolved(key, value.text)
        return texts_by_key

    @cached_property
    def providers(self) -> Providers:
        """Config providers of the worker (`config.providers`)."""
        providers = self._value("config.providers")
        names = split_list(providers.text) if providers else ()
        classes = {name: self._value(f"config.providers.{name}.class") for name in names}
        for key in (f"config.providers.{name}.param.{PATTERN}" for name in names):
            # An empty pattern allows no variable in Kafka. Counted as unset, it would allow all.
            if empty_in := self._empty_in(key):
                raise SettingsError(f"{empty_in}: {key} is empty: use a pattern, or leave it out")
        return Providers(
            {name: value.text if value else "" for name, value in classes.items()},
            self._variables,
            {name: self._written_below(f"config.providers.{name}.param.") for name in names},
            self._folder,
        )

    def _written_below(self, prefix: str) -> dict[str, str]:
        """Return the texts of all keys with a prefix, by key without it; references stay.

        A provider's own settings cannot refer to providers.
        """
        keys = {key for values in self._sources for key in values if key.startswith(prefix)}
        values = {key.removeprefix(prefix): self._value(key) for key in keys}
        return {key: value.text for key, value in values.items() if value is not None}

    def _value(self, key: str, *, empty: bool = False) -> SourcedValue | None:
        """Return the value from the strongest source that sets it, empty values on request."""
        for values in self._sources:
            value = values.get(key)
            if value is None:
                continue
            text = trim(value.text)
            if text or empty:
                return SourcedValue(text, value.source)
        return None


def _current_directory() -> Path:
    """Return the current directory; an empty path if it was removed."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path()


def keys(table: type[msgspec.Struct], prefix: str = "") -> Iterator[str]:
    """Yield the key of every setting of a table; keys of a nested table begin with its own key."""
    for key, field in _keyed(table, prefix):
        if isinstance(field.type, inspect.StructType):
            yield from keys(field.type.cls, key + ".")
        else:
            yield key


def _keyed(table: type[msgspec.Struct], prefix: str) -> Iterator[tuple[str, inspect.Field]]:
    """Yield the fields of a table, each with its key."""
    for field in fields_of(table):
        yield prefix + field.name.replace("_", "."), field
