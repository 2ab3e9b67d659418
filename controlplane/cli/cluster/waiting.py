"""`--wait`: looking until a connector is as was asked for, and telling meanwhile how it is."""

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import click

from controlplane.cli.cluster.api import Api, connector
from controlplane.cli.cluster.entities import (
    FAILED,
    PAUSED,
    RESTARTING,
    RUNNING,
    STOPPED,
    Summary,
    summary,
)
from controlplane.cli.cluster.exits import Late
from controlplane.cli.failing import FOUND
from controlplane.cli.progress import working

Command = TypeVar("Command", bound=Callable[..., Any])

LOOK_S = 0.25
"""Between two looks."""

SURE = 2
"""Looks in a row that find the goal reached: the status before a restart looks like that behind."""

HOPELESS = 12
"""Looks in a row that find something failed. What failed before is soon something else."""


class Goal(NamedTuple):
    """What is waited for."""

    words: str
    reached: Callable[[Summary], bool]


class Broken(click.ClickException):
    """It was done, and the connector or a task fails now."""

    exit_code = FOUND


def _all(state: str) -> Callable[[Summary], bool]:
    return lambda one: one.states == {state} and len(one.tasks) == len(one.info.get("tasks", ()))


RUNS = Goal("runs, and a task of it", lambda one: bool(one.tasks) and _all(RUNNING)(one))
RESTS = Goal("is paused", _all(PAUSED))
STANDS = Goal("is stopped", lambda one: one.states == {STOPPED} and not one.info.get("tasks"))
SETTLES = Goal("has restarted", lambda one: RESTARTING not in one.states and RUNS.reached(one))


def wait_options(command: Command) -> Command:
    """Add `--wait` and `--timeout`; the command gets `wait_s`: None where it need not wait.

    Nothing comes of a dry run that could be waited for.
    """

    def with_wait(*, wait: bool, timeout: float, **arguments: Any) -> Any:
        waits = wait and not arguments.get("dry_run")
        return command(wait_s=timeout if waits else None, **arguments)

    with_wait.__dict__.update(command.__dict__)
    for option in reversed(_OPTIONS):
        with_wait = option(with_wait)
    return with_wait  # type: ignore[return-value]  # click's decorators change the type


_OPTIONS = (
    click.option("--wait", is_flag=True, help="Return when the connector is so, not only told so."),
    click.option(
        "--timeout",
        type=click.FloatRange(0),
        default=60.0,
        metavar="SECONDS",
        help="How long --wait waits. [default: 60]",
    ),
)


async def wait_for(api: Api, name: str, goal: Goal, within_s: float | None) -> None:
    """Look until the goal is reached; None: do not wait.

    Raises:
        Late: it was not, in time.
        Broken: the connector or a task of it fails.
    """
    if within_s is None:
        return
    reached = failed = 0
    with working(f"waiting until {name} {goal.words}") as tell:
        async for one in _looks(api, name, goal, within_s):
            tell(f"waiting until {name} {goal.words}: {one.state}, tasks: {one.tasks_in_words}")
            reached = reached + 1 if goal.reached(one) else 0
            failed = failed + 1 if FAILED in one.states else 0
            if reached == SURE:
                return
            if failed == HOPELESS:
                raise Broken(f"{name} fails: {_trouble(one)}; `controlplane describe` tells more")


async def _looks(api: Api, name: str, goal: Goal, within_s: float) -> Any:
    """What is found, time and again, until the time is over."""
    last = "it is not there"
    deadline = asyncio.get_running_loop().time() + within_s
    while True:
        one = await summary(api, name)
        if one is not None:
            yield one
            last = f"connector {one.state}, tasks: {one.tasks_in_words}"
        if asyncio.get_running_loop().time() > deadline:
            raise Late(
                f"it is done, but not after {within_s:g} s that {name} {goal.words} ({last}): does "
                "a worker run? --timeout waits longer"
            )
        await asyncio.sleep(LOOK_S)


def _trouble(one: Summary) -> str:
    return f"connector {one.state}, tasks: {one.tasks_in_words}"


async def wait_until_gone(api: Api, name: str, within_s: float | None) -> None:
    """Look until nothing is reported any more of a connector that was deleted.

    Raises:
        Late: something is, still.
    """
    if within_s is None:
        return
    deadline = asyncio.get_running_loop().time() + within_s
    with working(f"waiting until nothing is reported of {name}"):
        while await api.find(connector(name, "status")) is not None:
            if asyncio.get_running_loop().time() > deadline:
                raise Late(
                    f"{name} is deleted, but after {within_s:g} s its status is still there: does "
                    "a worker run? --timeout waits longer"
                )
            await asyncio.sleep(LOOK_S)
