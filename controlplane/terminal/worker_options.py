"""Options about a worker: its settings from flags, the environment and its file."""

import errno
import functools
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

import click
import msgspec

from controlplane.core.moments import quoted
from controlplane.core.text.file_errors import unreadable
from controlplane.settings import Configuration, SourceValues, WorkerSettings
from controlplane.settings.access import AccessSettings
from controlplane.settings.configuration import keys
from controlplane.settings.environment import WORKER_FILE, environment_values
from controlplane.settings.errors import SettingsError
from controlplane.settings.known_settings import UnknownSetting, unknown
from controlplane.settings.listeners import ADMIN, MAIN, ResponseHeaderSettings
from controlplane.settings.prefixes import (
    AUTH,
    CONNECT,
    CONTROLLER,
    FOLLOWER,
    HTTP,
    LOG,
    READER,
    SQLITE,
    UPKEEP,
    WRITER,
)
from controlplane.settings.sources import file_values, flag_values
from controlplane.terminal.command_errors import InputRefused
from controlplane.terminal.option_names import Decorated, named_option
from controlplane.terminal.output import note


class ReadableFile(click.Path):
    """Path of a readable file. The file is not opened, as it may be a pipe.

    The error has the same words as one that occurs when the file is read.
    """

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """The path.

        Raises:
            InputRefused: the file cannot be read. The message names the option.
        """
        del ctx
        path = Path(value)
        try:
            _check_readable(path)
        except OSError as failure:
            option = f"{param.opts[-1]}: " if isinstance(param, click.Option) else ""
            raise InputRefused(f"{option}{unreadable(path, failure)}") from None
        return path


def _check_readable(path: Path) -> None:
    """Raise `OSError` unless the path is a readable file."""
    effective = os.access in os.supports_effective_ids
    wrong = errno.EISDIR if stat.S_ISDIR(path.stat().st_mode) else 0
    if not wrong and not os.access(path, os.R_OK, effective_ids=effective):
        wrong = errno.EACCES
    if wrong:
        raise OSError(wrong, os.strerror(wrong), str(path))


FILE = ReadableFile()

UNKNOWN_SHOWN = 5
"""Number of unknown keys that get a warning each; the rest is counted."""

OVERRIDE = "--override"

FORMER = {"offsets_topic": ("--offset-topic",), "commands_topic": ("--command-topic",)}
"""Former names of the flags for topics: still accepted, and not shown."""

TOPICS = {
    "config_topic": ("config.storage.topic", "Topic of configs."),
    "offsets_topic": ("offset.storage.topic", "Topic of source offsets."),
    "status_topic": ("status.storage.topic", "Topic of statuses."),
    "commands_topic": ("command.storage.topic", "Topic of commands (ours)."),
}
"""Settings with a flag of their own, in the order of `Topics`: key, and help text."""

SETTINGS_BY_PREFIX = {
    READER: "controlplane.logs.kafka.limits:ReadLimits",
    WRITER: "controlplane.logs.kafka.limits:WriteLimits",
    SQLITE: "controlplane.logs.sqlite.settings:SqliteSettings",
    FOLLOWER: "controlplane.projection.limits:FollowerLimits",
    CONTROLLER: "controlplane.controller.admission:CommandLimits",
    UPKEEP: "controlplane.projection.upkeep:UpkeepSettings",
    LOG: "controlplane.observe:LogSettings",
    AUTH: "controlplane.rest.security.settings:AuthSettings",
    HTTP: "controlplane.rest.http.limits:HttpLimits",
    CONNECT: "controlplane.attached.settings:ConnectSettings",
}
"""Settings whose keys share a prefix: prefix → import path of their class.

A class is imported on use, so that a command without Kafka or SQLite does not load these packages.
"""


def worker_options(command: Decorated) -> Decorated:
    """Add the options about a worker; the command gets `configuration: Configuration`."""

    @functools.wraps(command)
    def with_configuration(**arguments: Any) -> Any:
        flags = {name: arguments.pop(name) for name in TOPICS}
        overrides = arguments.pop("override")
        configuration = configured(arguments.pop("worker_properties"), flags, overrides)
        return command(configuration=configuration, **arguments)

    for option in reversed(_options()):
        with_configuration = option(with_configuration)
    return with_configuration  # type: ignore[return-value]  # click's decorators change the type


def _options() -> list[Callable[[Any], Any]]:
    usual = WorkerSettings().topics
    names = [
        named_option(
            _flag(name),
            former=FORMER.get(name, ()),
            metavar="NAME",
            help=f"{about} [default: {topic}]",
        )
        for (name, (_, about)), topic in zip(
            TOPICS.items(), msgspec.structs.astuple(usual), strict=True
        )
    ]
    return [
        *names,
        named_option(
            "--worker-properties",
            former=("--worker",),
            type=FILE,
            envvar=WORKER_FILE,
            metavar="FILE",
            help="Take topics, exactly-once support, TLS and SASL from a worker's .properties. "
            f"[{WORKER_FILE}]",
        ),
        click.option(
            OVERRIDE,
            multiple=True,
            metavar="KEY=VALUE",
            help="Set a setting of the worker; beats its file and the environment. May be "
            "repeated.",
        ),
    ]


