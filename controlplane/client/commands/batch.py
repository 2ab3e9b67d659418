"""One command for several connectors: one plan, one change after the other, and a summary."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

import click

from controlplane.client.commands.documents import TABLE, print_document
from controlplane.client.commands.plan_tables import PlanDocument, print_plan, print_plans
from controlplane.client.http.api import Api
from controlplane.client.http.request_errors import worst
from controlplane.core.text.safe_text import count
from controlplane.terminal.command_errors import flush
from controlplane.terminal.option_names import Decorated
from controlplane.terminal.output import note, say
from controlplane.terminal.progress_bar import working
from controlplane.terminal.tables import table

FAILED, INTERRUPTED, NOT_BEGUN = "failed", "interrupted", "not begun"
"""Results of connectors whose command failed, was cut off, or was never sent."""


class ConnectorResult(NamedTuple):
    """Result of a command for one connector."""

    name: str
    outcome: str
    """`created`, `paused`, …; for a dry run, the outcome that the command would have."""
    words: str = ""
    """Details for people."""
    facts: Mapping[str, Any] = {}
    """Details for machines."""
    plan: PlanDocument | None = None
    """The plan of a dry run."""

    @property
    def result(self) -> str:
        """Outcome; for a dry run, `would be` stands before it."""
        return self.outcome if self.plan is None else f"would be {self.outcome}"

    def document(self) -> dict[str, Any]:
        """Result as JSON: `connector`, `result`, the facts, and `plan` for a dry run."""
        plan = {} if self.plan is None else {"plan": self.plan}
        return {"connector": self.name, "result": self.result, **self.facts, **plan}

    def say(self) -> None:
        """Print the result on one line, or the plan of a dry run as a table."""
        if self.plan is not None:
            print_plan(f"{self.name} {self.result}", self.plan)
        else:
            say(f"{self.name}: {self.outcome}{self.words and f' ({self.words})'}")


ConnectorAction = Callable[[str], Awaitable[ConnectorResult]]
"""Acts on the connector of this name, or plans the action."""


async def act_on_each(names: Sequence[str], act: ConnectorAction, output: str) -> None:
    """Act on each connector in turn; a refusal is printed, and the next connector follows.

    For several connectors, dry runs are printed as one plan, and a table summarises the results.
    After Ctrl-C the table also has the connectors that were not reached.

    Raises:
        SystemExit: some connectors were refused; `worst` decides the exit code.
        ClickException: the only connector was refused.
    """
    if not names:
        note("no connector is selected: none matches")
    batch = _BatchRun(names, act, output)
    try:
        await batch.run()
    except asyncio.CancelledError:
        batch.interrupt()
        batch.print()
        raise
    batch.print()
    if batch.failures:
        raise SystemExit(worst(batch.failures))


class ConnectorChange(NamedTuple):
    """Change of one connector: the request for its plan, and the change itself."""

    plan: ConnectorAction
    act: ConnectorAction
    ask_user: Callable[[], None] = lambda: None
    """Asks for confirmation between the plan and the first change; raises Abort on a no."""


async def change_each(
    api: Api, names: Sequence[str], requested: ConnectorChange, output: str, *, dry_run: bool
) -> None:
    """Change each connector in turn, after the plan for all; a dry run only plans.

    Raises:
        Unsupported: a dry run is requested, but the server has no dry runs.
        SystemExit, ClickException: as `act_on_each` does.
    """
    if dry_run:
        api.need("dry run")
        await act_on_each(names, requested.plan, output)
        return
    await show_plans(api, names, requested.plan, output)
    requested.ask_user()
    await act_on_each(names, requested.act, output)


async def show_plans(api: Api, names: Sequence[str], plan: ConnectorAction, output: str) -> None:
    """Print one plan for several connectors, before any of them is changed.

    If a plan fails, the reason is printed. The change is requested nevertheless, because only the
    server may refuse it. Nothing is printed for Kafka's workers, which have no plans. Output
    in JSON and YAML has results only.
    """
    if len(names) < SEVERAL or output != TABLE or not api.server.ours:
        return
    results: list[ConnectorResult] = []
    for number, name in enumerate(names, 1):
        with working(f"planning {number} of {len(names)}: {name}"):
            try:
                results.append(await plan(name))
            except click.ClickException as failure:
                _note_lines(f"{name}: no plan: {failure.message}")
    _print_plans(results)
    flush()  # a pipe, too, gets the plan before the first change


SEVERAL = 2
"""Least number of connectors for which one plan and one summary are printed."""


class _BatchRun:
    """Connectors that a command acts on, one by one, with the results so far."""

    def __init__(self, names: Sequence[str], act: ConnectorAction, output: str) -> None:
        self._names = names
        self._act = act
        self._output = output
        self._several = len(names) >= SEVERAL
        self._results: list[ConnectorResult] = []
        self.failures: list[click.ClickException] = []

    async def run(self) -> None:
        """Act on each connector in turn.

        Raises:
            ClickException: the only connector was refused.
        """
        for number, name in enumerate(self._names, 1):
            try:
                with working(f"{number} of {len(self._names)}: {name}"):
                    result = await self._act(name)
            except click.ClickException as failure:
                if not self._several:
                    raise
                self._fail(name, failure)
            else:
                self._results.append(result)
                if self._output == TABLE and not (self._several and result.plan is not None):
                    result.say()
                    flush()

    def _fail(self, name: str, failure: click.ClickException) -> None:
        self.failures.append(failure)
        facts = {"error": failure.message, "exit_code": failure.exit_code}
        self._results.append(ConnectorResult(name, FAILED, failure.message, facts))
        _note_lines(f"Error: {name}: {failure.message}")

    def interrupt(self) -> None:
        """Add the results of the connectors that Ctrl-C has left unfinished."""
        left = self._names[len(self._results) :]
        self._results += [
            ConnectorResult(name, NOT_BEGUN if number else INTERRUPTED)
            for number, name in enumerate(left)
        ]
        if left:
            note(f"{left[0]}: interrupted; the request may have been carried out, so check")

    def print(self) -> None:
        """Print the output about all connectors: the documents, or the plan and the summary."""
        if self._output != TABLE:
            print_document([result.document() for result in self._results], self._output)
        elif self._several:
            _print_plans(self._results)
            if self.failures or all(result.plan is None for result in self._results):
                _print_summary(self._results)


def _note_lines(text: str) -> None:
    """Write a note of several lines: `note` alone would escape the line breaks of a refusal."""
    for line in text.splitlines():
        note(line)


def _print_plans(results: Sequence[ConnectorResult]) -> None:
    """Print the plans of results as one."""
    plans = [(result.name, result.plan) for result in results if result.plan is not None]
    if plans:
        outcome = " or ".join(dict.fromkeys(result.outcome for result in results if result.plan))
        print_plans(f"{count(len(plans), 'connector')} would be {outcome}", plans)


def _print_summary(results: Sequence[ConnectorResult]) -> None:
    """Print how many connectors had each result, and which."""
    names: dict[str, list[str]] = {}
    for result in results:
        names.setdefault(result.result, []).append(result.name)
    say()
    rows = [
        (outcome, str(len(affected)), ", ".join(affected)) for outcome, affected in names.items()
    ]
    table(("RESULT", "NUMBER", "CONNECTORS"), rows)


def dry_run_option(
    command: Decorated, *, with_kafka: str = "Kafka's workers do not support it."
) -> Decorated:
    """Add `--dry-run`; the command gets `dry_run`.

    `with_kafka`: sentence about the effect of the option on Kafka's workers.
    """
    return click.option(
        "--dry-run",
        is_flag=True,
        help=f"Show the records that the command would write; write none. {with_kafka}",
    )(command)


def yes_option(command: Decorated) -> Decorated:
    """Add `--yes`; the command gets `yes`."""
    return click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")(command)


async def change(
    api: Api, method: str, path: str, result: ConnectorResult, *, dry_run: bool
) -> ConnectorResult:
    """Request a change without a body, or its plan; return `result`, with the plan if any."""
    answer = await api.send(method, path, dry_run=dry_run)
    return result._replace(plan=answer.body) if dry_run else result
