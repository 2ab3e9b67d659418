"""`--wait`: poll a connector until it has reached its goal, and show its state meanwhile."""

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
    target_state,
)
from controlplane.client.http.api import Api, connector
from controlplane.client.http.request_errors import WaitTimedOut
from controlplane.terminal.exit_codes import FOUND
from controlplane.terminal.number_options import Number
from controlplane.terminal.option_names import Decorated
from controlplane.terminal.progress_bar import working

POLL_S = 0.25
"""Pause in seconds between two polls."""

POLLS_TO_SUCCEED = 2
"""Consecutive polls that must find the goal reached: the first may see an older status."""

REPORT_S = 10.0
"""Longest time in seconds in which a worker behind our service reports a new state.

A service may have no worker: then the statuses of an imported log never change.
"""

POLLS_TO_FAIL = 12
"""Consecutive polls that must find a failure: an older failure is soon replaced."""


class WaitGoal(NamedTuple):
    """Condition that `--wait` waits for; `reached` gets None if the connector is gone."""

    words: str
    reached: Callable[[ConnectorSummary | None], bool]
    ends_on_failure: bool = True
    """True if the wait ends with an error once the connector fails."""


class ConnectorFailed(click.ClickException):
    """The change was made, and now the connector or a task fails."""

    exit_code = FOUND


def _settled(connector_summary: ConnectorSummary | None, state: str) -> bool:
    """True if a connector and all of its tasks are in this state."""
    return (
        connector_summary is not None
        and connector_summary.states == {state}
        and len(connector_summary.tasks) == len(connector_summary.info["tasks"])
    )


IS_RUNNING = WaitGoal(
    "runs",
    lambda connector_summary: (
        _settled(connector_summary, RUNNING) and bool(connector_summary and connector_summary.tasks)
    ),
)
IS_PAUSED = WaitGoal("is paused", lambda connector_summary: _settled(connector_summary, PAUSED))
IS_STOPPED = WaitGoal(
    "is stopped",
    lambda connector_summary: (
        _settled(connector_summary, STOPPED) and not (connector_summary and connector_summary.tasks)
    ),
    ends_on_failure=False,  # a task that had failed is reported until the stop has taken effect
)
GOALS = {RUNNING: IS_RUNNING, PAUSED: IS_PAUSED, STOPPED: IS_STOPPED}
"""Goal by target state."""

IS_GONE = WaitGoal(
    "is gone", lambda connector_summary: connector_summary is None, ends_on_failure=False
)


def wait_options(command: Decorated) -> Decorated:
    """Add `--wait` and `--timeout`; the command gets `wait_s`, None without `--wait`.

    A dry run never waits: it changes nothing.
    """

    @functools.wraps(command)
    def with_wait(*, wait: bool, timeout: float, **arguments: Any) -> Any:
        waits = wait and not arguments.get("dry_run")
        return command(wait_s=timeout if waits else None, **arguments)

    for option in reversed(_OPTIONS):
        with_wait = option(with_wait)
    return with_wait  # type: ignore[return-value]  # click's decorators change the type


_OPTIONS = (
    click.option("--wait", is_flag=True, help="Wait until the change has taken effect."),
    click.option(
        "--timeout",
        type=Number(0),
        default=60.0,
        metavar="SECONDS",
        help="Longest time in seconds for --wait. [default: 60]",
    ),
)


async def present_goal(api: Api, name: str) -> WaitGoal | None:
    """Goal of a connector: its target state; None if there is no such connector."""
    present = await summary(api, name)
    return None if present is None else GOALS[await target_state(api, present)]


async def goal_after_change(api: Api, name: str, within_s: float | None) -> WaitGoal:
    """Goal of a change that keeps the target state; ask for it before the change.

    `within_s` None: nobody will wait, so nothing is asked.
    """
    goal = None if within_s is None else await present_goal(api, name)
    return goal or IS_RUNNING


