"""The command `config`: the settings in force, and the source of each."""

from collections.abc import Callable
from itertools import chain
from typing import Any

import click
import msgspec

from controlplane.core.text.redaction import HIDDEN, redacted_value, replaced
from controlplane.settings import Configuration, EffectiveValue, ValueSource, WorkerSettings
from controlplane.settings.access import AccessSettings, kafka_security
from controlplane.settings.errors import SettingsError
from controlplane.settings.known_settings import UnknownSetting, unused
from controlplane.settings.listeners import (
    ADMIN,
    MAIN,
    AdminListenerSettings,
    ListenerSettings,
    ResponseHeaderSettings,
    admin_listen_address,
    listen_address,
    listener_tls,
)
from controlplane.settings.security import Secret
from controlplane.settings.sources import DEFAULT
from controlplane.settings.worker_settings import decision_settings
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
NO_EFFECT = "WITHOUT EFFECT BECAUSE"


class SettingRow(msgspec.Struct, frozen=True):
    """Value and source of a setting, for output; secrets are hidden."""

    key: str
    value: Any
    source: ValueSource
    without_effect: str | None = None
    """The reason why the value has no effect; None if it has one."""


class ConfigReport(msgspec.Struct, frozen=True):
    """All settings for output, by group."""

    worker: list[SettingRow]
    access: list[SettingRow]
    limits: list[SettingRow]
    unused: list[SettingRow]
    """Kafka's keys that are set, and that have no meaning here."""
    unknown: list[UnknownSetting]


@click.command()
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Also show limits, unset settings, and settings without effect, with the reason.",
)
@output_option
@worker_options
def config(configuration: Configuration, *, everything: bool, output: str) -> None:
    """Show the settings with their values and sources.

    Flags beat the environment (CONTROLPLANE_GROUP_ID, CONNECT_GROUP_ID), which beats the worker's
    file, which beats defaults. Secrets are hidden.

    Exit code 2: a value cannot be used. Some values that only some commands need, such as
    `listeners`, get a warning instead.
    """
    report = _report(configuration)
    _check(configuration)
    for sentence in (*report.unknown, *empty_settings(configuration)):
        note(f"Warning: {sentence}")
    if output == "json":
        print_json(msgspec.to_builtins(report))
    else:
        _print(report, everything=everything)


def _report(configuration: Configuration) -> ConfigReport:
    rows = {
        group: [_row(setting) for setting in configuration.effective(group, prefix)]
        for group, prefix in tables().items()
    }
    effective_keys = {row.key for row in chain.from_iterable(rows.values())}
    worker = [*rows.pop(WorkerSettings), *rows.pop(ResponseHeaderSettings)]
    ours = rows.pop(ListenerSettings), rows.pop(AdminListenerSettings)
    access = [*rows.pop(AccessSettings), *chain.from_iterable(ours)]
    return ConfigReport(
        worker,
        access,
        list(chain.from_iterable(rows.values())),
        [
            SettingRow(key, redacted_value(key, text), source, why)
            for key, (text, source) in configuration.values.items()
            if key not in effective_keys and (why := unused(key))
        ],
        unknown_keys(configuration),
    )


def _row(setting: EffectiveValue) -> SettingRow:
    """Row of a setting. A secret is hidden, unless it is written as a reference (`${file:…}`)."""
    value = setting.value
    if isinstance(value, Secret):
        shown = replaced(setting.text, lambda _: HIDDEN)
    else:
        # auth.password.file looks like a secret's key, but its value is only a path.
        shown = redacted_value("", list(value) if isinstance(value, tuple) else value)
    return SettingRow(setting.key, shown, setting.source, setting.idle or None)


def _check(configuration: Configuration) -> None:
    """Refuse settings that fail every command; warn of settings that fail only some commands.

    Raises:
        SettingsError: the worker's settings, or those for Kafka's brokers, are invalid.
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


def _print(report: ConfigReport, *, everything: bool) -> None:
    if everything:
        rows = [*report.worker, *report.access, *report.limits, *report.unused]
    else:
        changed = (row for row in (*report.access, *report.limits) if row.source != DEFAULT)
        worker = (row for row in report.worker if row.value not in (None, []))
        rows = [row for row in (*worker, *changed) if row.without_effect is None]
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
