"""The command `verify`: every observed answer in a story, compared with the fold of the log."""

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec

from controlplane.cli.answer_diff import (
    compared,
    tells_a_consumer_group,
    without_secrets,
    without_types,
)
from controlplane.cli.difference_evidence import Evidence
from controlplane.cli.opened_log import read_all
from controlplane.core.entry import Entry, Position
from controlplane.core.moments import position_text
from controlplane.core.releases.profiles import resolve
from controlplane.core.text import record_text as records
from controlplane.core.text.safe_text import count
from controlplane.logs.names import is_cluster, path_of
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
from controlplane.terminal.command_errors import FOUND, InputRefused
from controlplane.terminal.log_options import (
    FILE,
    LogOptions,
    catalogue_file,
    log_options,
    output_option,
    plugins_option,
    read_plugins,
)
from controlplane.terminal.output import note, print_json, say
from controlplane.terminal.shell_completion import complete_files

EXACTLY_ONCE = "--exactly-once"
EVERY_WORKER = "*"

FIRST_LINE_BYTES = 1 << 16
"""Bytes of a first line that are searched for the name of a history."""

ENDS_TOLD = 5
"""Partitions that end too early and are named; the others are counted."""

_STYLES = {"-": "red", "+": "green", "@": "cyan"}


class VerifyOptions(msgspec.Struct, frozen=True):
    """The options of `verify`, as they were given."""

    before: str | None
    exactly_once: tuple[str, ...]
    plugins: Path | None
    output: str


class VerifyReport(NamedTuple):
    """A verdict, and how many answers of requests it leaves out."""

    verdict: StoryVerdict
    requests: int
    """Answers to requests that change something: they follow from more than the log."""


class _Verify(click.Command):
    """Takes the word behind `--exactly-once` as a worker only if a log and a story are left."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse once more, without a worker's name, where one of the two is missing."""
        told = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.MissingParameter:
            if EXACTLY_ONCE not in told:
                raise
            every = [
                f"{EXACTLY_ONCE}={EVERY_WORKER}" if one == EXACTLY_ONCE else one for one in told
            ]
            return super().parse_args(ctx, every)


@click.command(cls=_Verify)
@click.argument("log", shell_complete=complete_files)
@click.argument("story", type=FILE)
@click.option(
    "--before",
    metavar="LOG",
    shell_complete=complete_files,
    help="Log before the story's step `compacted`, as older workers have read it.",
)
@click.option(
    EXACTLY_ONCE,
    metavar="[WORKER]",
    multiple=True,
    is_flag=False,
    flag_value=EVERY_WORKER,
    help="Worker that ran with exactly-once support; without a name all. May be repeated.",
)
@plugins_option
@output_option
@log_options
def verify(log: str, story: Path, reading: LogOptions, **options: Any) -> None:
    """Compare every answer observed in STORY with what LOG folds to.

    Exit code 1: there are differences; 2: there is nothing to compare. Answers to requests that
    change something are counted, and not compared. Secrets are hidden; that they differ is told.
    """
    asked = VerifyOptions(**options)
    if catalogue_file(asked.plugins, reading.settings) is None:
        note("no --plugins: the types of connectors are not compared")
    steps = _steps(story)
    _check_workers(asked.exactly_once, steps)
    _warn_of_releases(steps)
    _warn_of_strangers(log, story)
    entries = asyncio.run(read_all(log, reading))
    before = asyncio.run(read_all(asked.before, reading)) if asked.before else []
    known = {one.position: one for one in [*before, *entries]}
    _warn_of_ends(steps, known)
    verdict = _verify(steps, entries, list(known.values()), reading, asked)
    requests = sum(step.kind == "request" for step in steps)
    if not verdict.compared:
        reason = _left_out(verdict, requests) or "no step observes an answer"
        raise InputRefused(f"{story} holds nothing that could be compared with a log: {reason}")
    _print(VerifyReport(verdict, requests), Evidence(reading.topics, known, steps), asked.output)
    if verdict.differences:
        raise SystemExit(FOUND)


def _steps(story: Path) -> list[StoryStep]:
    try:
        return read_story(story)
    except BadStory as error:
        raise InputRefused(str(error)) from None


def _check_workers(named: Iterable[str], steps: Iterable[StoryStep]) -> None:
    """Raise `InputRefused` where a worker is named that the story does not know."""
    workers = sorted({step.worker for step in steps if step.worker})
    unknown = sorted({*named} - {*workers, EVERY_WORKER})
    if unknown:
        raise InputRefused(f"the story has no worker {unknown[0]!r}: it has {', '.join(workers)}")


def _warn_of_releases(steps: Iterable[StoryStep]) -> None:
    """Say so where a worker's release is too new to be known, and which it is read as."""
    for release in dict.fromkeys(step.release for step in steps if step.release):
        warning = resolve(release).warning
        if warning:
            note(f"Warning: {warning}")


def _warn_of_strangers(log: str, story: Path) -> None:
    """Say so where log and story are not of the same history, as their first lines have it."""
    if is_cluster(log):
        return
    names = [_history(path_of(log)), _history(story)]
    if None not in names and names[0] != names[1]:
        note(f"Warning: the log is of the history {names[0]}, the story of {names[1]}")


