"""The command `plan`: a dry run of a request, or of an undo, at a moment of a log."""

import asyncio
import re
import sys
from pathlib import Path
from typing import NamedTuple

import click

from controlplane.cli.inspect.overview import heading
from controlplane.cli.opened_log import InputLog, opened
from controlplane.cli.plan.plan_printer import print_document, print_plan
from controlplane.controller.log_groups import StoredGroups
from controlplane.core.commands import AnyCommand
from controlplane.core.context import Context
from controlplane.core.decide.prediction import IMPORT_AGAIN, partition_assumptions
from controlplane.core.decide.undo import restoration
from controlplane.core.plan import GroupOffsets, Plan, Rejected
from controlplane.core.releases.profiles import KIP
from controlplane.core.state import ClusterState
from controlplane.core.text.file_errors import unreadable
from controlplane.core.text.redaction import redacted_refusal
from controlplane.logs.names import is_embedded
from controlplane.read_only.forecast import Forecast, forecast
from controlplane.read_only.read_only_service import decision_context, with_stored_group
from controlplane.rest.endpoints.pure_requests import command_of
from controlplane.rest.endpoints.writes import CompletedCommand, answer_to
from controlplane.rest.errors import NoSuchMethod, NoSuchPath, RestError, refused
from controlplane.terminal.command_errors import InputRefused
from controlplane.terminal.exit_codes import FOUND
from controlplane.terminal.log_options import (
    LogOptions,
    as_of_option,
    exactly_once_option,
    log_options,
    output_option,
    plugins_option,
    read_plugins,
    read_profile,
    trust_option,
)
from controlplane.terminal.option_names import MOMENT, named_option
from controlplane.terminal.output import print_json, say
from controlplane.terminal.shell_completion import complete_files

STDIN = "-"
"""BODY that stands for standard input."""

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
    help="Release of the worker that handles the request. [default: kip]",
)
@as_of_option
@click.option(
    "--undo",
    metavar="CONNECTOR",
    help="Plan the undo of a connector to the moment --to, instead of a request.",
)
@click.option("--to", metavar="MOMENT", help=f"Moment to restore: {MOMENT}.")
@click.option("--offsets", is_flag=True, help="Restore the source offsets as well.")
@exactly_once_option
@click.option(
    "--group",
    metavar="OFFSETS",
    help="Committed offsets of a sink's consumer group: topic:partition=offset,… [default: those "
    "in an embedded log; none for another log or with --as-of]",
)
@click.option(
    "--believe-hooks",
    is_flag=True,
    help="Call no offset hook: assume that each connector accepts its offsets.",
)
@click.option(
    "--signed",
    is_flag=True,
    help="Treat the request as signed by a worker, for the endpoints between workers.",
)
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
    """Show what a request would write at a moment of LOG, or why it would be refused.

    METHOD and PATH are those of Connect's REST API; BODY is the JSON itself, @FILE, or - for
    standard input. Nothing is written, and no worker is contacted. Offset hooks of connectors in
    Python are called, and may have effects outside of the log; --believe-hooks calls none.

    Exit code 1: the request would be refused.
    """
    if offsets and undo is None:
        raise click.UsageError("--offsets needs --undo: give both, or leave out --offsets")
    subject = _subject(method, path, body, undo, to)
    subject = subject._replace(signed=signed, offsets=offsets, believe_hooks=believe_hooks)
    support = exactly_once or reading.settings.exactly_once
    context = decision_context(
        reading.configuration,
        read_profile(profile, exactly_once=support),
        read_plugins(plugins, reading.settings, trusting=trust_unknown_classes),
        exactly_once=support,
    )
    request = _PlanRequest(subject, context, _group(group), output)
    asyncio.run(_plan(log, reading, request, exactly_once=support, as_of=as_of))


class _PlanRequest(NamedTuple):
    """A command to plan, with the context of its decision and the form of the output."""

    subject: PlanSubject
    context: Context
    group: GroupOffsets | None
    output: str


_GIVE_PARTITIONS = "--partitions {}=N sets the number"
"""Advice where the number of partitions of a dump's topic is assumed."""


