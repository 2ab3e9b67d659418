"""Doing something to several connectors: each for itself, and what came of each."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

import click

from controlplane.client.commands.documents import print_document
from controlplane.client.commands.plan_table import print_plan
from controlplane.client.http.api import Api
from controlplane.client.http.request_errors import worst
from controlplane.terminal.option_names import Decorated
from controlplane.terminal.output import note, say


class ConnectorResult(NamedTuple):
    """Result of a command for one connector."""

    name: str
    did: str
    """`created`, `paused`; of a dry run what would have been."""
    words: str = ""
    """More for people."""
    facts: Mapping[str, Any] = {}
    """More for machines."""
    plan: Mapping[str, Any] | None = None
    """The plan of a dry run."""

    def document(self) -> dict[str, Any]:
        """All of it for machines."""
        plan = {} if self.plan is None else {"plan": self.plan}
        return {"connector": self.name, "result": self.did, **self.facts, **plan}

    def say(self) -> None:
        """All of it for people."""
        if self.plan is not None:
            print_plan(f"{self.name} would be {self.did}", self.plan)
        else:
            say(f"{self.name}: {self.did}{self.words and f' ({self.words})'}")


async def each(
    names: Sequence[str], act: Callable[[str], Awaitable[ConnectorResult]], output: str
) -> None:
    """Act on each in turn. One that is refused keeps nobody from the others, and is told of.

    Raises:
        SystemExit: some were refused; the exit code is that of the worst.
        ClickException: the only one was.
    """
    told: list[ConnectorResult] = []
    failures: list[click.ClickException] = []
    for name in names:
        try:
            told.append(await act(name))
        except click.ClickException as failure:
            if len(names) == 1:
                raise
            failures.append(failure)
            note(f"Error: {name}: {failure.message}")
        else:
            if output == "table":
                told[-1].say()
    if output != "table":
        print_document([one.document() for one in told], output)
    if failures:
        raise SystemExit(worst(failures))


def dry_run_option(command: Decorated) -> Decorated:
    """Add `--dry-run`; the command gets `dry_run`."""
    return click.option(
        "--dry-run",
        is_flag=True,
        help="Show the records that it would write; write none. Ours only.",
    )(command)


def yes_option(command: Decorated) -> Decorated:
    """Add `--yes`; the command gets `yes`."""
    return click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")(command)


def confirm(question: str, *, yes: bool) -> None:
    """Ask on the terminal, unless `--yes` has answered.

    Raises:
        Abort: no, or nobody is there to answer.
    """
    if not yes:
        click.confirm(question, abort=True, err=True)


async def change(
    api: Api, method: str, path: str, told: ConnectorResult, *, dry_run: bool
) -> ConnectorResult:
    """Ask for a change that needs no words, or for its plan; `told` is what comes of it."""
    given = await api.send(method, path, dry_run=dry_run)
    return told._replace(plan=given.body) if dry_run else told
