"""Options of `serve` about an attached cluster."""

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import click
import msgspec

from controlplane.attached.settings import ConnectSettings
from controlplane.core.releases.profiles import Profile
from controlplane.logs.names import is_cluster, without_login
from controlplane.settings import Configuration
from controlplane.settings.prefixes import CONNECT
from controlplane.settings.security import Secret
from controlplane.terminal.command_errors import InputRefused
from controlplane.terminal.log_options import FILE, not_empty
from controlplane.terminal.option_names import Decorated
from controlplane.terminal.shell_completion import complete_files


class AttachedOptions(NamedTuple):
    """Access to a cluster that is steered through its workers, and its release."""

    settings: ConnectSettings
    release: Profile | None
    """Release to plan and answer as; None: that of the workers."""


_OPTIONS = (
    click.option(
        "--connect-url",
        metavar="URLS",
        callback=not_empty,
        help="Send commands to these workers of the cluster, separated by commas. "
        "[default: `connect.url`; without it and without --own, kafka:// is only read]",
    ),
    click.option(
        "--connect-user",
        metavar="NAME:PASSWORD",
        callback=not_empty,
        help="Credentials for the workers; prompts for a missing password.",
    ),
    click.option(
        "--connect-token",
        metavar="TOKEN",
        callback=not_empty,
        help="Bearer token, or @FILE with one.",
    ),
    click.option(
        "--connect-ca-file",
        type=FILE,
        metavar="FILE",
        help="Trust only the CA certificates in FILE (PEM) for https:// workers.",
    ),
    click.option(
        "--trail",
        metavar="LOG",
        callback=not_empty,
        shell_complete=complete_files,
        help="Embedded log that records every command sent to the workers: sqlite:///trail.db. "
        "[default: `connect.trail`, else in memory]",
    ),
)


def attached_options(command: Decorated) -> Decorated:
    """Add the options about an attached cluster.

    The command gets `flags`: the values that were given, by the name of the setting (`url`, …).
    """

    @functools.wraps(command)
    def with_flags(**arguments: Any) -> Any:
        flags = {
            "url": arguments.pop("connect_url"),
            "user": arguments.pop("connect_user"),
            "token": arguments.pop("connect_token"),
            "ca_file": arguments.pop("connect_ca_file"),
            "trail": arguments.pop("trail"),
        }
        given_flags = {name: value for name, value in flags.items() if value is not None}
        return command(flags=given_flags, **arguments)

    for option in reversed(_OPTIONS):
        with_flags = option(with_flags)
    return with_flags  # type: ignore[return-value]  # click's decorators change the type


def attached_settings(
    where: str, configuration: Configuration, flags: Mapping[str, Any]
) -> ConnectSettings | None:
    """Settings of the attached cluster; flags beat the configuration. None: not attached.

    Raises:
        InputRefused: the log is no cluster, there are flags but no URL, or there are two kinds of
            credentials.
        SettingsError: a setting is invalid.
    """
    changes: dict[str, Any] = dict(flags)
    if "url" in changes:
        changes["url"] = tuple(url.strip() for url in flags["url"].split(",") if url.strip())
    for name in ("user", "token"):
        if name in changes:
            changes[name] = Secret(changes[name])
    if "ca_file" in changes:
        changes["ca_file"] = str(changes["ca_file"])
    settings = msgspec.structs.replace(configuration.settings(ConnectSettings, CONNECT), **changes)
    if not settings.url:
        if flags:
            raise InputRefused("--trail and --connect-… need workers: name them by --connect-url")
        return None
    if not is_cluster(where):
        raise InputRefused(
            f"--connect-url needs the topics of its cluster as LOG, and {without_login(where)} "
            "is no cluster: serve kafka://BROKER:9092"
        )
    if settings.user and settings.token:
        raise InputRefused("connect.user and connect.token exclude each other: give one of them")
    return settings
