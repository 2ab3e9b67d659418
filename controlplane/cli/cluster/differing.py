"""`diff`: how connectors differ from files, or from how they were at another moment."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import click

from controlplane.cli.cluster.api import Api, connector
from controlplane.cli.cluster.apply import changes_of
from controlplane.cli.cluster.exits import Declined
from controlplane.cli.cluster.files import Wanted, read_wanted
from controlplane.cli.cluster.offsets import offsets_in
from controlplane.cli.cluster.output import output_option, print_document
from controlplane.cli.cluster.selecting import complete
from controlplane.cli.cluster.verbs import asks_now
from controlplane.cli.failing import FOUND
from controlplane.cli.printing import say
from controlplane.cli.tables import table
from controlplane.core import shown
from controlplane.core.diff import Aspect


class Fact(NamedTuple):
    """What about a connector: an aspect, and which one where there are several."""

    aspect: Aspect
    item: str = ""


class Difference(NamedTuple):
    """One fact that differs; None: absent."""

    connector: str
    fact: Fact
    before: Any
    after: Any

    def row(self) -> tuple[str, str, str]:
        """As a line of a table, without secrets."""
        aspect, item = self.fact
        what = " ".join(filter(None, (aspect.value, shown.item(aspect, item))))
        return self.connector, what, shown.change(aspect, item, self.before, self.after)

    def document(self) -> dict[str, Any]:
        """As JSON."""
        facts = {"aspect": self.fact.aspect.value, "item": self.fact.item}
        return {"connector": self.connector, **facts, "before": self.before, "after": self.after}


@asks_now(
    "diff",
    click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=complete),
    click.option("-f", "--file", "files", multiple=True, metavar="FILE", help="As for `apply`."),
    click.option("--from", "begin", metavar="MOMENT", help="config@57, a time, a vector. Ours."),
    click.option("--to", "end", metavar="MOMENT", help="The same. [default: now]"),
    output_option,
)
async def diff(  # noqa: PLR0913, PLR0917 - click gives one argument per option
    api: Api,
    names: tuple[str, ...],
    files: tuple[str, ...],
    begin: str | None,
    end: str | None,
    output: str,
) -> None:
    """How connectors differ from what files want (-f), or from how they were (--from).

    Exit code 1: they do.
    """
    if bool(files) is (begin is not None) or (files and (names or end)):
        raise click.UsageError("say -f FILE, or --from MOMENT and perhaps --to and names")
    if files:
        found = [one for wanted in read_wanted(files) for one in await _from_file(api, wanted)]
    else:
        api.need("past to compare with")
        found = await _between(api, names, {"as_of": begin or ""}, {"as_of": end} if end else {})
    if output != "table":
        print_document([one.document() for one in found], output)
    elif found:
        table(("CONNECTOR", "WHAT", "CHANGE"), [one.row() for one in found])
    else:
        say("no difference")
    if found:
        raise SystemExit(FOUND)


async def _from_file(api: Api, wanted: Wanted) -> list[Difference]:
    present = await api.find(connector(wanted.name, "config"))
    changed = changes_of(present or {}, wanted.config)
    return [
        Difference(wanted.name, Fact(Aspect.CONFIG, key), one["before"], one["after"])
        for key, one in changed.items()
    ]


Moment = Mapping[str, str]
"""What is asked beside the path: `as_of`, or nothing for now."""


async def _between(
    api: Api, names: tuple[str, ...], begin: Moment, end: Moment
) -> list[Difference]:
    known = {*await api.get("/connectors", **begin), *await api.get("/connectors", **end)}
    if unknown := set(names) - known:
        raise Declined(f"there is no connector {min(unknown)}, neither then nor at the end")
    found: list[Difference] = []
    for name in names or sorted(known):
        before, after = await _facts(api, name, begin), await _facts(api, name, end)
        facts = sorted({*before, *after}, key=lambda one: (one.aspect.value, one.item))
        pairs = ((fact, before.get(fact), after.get(fact)) for fact in facts)
        found += [Difference(name, *pair) for pair in pairs if pair[1] != pair[2]]
    return found


async def _facts(api: Api, name: str, moment: Moment) -> dict[Fact, Any]:
    """All that is said of a connector at a moment; nothing where there is none."""
    info = await api.find(connector(name), **moment)
    if info is None:
        return {}
    facts = {Fact(Aspect.CONFIG, key): value for key, value in info["config"].items()}
    facts[Fact(Aspect.TASKS)] = len(info["tasks"])
    facts |= _reported(await api.find(connector(name, "status"), **moment))
    topics = (await api.get(connector(name, "topics"), **moment))[name]["topics"]
    facts |= {Fact(Aspect.ACTIVE_TOPIC, topic): topic for topic in topics}
    if info["type"] != "sink":  # whose offsets lie in a consumer group, and have no past
        facts |= dict(_offsets(await api.get(connector(name, "offsets"), **moment)))
    return facts


def _reported(status: Any) -> dict[Fact, Any]:
    if status is None:
        return {}
    tasks = {Fact(Aspect.TASK_STATUS, str(one["id"])): one for one in status["tasks"]}
    return {Fact(Aspect.STATUS): status["connector"], **tasks}


def _offsets(body: Any) -> Iterator[tuple[Fact, Any]]:
    for one in offsets_in(body):
        partition = json.dumps(one["partition"], sort_keys=True, ensure_ascii=False)
        yield Fact(Aspect.SOURCE_OFFSET, partition), one["offset"]
