"""The command `verify`: compare a log with the answers of workers, recorded or live."""

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec
from click.core import ParameterSource

from controlplane.cli.opened_log import read_whole
from controlplane.cli.verify.answer_diff import (
    compared,
    is_of_consumer_group,
    without_secrets,
    without_types,
)
from controlplane.cli.verify.difference_evidence import Evidence
from controlplane.cli.verify.worker_check.check_run import CheckOptions, check
from controlplane.cli.verify.worker_check.checked_worker import OPTION as AGAINST
from controlplane.cli.verify.worker_check.checked_worker import WorkerAccess, worker_urls
from controlplane.cli.verify.worker_check.comparison_rounds import Patience
from controlplane.client.commands.verbs import access_options
from controlplane.client.http.cluster_address import ClusterAddress
from controlplane.core.entry import Entry, Position
from controlplane.core.moments import position_text
from controlplane.core.releases.profiles import resolve
from controlplane.core.text import record_text
from controlplane.core.text.safe_text import count
from controlplane.logs.names import is_cluster, path_of, without_login
from controlplane.scenario.story import (
    AnswerDifference,
    BadStory,
    RecordedAnswer,
    StoryStep,
    StoryVerdict,
    Verifier,
    read_story,
    same,
)
from controlplane.terminal.command_errors import InputRefused
from controlplane.terminal.exit_codes import FOUND
from controlplane.terminal.log_options import (
    FILE,
    LogOptions,
    catalogue_file,
    log_options,
    output_option,
    plugins_option,
    read_plugins,
)
from controlplane.terminal.number_options import Number
from controlplane.terminal.output import note, print_json, say
from controlplane.terminal.shell_completion import complete_files

EXACTLY_ONCE = "--exactly-once"
EVERY_WORKER = "*"

FIRST_LINE_BYTES = 1 << 16
"""Maximum number of bytes of a first line to search for the name of a history."""

ENDS_SHOWN = 5
"""Maximum number of warnings about partitions that end too early; the rest is counted."""

_STYLES = {"-": "red", "+": "green", "@": "cyan"}


class VerifyOptions(msgspec.Struct, frozen=True):
    """Options of `verify`; those from `against` on are about live workers."""

    before: str | None
    exactly_once: tuple[str, ...]
    plugins: Path | None
    output: str
    against: tuple[str, ...]
    release: str | None
    timeout: float
    settle: float
    user: str | None
    token: str | None
    ca_file: Path | None


class VerifyReport(NamedTuple):
    """Verdict, with the number of answers to requests that it leaves out."""

    verdict: StoryVerdict
    requests: int
    """Answers to requests that change something: the log does not determine them."""


class _Verify(click.Command):
    """Command that compares with STORY, or with workers if there is `--against`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse; `--exactly-once` takes the next word as the name of a worker.

        If LOG or STORY is then missing, parse again with `--exactly-once` as a flag: all workers.
        """
        words = list(args)  # click's parser removes the words of `args`
        try:
            unparsed = super().parse_args(ctx, args)
            self._check_story(ctx)
        except click.MissingParameter:
            if EXACTLY_ONCE not in words:
                raise
            every = [
                f"{EXACTLY_ONCE}={EVERY_WORKER}" if word == EXACTLY_ONCE else word for word in words
            ]
            unparsed = super().parse_args(ctx, every)
            self._check_story(ctx)
        return unparsed

    def _check_story(self, ctx: click.Context) -> None:
        """Require either STORY or `--against`, and refuse options that belong to the other.

        Raises:
            UsageError: both, neither, or an option of the other.
        """
        live, story = ctx.params.get("against"), ctx.params.get("story")
        if ctx.resilient_parsing:
            return
        if not live and story is None:
            advice = f"Give a story, or workers with {AGAINST}."
            # `parse_args` catches this class of error, and parses again.
            raise click.MissingParameter(advice, ctx, param_hint="'STORY'", param_type="argument")
        if live and story is not None:
            raise click.UsageError(f"{AGAINST} compares with live workers: leave out STORY", ctx)
        foreign = _OF_STORIES if live else _OF_WORKERS
        for name in foreign:
            if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
                flag = f"--{name.replace('_', '-')}"
                why = f"compares with live workers: leave out {flag}"
                raise click.UsageError(
                    f"{AGAINST} {why}" if live else f"{flag} needs {AGAINST}", ctx
                )


