"""Result of a harvest: settings and plugins from a worker or from Kafka's own classes."""

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

import msgspec

from controlplane.core.configdef.key_definition import ConfigKey, Importance, Type, Width
from controlplane.core.configdef.validators import UnknownWords, validator

CLIENTS = ("producer", "consumer", "admin")
"""Clients whose settings a connector may override; also names of their definitions."""

PLUGINS_MOST = 5_000
"""Maximum number of plugins that one worker may list."""

SETTINGS_MOST = 200_000
"""Maximum number of settings in all answers of one worker; repeated ones count again."""


class HarvestError(Exception):
    """The source of a harvest cannot be used. The message has the reason, and a remedy if known."""


class NoJava(HarvestError):
    """This machine lacks a JDK that can run Kafka's classes."""


class NoWorker(HarvestError):
    """The server is no Connect worker, or refuses the requests."""


class NoAnswer(HarvestError):
    """The worker gives no answer, or one beyond the bounds."""


class HarvestedPlugin(NamedTuple):
    """Plugin with the settings that it defines; None: they are unknown."""

    class_name: str
    type: str
    version: str | None = None
    keys: tuple[ConfigKey, ...] | None = None


class Harvest(NamedTuple):
    """Release, definitions and plugins of one source."""

    release: str
    """Version of Kafka, from the source."""
    definitions: Mapping[str, tuple[ConfigKey, ...]]
    """Settings of Kafka's own definitions: `connector`, `source`, `sink`, `transformation`, and of
    the clients."""
    plugins: tuple[HarvestedPlugin, ...]
    lacking: tuple[str, ...] = ()
    """A sentence about each missing part."""


class _Key(msgspec.Struct, frozen=True):
    """Fields that Connect's REST API and `Definitions.java` have in common."""

    name: str
    type: Type
    importance: Importance = "MEDIUM"
    documentation: str | None = None
    group: str | None = None
    width: Width = "NONE"
    display_name: str | None = None
    dependents: tuple[str, ...] | None = None


class RestKey(_Key, frozen=True):
    """Setting in a worker's answer (`ConfigKeyInfo`)."""

    required: bool = False
    default_value: str | None = None
    order: int | None = None
    order_in_group: int | None = None

    def config_key(self) -> ConfigKey:
        """The setting as a `ConfigKey`."""
        order = self.order if self.order_in_group is None else self.order_in_group
        return _plain(
            self, required=self.required, default=self.default_value, order=order, valid=()
        )


class JavaKey(_Key, frozen=True):
    """Setting in the output of `Definitions.java`."""

    required: int = 0
    default: str | None = None
    order: int | None = None
    valid: tuple[str, ...] = ()

    def config_key(self) -> ConfigKey:
        """Convert to a `ConfigKey`.

        Descriptions of valid values that `validator` does not know are left out.
        """
        words = tuple(text.split(" | ", 1)[-1] for text in self.valid)
        return _plain(
            self,
            required=bool(self.required),
            default=self.default,
            order=self.order,
            valid=tuple(filter(_understood, words)),
        )


def _plain(
    key: _Key, *, required: bool, default: str | None, order: int | None, valid: tuple[str, ...]
) -> ConfigKey:
    return ConfigKey(
        name=key.name,
        type=key.type,
        required=required,
        default=None if required else default,
        valid=valid,
        importance=key.importance,
        documentation=key.documentation or "",
        group=key.group,
        order=-1 if order is None else order,
        width=key.width,
        display_name=key.display_name or key.name,
        dependents=key.dependents or (),
    )


def _understood(words: str) -> bool:
    try:
        validator(words)
    except UnknownWords:
        return False
    return True


_Decoded = TypeVar("_Decoded")


def decoded(text: bytes, kind: type[_Decoded], worker: str, request: str) -> _Decoded:
    """A worker's answer to a question, as a value of this type.

    Raises:
        NoWorker: it is something else.
    """
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise NoWorker(
            f"{worker} does not answer {request} as a Connect worker does ({error}): give the URL "
            "of a Connect worker"
        ) from None
