"""`offsets`: show, edit, alter or reset the offsets of a connector (KIP-875); its progress."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, nullcontext
from pathlib import Path
from shlex import quote
from typing import Any

import click

from controlplane.client.commands.batch import (
    ConnectorResult,
    act_on_each,
    dry_run_option,
    yes_option,
)
from controlplane.client.commands.documents import TABLE, output_option, print_document
from controlplane.client.commands.verbs import change_command, read_command, verb
from controlplane.client.connectors.connector_files import document_in, read_text
from controlplane.client.connectors.connector_summary import PAUSED, STOPPED, summary, target_state
from controlplane.client.connectors.offset_lists import (
    OffsetEntry,
    alteration,
    alteration_rows,
    offsets_in,
    present_offsets,
    rows,
)
from controlplane.client.connectors.progress import (
    SINK_HEADS,
    SOURCE_HEADS,
    UNKNOWN,
    ProgressAnswer,
    progress,
    reasons,
    sink_rows,
    source_rows,
)
from controlplane.client.connectors.selection import name_argument
from controlplane.client.connectors.wait import wait_until_stopped
from controlplane.client.http.api import Api, ApiAnswer, connector
from controlplane.client.http.request_errors import Declined, Unavailable
from controlplane.core.moments import quoted
from controlplane.core.text.safe_text import count
from controlplane.event_loop import now_ms
from controlplane.terminal.command_errors import InputRefused
from controlplane.terminal.output import note, say
from controlplane.terminal.prompts import confirm
from controlplane.terminal.shell_completion import complete_files
from controlplane.terminal.tables import table

STOP_S = 60.0
"""Longest time in seconds for tasks to stop before their offsets are altered."""

stop_option = click.option(
    "--stop",
    is_flag=True,
    help="Stop the connector first, and restore its target state afterwards.",
)


@read_command("get", name_argument, output_option)
async def get(api: Api, name: str, output: str) -> None:
    """Show the offsets of a connector. `offsets alter -f` takes the JSON output.

    The table also has the lag of a sink, and the last change of each offset of a source. Kafka's
    workers report neither.
    """
    entries = await present_offsets(api, name)
    if output != TABLE:
        print_document({"offsets": entries}, output)
        return
    shown = await _known_progress(api, name) if entries else None
    if shown is not None:
        _print_progress(api, name, shown)
    elif entries:
        table(("PARTITION", "OFFSET"), rows(entries))
    else:
        say(f"{name} has no offsets")


async def _known_progress(api: Api, name: str) -> ProgressAnswer | None:
    """Fetch the progress of a connector; None: the server does not know it."""
    if not api.server.ours:
        return None
    try:
        return await progress(api, name)
    except Declined:  # /compat has no such endpoint
        return None


@read_command("progress", name_argument, output_option)
async def show_progress(api: Api, name: str, output: str) -> None:
    """Show the lag of a sink, or when each offset of a source last changed.

    For a sink: the committed offset and the end of each partition, and the number of records in
    between. For a source: the time, the age and the record of the last change of each offset.
    """
    shown = await progress(api, name)
    if output != TABLE:
        print_document(shown, output)
    else:
        _print_progress(api, name, shown)


def _print_progress(api: Api, name: str, shown: ProgressAnswer) -> None:
    if not shown["offsets"]:
        say(f"{name} has no offsets")
    elif shown["type"] == "sink":
        table(SINK_HEADS, sink_rows(shown))
        lag = UNKNOWN if shown["lag"] is None else count(shown["lag"], "record")
        say(f"lag of consumer group {shown['group']}: {lag}")
        for reason in reasons(shown):
            note(reason)
    else:
        table(SOURCE_HEADS, source_rows(shown, None if api.shows_past else now_ms()), spare=_SPARE)


_SPARE = ("RECORD",)
"""Columns of a source's table that a narrow terminal has no room for."""


# --- changing -----------------------------------------------------------------------------------


