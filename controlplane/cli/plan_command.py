"""The command `plan`: a request, or an undo, and the point of a log at which it comes."""

import asyncio
import re
import sys
from pathlib import Path
from typing import NamedTuple

import click
import msgspec

from controlplane.cli.inspect.overview import heading
from controlplane.cli.opened_log import InputLog, opened
from controlplane.cli.plan_printer import print_document, print_plan
from controlplane.core.commands import AnyCommand
from controlplane.core.context import Context
from controlplane.core.decide.assumptions import IMPORT_AGAIN, partition_assumptions
from controlplane.core.decide.undo import restoration
from controlplane.core.plan import GroupOffsets, Plan, Rejected
from controlplane.core.releases.profiles import KIP
from controlplane.core.state import ClusterState
from controlplane.core.text.file_errors import unreadable
from controlplane.core.text.redaction import redacted_refusal
from controlplane.logs.names import is_embedded
from controlplane.read_only.forecast import Forecast, forecast
from controlplane.rest.endpoints.command_responses import CompletedCommand
from controlplane.rest.endpoints.offline import command_of
from controlplane.rest.endpoints.writes import shown
from controlplane.rest.errors import NoSuchMethod, NoSuchPath, RestError, refused
from controlplane.settings import WorkerSettings
from controlplane.settings.worker import decision_settings
from controlplane.terminal.command_errors import FOUND, InputRefused
from controlplane.terminal.log_options import (
    LogOptions,
    log_options,
    output_option,
    plugins_option,
    read_plugins,
    read_profile,
    trust_option,
)
from controlplane.terminal.option_names import named_option
from controlplane.terminal.output import print_json, say
from controlplane.terminal.shell_completion import complete_files

STDIN = "-"
"""A body that comes from standard input."""

_COMMITTED = re.compile(r"(?P<topic>[\w.-]+):(?P<partition>\d{1,9})=(?P<offset>\d{1,18})", re.ASCII)


class PlanSubject(NamedTuple):
    """The command to plan: a request, or an undo."""

    method: str = ""
    path: str = ""
    body: bytes | None = None
    signed: bool = False
    undo: str | None = None
    to: str = ""
    offsets: bool = False
    believe_hooks: bool = False


@click.command
@click.argument("log", shell_complete=complete_files)
@click.argument("method", required=False)
@click.argument("path", required=False)
@click.argument("body", required=False)
@named_option(
    "--release",
    "profile",
    former=("--profile",),
    default=KIP,
    metavar="RELEASE",
    help="Release to decide and write as. [default: kip]",
)
@click.option("--as-of", metavar="MOMENT", help="A time, config@57, or a vector of end offsets.")
@click.option(
    "--undo",
    metavar="CONNECTOR",
    help="Restore a connector to the moment --to, instead of a request.",
)
@click.option("--to", metavar="MOMENT", help="When it was as it shall be again.")
@click.option("--offsets", is_flag=True, help="Undo the connector's source offsets as well.")
@click.option("--exactly-once", is_flag=True, help="As a worker with that support does.")
@click.option(
    "--group",
    metavar="OFFSETS",
    help="Committed offsets of a sink's consumer group: topic:partition=offset,… [default: none]",
)
@click.option(
    "--believe-hooks",
    is_flag=True,
    help="Call no offset hook of a connector, not even one in Python.",
)
@click.option("--signed", is_flag=True, help="Take an internal request as signed by a worker.")
@plugins_option
@trust_option
@output_option
@log_options
def plan(  # noqa: PLR0913, PLR0917 - click gives one argument per option
    log: str,
    method: str | None,
    path: str | None,
    body: str | None,
    profile: str,
    as_of: str | None,
    undo: str | None,
    to: str | None,
    offsets: bool,
    exactly_once: bool,
    group: str | None,
    believe_hooks: bool,
    signed: bool,
    trust_unknown_classes: bool,
    plugins: Path | None,
    output: str,
    reading: LogOptions,
) -> None:
    """Show what a request would write at this point of a LOG, or why it would be refused.

    METHOD and PATH are those of Connect's REST API; BODY is the JSON itself, @FILE, or - for
    standard input. Nothing is written and no worker is asked; of connectors, only those in Python
    are asked about offsets, which may change what they keep elsewhere: --believe-hooks asks none.

    Exit code 1: refused.
    """
    if offsets and undo is None:
        raise click.UsageError("--offsets is for --undo")
    asked = _asked(method, path, body, undo, to)
    asked = asked._replace(signed=signed, offsets=offsets, believe_hooks=believe_hooks)
    support = exactly_once or reading.settings.exactly_once
    worker = reading.configuration.make(WorkerSettings, decision_settings)
    context = Context(
        profile=read_profile(profile, exactly_once=support),
        worker=msgspec.structs.replace(worker, exactly_once_source=support),
        plugins=read_plugins(plugins, reading.settings, trusting=trust_unknown_classes),
    )
    question = _PlanRequest(asked, context, _group(group), output)
    asyncio.run(_answer(log, reading, question, exactly_once=support, as_of=as_of))