async def _plan(
    where: str,
    reading: LogOptions,
    request: _PlanRequest,
    *,
    exactly_once: bool,
    as_of: str | None,
) -> None:
    async with opened(where, reading, exactly_once=exactly_once, as_of=as_of) as source:
        context = request.context
        state = await source.state(context.profile)
        try:
            command = await _command(source, state, request)
            if request.group is None and as_of is None and is_embedded(source.where):
                stored = StoredGroups(source.log)
                context = await with_stored_group(state, command, context, stored)
            believe = request.subject.believe_hooks
            prediction = forecast(state, command, context, request.group, believe_hooks=believe)
            if isinstance(prediction.decision, Rejected):
                raise refused(prediction.decision)
            advice = IMPORT_AGAIN if is_embedded(source.where) else _GIVE_PARTITIONS
            assumed = partition_assumptions(prediction.decision, state, source.assumed, advice)
            prediction = prediction._replace(assumed=(*prediction.assumed, *assumed))
        except RestError as error:
            _print_refusal(source, request, error)
            raise SystemExit(FOUND) from None
        _print_forecast(source, prediction, request)


async def _command(source: InputLog, state: ClusterState, request: _PlanRequest) -> AnyCommand:
    """Command that the request or `--undo` stands for."""
    subject, profile = request.subject, request.context.profile
    if subject.undo is None:
        present, signed = state.config.connectors, subject.signed
        return command_of(
            subject.method, subject.path, subject.body, profile, signed=signed, existing=present
        )
    then = await (await source.at(subject.to)).state(profile)
    connectors = {*then.config.connectors, *state.config.connectors}
    if subject.undo not in connectors:
        raise InputRefused(
            f"there is no connector {subject.undo!r}, neither now nor at {subject.to}: check "
            "--undo and --to"
        )
    return restoration(then, subject.undo, offsets=subject.offsets)


def _print_forecast(source: InputLog, prediction: Forecast, request: _PlanRequest) -> None:
    decision = prediction.decision
    assert isinstance(decision, Plan)
    answer = None
    if request.subject.undo is None:
        context = request.context
        completed = CompletedCommand(
            prediction.command, decision.outcome, prediction.after, context.profile, context.plugins
        )
        answer = answer_to(completed)
    if request.output == "json":
        print_document(source.document_fields, prediction, decision, answer)
    else:
        title = heading(request.context.profile, source, "would write to")
        print_plan(title, prediction, decision, answer)


def _print_refusal(source: InputLog, request: _PlanRequest, error: RestError) -> None:
    answer, profile = error.answer(), request.context.profile
    message = str(error) if error.args else None
    if request.output == "json":
        refusal = {"status": answer.status, "message": message}
        print_json(source.document_fields | {"profile": profile.release, "refused": refusal})
        return
    title = heading(profile, source, "would write nothing to")
    say(f"{title}: {answer.status} {redacted_refusal(message or '')}".rstrip(), style="bold")
    if isinstance(error, NoSuchPath | NoSuchMethod):
        say(f"{profile.release} has no such endpoint, or not for this method")


# --- arguments --------------------------------------------------------------------------------


def _subject(
    method: str | None, path: str | None, body: str | None, undo: str | None, to: str | None
) -> PlanSubject:
    if (undo is None) is not (to is None):
        raise click.UsageError("--undo and --to belong together: give both or none")
    if undo is not None and to is not None:
        if method is not None:
            raise click.UsageError("a request and --undo exclude each other: leave out one")
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


def _body(body: str) -> bytes:
    """BODY itself, or the content of its file or of standard input.

    Raises:
        InputRefused: the file cannot be read.
    """
    if body == STDIN:
        return sys.stdin.buffer.read()
    if not body.startswith("@"):
        return body.encode("utf-8", "surrogateescape")
    try:
        return Path(body[1:]).read_bytes()
    except OSError as failure:
        raise InputRefused(unreadable(body[1:], failure)) from None


def _group(offsets_text: str | None) -> GroupOffsets | None:
    """Parse offsets of a consumer group: `orders:0=5,orders:1=7`; an empty text has none."""
    if offsets_text is None:
        return None
    offsets = []
    for text in filter(str.strip, offsets_text.split(",")):
        match = _COMMITTED.fullmatch(text.strip())
        if match is None:
            raise click.UsageError(f"--group: {text!r} is not of the form topic:partition=offset")
        offsets.append((match["topic"], int(match["partition"]), int(match["offset"])))
    return tuple(offsets)
