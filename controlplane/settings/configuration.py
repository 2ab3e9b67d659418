"""Configuration: all sources in their order, and the settings that follow from them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import inspect

from controlplane.core.java.java_library import trim
from controlplane.settings.kinds import BadValue, extra, means_nothing, read, refused_empty, texts
from controlplane.settings.properties import SettingsError
from controlplane.settings.providers import Providers
from controlplane.settings.sources import DEFAULT, SourcedValue, Telling, ValueSource

Table = TypeVar("Table", bound=msgspec.Struct)
Made = TypeVar("Made")


class Effective(NamedTuple):
    """Effective value of a setting, with its source."""

    key: str
    value: Any
    source: ValueSource
    text: str = ""
    """The value as it was written."""
    idle: str = ""
    """Reason why it has no effect here; empty: it has an effect."""


class Configuration:
    """Values from several sources, the strongest first.

    An empty value counts as unset. A file or a flag must not have one where Kafka refuses it, or
    where a worker would not start. An environment variable may be empty, because images pass on
    unset ones.
    """

    def __init__(
        self, *tellings: Telling, variables: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self._tellings = tellings
        self._variables = variables

    @property
    def told(self) -> dict[str, SourcedValue]:
        """Return the value of each key from its strongest source."""
        keys = dict.fromkeys(chain.from_iterable(reversed(self._tellings)))
        return {key: told for key in keys if (told := self._told(key))}

    @property
    def keys(self) -> set[str]:
        """Return every key of any source, empty or not."""
        return {*chain.from_iterable(self._tellings)}

    def only(self, trusted: Callable[[ValueSource], bool]) -> "Configuration":
        """Return the configuration of selected sources."""
        tellings = (
            {key: told for key, told in telling.items() if trusted(told.source)}
            for telling in self._tellings
        )
        return Configuration(*tellings, variables=self._variables)

    def effective(self, table: type[msgspec.Struct], prefix: str = "") -> Iterator[Effective]:
        """Yield every setting of a table. Keys outside of a worker's file begin with the prefix.

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
            else self._effective(key, field).value
            for key, field in _keyed(table, prefix)
        }
        with self._blaming():
            return table(**values)

    def make(self, table: type[Table], of: Callable[[Table], Made], prefix: str = "") -> Made:
        """Build a value from a worker's settings by a function.

        Raises:
            SettingsError: a value is invalid, or the function refuses it.
        """
        settings = self.settings(table, prefix)
        with self._blaming():
            return of(settings)

    def empty(
        self, table: type[msgspec.Struct], prefix: str = ""
    ) -> Iterator[tuple[str, ValueSource]]:
        """Yield the settings that a file or a flag leaves empty, and that count as unset."""
        for key, field in _keyed(table, prefix):
            if isinstance(field.type, inspect.StructType):
                yield from self.empty(field.type.cls, key + ".")
            elif (source := self._empty_in(key)) and means_nothing(field.type, field.default):
                yield key, source

    def _empty_in(self, key: str) -> ValueSource | None:
        """Return the file or flag with an empty value, if no stronger source has one."""
        for telling in self._tellings:
            told = telling.get(key)
            if told is not None and trim(told.text):
                return None
            if told is not None and (told.source.kind != "environment" or told.source.line):
                return told.source
        return None

    def _effective(self, key: str, field: inspect.Field) -> Effective:
        empty_in = self._empty_in(key)
        if empty_in is not None and (allowed := refused_empty(field.type)):
            raise SettingsError(f"{empty_in}: {key} is empty: use {allowed}, or leave it out")
        told = self._told(key, empty=extra(field.type, "empty") is True)
        idle = extra(field.type, "idle") or ""
        if told is None:
            return Effective(key, field.default, DEFAULT, idle=idle)
        with self._blaming():
            text = self._providers.resolved(key, told.text)
            value = read(key, trim(text), field.type)
        return Effective(key, value, told.source, told.text, idle)

    @contextmanager
    def _blaming(self) -> Iterator[None]:
        """Add the source of a bad value to its error."""
        try:
            yield
        except BadValue as bad:
            sources = [told.source for key in bad.keys if (told := self._told(key, empty=True))]
            raise SettingsError(f"{sources[0]}: {bad}" if sources else str(bad)) from None

    @cached_property
    def _providers(self) -> Providers:
        told = self._told("config.providers")
        names = texts(told.text) if told else ()
        classes = {name: self._told(f"config.providers.{name}.class") for name in names}
        return Providers(
            {name: told.text if told else "" for name, told in classes.items()}, self._variables
        )

    def _told(self, key: str, *, empty: bool = False) -> SourcedValue | None:
        """Return the value from the strongest source that sets it."""
        for telling in self._tellings:
            told = telling.get(key)
            if told is None:
                continue
            text = trim(told.text)
            if text or empty:
                return SourcedValue(text, told.source)
        return None


def keys(table: type[msgspec.Struct], prefix: str = "") -> Iterator[str]:
    """Yield the key of every setting of a table; keys of a nested table begin with its field's."""
    for key, field in _keyed(table, prefix):
        if isinstance(field.type, inspect.StructType):
            yield from keys(field.type.cls, key + ".")
        else:
            yield key


def _keyed(table: type[msgspec.Struct], prefix: str) -> Iterator[tuple[str, inspect.Field]]:
    """Yield the fields of a table, each with its key."""
    described = inspect.type_info(table)
    assert isinstance(described, inspect.StructType)
    for field in described.fields:
        yield prefix + field.name.replace("_", "."), field