class _PlanRequest(NamedTuple):
    asked: PlanSubject
    context: Context
    group: GroupOffsets | None
    output: str


_TELL = "--partitions {}=N tells it"
"""Advice on how to tell the number of partitions of a dump."""


async def _answer(
    where: str,
    reading: LogOptions,
    question: _PlanRequest,
    *,
    exactly_once: bool,
    as_of: str | None,
) -> None:
    async with opened(where, reading, exactly_once=exactly_once, as_of=as_of) as source:
        state = await source.state(question.context.profile)
        try:
            command = await _command(source, state, question)
            believe = question.asked.believe_hooks
            found = forecast(
                state, command, question.context, question.group, believe_hooks=believe
            )
            if isinstance(found.decision, Rejected):
                raise refused(found.decision)
            advice = IMPORT_AGAIN if is_embedded(source.where) else _TELL
            assumed = partition_assumptions(found.decision, state, source.assumed, advice)
            found = found._replace(assumed=(*found.assumed, *assumed))
        except RestError as error:
            _refuse(source, question, error)
            raise SystemExit(FOUND) from None
        _show(source, found, question)


async def _command(source: InputLog, state: ClusterState, question: _PlanRequest) -> AnyCommand:
    """The command that is asked for."""
    asked, profile = question.asked, question.context.profile
    if asked.undo is None:
        present, signed = state.config.connectors, asked.signed
        return command_of(
            asked.method, asked.path, asked.body, profile, signed=signed, known=present
        )
    then = await (await source.at(asked.to)).state(profile)
    known = {*then.config.connectors, *state.config.connectors}
    if asked.undo not in known:
        raise InputRefused(f"no connector {asked.undo!r} is there, neither now nor at {asked.to}")
    return restoration(then, asked.undo, offsets=asked.offsets)


def _show(source: InputLog, found: Forecast, question: _PlanRequest) -> None:
    decision = found.decision
    assert isinstance(decision, Plan)
    answer = None
    if question.asked.undo is None:
        context = question.context
        done = CompletedCommand(
            found.command, decision.outcome, found.after, context.profile, context.plugins
        )
        answer = shown(done)
    if question.output == "json":
        print_document(source.about, found, decision, answer)
    else:
        who = heading(question.context.profile, source, "would write to")
        print_plan(who, found, decision, answer)


def _refuse(source: InputLog, question: _PlanRequest, error: RestError) -> None:
    """Say why nothing would be done."""
    answer, profile = error.answer(), question.context.profile
    message = str(error) if error.args else None
    if question.output == "json":
        refusal = {"status": answer.status, "message": message}
        print_json(source.about | {"profile": profile.release, "refused": refusal})
        return
    who = heading(profile, source, "would write nothing to")
    told = redacted_refusal(message or "")
    say(f"{who}: {answer.status} {told}".rstrip(), style="bold")
    if isinstance(error, NoSuchPath | NoSuchMethod):
        say(f"{profile.release} has no such endpoint, or not for this method")


# --- what is asked for ------------------------------------------------------------------------


def _asked(
    method: str | None, path: str | None, body: str | None, undo: str | None, to: str | None
) -> PlanSubject:
    if (undo is None) is not (to is None):
        raise click.UsageError("--undo needs --to, and --to is for --undo: give both or none")
    if undo is not None and to is not None:
        if method is not None:
            raise click.UsageError("either a request or --undo: leave out METHOD and PATH")
        return PlanSubject(undo=undo, to=to)
    if method is None or path is None:
        raise click.UsageError("a request is missing: METHOD PATH, as in PUT /connectors/x/stop")
    if method.upper() in {"GET", "HEAD", "OPTIONS"}:
        raise click.UsageError(
            f"{method.upper()} writes nothing: `controlplane inspect --rest` has the answers"
        )
    if not path.startswith("/"):
        raise click.UsageError(f"{path!r} is no path: it begins with a slash, as in /connectors")
    return PlanSubject(method.upper(), path, None if body is None else _body(body))


def _body(given: str) -> bytes:
    """A body as it is given, from a file, or from standard input.

    Raises:
        InputRefused: the file cannot be read.
    """
    if given == STDIN:
        return sys.stdin.buffer.read()
    if not given.startswith("@"):
        return given.encode("utf-8", "surrogateescape")
    try:
        return Path(given[1:]).read_bytes()
    except OSError as failure:
        raise InputRefused(unreadable(given[1:], failure)) from None


def _group(given: str | None) -> GroupOffsets | None:
    """Offsets of a consumer group: `orders:0=5,orders:1=7`; an empty text is none at all."""
    if given is None:
        return None
    found = [(one, _COMMITTED.fullmatch(one.strip())) for one in given.split(",") if one.strip()]
    for text, match in found:
        if match is None:
            raise click.UsageError(f"--group: {text!r} is not of the form topic:partition=offset")
    return tuple(
        (match["topic"], int(match["partition"]), int(match["offset"]))
        for _, match in found
        if match
    )
