"""Every source in its order: what is told of a key, and the settings that follow from it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import inspect

from controlplane.core.java import trim
from controlplane.properties import SettingsError
from controlplane.settings.kinds import BadValue, extra, read, texts
from controlplane.settings.providers import Providers
from controlplane.settings.sources import DEFAULT, Source, Telling, Told

Table = TypeVar("Table", bound=msgspec.Struct)
Made = TypeVar("Made")


class Effective(NamedTuple):
    """The value that a setting has, and why."""

    key: str
    value: Any
    source: Source
    text: str = ""
    """The value as it was written."""
    idle: str = ""
    """Why it changes nothing here; empty: it counts."""


class Configuration:
    """What several sources tell, the strongest first. An empty value counts as none."""

    def __init__(
        self, *tellings: Telling, variables: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self._tellings = tellings
        self._variables = variables

    @property
    def told(self) -> dict[str, Told]:
        """What is told, key by key, by the strongest source that does."""
        keys = dict.fromkeys(chain.from_iterable(reversed(self._tellings)))
        return {key: told for key in keys if (told := self._told(key))}

    def only(self, trusted: Callable[[Source], bool]) -> "Configuration":
        """What some of the sources tell."""
        tellings = (
            {key: told for key, told in telling.items() if trusted(told.source)}
            for telling in self._tellings
        )
        return Configuration(*tellings, variables=self._variables)

    def effective(self, table: type[msgspec.Struct], prefix: str = "") -> Iterator[Effective]:
        """Every setting of a table. The keys of one that is not a worker's begin with its prefix.

        Raises:
            SettingsError: a value cannot be used.
        """
        for key, field in _keyed(table, prefix):
            if isinstance(field.type, inspect.StructType):
                yield from self.effective(field.type.cls, key + ".")
            else:
                yield self._effective(key, field)

    def settings(self, table: type[Table], prefix: str = "") -> Table:
        """The settings of a table.

        Raises:
            SettingsError: a value cannot be used, or not with another one.
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
        """What a function makes of a worker's settings.

        Raises:
            SettingsError: a value cannot be used, or the function cannot use it.
        """
        settings = self.settings(table, prefix)
        with self._blaming():
            return of(settings)

    def _effective(self, key: str, field: inspect.Field) -> Effective:
        told = self._told(key, empty=bool(extra(field.type, "empty")))
        idle = extra(field.type, "idle") or ""
        if told is None:
            return Effective(key, field.default, DEFAULT, idle=idle)
        with self._blaming():
            text = self._providers.resolved(key, told.text)
            value = read(key, trim(text), field.type)
        return Effective(key, value, told.source, told.text, idle)

    @contextmanager
    def _blaming(self) -> Iterator[None]:
        """Say of a bad value who told it."""
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

    def _told(self, key: str, *, empty: bool = False) -> Told | None:
        """What the strongest source tells that says anything."""
        for telling in self._tellings:
            told = telling.get(key)
            if told is None:
                continue
            text = trim(told.text)
            if text or empty:
                return Told(text, told.source)
        return None


def keys(table: type[msgspec.Struct], prefix: str = "") -> Iterator[str]:
    """The key of every setting of a table; a table in it has keys that begin with its field's."""
    for key, field in _keyed(table, prefix):
        if isinstance(field.type, inspect.StructType):
            yield from keys(field.type.cls, key + ".")
        else:
            yield key


def _keyed(table: type[msgspec.Struct], prefix: str) -> Iterator[tuple[str, inspect.Field]]:
    """The fields of a table, each with its key."""
    described = inspect.type_info(table)
    assert isinstance(described, inspect.StructType)
    for field in described.fields:
        yield prefix + field.name.replace("_", "."), field
