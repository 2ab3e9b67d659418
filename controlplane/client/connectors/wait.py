"""`--wait`: looking until a connector is as was asked for, and telling meanwhile how it is."""

import asyncio
import functools
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple

import click

from controlplane.client.connectors.connector_summary import (
    FAILED,
    PAUSED,
    RUNNING,
    STOPPED,
    ConnectorSummary,
    summary,
)
from controlplane.client.http.api import Api, connector
from controlplane.client.http.request_errors import WaitTimedOut
from controlplane.terminal.command_errors import FOUND
from controlplane.terminal.option_names import Decorated
from controlplane.terminal.progress_bar import working

LOOK_S = 0.25
"""Between two looks."""

SURE = 2
"""Looks in a row that find the goal reached: the status before a restart looks like that behind."""

HOPELESS = 12
"""Looks in a row that find something failed. What failed before is soon something else."""


class WaitGoal(NamedTuple):
    """Condition that `--wait` waits for; a connector that is gone is None."""

    words: str
    reached: Callable[[ConnectorSummary | None], bool]
    fails: bool = True
    """True if a failed connector can never reach it."""


class ConnectorFailed(click.ClickException):
    """It was done, and the connector or a task fails now."""

    exit_code = FOUND


def _settled(one: ConnectorSummary | None, state: str) -> bool:
    """True if a connector and all of its tasks are in a state."""
    return one is not None and one.states == {state} and len(one.tasks) == len(one.info["tasks"])


RUNS = WaitGoal("runs", lambda one: _settled(one, RUNNING) and bool(one and one.tasks))
RESTS = WaitGoal("is paused", lambda one: _settled(one, PAUSED))
STANDS = WaitGoal("is stopped", lambda one: _settled(one, STOPPED) and not (one and one.tasks))
GONE = WaitGoal("is gone", lambda one: one is None, fails=False)


def wait_options(command: Decorated) -> Decorated:
    """Add `--wait` and `--timeout`; the command gets `wait_s`: None where it need not wait.

    Nothing comes of a dry run that could be waited for.
    """

    @functools.wraps(command)
    def with_wait(*, wait: bool, timeout: float, **arguments: Any) -> Any:
        waits = wait and not arguments.get("dry_run")
        return command(wait_s=timeout if waits else None, **arguments)

    for option in reversed(_OPTIONS):
        with_wait = option(with_wait)
    return with_wait  # type: ignore[return-value]  # click's decorators change the type


_OPTIONS = (
    click.option("--wait", is_flag=True, help="Wait until the connector has reached the state."),
    click.option(
        "--timeout",
        type=click.FloatRange(0),
        default=60.0,
        metavar="SECONDS",
        help="Longest time in seconds for --wait. [default: 60]",
    ),
)


async def wait_for(api: Api, name: str, goal: WaitGoal, within_s: float | None) -> None:
    """Look until the goal is reached; None: do not wait.

    Raises:
        WaitTimedOut: it was not, in time.
        Broken: the connector or a task of it fails.
    """
    if within_s is None:
        return
    reached = failed = 0
    async for one in _looks(api, name, goal.words, within_s):
        reached = reached + 1 if goal.reached(one) else 0
        failed = failed + 1 if goal.fails and one is not None and FAILED in one.states else 0
        if reached == SURE:
            return
        if failed == HOPELESS:
            raise ConnectorFailed(
                f"{name} fails ({_words(one)}): `controlplane describe` tells more"
            )


async def _looks(
    api: Api, name: str, words: str, within_s: float
) -> AsyncIterator[ConnectorSummary | None]:
    """Poll a connector and show its state on the progress line.

    Raises:
        WaitTimedOut: the time is over.
    """
    deadline = asyncio.get_running_loop().time() + within_s
    with working(f"waiting until {name} {words}") as tell:
        while True:
            one = await _look(api, name)
            yield one
            tell(f"waiting until {name} {words}: {_words(one)}")
            if asyncio.get_running_loop().time() > deadline:
                raise WaitTimedOut(
                    f"{name} was told so, and after {within_s:g} s it is not so yet "
                    f"({_words(one)}): does a worker run? --timeout waits longer"
                )
            await asyncio.sleep(LOOK_S)


async def _look(api: Api, name: str) -> ConnectorSummary | None:
    """Fetch a connector. The status of a deleted one remains for a while."""
    found = await summary(api, name)
    if found is not None:
        return found
    status = await api.find(connector(name, "status"))
    return None if status is None else ConnectorSummary(name, {"tasks": []}, status)


def _words(one: ConnectorSummary | None) -> str:
    return "not there" if one is None else f"connector {one.state}, tasks: {one.tasks_in_words}"