_OF_STORIES = ("before",)
_OF_WORKERS = ("release", "timeout", "settle", "user", "token", "ca_file")
"""Options that need STORY, and options that need `--against`."""


@click.command(cls=_Verify)
@click.argument("log", shell_complete=complete_files)
@click.argument("story", type=FILE, required=False)
@click.option(
    AGAINST,
    metavar="URL,…",
    multiple=True,
    help="URLs of live workers to compare with the log instead of STORY: http://host:8083. May be "
    "repeated.",
)
@click.option(
    "--before",
    metavar="LOG",
    shell_complete=complete_files,
    help="Log as it was before the story's step `compacted`. Workers that started before this step "
    "are compared with the records of both logs, the others with LOG. [default: LOG]",
)
@click.option(
    EXACTLY_ONCE,
    metavar="[WORKER]",
    multiple=True,
    is_flag=False,
    flag_value=EVERY_WORKER,
    help="Worker (its name or URL) that ran with exactly-once support; without a name: all. May be "
    "repeated. [default: as `exactly.once.source.support` says]",
)
@click.option(
    "--release",
    metavar="RELEASE",
    help="With --against: release that the workers are compared as. [default: that of each worker]",
)
@click.option(
    "--timeout",
    type=Number(min=0, min_open=True),
    default=60.0,
    metavar="SECONDS",
    help="With --against: longest time to wait until log and workers stand still. [default: 60]",
)
@click.option(
    "--settle",
    type=Number(min=0),
    default=5.0,
    metavar="SECONDS",
    help="With --against: time for which a difference must stay before it counts. [default: 5]",
)
@plugins_option
@output_option
@access_options
@log_options
def verify(log: str, story: Path | None, reading: LogOptions, **options: Any) -> None:
    """Compare a log with answers of workers: recorded in STORY, or of live workers (--against).

    With STORY: answers to requests that change something are counted, not compared.

    With --against, every endpoint that reads connectors is compared on every worker. The comparison
    goes on until log and workers stand still. The record behind each difference is named.

    Secrets are hidden; secrets that differ are marked. Exit code 1: there are differences; 2: there
    is nothing to compare; 3: a URL is no worker of this cluster; 4: a worker gave no answer; 5: the
    cluster never stood still.
    """
    verify_options = VerifyOptions(**options)
    typed = catalogue_file(verify_options.plugins, reading.settings) is not None
    if not typed:
        note("Warning: no --plugins: the types of connectors are not compared")
    if story is None:
        code = _verify_workers(log, reading, verify_options, typed=typed)
    else:
        code = _verify_story(log, story, reading, verify_options)
    if code:
        raise SystemExit(code)


def _verify_workers(log: str, reading: LogOptions, options: VerifyOptions, *, typed: bool) -> int:
    """Compare live workers with a log, print the report, and return the exit code."""
    urls = worker_urls(options.against)
    credentials = ClusterAddress("", options.user, options.token, options.ca_file).with_password()
    names = {credentials._replace(where=url).without_login for url in urls}
    supporting = {without_login(name) for name in options.exactly_once}
    unknown = sorted(supporting - {*names, EVERY_WORKER})
    if unknown:
        raise InputRefused(f"{unknown[0]!r} is none of the workers of {AGAINST}")
    support = {EVERY_WORKER} if reading.settings.exactly_once else set()
    exactly_once = frozenset(support | supporting)
    access = WorkerAccess(urls, credentials, options.release, exactly_once, options.timeout)
    plugins = read_plugins(options.plugins, reading.settings)
    patience = Patience(options.timeout, options.settle)
    return check(CheckOptions(log, reading, plugins, typed, access, patience, options.output))


def _verify_story(log: str, story: Path, reading: LogOptions, options: VerifyOptions) -> int:
    """Compare a story with a log, print the verdict, and return the exit code."""
    steps = _steps(story)
    _check_workers(options.exactly_once, steps)
    _warn_of_releases(steps)
    _warn_of_other_history(log, story)
    entries = _entries(log, reading)
    before = _entries(options.before, reading) if options.before else []
    entries_by_position = {entry.position: entry for entry in [*before, *entries]}
    _warn_of_ends(steps, entries_by_position)
    verdict = _verify(steps, entries, list(entries_by_position.values()), reading, options)
    requests = sum(step.kind == "request" for step in steps)
    if not verdict.compared:
        reason = _left_out(verdict, requests) or "no step observes an answer"
        raise InputRefused(f"{story} has nothing to compare with a log: {reason}")
    _print(
        VerifyReport(verdict, requests),
        Evidence(reading.topics, entries_by_position, steps),
        options.output,
    )
    return FOUND if verdict.differences else 0