@change_command(
    "alter",
    name_argument,
    click.option(
        "-f",
        "--file",
        metavar="FILE",
        help="File of offsets, as `offsets get -o json` prints them, or - for standard input.",
        shell_complete=complete_files,
    ),
    click.option(
        "--source-partition",
        metavar="JSON",
        help="Source partition that gets the offset; needs --source-offset.",
    ),
    click.option("--source-offset", metavar="JSON", help="New source offset; null removes it."),
    click.option(
        "--kafka-topic",
        metavar="TOPIC",
        help="Topic that gets the sink's offset; needs --kafka-partition and --kafka-offset.",
    ),
    click.option("--kafka-partition", type=int, metavar="N", help="Partition of --kafka-topic."),
    click.option("--kafka-offset", type=int, metavar="N", help="New offset of that partition."),
    stop_option,
    dry_run_option,
    output_option,
)
async def alter(  # noqa: PLR0913 - click gives one argument per option
    api: Api, name: str, file: str | None, output: str, *, stop: bool, dry_run: bool, **single: Any
) -> None:
    """Alter some offsets of a stopped connector; the others stay."""
    entries = [_single(single)] if file is None else _of_file(file, single)

    async def act(_: str) -> ConnectorResult:
        return await _altered(api, name, entries, stop=stop, dry_run=dry_run)

    await act_on_each([name], act, output)


def _single(flags: dict[str, Any]) -> OffsetEntry:
    """The offset that the flags give; kcctl has the same flags."""
    source = flags["source_partition"], flags["source_offset"]
    sink = flags["kafka_topic"], flags["kafka_partition"], flags["kafka_offset"]
    if None not in source and not any(value is not None for value in sink):
        return {
            "partition": _json("--source-partition", source[0]),
            "offset": _json("--source-offset", source[1]),
        }
    if None not in sink and not any(value is not None for value in source):
        topic, partition, offset = sink
        return {
            "partition": {"kafka_topic": topic, "kafka_partition": partition},
            "offset": {"kafka_offset": offset},
        }
    raise click.UsageError(_ONE_FORM)


_ONE_FORM = (
    "give -f FILE; or --source-partition and --source-offset; or --kafka-topic, --kafka-partition "
    "and --kafka-offset"
)


