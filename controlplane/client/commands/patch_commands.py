"""`patch`: change some settings of connectors, or the level of a logger."""

from functools import partial
from typing import Any

import click

from controlplane.client.commands.apply_command import UNCHANGED, changes_of, in_words
from controlplane.client.commands.batch import (
    ConnectorChange,
    ConnectorResult,
    act_on_each,
    change_each,
    dry_run_option,
)
from controlplane.client.commands.documents import output_option
from controlplane.client.commands.verbs import change_command
from controlplane.client.connectors.selection import Selection, explicit_selection
from controlplane.client.connectors.wait import goal_after_change, wait_for, wait_options
from controlplane.client.http.api import Api, connector, segment
from controlplane.client.http.request_errors import Declined, Unsupported, no_connector
from controlplane.core.moments import quoted
from controlplane.logger_levels import LEVELS

Patch = dict[str, str | None]


@change_command(
    "connector",
    explicit_selection,
    click.option(
        "-s",
        "--set",
        "put",
        multiple=True,
        metavar="KEY=VALUE",
        help="Set a setting to a value. May be repeated.",
    ),
    click.option(
        "-r",
        "--remove",
        multiple=True,
        metavar="KEY",
        help="Remove a setting. May be repeated.",
    ),
    wait_options,
    dry_run_option,
    output_option,
)
async def patch_connector(  # noqa: PLR0913, PLR0917 - click gives one argument per option
    api: Api,
    selection: Selection,
    put: tuple[str, ...],
    remove: tuple[str, ...],
    wait_s: float | None,
    output: str,
    *,
    dry_run: bool,
) -> None:
    """Change some settings of connectors; the others stay (KIP-477).

    For a release before 3.8, the command reads the config, changes it, and sends it whole.
    """
    patch = _patch(put, remove)

    async def act(name: str) -> ConnectorResult:
        goal = await goal_after_change(api, name, wait_s)
        result = await _patched(api, name, patch, dry_run=False)
        if result.outcome != UNCHANGED:
            await wait_for(api, name, goal, wait_s)
        return result

    requested = ConnectorChange(partial(_patched, api, patch=patch, dry_run=True), act)
    await change_each(api, await selection.of(api), requested, output, dry_run=dry_run)


def _patch(put: tuple[str, ...], remove: tuple[str, ...]) -> Patch:
    pairs = [text.partition("=") for text in put]
    for key, equals, _ in pairs:
        if not key or not equals:
            raise click.UsageError(f"--set: {quoted(key)} is no setting: write it like tasks.max=2")
    if not put and not remove:
        raise click.UsageError("nothing to change: give --set KEY=VALUE or --remove KEY")
    values = {key: value for key, _, value in pairs}
    for key in remove:
        if key in values:
            raise click.UsageError(f"--set and --remove both name {quoted(key)}: leave out one")
    return values | dict.fromkeys(remove)


async def _patched(api: Api, name: str, patch: Patch, *, dry_run: bool) -> ConnectorResult:
    path = connector(name, "config")
    present = await api.find(path)
    if present is None:
        raise no_connector(name)
    merged = {key: value for key, value in {**present, **patch}.items() if value is not None}
    changed = changes_of(present, merged)
    if not changed:
        return ConnectorResult(name, UNCHANGED)
    body = await _sent(api, path, patch, merged, dry_run=dry_run)
    words = "; ".join(in_words(changed))
    return ConnectorResult(name, "updated", words, {"changes": changed}, body if dry_run else None)


async def _sent(api: Api, path: str, patch: Patch, merged: Patch, *, dry_run: bool) -> Any:
    if dry_run:
        api.need("dry run")
    try:
        return (await api.send("PATCH", path, patch, dry_run=dry_run)).body
    except Unsupported:
        return (await api.send("PUT", path, merged, dry_run=dry_run)).body


_ONLY_ONE = "only on the worker that answered: its release ignores scope=cluster"

_INVALID_LEVEL = "invalid log level"
"""Words with which every release refuses a level."""


@change_command(
    "logger",
    click.argument("logger"),
    click.argument("level"),
    click.option(
        "--scope",
        type=click.Choice(["worker", "cluster"]),
        default="cluster",
        show_default=True,
        help="Set the level on the worker that answers, or on all workers (KIP-976).",
    ),
    dry_run_option,
    output_option,
)
async def patch_logger(  # noqa: PLR0913 - click gives one argument per option
    api: Api, logger: str, level: str, scope: str, output: str, *, dry_run: bool
) -> None:
    """Set the level of a logger and of the loggers beneath it.

    Levels: ALL, TRACE, DEBUG, INFO, WARN, ERROR, FATAL, OFF. If the cluster is a LOG, the scope
    must be `cluster`.
    """
    if scope == "worker":
        api.need_loggers()

    async def act(name: str) -> ConnectorResult:
        path = f"/admin/loggers/{segment(name)}"
        query = {"scope": scope}
        try:
            answer = await api.send("PUT", path, {"level": level}, query=query, dry_run=dry_run)
        except Declined as refused:
            if _INVALID_LEVEL not in refused.message:
                raise
            reason = refused.message.removesuffix(".")
            raise Declined(f"{reason}: give one of {', '.join(LEVELS)}") from None
        result = ConnectorResult(name, f"set to {level.upper()}")
        if dry_run:
            return result._replace(plan=answer.body)
        # With scope=cluster, the answer has no body. A worker that ignored the scope sends a list.
        only_one = scope == "cluster" and isinstance(answer.body, list)
        return result._replace(words=_ONLY_ONE) if only_one else result

    await act_on_each([logger], act, output)
