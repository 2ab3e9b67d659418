"""`pause`, `resume`, `stop`, `restart`, `delete`: the life of connectors and tasks."""

from typing import Any, NamedTuple

import click

from controlplane.client.commands.batch import (
    ConnectorChange,
    ConnectorResult,
    change,
    change_each,
    dry_run_option,
    yes_option,
)
from controlplane.client.commands.documents import output_option
from controlplane.client.commands.verbs import VerbGroup, change_command, verb
from controlplane.client.connectors.selection import Selection, complete, explicit_selection
from controlplane.client.connectors.wait import (
    IS_GONE,
    IS_PAUSED,
    IS_RUNNING,
    IS_STOPPED,
    WaitGoal,
    goal_after_change,
    wait_for,
    wait_options,
)
from controlplane.client.http.api import Api, connector
from controlplane.client.migration.migration_check import check_release
from controlplane.core.moments import quoted
from controlplane.terminal.prompts import confirm

_TASK_NUMBER_MAX = 2**31 - 1
"""Largest task number: an `int` in Kafka's REST API."""


class TargetStateCommand(NamedTuple):
    """Command that sets the target state: `PUT /connectors/{c}/{verb}`."""

    outcome: str
    goal: WaitGoal
    about: str


TARGETS = {
    "pause": TargetStateCommand(
        "paused", IS_PAUSED, "Pause connectors; their tasks stay assigned, idle (KIP-52)."
    ),
    "resume": TargetStateCommand("resumed", IS_RUNNING, "Resume paused or stopped connectors."),
    "stop": TargetStateCommand(
        "stopped", IS_STOPPED, "Stop connectors; their offsets can then be altered (KIP-875)."
    ),
}


def _targeting(name: str, target: TargetStateCommand) -> VerbGroup:
    @change_command("connector", explicit_selection, wait_options, dry_run_option, output_option)
    async def command(
        api: Api, selection: Selection, wait_s: float | None, output: str, *, dry_run: bool
    ) -> None:
        async def plan(selected_name: str, *, dry_run: bool = True) -> ConnectorResult:
            path = connector(selected_name, name)
            result = ConnectorResult(selected_name, target.outcome)
            return await change(api, "PUT", path, result, dry_run=dry_run)

        async def act(selected_name: str) -> ConnectorResult:
            result = await plan(selected_name, dry_run=False)
            await wait_for(api, selected_name, target.goal, wait_s)
            return result

        names = await selection.of(api)
        await change_each(api, names, ConnectorChange(plan, act), output, dry_run=dry_run)

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


@change_command(
    "connector",
    explicit_selection,
    click.option(
        "-t",
        "--tasks",
        type=click.Choice(["all", "failed"]),
        help="Also restart tasks. all: the connector and its tasks; failed: only those that have "
        "failed (KIP-745).",
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
    if tasks is not None:  # an earlier release would ignore the parameters, and restart no task
        check_release(api, "restart_requests", "restart a connector together with its tasks")

    async def plan(name: str) -> ConnectorResult:
        path = connector(name, "restart")
        answer = await api.send("POST", path, query=_TASKS[tasks], dry_run=True)
        return ConnectorResult(name, "restarted", plan=answer.body)

    async def act(name: str) -> ConnectorResult:
        goal = await goal_after_change(api, name, wait_s)
        answer = await api.send("POST", connector(name, "restart"), query=_TASKS[tasks])
        await wait_for(api, name, goal, wait_s)
        return ConnectorResult(name, "restarted", _restarting(answer.body))

    names = await selection.of(api)
    await change_each(api, names, ConnectorChange(plan, act), output, dry_run=dry_run)


def _restarting(status: Any) -> str:
    """Number of restarting tasks in an answer; empty for a plain restart, which lists none."""
    if not isinstance(status, dict):
        return ""
    number = sum(task["state"] == "RESTARTING" for task in status["tasks"])
    return f"{number} of {len(status['tasks'])} tasks"


def _is_task_number(text: str) -> bool:
    short = len(text) <= len(str(_TASK_NUMBER_MAX))
    return short and text.isdecimal() and int(text) <= _TASK_NUMBER_MAX


@change_command(
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
    """Restart single tasks, such as orders/0."""
    split = {task: task.rpartition("/") for task in tasks}
    for task, (name, _, number) in split.items():
        if not name or not _is_task_number(number):
            raise click.UsageError(f"{quoted(task)} is no task: write it like orders/0")

    async def plan(task: str, *, dry_run: bool = True) -> ConnectorResult:
        name, _, number = split[task]
        path = connector(name, "tasks", number, "restart")
        result = ConnectorResult(task, "restarted")
        return await change(api, "POST", path, result, dry_run=dry_run)

    async def act(task: str) -> ConnectorResult:
        name = split[task][0]
        goal = await goal_after_change(api, name, wait_s)
        result = await plan(task, dry_run=False)
        await wait_for(api, name, goal, wait_s)
        return result

    await change_each(api, list(split), ConnectorChange(plan, act), output, dry_run=dry_run)


restart = verb(
    "restart", "Restart connectors or tasks.", "connector", (restart_connector, restart_task)
)


# --- delete -------------------------------------------------------------------------------------


@change_command(
    "connector", explicit_selection, wait_options, yes_option, dry_run_option, output_option
)
async def delete_connector(  # noqa: PLR0913 - click gives one argument per option
    api: Api,
    selection: Selection,
    wait_s: float | None,
    output: str,
    *,
    yes: bool,
    dry_run: bool,
) -> None:
    """Delete connectors; their offsets stay, unless `offsets reset` removes them first.

    Asks for confirmation if connectors are selected by -e, --state or --all.
    """

    async def plan(name: str, *, dry_run: bool = True) -> ConnectorResult:
        result = ConnectorResult(name, "deleted")
        return await change(api, "DELETE", connector(name), result, dry_run=dry_run)

    async def act(name: str) -> ConnectorResult:
        result = await plan(name, dry_run=False)
        await wait_for(api, name, IS_GONE, wait_s)
        return result

    names = await selection.of(api)

    def ask_deletion() -> None:
        if names and selection.needs_lookup:
            confirm(f"delete {', '.join(names)}?", yes=yes)

    requested = ConnectorChange(plan, act, ask_deletion)
    await change_each(api, names, requested, output, dry_run=dry_run)