def _entries(log: str, reading: LogOptions) -> list[Entry]:
    return asyncio.run(read_whole(log, reading)).entries


def _steps(story: Path) -> list[StoryStep]:
    try:
        return read_story(story)
    except BadStory as error:
        raise InputRefused(str(error)) from None


def _check_workers(named: Iterable[str], steps: Iterable[StoryStep]) -> None:
    """Raise `InputRefused` for a worker that the story lacks."""
    workers = sorted({step.worker for step in steps if step.worker})
    unknown = sorted({*named} - {*workers, EVERY_WORKER})
    if unknown:
        shown = without_login(unknown[0])
        raise InputRefused(f"the story has no worker {shown!r}: it has {', '.join(workers)}")


def _warn_of_releases(steps: Iterable[StoryStep]) -> None:
    """Warn if a worker's release is too new, with the release that stands in for it."""
    for release in dict.fromkeys(step.release for step in steps if step.release):
        warning = resolve(release).warning
        if warning:
            note(f"Warning: {warning}")


def _warn_of_other_history(log: str, story: Path) -> None:
    """Warn if the first lines of log and story name different histories."""
    if is_cluster(log):
        return
    names = [_history(path_of(log)), _history(story)]
    if None not in names and names[0] != names[1]:
        note(f"Warning: the log is of the history {names[0]}, the story of {names[1]}")


def _warn_of_ends(steps: Iterable[StoryStep], positions: Collection[Position]) -> None:
    """Warn if the story observes a worker that has read beyond the end of the log."""
    ends: dict[tuple[str, int], int] = {}
    for topic, partition, offset in positions:
        ends[topic, partition] = max(ends.get((topic, partition), 0), offset + 1)
    beyond = [*_beyond(steps, ends, _marker_allowance(positions, ends))]
    for sentence in beyond[:ENDS_SHOWN]:
        note(f"Warning: {sentence}")
    if len(beyond) > ENDS_SHOWN:
        note(f"Warning: … and {len(beyond) - ENDS_SHOWN} more partitions end too early")


def _beyond(
    steps: Iterable[StoryStep], ends: Mapping[tuple[str, int], int], allowance: int
) -> Iterator[str]:
    """A sentence for each partition that ends before an observation of the story."""
    reported: set[tuple[str, int]] = set()
    for step in (step for step in steps if step.kind == "observe"):
        for topic, observed_ends in step.positions.items():
            for partition, end in enumerate(observed_ends):
                log_end = ends.get((topic, partition), 0)
                if end > log_end + allowance and (topic, partition) not in reported:
                    reported.add((topic, partition))
                    yield (
                        f"the worker of step {step.n} has read up to "
                        f"{_text(topic, partition, end)}, but the log ends at "
                        f"{_text(topic, partition, log_end)}. From this step on, answers are "
                        "compared with an older state: give the whole log"
                    )


def _text(topic: str, partition: int, offset: int) -> str:
    return position_text(Position(topic, partition, offset))


def _marker_allowance(positions: Collection[Position], ends: Mapping[tuple[str, int], int]) -> int:
    """Number of missing offsets at the end of a partition that need no warning: 1 or 0.

    The last offset may belong to the marker that ends a transaction. Log files do not contain
    markers, so each marker leaves a gap between the offsets. A log without gaps has no
    markers, so the number is 0.
    """
    return 1 if len(positions) < sum(ends.values()) else 0


def _history(path: Path) -> str | None:
    """Name of the history in the first line of a file; None: it has none."""
    try:
        with path.open("rb") as file:
            first = msgspec.json.decode(file.readline(FIRST_LINE_BYTES))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    name = first.get("history") if isinstance(first, dict) else None
    return name if isinstance(name, str) else None


def _verify(
    steps: list[StoryStep],
    entries: list[Entry],
    all_entries: list[Entry],
    reading: LogOptions,
    options: VerifyOptions,
) -> StoryVerdict:
    """Compare each worker's answers with the records that it has read.

    A worker that started before the compaction has read `all_entries`, the others `entries`.
    """
    support = {EVERY_WORKER} if reading.settings.exactly_once else set()
    plugins = read_plugins(options.plugins, reading.settings)
    exactly_once = frozenset(support | {*options.exactly_once})
    earlier_workers, later_workers = split_by_compaction(steps) if options.before else ([], steps)
    older, newer = (
        Verifier(log, plugins, topics=reading.topics, exactly_once=exactly_once).verify(part)
        for log, part in ((all_entries, earlier_workers), (entries, later_workers))
    )
    verdict = StoryVerdict(
        older.compared + newer.compared,
        older.differences + newer.differences,
        older.beyond + newer.beyond,
    )
    declared = catalogue_file(options.plugins, reading.settings)
    return verdict if declared else _untyped(verdict)


