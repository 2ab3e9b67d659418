"""The command `config`: the settings that count, and where each comes from."""

from collections.abc import Callable
from itertools import chain
from typing import Any

import click
import msgspec

from controlplane.core.text.redaction import redacted_value
from controlplane.settings import Configuration, Effective, ValueSource, WorkerSettings
from controlplane.settings.access import AccessSettings, kafka_security
from controlplane.settings.known_settings import UnknownSetting, unused
from controlplane.settings.listeners import (
    ADMIN,
    MAIN,
    AdminListenerSettings,
    AnswerSettings,
    ListenerSettings,
    admin_listen_address,
    listen_address,
    listener_tls,
)
from controlplane.settings.properties import SettingsError
from controlplane.settings.security import Secret
from controlplane.settings.sources import DEFAULT
from controlplane.settings.worker import decision_settings
from controlplane.terminal.log_options import output_option
from controlplane.terminal.output import note, print_json
from controlplane.terminal.tables import table
from controlplane.terminal.worker_options import (
    empty_settings,
    tables,
    unknown_keys,
    worker_options,
)

NONE = "-"
NO_EFFECT = "NO EFFECT, FOR"


class SettingRow(msgspec.Struct, frozen=True):
    """A setting as it is shown, without secrets."""

    key: str
    value: Any
    source: ValueSource
    without_effect: str | None = None
    """The reason why the value has no effect; None if it has one."""


class ConfigReport(msgspec.Struct, frozen=True):
    """All that there is to show."""

    worker: list[SettingRow]
    access: list[SettingRow]
    limits: list[SettingRow]
    unused: list[SettingRow]
    """Keys of Kafka's that somebody told, and that mean nothing here."""
    unknown: list[UnknownSetting]


@click.command()
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Show all settings: also limits, unset ones, and those without effect, with the reason.",
)
@output_option
@worker_options
def config(configuration: Configuration, *, everything: bool, output: str) -> None:
    """Show every setting with its value and where it comes from.

    Flags beat the environment (CONTROLPLANE_GROUP_ID, CONNECT_GROUP_ID), which beats the worker's
    file, which beats defaults. Secrets are hidden. Exit code 2: a value cannot be used.
    """
    shown = _shown(configuration)
    _check(configuration)
    for sentence in (*shown.unknown, *empty_settings(configuration)):
        note(f"Warning: {sentence}")
    if output == "json":
        print_json(msgspec.to_builtins(shown))
    else:
        _print(shown, everything=everything)


def _shown(configuration: Configuration) -> ConfigReport:
    rows = {
        one: [_row(found) for found in configuration.effective(one, prefix)]
        for one, prefix in tables().items()
    }
    counting = {row.key for row in chain.from_iterable(rows.values())}
    worker = [*rows.pop(WorkerSettings), *rows.pop(AnswerSettings)]
    ours = rows.pop(ListenerSettings), rows.pop(AdminListenerSettings)
    access = [*rows.pop(AccessSettings), *chain.from_iterable(ours)]
    return ConfigReport(
        worker,
        access,
        list(chain.from_iterable(rows.values())),
        [
            SettingRow(key, redacted_value(key, text), source, why)
            for key, (text, source) in configuration.values.items()
            if key not in counting and (why := unused(key))
        ],
        unknown_keys(configuration),
    )


def _row(found: Effective) -> SettingRow:
    """A row for one setting; a secret is shown as written only if that is a reference to it."""
    value = found.text if isinstance(found.value, Secret) else found.value
    if isinstance(value, tuple):
        value = list(value)
    # A path such as auth.password.file has a secret's key and is none.
    key = found.key if isinstance(found.value, Secret) else ""
    return SettingRow(found.key, redacted_value(key, value), found.source, found.idle or None)


def _check(configuration: Configuration) -> None:
    """Refuse what nobody can work or gets in with, and warn of what some command cannot use.

    Raises:
        SettingsError: no cluster can be reached with these settings, or be one.
    """
    configuration.settings(WorkerSettings)
    configuration.make(AccessSettings, kafka_security)
    checks: tuple[Callable[[], object], ...] = (
        lambda: configuration.make(WorkerSettings, decision_settings),
        lambda: (
            configuration.make(WorkerSettings, listen_address) and listener_tls(MAIN, configuration)
        ),
        lambda: (
            configuration.make(WorkerSettings, admin_listen_address)
            and listener_tls(ADMIN, configuration)
        ),
    )
    for check in checks:
        try:
            check()
        except SettingsError as failure:
            note(f"Warning: {failure}")


def _print(shown: ConfigReport, *, everything: bool) -> None:
    if everything:
        rows = [*shown.worker, *shown.access, *shown.limits, *shown.unused]
    else:
        others = (row for row in (*shown.access, *shown.limits) if row.source != DEFAULT)
        having = (row for row in shown.worker if row.value not in (None, []))
        rows = [row for row in (*having, *others) if row.without_effect is None]
    table(
        ("KEY", "VALUE", "SOURCE", NO_EFFECT if everything else ""),
        [(row.key, _text(row.value), str(row.source), row.without_effect or "") for row in rows],
        spare=(NO_EFFECT,),
    )


def _text(value: Any) -> str:
    match value:
        case None | []:
            return NONE
        case "":
            return '""'
        case bool():
            return str(value).lower()
        case list():
            return ",".join(value)
    return str(value)
