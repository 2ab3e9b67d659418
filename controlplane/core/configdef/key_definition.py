"""Definition of one config key of a connector or another plugin (`ConfigDef`)."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from controlplane.core.configdef.release_spans import EarlierFields, ReleaseSpan, as_of
from controlplane.core.java.json_values import value_text
from controlplane.core.releases.profiles import Profile

Type = Literal["BOOLEAN", "STRING", "INT", "SHORT", "LONG", "DOUBLE", "LIST", "CLASS", "PASSWORD"]
Importance = Literal["HIGH", "MEDIUM", "LOW"]
Width = Literal["NONE", "SHORT", "MEDIUM", "LONG"]


class _EarlierKey(EarlierFields, frozen=True, kw_only=True):
    """Earlier fields of a key, named as in `ConfigKey`."""

    type: Type | msgspec.UnsetType = msgspec.UNSET
    required: bool | msgspec.UnsetType = msgspec.UNSET
    default: str | msgspec.UnsetType | None = msgspec.UNSET
    valid: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    importance: Importance | msgspec.UnsetType = msgspec.UNSET
    group: str | msgspec.UnsetType | None = msgspec.UNSET
    order: int | msgspec.UnsetType = msgspec.UNSET
    width: Width | msgspec.UnsetType = msgspec.UNSET
    display_name: str | msgspec.UnsetType = msgspec.UNSET


class ConfigKey(ReleaseSpan, frozen=True, kw_only=True):
    """Type, default, valid values and documentation of a config key.

    A required key has no default; the default of another key may be null. `valid` lists the valid
    values in the words of Kafka's documentation, see `validators`.
    """

    name: str
    type: Type
    required: bool = False
    default: str | None = None
    valid: tuple[str, ...] = ()
    importance: Importance = "MEDIUM"
    documentation: str = ""
    group: str | None = None
    order: int = -1
    """Place within the group; -1: unknown. Kafka counts from 1. Each alias of a transformation or
    predicate has a group of its own, in which Kafka counts from 0."""
    width: Width = "NONE"
    display_name: str = ""
    dependents: tuple[str, ...] = ()
    """Keys that are checked after this one."""
    before: tuple[_EarlierKey, ...] = ()
    prefix: str = ""
    """Prefix before its own name, if the key is embedded in another definition."""

    @property
    def all_valid(self) -> tuple[str, ...]:
        """Words for valid values, including those of earlier releases."""
        past = (change.valid for change in self.before)
        changed = (valid for valid in past if not isinstance(valid, msgspec.UnsetType))
        return (*self.valid, *(words for valid in changed for words in valid))

    @property
    def own_name(self) -> str:
        """Name of the key in its own definition."""
        return self.name.removeprefix(self.prefix)

    def embedded(self, prefix: str, group: str, order: int) -> "ConfigKey":
        """This key as part of another definition: with a prefix, a group and a place in it."""
        return msgspec.structs.replace(
            self,
            name=prefix + self.name,
            prefix=prefix,
            group=group if self.group is None else f"{group}: {self.group}",
            order=order,
            dependents=tuple(prefix + name for name in self.dependents),
        )

    def as_of(self, profile: Profile) -> "ConfigKey | None":
        """This key in the profile's release; None if the release lacks it."""
        return as_of(self, self.before, profile)


def keys_as_of(rows: Iterable[ConfigKey], profile: Profile) -> tuple[ConfigKey, ...]:
    """The keys that exist in the profile's release, with their fields there."""
    return tuple(key for row in rows if (key := row.as_of(profile)) is not None)


class WrittenKey(ConfigKey, frozen=True, kw_only=True):
    """A key as written in a catalogue file, or as answered by Connect's REST API."""

    default_value: str | None = None
    """Name of `default` in the REST API."""
    order_in_group: int | None = None
    """Name of `order` in the REST API of newer releases."""
    at_least: int | float | None = None
    """Shorthand for `valid: ["[N,...]"]`."""

    def plain(self) -> ConfigKey:
        """Return the key as a `ConfigKey`, in which each field has only one name."""
        least = () if self.at_least is None else (f"[{value_text(self.at_least)},...]",)
        return ConfigKey(
            since=self.since,
            until=self.until,
            name=self.name,
            type=self.type,
            required=self.required,
            default=self.default if self.default is not None else self.default_value,
            valid=least + self.valid,
            importance=self.importance,
            documentation=self.documentation,
            group=self.group,
            order=self.order if self.order_in_group is None else self.order_in_group,
            width=self.width,
            display_name=self.display_name or self.name,
            dependents=self.dependents,
            before=self.before,
        )


def with_defaults(keys: Iterable[ConfigKey], config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a config as a plugin's own code gets it: with the defaults of the plugin's keys."""
    defaults = {key.name: key.default for key in keys if key.default is not None}
    return defaults | dict(config)
