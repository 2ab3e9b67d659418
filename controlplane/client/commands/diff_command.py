"""`diff`: how connectors differ from files, or from how they were at another moment."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import click

from controlplane.client.commands.apply_command import changes_of
from controlplane.client.commands.documents import output_option, print_document
from controlplane.client.commands.history_commands import every
from controlplane.client.commands.verbs import asks_now
from controlplane.client.connectors.connector_files import DeclaredConnector, read_wanted
from controlplane.client.connectors.selection import complete
from controlplane.client.http.api import Api, connector
from controlplane.core.text import value_text
from controlplane.core.views.diff import Aspect
from controlplane.terminal.command_errors import FOUND
from controlplane.terminal.log_options import not_empty
from controlplane.terminal.output import say
from controlplane.terminal.shell_completion import complete_files
from controlplane.terminal.tables import table


class DiffSubject(NamedTuple):
    """Subject of a difference: an aspect of a connector, and an item if it has several."""

    aspect: Aspect
    item: str = ""


class ConnectorDifference(NamedTuple):
    """A difference in one fact about a connector; None: absent."""

    connector: str
    fact: DiffSubject
    before: Any
    after: Any
    words: str | None = None
    """Description of the change by the server; None: it is described here."""
    record: Mapping[str, Any] | None = None
    """The record that the difference is due to; None: unknown, or a file wants it."""

    def row(self) -> tuple[str, str, str]:
        """As a line of a table, without secrets."""
        aspect, item = self.fact
        what = " ".join(filter(None, (aspect.value, value_text.item(aspect, item))))
        words = self.words or value_text.change(aspect, item, self.before, self.after)
        return self.connector, what, words

    def document(self) -> dict[str, Any]:
        """As JSON. Words tell of a secret that changed, where both values are hidden."""
        facts = {"aspect": self.fact.aspect.value, "item": self.fact.item}
        values = {"before": self.before, "after": self.after}
        told = {"words": self.words, "record": self.record}
        known = {name: value for name, value in told.items() if value is not None}
        return {"connector": self.connector, **facts, **values, **known}


def _prepared(arguments: dict[str, Any]) -> dict[str, Any]:
    """Replace the names of files by the connectors in them.

    Raises:
        UsageError: neither files nor a moment are named, or both.
    """
    files, names, end = (arguments[name] for name in ("files", "names", "end"))
    if bool(files) is (arguments["begin"] is not None) or (files and (names or end)):
        raise click.UsageError("say -f FILE, or --from MOMENT and perhaps --to and names")
    return {**arguments, "files": read_wanted(files) if files else []}


@asks_now(
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
        help="First moment: config@57, a time, a vector of end offsets. Ours only.",
    ),
    click.option(
        "--to",
        "end",
        metavar="MOMENT",
        callback=not_empty,
        help="Second moment, in the same forms. Ours only. [default: now]",
    ),
    output_option,
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

    Exit code 1: they do.
    """
    if files:
        found = [one for wanted in files for one in await _from_file(api, wanted)]
    else:
        api.need("past to compare with")
        found = await _between(api, names, begin or "", end)
    if output != "table":
        print_document([one.document() for one in found], output)
    elif found:
        table(("CONNECTOR", "WHAT", "CHANGE"), [one.row() for one in found])
    else:
        say("no difference")
    if found:
        raise SystemExit(FOUND)


async def _from_file(api: Api, wanted: DeclaredConnector) -> list[ConnectorDifference]:
    present = await api.find(connector(wanted.name, "config"))
    changed = changes_of(present or {}, wanted.config)
    return [
        ConnectorDifference(
            wanted.name, DiffSubject(Aspect.CONFIG, key), one["before"], one["after"]
        )
        for key, one in changed.items()
    ]


async def _between(
    api: Api, names: tuple[str, ...], begin: str, end: str | None
) -> list[ConnectorDifference]:
    """Differences between two moments, as our server finds them; secrets are hidden in them."""
    moments = {"from": begin, **({"as_of": end} if end else {})}
    chosen: list[dict[str, str]] = [{"connector": name} for name in names] or [{}]
    rows = [row for one in chosen for row in await every(api, "/diff", "changes", **moments, **one)]
    return [_difference(row) for row in rows]


def _difference(row: Mapping[str, Any]) -> ConnectorDifference:
    fact = DiffSubject(Aspect(row["aspect"]), row["item"])
    return ConnectorDifference(
        row["connector"], fact, row["before"], row["after"], row["words"], row["record"]
    )