def _warn_of_ends(steps: Iterable[StoryStep], known: Collection[Position]) -> None:
    """Say so where observations were made behind the end of the log."""
    ends: dict[tuple[str, int], int] = {}
    for topic, partition, offset in known:
        ends[topic, partition] = max(ends.get((topic, partition), 0), offset + 1)
    beyond = [*_beyond(steps, ends, _marker_allowance(known, ends))]
    for sentence in beyond[:ENDS_TOLD]:
        note(f"Warning: {sentence}")
    if len(beyond) > ENDS_TOLD:
        note(f"Warning: … and {len(beyond) - ENDS_TOLD} more partitions end too early")


def _beyond(
    steps: Iterable[StoryStep], ends: Mapping[tuple[str, int], int], allowance: int
) -> Iterator[str]:
    """A sentence for each partition that ends before a place at which the story observes."""
    told: set[tuple[str, int]] = set()
    for step in (one for one in steps if one.kind == "observe"):
        for topic, parts in step.positions.items():
            for partition, end in enumerate(parts):
                place, there = (topic, partition), ends.get((topic, partition), 0)
                if end > there + allowance and place not in told:
                    told.add(place)
                    yield (
                        f"step {step.n} has read up to {_text(topic, partition, end)}, and the log "
                        f"ends at {_text(topic, partition, there)}: answers from there on are "
                        "compared with an older state"
                    )


def _text(topic: str, partition: int, offset: int) -> str:
    return position_text(Position(topic, partition, offset))


def _marker_allowance(known: Collection[Position], ends: Mapping[tuple[str, int], int]) -> int:
    """Offsets at the end of a partition that may be no records: 1 where the log has gaps.

    The marker that ends a transaction takes an offset, and no log file has it.
    """
    return 1 if len(known) < sum(ends.values()) else 0


def _history(path: Path) -> str | None:
    """The history that a file says it belongs to; None: it says none."""
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
    known: list[Entry],
    reading: LogOptions,
    asked: VerifyOptions,
) -> StoryVerdict:
    """Each worker's answers from what it has read: `known` before compaction, `entries` after."""
    support = {EVERY_WORKER} if reading.settings.exactly_once else set()
    plugins = read_plugins(asked.plugins, reading.settings)
    exactly_once = frozenset(support | {*asked.exactly_once})
    old, young = generations(steps) if asked.before else ([], steps)
    older, newer = (
        Verifier(log, plugins, topics=reading.topics, exactly_once=exactly_once).verify(part)
        for log, part in ((known, old), (entries, young))
    )
    verdict = StoryVerdict(
        older.compared + newer.compared,
        older.differences + newer.differences,
        older.beyond + newer.beyond,
    )
    declared = catalogue_file(asked.plugins, reading.settings)
    return verdict if declared else _untyped(verdict)


def _untyped(verdict: StoryVerdict) -> StoryVerdict:
    """A verdict that does not hang on types: without a catalogue nobody knows them.

    Which offsets are those of a sink then shows in the answer itself.
    """
    beyond = [
        one
        for one in verdict.differences
        if one.path.endswith("/offsets") and tells_a_consumer_group(one.recorded)
    ]
    untyped = [
        one._replace(
            recorded=without_types(one.path, one.recorded),
            folded=without_types(one.path, one.folded),
        )
        for one in verdict.differences
        if one not in beyond
    ]
    differences = [one for one in untyped if not same(one.recorded, one.folded)]
    return StoryVerdict(verdict.compared - len(beyond), differences, verdict.beyond + len(beyond))


def generations(steps: Iterable[StoryStep]) -> tuple[list[StoryStep], list[StoryStep]]:
    """Observations of workers that started before the log was compacted, and of those after.

    A worker keeps what it has read: compaction shows only when it starts anew.
    """
    compacted = False
    started: dict[str | None, bool] = {}
    old: list[StoryStep] = []
    young: list[StoryStep] = []
    for step in steps:
        compacted = compacted or step.kind == "compacted"
        if step.kind == "start":
            started[step.worker] = compacted
        elif step.kind == "observe":
            (young if started.get(step.worker, compacted) else old).append(step)
    return old, young


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
        f"{verdict.compared - different} of {verdict.compared} answers are given exactly{differ}"
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
    why = records.record(cause, evidence.topics) if cause else "no record has a say in it"
    say(f"  because of {why}")
    say()


def _document(compared: VerifyReport, evidence: Evidence) -> dict[str, Any]:
    verdict = compared.verdict
    return {
        "compared": verdict.compared,
        "same": verdict.compared - len(verdict.differences),
        "beyond": verdict.beyond,
        "requests_not_compared": compared.requests,
        "differences": [_shown(difference, evidence) for difference in verdict.differences],
    }


def _shown(difference: AnswerDifference, evidence: Evidence) -> dict[str, Any]:
    cause = evidence.cause(difference)
    shown = without_secrets(difference.recorded, difference.folded)
    return {
        "step": difference.step,
        "release": difference.release,
        "path": difference.path,
        **{side: _given(given) for side, given in shown._asdict().items()},
        "cause": records.document(cause) if cause else None,
    }


def _given(given: RecordedAnswer) -> dict[str, Any]:
    return {"status": given.status, "answer": given.answer}