def _json(option: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{option}: {quoted(text)} is no JSON ({error})") from None


def _of_file(file: str, flags: Mapping[str, Any]) -> list[OffsetEntry]:
    """The offsets of a file.

    Raises:
        UsageError: flags give another offset.
        InputRefused: the file has no offsets.
    """
    if any(value is not None for value in flags.values()):
        raise click.UsageError(_ONE_FORM)
    text = read_text(file, "offsets as `offsets get -o json` prints them")
    try:
        return offsets_in(document_in(text, Path(file).suffix))
    except ValueError as error:
        raise InputRefused(f"{file} has no offsets: {error}") from None


async def _altered(
    api: Api, name: str, entries: list[OffsetEntry], *, stop: bool, dry_run: bool
) -> ConnectorResult:
    def ask() -> Awaitable[ApiAnswer]:
        path = connector(name, "offsets")
        return api.send("PATCH", path, {"offsets": entries}, dry_run=dry_run)

    result = ConnectorResult(name, "altered")
    return await _modified(api, result, ask, stop=stop, dry_run=dry_run)


@change_command("reset", name_argument, stop_option, yes_option, dry_run_option, output_option)
async def reset(  # noqa: PLR0913 - click gives one argument per option
    api: Api, name: str, output: str, *, stop: bool, yes: bool, dry_run: bool
) -> None:
    """Remove all offsets of a stopped connector, so that it starts over."""
    if not dry_run:
        number = len(await present_offsets(api, name))
        confirm(f"remove {count(number, 'offset')} of {name}?", yes=yes or not number)

    def ask() -> Awaitable[ApiAnswer]:
        return api.send("DELETE", connector(name, "offsets"), dry_run=dry_run)

    async def act(_: str) -> ConnectorResult:
        result = ConnectorResult(name, "reset")
        return await _modified(api, result, ask, stop=stop, dry_run=dry_run)

    await act_on_each([name], act, output)


async def _modified(
    api: Api,
    result: ConnectorResult,
    ask: Callable[[], Awaitable[ApiAnswer]],
    *,
    stop: bool,
    dry_run: bool,
) -> ConnectorResult:
    """Change offsets by the request `ask`; return `result` with the answer or the plan."""
    name = result.name
    if dry_run:
        with _advising(name, "a dry run stops nothing, so run" if stop else _ADD_STOP):
            return result._replace(plan=(await ask()).body)
    async with stopped(api, name, stop=stop):
        with nullcontext() if stop else _advising(name):
            body = (await ask()).body
    message = body.get("message", "") if isinstance(body, dict) else ""
    return result._replace(words=message, facts={"message": message})


_NOT_STOPPED = "must be in the STOPPED state"
"""Words with which every release refuses to change the offsets of a connector that may run."""

_ADD_STOP = "add --stop, or run"


@contextmanager
def _advising(name: str, advice: str = _ADD_STOP) -> Iterator[None]:
    """Reword Connect's refusal for a running connector: name a command in place of an endpoint."""
    try:
        yield
    except Declined as refused:
        if _NOT_STOPPED not in refused.message:
            raise
        raise Declined(_to_be_stopped(name, "not stopped", advice)) from None


def _to_be_stopped(name: str, state: str, advice: str) -> str:
    return (
        f"{name} is {state}, and only a stopped connector's offsets can be changed: {advice} "
        f"`controlplane stop {quote(name)}` first"
    )


@asynccontextmanager
async def stopped(api: Api, name: str, *, stop: bool) -> AsyncIterator[None]:
    """With `stop`, stop the connector within this context; then restore its target state.

    After any exception the connector stays stopped, and a note names the command to restore it.
    """
    connector_summary = await summary(api, name) if stop else None
    before = STOPPED if connector_summary is None else await target_state(api, connector_summary)
    if before == STOPPED:
        yield
        return
    command, effect = ("pause", "pauses it") if before == PAUSED else ("resume", "starts it")
    advice = f"`controlplane {command} {quote(name)}` {effect} again"
    try:
        await api.send("PUT", connector(name, "stop"))
    except (asyncio.CancelledError, Unavailable):  # the server may have taken the request
        note(f"{name} may be stopped: {advice}")
        raise
    try:
        await wait_until_stopped(api, name, STOP_S)
        yield
        await api.send("PUT", connector(name, command))
    except BaseException:  # a defect of the program also leaves the connector stopped
        note(f"{name} is still stopped: {advice}")
        raise


# --- editing ------------------------------------------------------------------------------------


@change_command("edit", name_argument, stop_option, yes_option, dry_run_option)
async def edit(api: Api, name: str, *, stop: bool, yes: bool, dry_run: bool) -> None:
    """Edit offsets in $EDITOR; shows the changes, and asks for confirmation."""
    before = await present_offsets(api, name)
    if not stop:
        await _check_stopped(api, name, before)
    edited = await _edited(before, asks=not yes)
    altered = alteration(before, edited)
    if not altered:
        say(f"{name}: unchanged")
        return
    table(("PARTITION", "BEFORE", "AFTER"), alteration_rows(before, altered))
    if not dry_run:
        confirm(f"alter {count(len(altered), 'offset')} of {name}?", yes=yes)
        if alteration(before, await present_offsets(api, name)):
            raise Declined(f"the offsets of {name} have changed meanwhile: edit them again")
    (await _altered(api, name, altered, stop=stop, dry_run=dry_run)).say()


async def _check_stopped(api: Api, name: str, before: list[OffsetEntry]) -> None:
    """Check that the offsets can be altered, before the user edits them in vain.

    Raises:
        Declined: the connector is not stopped.
    """
    if api.server.ours and before:
        with _advising(name):
            await api.send("PATCH", connector(name, "offsets"), {"offsets": before}, dry_run=True)
        return
    connector_summary = await summary(api, name)
    if not api.server.ours and connector_summary is not None and connector_summary.state != STOPPED:
        raise Declined(_to_be_stopped(name, connector_summary.state, _ADD_STOP))


async def _edited(before: list[OffsetEntry], *, asks: bool) -> list[OffsetEntry]:
    """Let the user edit offsets.

    With `asks`, the editor may open again if the text is no list of offsets.

    Raises:
        InputRefused: the editor failed; without `asks`, also if the text is no list of offsets.
    """
    document = {"offsets": before}
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    if _SURROGATE.search(text):  # a file can hold it only as an escape
        text = json.dumps(document, indent=2) + "\n"
    while True:
        try:
            edited = await asyncio.to_thread(
                click.edit, text, extension=".json", require_save=False
            )
        except click.ClickException as failure:
            raise InputRefused(
                f"the editor failed ({failure.message}): check $VISUAL and $EDITOR"
            ) from None
        except UnicodeDecodeError:
            raise InputRefused(
                "the editor saved bytes that are no UTF-8: set its encoding, and edit again"
            ) from None
        text = edited or ""
        try:
            return offsets_in(document_in(text))
        except ValueError as error:
            fault = f"these are no offsets: {error}"
            if not asks:
                raise InputRefused(fault) from None
            note(fault)
            confirm("edit them again?", yes=False)


_SURROGATE = re.compile("[\ud800-\udfff]")

offsets = verb(
    "offsets",
    "Show, edit, alter or reset the offsets of a connector; show its lag.",
    "get",
    (get, show_progress, edit, alter, reset),
    part="action",
)