class TargetOptions(msgspec.Struct, frozen=True):
    """Options about the target of `controlplane copy FROM TO`: the cluster that `TO` names."""

    file: Path | None
    """File of the worker's settings."""
    topics: Mapping[str, str | None]
    """Names by `config_topic` and so on; None: not given."""

    def settings(self, common: Configuration) -> Configuration:
        """Return the settings of TO, which beat the common ones.

        Raises:
            SettingsError: the file is invalid.
        """
        flags = [
            (f"--to-{name.replace('_', '-')}", TOPICS[name][0], topic)
            for name, topic in self.topics.items()
            if topic is not None
        ]
        return common.beneath(flag_values(flags), file_values(self.file) if self.file else {})


def target_options(command: Decorated) -> Decorated:
    """Add the options about the target cluster of `copy`: its worker's file, and its topics.

    The command gets them as one argument, `to: TargetOptions`.
    """

    @functools.wraps(command)
    def with_target(**arguments: Any) -> Any:
        topics = {name: arguments.pop(f"to_{name}") for name in TOPICS}
        to = TargetOptions(arguments.pop("to_worker_properties"), topics)
        return command(to=to, **arguments)

    for name, (_, about) in reversed(TOPICS.items()):
        words = f"{about.removesuffix('.').removesuffix(' (ours)')} in TO. [default: as in FROM]"
        option = click.option(f"--to-{name.replace('_', '-')}", metavar="NAME", help=words)
        with_target = option(with_target)
    return click.option(
        "--to-worker-properties",
        type=FILE,
        metavar="FILE",
        help="Take topics, group, TLS and SASL of TO from another worker's .properties. "
        "[default: as --worker-properties]",
    )(with_target)  # type: ignore[return-value]  # click's decorators change the type


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def configured(
    file: Path | None, flags: Mapping[str, str | None], overrides: tuple[str, ...]
) -> Configuration:
    """Configuration from flags, the environment and a worker's file; an earlier source wins.

    Raises:
        SettingsError: the file, an override or a variable is invalid.
    """
    return Configuration(
        _flag_settings(flags, overrides),
        *environment_values(os.environ),
        file_values(file) if file else {},
        variables=os.environ,
    )


def _flag_settings(flags: Mapping[str, str | None], overrides: tuple[str, ...]) -> SourceValues:
    """Return the settings in flags; the flag of a setting beats the general `--override`."""
    pairs = [override.partition("=") for override in overrides]
    for key, equals, _ in pairs:
        if not key or not equals:
            raise SettingsError(
                f"{OVERRIDE}: {quoted(key)} is no setting: write it like group.id=fleet"
            )
    named = [
        (_flag(name), TOPICS[name][0], value) for name, value in flags.items() if value is not None
    ]
    return flag_values([*((OVERRIDE, key.strip(), value) for key, _, value in pairs), *named])


def tables(prefixes: Iterable[str] = SETTINGS_BY_PREFIX) -> dict[type[msgspec.Struct], str]:
    """Classes of settings, each with the prefix of its keys.

    `prefixes` selects the classes of `SETTINGS_BY_PREFIX` that are included.
    """
    prefixed = {_imported(SETTINGS_BY_PREFIX[prefix]): prefix for prefix in prefixes}
    return {
        WorkerSettings: "",
        ResponseHeaderSettings: "",
        AccessSettings: "",
        MAIN.tls: MAIN.prefix,
        ADMIN.tls: ADMIN.prefix,
        **prefixed,
    }


def _imported(place: str) -> type[msgspec.Struct]:
    module, _, name = place.partition(":")
    struct: type[msgspec.Struct] = getattr(import_module(module), name)
    return struct


def unknown_keys(configuration: Configuration) -> list[UnknownSetting]:
    """Keys that are set and that neither a class of settings nor Kafka has.

    From the environment, only misspelt keys are listed.
    """
    setting_tables = tables(_used_prefixes(configuration))
    known_keys = chain.from_iterable(keys(*table) for table in setting_tables.items())
    return unknown(configuration.values, known_keys)


def empty_settings(configuration: Configuration) -> list[str]:
    """A sentence for each setting that a file or a flag leaves empty; it counts as not set."""
    read = tables(_used_prefixes(configuration)).items()
    empty = chain.from_iterable(configuration.empty(*table) for table in read)
    return [f"{source}: {key} is empty and counts as not set" for key, source in empty]


def _used_prefixes(configuration: Configuration) -> list[str]:
    """Prefixes of `SETTINGS_BY_PREFIX` with which a key is set."""
    set_keys = configuration.keys
    return [
        prefix for prefix in SETTINGS_BY_PREFIX if any(key.startswith(prefix) for key in set_keys)
    ]


def warn_of_unknown(configuration: Configuration) -> None:
    """Warn of unknown keys and empty values: a misspelt setting has no effect."""
    for sentence in empty_settings(configuration):
        note(f"Warning: {sentence}")
    settings = unknown_keys(configuration)
    for setting in settings[:UNKNOWN_SHOWN]:
        note(f"Warning: {setting}")
    unlisted = len(settings) - UNKNOWN_SHOWN
    if unlisted > 0:
        note(f"Warning: … and {unlisted} more; `controlplane config` names them all")
