"""`pause`, `resume`, `stop`, `restart`, `delete`."""

from typing import Any, NamedTuple

import click

from controlplane.client.commands.batch import (
    ConnectorResult,
    change,
    confirm,
    dry_run_option,
    each,
    yes_option,
)
from controlplane.client.commands.documents import output_option
from controlplane.client.commands.verbs import VerbGroup, changes, verb
from controlplane.client.connectors.selection import Selection, complete, selected
from controlplane.client.connectors.wait import (
    GONE,
    RESTS,
    RUNS,
    STANDS,
    WaitGoal,
    wait_for,
    wait_options,
)
from controlplane.client.http.api import Api, connector


class TargetStateCommand(NamedTuple):
    """A state that a connector can be told to be in: `PUT /connectors/{c}/{verb}`."""

    did: str
    goal: WaitGoal
    about: str


TARGETS = {
    "pause": TargetStateCommand(
        "paused", RESTS, "Pause connectors; their tasks stay assigned, idle (KIP-52)."
    ),
    "resume": TargetStateCommand("resumed", RUNS, "Resume paused or stopped connectors."),
    "stop": TargetStateCommand(
        "stopped", STANDS, "Stop connectors; their offsets can then be altered (KIP-875)."
    ),
}


def _targeting(name: str, target: TargetStateCommand) -> VerbGroup:
    @changes("connector", selected, wait_options, dry_run_option, output_option)
    async def command(
        api: Api, selection: Selection, wait_s: float | None, output: str, *, dry_run: bool
    ) -> None:
        async def act(one: str) -> ConnectorResult:
            path, told = connector(one, name), ConnectorResult(one, target.did)
            told = await change(api, "PUT", path, told, dry_run=dry_run)
            await wait_for(api, one, target.goal, wait_s)
            return told

        await each(await selection.of(api), act, output)

    command.help = target.about
    return verb(name, target.about, "connector", (command,))


pause, resume, stop = (_targeting(name, target) for name, target in TARGETS.items())


# --- restart ------------------------------------------------------------------------------------

_TASKS: dict[str | None, dict[str, str]] = {
    None: {},
    "all": {"includeTasks": "true"},
    "failed": {"includeTasks": "true", "onlyFailed": "true"},
}
"""Query parameters of `--tasks` (KIP-745)."""


@changes(
    "connector",
    selected,
    click.option(
        "-t",
        "--tasks",
        type=click.Choice(["all", "failed"]),
        help="Restart tasks too: all of them, or only the failed connector and tasks (KIP-745).",
    ),
    wait_options,
    dry_run_option,
    output_option,
)
async def restart_connector(  # noqa: PLR0913 - click gives one argument per option
    api: Api,
    selection: Selection,
    tasks: str | None,
    wait_s: float | None,
    output: str,
    *,
    dry_run: bool,
) -> None:
    """Restart connectors, and with --tasks their tasks."""

    async def act(name: str) -> ConnectorResult:
        path = connector(name, "restart")
        given = await api.send("POST", path, query=_TASKS[tasks], dry_run=dry_run)
        if dry_run:
            return ConnectorResult(name, "restarted", plan=given.body)
        await wait_for(api, name, RUNS, wait_s)
        return ConnectorResult(name, "restarted", _restarting(given.body))

    await each(await selection.of(api), act, output)


def _restarting(status: Any) -> str:
    """Number of tasks that an answer names; a plain restart names none."""
    if not isinstance(status, dict):
        return ""
    number = sum(task["state"] == "RESTARTING" for task in status["tasks"])
    return f"{number} of {len(status['tasks'])} tasks"


@changes(
    "task",
    click.argument(
        "tasks", metavar="NAME/TASK...", nargs=-1, required=True, shell_complete=complete
    ),
    wait_options,
    dry_run_option,
    output_option,
)
async def restart_task(
    api: Api, tasks: tuple[str, ...], wait_s: float | None, output: str, *, dry_run: bool
) -> None:
    """Restart single tasks: orders/0."""
    split = {one: one.rpartition("/") for one in tasks}
    for one, (name, _, number) in split.items():
        if not name or not number.isdecimal():
            raise click.UsageError(f"{one!r} is no task: write it like orders/0")

    async def act(one: str) -> ConnectorResult:
        name, _, number = split[one]
        path = connector(name, "tasks", number, "restart")
        told = await change(api, "POST", path, ConnectorResult(one, "restarted"), dry_run=dry_run)
        await wait_for(api, name, RUNS, wait_s)
        return told

    await each(list(split), act, output)


restart = verb(
    "restart", "Restart connectors or tasks.", "connector", (restart_connector, restart_task)
)


# --- delete -------------------------------------------------------------------------------------


@changes("connector", selected, wait_options, yes_option, dry_run_option, output_option)
async def delete_connector(  # noqa: PLR0913 - click gives one argument per option
    api: Api,
    selection: Selection,
    wait_s: float | None,
    output: str,
    *,
    yes: bool,
    dry_run: bool,
) -> None:
    """Delete connectors; their offsets stay, unless `offsets reset` removes them before.

    Asks for confirmation unless all connectors are named.
    """
    names = await selection.of(api)
    if names and selection.is_open and not dry_run:
        confirm(f"delete {', '.join(names)}?", yes=yes)

    async def act(name: str) -> ConnectorResult:
        told = await change(
            api, "DELETE", connector(name), ConnectorResult(name, "deleted"), dry_run=dry_run
        )
        await wait_for(api, name, GONE, wait_s)
        return told

    await each(names, act, output)
