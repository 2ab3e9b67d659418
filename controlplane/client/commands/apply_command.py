"""`apply` creates or updates connectors from files; `diff -f` shows what it would change."""

from collections.abc import Iterator, Mapping
from typing import Any

import click

from controlplane.client.commands.batch import ConnectorResult, dry_run_option, each
from controlplane.client.commands.documents import output_option
from controlplane.client.commands.verbs import creates
from controlplane.client.connectors.config_validation import validate
from controlplane.client.connectors.connector_files import DeclaredConnector, read_wanted
from controlplane.client.connectors.wait import RUNS, wait_for, wait_options
from controlplane.client.http.api import Api, connector
from controlplane.core.text.value_text import change
from controlplane.core.views.diff import Aspect
from controlplane.terminal.log_options import not_empty
from controlplane.terminal.option_names import Decorated
from controlplane.terminal.shell_completion import complete_files

UNCHANGED = "unchanged"


def files_options(command: Decorated) -> Decorated:
    """Add `-f` and `-n`; the command gets `files` and `name`."""
    file = click.option(
        "-f",
        "--file",
        "files",
        multiple=True,
        required=True,
        metavar="FILE",
        callback=not_empty,
        shell_complete=complete_files,
        help="File or directory of connectors, or - for standard input. May be repeated.",
    )
    name = click.option("-n", "--name", metavar="NAME", help="The name, where the file has none.")
    return file(name(command))


def _read(arguments: dict[str, Any]) -> dict[str, Any]:
    """Replace the names of files by the connectors in them."""
    files, name = arguments.pop("files"), arguments.pop("name")
    return {**arguments, "wanted": {one.name: one for one in read_wanted(files, name)}}


@creates("apply", _read, files_options, wait_options, dry_run_option, output_option)
async def apply(
    api: Api,
    wanted: Mapping[str, DeclaredConnector],
    wait_s: float | None,
    output: str,
    *,
    dry_run: bool,
) -> None:
    """Create or update connectors from files; leave alone those that are up to date.

    Takes what Connect takes – a flat map of JSON, the body of POST /connectors, Java's .properties
    –, the same as YAML, and what `get` and `describe` print with -o json. All files are read before
    anything is sent. An initial state and initial offsets are for connectors that are new. Of a dry
    run Kafka's workers can only validate the config, as kcctl has it done.
    """

    async def act(one: str) -> ConnectorResult:
        told = await _applied(api, wanted[one], dry_run=dry_run)
        if told.did != UNCHANGED and wanted[one].initial_state is None:
            await wait_for(api, one, RUNS, wait_s)
        return told

    await each(list(wanted), act, output)


async def _applied(api: Api, wanted: DeclaredConnector, *, dry_run: bool) -> ConnectorResult:
    name = wanted.name
    present = await api.find(connector(name, "config"))
    changed = changes_of(present or {}, wanted.config)
    if present is not None and not changed:
        return ConnectorResult(name, UNCHANGED)
    if dry_run and not api.server.ours:
        await validate(api, name, wanted.config)
        return ConnectorResult(
            name, f"would be {'created' if present is None else 'updated'}", _VALID
        )
    if present is None:
        return await _created(api, wanted, dry_run=dry_run)
    path = connector(name, "config")
    given = await api.send("PUT", path, wanted.config, dry_run=dry_run)
    words = "; ".join(in_words(changed))
    plan = given.body if dry_run else None
    return ConnectorResult(name, "updated", words, {"changes": changed}, plan)


_VALID = "the config is valid, and that is all that a worker of Kafka's can tell"


async def _created(api: Api, wanted: DeclaredConnector, *, dry_run: bool) -> ConnectorResult:
    given = await api.send("POST", "/connectors", creation(wanted), dry_run=dry_run)
    return ConnectorResult(wanted.name, "created", plan=given.body if dry_run else None)


def creation(wanted: DeclaredConnector) -> dict[str, Any]:
    """The body of `POST /connectors`. Older releases refuse fields that nobody needs here."""
    optional = {
        "initial_state": wanted.initial_state,
        "initial_offsets": wanted.initial_offsets,
    }
    given = {key: value for key, value in optional.items() if value is not None}
    return {"name": wanted.name, "config": wanted.config, **given}


def changes_of(
    before: Mapping[str, Any], after: Mapping[str, Any]
) -> dict[str, dict[str, str | None]]:
    """The keys of two configs that differ, with both values; None: absent."""
    keys = sorted({*before, *after})
    return {
        key: {"before": before.get(key), "after": after.get(key)}
        for key in keys
        if before.get(key) != after.get(key)
    }


def in_words(changed: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """`tasks.max: 1 → 2`, without secrets."""
    for key, one in changed.items():
        yield f"{key}: {change(Aspect.CONFIG, key, one['before'], one['after'])}"
