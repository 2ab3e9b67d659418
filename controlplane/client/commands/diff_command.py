"""`diff`: differences of connectors from files, or between two moments."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import click

from controlplane.client.commands.apply_command import changes_of
from controlplane.client.commands.documents import output_option_of_diff, print_document
from controlplane.client.commands.history_commands import all_rows
from controlplane.client.commands.verbs import read_command_at_present
from controlplane.client.connectors.connector_files import DeclaredConnector, read_declared
from controlplane.client.connectors.selection import complete
from controlplane.client.http.api import Api, connector
from controlplane.core.text import value_text
from controlplane.core.views.diff import Aspect
from controlplane.terminal.exit_codes import FOUND
from controlplane.terminal.log_options import not_empty
from controlplane.terminal.option_names import MOMENT
from controlplane.terminal.output import say
from controlplane.terminal.shell_completion import complete_files
from controlplane.terminal.tables import table


class DiffSubject(NamedTuple):
    """Subject of a difference: an aspect of a connector, and its item (a config key, a task)."""

    aspect: Aspect
    item: str = ""


class ConnectorDifference(NamedTuple):
    """A difference in one fact about a connector; an absent value is None."""

    connector: str
    fact: DiffSubject
    before: Any
    after: Any
    words: str | None = None
    """The server's description of the difference; None: the client describes it."""
    record: Mapping[str, Any] | None = None
    """Record that caused the difference; None: unknown, or the difference is from a file."""

    def row(self) -> tuple[str, str, str]:
        """Row of a table, without secrets."""
        aspect, item = self.fact
        subject = " ".join(filter(None, (aspect.value, value_text.item(aspect, item))))
        words = self.words or value_text.change(aspect, item, self.before, self.after)
        return self.connector, subject, words

    def document(self) -> dict[str, Any]:
        """Difference as JSON; if both values are hidden, `words` says that the secret changed."""
        facts = {"aspect": self.fact.aspect.value, "item": self.fact.item}
        values = {"before": self.before, "after": self.after}
        optional = {"words": self.words, "record": self.record}
        extras = {name: value for name, value in optional.items() if value is not None}
        return {"connector": self.connector, **facts, **values, **extras}


def _prepared(arguments: dict[str, Any]) -> dict[str, Any]:
    """Replace the names of files by the connectors in them.

    Raises:
        UsageError: neither files nor a moment are named, or both.
    """
    files, names, end = (arguments[name] for name in ("files", "names", "end"))
    if bool(files) is (arguments["begin"] is not None) or (files and (names or end)):
        raise click.UsageError("give -f FILE, or --from MOMENT; --to and NAMEs need --from")
    return {**arguments, "files": read_declared(files) if files else []}


@read_command_at_present(
    "diff",
    click.argument(
        "names", metavar="[NAME]...", nargs=-1, callback=not_empty, shell_complete=complete
    ),
    click.option(
        "-f",
        "--file",
        "files",
        multiple=True,
        metavar="FILE",
        callback=not_empty,
        help="File or directory of connectors, as for `apply`. May be repeated.",
        shell_complete=complete_files,
    ),
    click.option(
        "--from",
        "begin",
        metavar="MOMENT",
        callback=not_empty,
        help=f"First moment: {MOMENT}. Kafka's workers do not support it.",
    ),
    click.option(
        "--to",
        "end",
        metavar="MOMENT",
        callback=not_empty,
        help="Second moment, in the same forms. Kafka's workers do not support it. [default: now]",
    ),
    output_option_of_diff,
    prepare=_prepared,
)
async def diff(  # noqa: PLR0913, PLR0917 - click gives one argument per option
    api: Api,
    names: tuple[str, ...],
    files: Sequence[DeclaredConnector],
    begin: str | None,
    end: str | None,
    output: str,
) -> None:
    """Show how connectors differ from files (-f), or from another moment (--from).

    Exit code 1: there are differences.
    """
    if files:
        differences = [difference for file in files for difference in await _from_file(api, file)]
    else:
        api.need("past to compare with")
        differences = await _between(api, names, begin or "", end)
    if output != "table":
        print_document([difference.document() for difference in differences], output)
    elif differences:
        table(("CONNECTOR", "WHAT", "CHANGE"), [difference.row() for difference in differences])
    else:
        say("no difference")
    if differences:
        raise SystemExit(FOUND)


async def _from_file(api: Api, declared: DeclaredConnector) -> list[ConnectorDifference]:
    present = await api.find(connector(declared.name, "config"))
    changed = changes_of(present or {}, declared.config)
    return [
        ConnectorDifference(
            declared.name, DiffSubject(Aspect.CONFIG, key), values["before"], values["after"]
        )
        for key, values in changed.items()
    ]


async def _between(
    api: Api, names: tuple[str, ...], begin: str, end: str | None
) -> list[ConnectorDifference]:
    """Differences between two moments, computed by our server, which hides secrets."""
    moments = {"from": begin, **({"as_of": end} if end else {})}
    filters: list[dict[str, str]] = [{"connector": name} for name in names] or [{}]
    return [
        _difference(row)
        for filter_ in filters
        for row in await all_rows(api, "/diff", "changes", **moments, **filter_)
    ]


def _difference(row: Mapping[str, Any]) -> ConnectorDifference:
    fact = DiffSubject(Aspect(row["aspect"]), row["item"])
    return ConnectorDifference(
        row["connector"], fact, row["before"], row["after"], row["words"], row["record"]
    )
