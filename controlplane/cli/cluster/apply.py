"""`apply`: connectors are to be as files say; and `diff -f`: how they differ from that."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import click

from controlplane.cli.cluster.api import Api, connector
from controlplane.cli.cluster.doing import Told, dry_run_option, each
from controlplane.cli.cluster.files import Wanted, read_wanted
from controlplane.cli.cluster.output import output_option
from controlplane.cli.cluster.validating import validate
from controlplane.cli.cluster.verbs import creates
from controlplane.cli.cluster.waiting import RUNS, wait_for, wait_options
from controlplane.cli.options import not_empty
from controlplane.core.diff import Aspect
from controlplane.core.shown import change
from controlplane.shell_completion import complete_files

Command = TypeVar("Command", bound=Callable[..., Any])

UNCHANGED = "unchanged"


def files_options(command: Command) -> Command:
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
        help="A file, a directory, or - for standard input. May be repeated.",
    )
    name = click.option("-n", "--name", metavar="NAME", help="The name, where the file has none.")
    return file(name(command))


def _read(arguments: dict[str, Any]) -> dict[str, Any]:
    """Replace the names of files by the connectors in them."""
    files, name = arguments.pop("files"), arguments.pop("name")
    return {**arguments, "wanted": {one.name: one for one in read_wanted(files, name)}}


@creates("apply", _read, files_options, wait_options, dry_run_option, output_option)
async def apply(
    api: Api, wanted: Mapping[str, Wanted], wait_s: float | None, output: str, *, dry_run: bool
) -> None:
    """Make connectors be as files say: create, update, or leave alone what is so already.

    Takes what Connect takes – a flat map of JSON, the body of POST /connectors, Java's .properties
    –, the same as YAML, and what `get` and `describe` print with -o json. All files are read before
    anything is sent. An initial state and initial offsets are for connectors that are new. Of a dry
    run Kafka's workers can only validate the config, as kcctl has it done.
    """

    async def act(one: str) -> Told:
        told = await _applied(api, wanted[one], dry_run=dry_run)
        if told.did != UNCHANGED and wanted[one].initial_state is None:
            await wait_for(api, one, RUNS, wait_s)
        return told

    await each(list(wanted), act, output)


async def _applied(api: Api, wanted: Wanted, *, dry_run: bool) -> Told:
    name = wanted.name
    present = await api.find(connector(name, "config"))
    changed = changes_of(present or {}, wanted.config)
    if present is not None and not changed:
        return Told(name, UNCHANGED)
    if dry_run and not api.server.ours:
        await validate(api, name, wanted.config)
        return Told(name, f"would be {'created' if present is None else 'updated'}", _VALID)
    if present is None:
        return await _created(api, wanted, dry_run=dry_run)
    path = connector(name, "config")
    given = await api.send("PUT", path, wanted.config, dry_run=dry_run)
    words = "; ".join(in_words(changed))
    plan = given.body if dry_run else None
    return Told(name, "updated", words, {"changes": changed}, plan)


_VALID = "the config is valid, and that is all that a worker of Kafka's can tell"


async def _created(api: Api, wanted: Wanted, *, dry_run: bool) -> Told:
    given = await api.send("POST", "/connectors", creation(wanted), dry_run=dry_run)
    return Told(wanted.name, "created", plan=given.body if dry_run else None)


def creation(wanted: Wanted) -> dict[str, Any]:
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