async def wait_for(
    api: Api,
    name: str,
    goal: WaitGoal,
    within_s: float | None,
    latest: ConnectorSummary | None = None,
) -> ConnectorSummary | None:
    """Poll until the goal is reached; return the last state. `within_s` None: return at once.

    `latest`: state of a poll just before, which takes the place of the first poll.

    Raises:
        WaitTimedOut: the goal was not reached in time.
        ConnectorFailed: the connector or one of its tasks fails.
    """
    if within_s is None:
        return latest
    reached = failed = 0
    async for state in _polls(api, name, goal.words, within_s, latest):
        reached = reached + 1 if goal.reached(state) else 0
        failed = (
            failed + 1
            if goal.ends_on_failure and state is not None and FAILED in state.states
            else 0
        )
        if reached == POLLS_TO_SUCCEED:
            return state
        if failed == POLLS_TO_FAIL:
            raise ConnectorFailed(
                f"{name} fails ({_words(state)}): `controlplane describe` shows its trace"
            )
    raise AssertionError  # the polls end with an error


async def wait_until_stopped(api: Api, name: str, within_s: float) -> None:
    """Wait until the tasks of a stopped connector have ended: they commit offsets as they end.

    Raises:
        WaitTimedOut: the tasks have not ended in time.
    """
    await _wait_with_worker(api, name, STOPPED, within_s)


async def wait_until_running(api: Api, name: str, within_s: float) -> None:
    """Wait until a resumed connector and its tasks run.

    Raises:
        WaitTimedOut: they do not run in time.
        ConnectorFailed: the connector or one of its tasks fails.
    """
    await _wait_with_worker(api, name, RUNNING, within_s)


async def _wait_with_worker(api: Api, name: str, state: str, within_s: float) -> None:
    """Wait for a target state that has just been set, if a worker runs the connector.

    Kafka's workers always do. Our service may have no worker: then this returns after `REPORT_S`
    at the latest.
    """
    latest = None
    if api.server.ours:
        if api.is_log or await api.find(connector(name, "status")) is None:
            return
        try:
            latest = await wait_for(api, name, _reports(state), REPORT_S)
        except WaitTimedOut:
            return
    await wait_for(api, name, GOALS[state], within_s, latest)


def _reports(state: str) -> WaitGoal:
    """Goal: the connector itself has this state, or has failed."""
    return WaitGoal(
        f"reports {state}",
        lambda present: present is not None and present.state in {state, FAILED},
        ends_on_failure=False,
    )


async def _polls(
    api: Api, name: str, words: str, within_s: float, latest: ConnectorSummary | None
) -> AsyncIterator[ConnectorSummary | None]:
    """Yield the state of a connector again and again, and show it on the progress line.

    The first state is `latest`, unless it is None.

    Raises:
        WaitTimedOut: the time is over.
    """
    deadline = asyncio.get_running_loop().time() + within_s
    with working(f"waiting until {name} {words}") as show:
        while True:
            state = latest or await _poll(api, name)
            latest = None
            yield state
            show(f"waiting until {name} {words}: {_words(state)}")
            if asyncio.get_running_loop().time() > deadline:
                raise WaitTimedOut(
                    f"the change of {name} was accepted, but has no effect after {within_s:g} s "
                    f"({_words(state)}). Check that a worker runs, or give a longer --timeout if "
                    "the command has it"
                )
            await asyncio.sleep(POLL_S)


async def _poll(api: Api, name: str) -> ConnectorSummary | None:
    """Fetch a connector. The status of a deleted one remains for a while."""
    present = await summary(api, name)
    if present is not None:
        return present
    status = await api.find(connector(name, "status"))
    return None if status is None else ConnectorSummary(name, {"tasks": []}, status)


def _words(state: ConnectorSummary | None) -> str:
    if state is None:
        return "no such connector"
    return f"connector {state.state}, tasks: {state.tasks_in_words}"
