"""`apply`: create or update connectors from files. `diff -f` shows the changes beforehand."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import click

from controlplane.client.commands.batch import ConnectorResult, act_on_each, dry_run_option
from controlplane.client.commands.documents import output_option
from controlplane.client.commands.verbs import create_command
from controlplane.client.connectors.connector_files import DeclaredConnector, read_declared
from controlplane.client.connectors.wait import (
    GOALS,
    IS_RUNNING,
    WaitGoal,
    present_goal,
    wait_for,
    wait_options,
)
from controlplane.client.http.api import Api, connector, segment
from controlplane.client.http.request_errors import Declined
from controlplane.core.text.redaction import redacted_refusal
from controlplane.core.text.value_text import change
from controlplane.core.views.diff import Aspect
from controlplane.terminal.log_options import not_empty
from controlplane.terminal.option_names import Decorated
from controlplane.terminal.shell_completion import complete_files

UNCHANGED = "unchanged"

CLASS = "connector.class"


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
    name = click.option(
        "-n", "--name", metavar="NAME", help="Name of the connector, if the file has none."
    )
    return file(name(command))


_dry_run_option = partial(dry_run_option, with_kafka="Kafka's workers only validate the configs.")


def _read(arguments: dict[str, Any]) -> dict[str, Any]:
    """Replace the names of files by the connectors in them."""
    files, name = arguments.pop("files"), arguments.pop("name")
    declared = {connector.name: connector for connector in read_declared(files, name)}
    return {**arguments, "declared": declared}


@create_command("apply", _read, files_options, wait_options, _dry_run_option, output_option)
async def apply(
    api: Api,
    declared: Mapping[str, DeclaredConnector],
    wait_s: float | None,
    output: str,
    *,
    dry_run: bool,
) -> None:
    """Create or update connectors from files; skip those that are up to date.

    A file has one of Connect's forms: a flat map in JSON, the body of POST /connectors, or Java's
    .properties. It may also be YAML, or the output of `get` or `describe` with -o json. All files
    are read before the first request. Initial states and offsets apply to new connectors only.
    """

    async def act(name: str) -> ConnectorResult:
        goal = IS_RUNNING if wait_s is None else await wait_goal(api, declared[name])
        result = await _applied(api, declared[name], dry_run=dry_run)
        if result.outcome != UNCHANGED:
            await wait_for(api, name, goal, wait_s)
        return result

    await act_on_each(list(declared), act, output)


async def wait_goal(api: Api, declared: DeclaredConnector) -> WaitGoal:
    """Goal of `--wait`: the target state of a present connector, or the initial state."""
    initial = GOALS.get(str(declared.initial_state).upper(), IS_RUNNING)
    return await present_goal(api, declared.name) or initial


async def _applied(api: Api, declared: DeclaredConnector, *, dry_run: bool) -> ConnectorResult:
    name = declared.name
    present = await api.find(connector(name, "config"))
    changed = changes_of(present or {}, declared.config)
    if present is not None and not changed:
        return ConnectorResult(name, UNCHANGED)
    if dry_run and not api.server.ours:
        await _validate(api, name, declared.config)
        return ConnectorResult(
            name, f"would be {'created' if present is None else 'updated'}", _VALID
        )
    if present is None:
        return await _created(api, declared, dry_run=dry_run)
    path = connector(name, "config")
    answer = await api.send("PUT", path, declared.config, dry_run=dry_run)
    words = "; ".join(in_words(changed))
    plan = answer.body if dry_run else None
    return ConnectorResult(name, "updated", words, {"changes": changed}, plan)


_VALID = "the config is valid; Kafka's workers have no further dry run"


async def _validate(api: Api, name: str, config: Mapping[str, str | None]) -> None:
    """Let a worker validate a config; nothing is changed.

    Raises:
        Declined: it is invalid. The message has all errors.
        Unavailable: the worker cannot validate it.
    """
    class_name = config.get(CLASS)
    if not class_name:
        raise Declined(f"the config of {name} has no {CLASS}: add it")
    path = f"/connector-plugins/{segment(class_name)}/config/validate"
    validated = (await api.send("PUT", path, dict(config))).body["configs"]
    errors = [str(error) for key in validated for error in key["value"]["errors"]]
    if errors:
        text = "; ".join(dict.fromkeys(errors))
        raise Declined(f"the config of {name} is not valid: {redacted_refusal(text)}")


async def _created(api: Api, declared: DeclaredConnector, *, dry_run: bool) -> ConnectorResult:
    answer = await api.send("POST", "/connectors", creation(declared), dry_run=dry_run)
    return ConnectorResult(declared.name, "created", plan=answer.body if dry_run else None)


def creation(declared: DeclaredConnector) -> dict[str, Any]:
    """The body of `POST /connectors`; older releases refuse fields that they do not know."""
    optional = {
        "initial_state": declared.initial_state,
        "initial_offsets": declared.initial_offsets,
    }
    present = {key: value for key, value in optional.items() if value is not None}
    return {"name": declared.name, "config": declared.config, **present}


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
    """Yield the changes as text, without secrets: `tasks.max: 1 → 2`."""
    for key, values in changed.items():
        yield f"{key}: {change(Aspect.CONFIG, key, values['before'], values['after'])}"