def _untyped(verdict: StoryVerdict) -> StoryVerdict:
    """The verdict without connector types, which are unknown without a catalogue.

    The form of an offsets answer then shows whether the connector is a sink.
    """
    beyond = [
        difference
        for difference in verdict.differences
        if difference.path.endswith("/offsets") and is_of_consumer_group(difference.recorded)
    ]
    untyped = [
        difference._replace(
            recorded=without_types(difference.path, difference.recorded),
            folded=without_types(difference.path, difference.folded),
        )
        for difference in verdict.differences
        if difference not in beyond
    ]
    differences = [
        difference for difference in untyped if not same(difference.recorded, difference.folded)
    ]
    return StoryVerdict(verdict.compared - len(beyond), differences, verdict.beyond + len(beyond))


def split_by_compaction(steps: Iterable[StoryStep]) -> tuple[list[StoryStep], list[StoryStep]]:
    """Observations of workers that started before the log was compacted, and of the others.

    A worker keeps what it has read, so it sees the compaction only after a restart.
    """
    compacted = False
    started: dict[str | None, bool] = {}
    before: list[StoryStep] = []
    after: list[StoryStep] = []
    for step in steps:
        compacted = compacted or step.kind == "compacted"
        if step.kind == "start":
            started[step.worker] = compacted
        elif step.kind == "observe":
            (after if started.get(step.worker, compacted) else before).append(step)
    return before, after


def _print(compared: VerifyReport, evidence: Evidence, output: str) -> None:
    if output == "json":
        print_json(_document(compared, evidence))
        return
    verdict = compared.verdict
    for difference in verdict.differences:
        _print_difference(difference, evidence)
    say(_summary(compared), style="red" if verdict.differences else "green")


def _summary(compared: VerifyReport) -> str:
    verdict, different = compared.verdict, len(compared.verdict.differences)
    differ = f", {different} {'differs' if different == 1 else 'differ'}" if different else ""
    left_out = _left_out(verdict, compared.requests)
    return (
        f"{verdict.compared - different} of {verdict.compared} answers agree with the log{differ}"
        f"{left_out and f'; {left_out}'}"
    )


def _left_out(verdict: StoryVerdict, requests: int) -> str:
    """Number of answers that are not compared, by reason."""
    reasons = []
    if verdict.beyond:
        reasons.append(f"{verdict.beyond} are offsets of sinks, which no log of Connect has")
    if requests:
        are = "is" if requests == 1 else "are"
        reasons.append(f"{count(requests, 'answer')} to requests {are} not compared")
    return "; ".join(reasons)


def _print_difference(difference: AnswerDifference, evidence: Evidence) -> None:
    say(
        f"step {difference.step}, {difference.release}: GET {difference.path}",
        style="bold",
    )
    for line in compared(difference.recorded, difference.folded):
        say(f"  {line}", style=_STYLES.get(line[0], ""))
    cause = evidence.cause(difference)
    if cause:
        say(f"  because of {record_text.record(cause, evidence.topics)}")
    else:
        say("  no record of the log explains it")
    say()


def _document(compared: VerifyReport, evidence: Evidence) -> dict[str, Any]:
    verdict = compared.verdict
    return {
        "compared": verdict.compared,
        "same": verdict.compared - len(verdict.differences),
        "beyond": verdict.beyond,
        "requests_not_compared": compared.requests,
        "differences": [
            _difference_document(difference, evidence) for difference in verdict.differences
        ],
    }


def _difference_document(difference: AnswerDifference, evidence: Evidence) -> dict[str, Any]:
    cause = evidence.cause(difference)
    shown = without_secrets(difference.recorded, difference.folded)
    return {
        "step": difference.step,
        "release": difference.release,
        "path": difference.path,
        **{side: _document_of(answer) for side, answer in shown._asdict().items()},
        "cause": record_text.document(cause) if cause else None,
    }


def _document_of(answer: RecordedAnswer) -> dict[str, Any]:
    return {"status": answer.status, "answer": answer.answer}
