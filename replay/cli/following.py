"""Logs that are captured beside each other, once or for as long as they go on.

What is wrong with one is told and keeps nobody from the others. As long as a capture goes on, such
a log is tried again: brokers come back, people mend what is in the way. Where nothing can be
archived of any, it ends.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from threading import Event
from typing import Any, NamedTuple

import click

from controlplane.core.safe_text import safe
from controlplane.logs.log import LogError, LogUnavailable
from controlplane.logs.names import is_cluster, is_embedded, path_of, without_login
from controlplane.logs.opening import Opened, Opening, open_log
from controlplane.settings import SettingsError
from replay.archive.segments import SIZES
from replay.archive.store import Store
from replay.capture.capture import Capture, Captured, Target
from replay.capture.secrets import Secrets
from replay.cli.captured import print_captured
from replay.cli.progress import bar
from replay.errors import ArchiveBusy, NotCapturable, ReplayError
from replay.progress import Progress

KAFKA = "kafka"

LIVING = (KAFKA, "sqlite")
"""Logs that go on; the others are dumps."""

_WRONG = (LogError, ReplayError)
"""What can be wrong with one log, or with the archive of its cluster."""

_PASSES = (LogUnavailable, ArchiveBusy)
"""What passes by itself, even if it is the matter with all of them."""


class Source(NamedTuple):
    """A log, and what its cluster is called."""

    name: str | None
    where: str

    @property
    def called(self) -> str:
        """What people are told that it is."""
        return self.name or without_login(self.where)


class Job(NamedTuple):
    """Where everything goes, and how."""

    store: Store
    how: Opening
    secrets: Secrets
    output: str
    pause_s: float | None
    """How long to wait before looking again; None: logs are looked at once."""
    alone: bool = True
    """Whether one log is all that was named: then nobody need be told which one."""
    session: Any = None
    """Spark's, where it reads the clusters."""
    checkpoint: str | None = None
    """Where Structured Streaming keeps how far it is; None: it is not used."""


class _Look(NamedTuple):
    """What came of looking at a log."""

    source: Source
    goes_on: bool
    """Whether it may have more later."""
    captured: Captured | None = None
    error: Exception | None = None


async def run(sources: Sequence[Source], job: Job) -> bool:
    """Capture all of them once; then those that go on, again and again.

    Answers whether all of it is archived that was to be. What is not was told.
    """
    streamed = [one for one in sources if job.checkpoint and is_cluster(one.where)]
    looks = [await _look(one, job) for one in sources if one not in streamed]
    _print([one.captured for one in looks if one.captured], job)
    nothing_works = not streamed and all(one.error for one in looks)
    ends = job.pause_s is None or nothing_works
    living = [] if ends else [one.source for one in looks if one.goes_on]
    failed = [one for one in looks if one.error]
    for one in failed:
        _tell(one, job, is_tried_again=one.source in living)
    _tell_what_follows([one.source for one in looks if one.captured and one.source in living], job)
    done = await asyncio.gather(_go_on(living, job), _stream(streamed, job))
    return all(done) and all(one.source in living for one in failed)


def _tell_what_follows(living: list[Source], job: Job) -> None:
    """Say that the command does not end by itself: a waiting command prints nothing."""
    if living:
        called = ", ".join(one.called for one in living)
        click.echo(
            f"{called}: looked at again every {job.pause_s:g} s until Ctrl-C; --once looks once",
            err=True,
        )


async def _go_on(living: list[Source], job: Job) -> bool:
    """Look again and again. Ends, with False, where nothing can be archived that waiting helps."""
    while living and job.pause_s is not None:
        await asyncio.sleep(job.pause_s)
        looks = [await _look(one, job) for one in living]
        _print([one.captured for one in looks if one.captured and one.captured.added], job)
        failed = [one for one in looks if one.error]
        passes = any(isinstance(one.error, _PASSES) for one in failed)
        goes_on = passes or len(failed) < len(looks)
        for one in failed:
            _tell(one, job, is_tried_again=goes_on)
        if not goes_on:
            return False
    return True


def _tell(look: _Look, job: Job, *, is_tried_again: bool) -> None:
    """Say what is wrong with a log."""
    sentence = safe(str(look.error))
    if is_tried_again:
        click.echo(f"{look.source.called}: {sentence}; it is tried again", err=True)
    else:
        which = "" if job.alone else f"{look.source.called}: "
        click.echo(f"Error: {which}{sentence}", err=True)


def _print_one(captured: Captured, job: Job) -> None:
    _print([captured], job)


def _print(captured: Sequence[Captured], job: Job) -> None:
    if captured:
        print_captured(captured, job.output)


# --- one log ------------------------------------------------------------------------------------


async def _look(source: Source, job: Job) -> _Look:
    """Archive what one log has by now."""
    goes_on = False
    try:
        goes_on = is_cluster(source.where) or is_embedded(source.where)
        async with _opened(source, job) as opened:
            with bar() as progress:
                captured = await _capture(source, opened, job, progress).run()
    except _WRONG as error:
        return _Look(source, goes_on, error=error)
    return _Look(source, goes_on, captured)


def _capture(source: Source, opened: Opened, job: Job, progress: Progress) -> Capture:
    """Who captures it: tasks of Spark's a cluster, this process everything else."""
    target = _target(source, opened, job)
    if job.session is None or opened.form != KAFKA:
        return Capture(opened.log, target, goes_on=opened.form in LIVING, progress=progress)
    from replay.capture.spark import SparkCapture  # noqa: PLC0415 - not everybody has it
    from replay.cli.spark_capture import source as spark_source  # noqa: PLC0415

    read_by = spark_source(job.session, source.where, job.how)
    return SparkCapture(opened.log, target, read_by, progress)


@asynccontextmanager
async def _opened(source: Source, job: Job) -> AsyncIterator[Opened]:
    """One log, opened for this once: brokers and files come and go."""
    try:
        opened = await open_log(source.where, job.how)
    except SettingsError as error:
        raise NotCapturable(str(error)) from None
    try:
        for problem in opened.problems:
            click.echo(f"{source.called}: {problem}", err=True)
        yield opened
    finally:
        await opened.log.close()


def _target(source: Source, opened: Opened, job: Job) -> Target:
    return Target(job.store, _name(source, opened), job.how.topics, job.secrets, SIZES)


def _name(source: Source, opened: Opened) -> str:
    """What a cluster is called."""
    if source.name is not None:
        return source.name
    if is_cluster(source.where):
        if opened.cluster_id is None:
            raise NotCapturable(f"{source.where} has no name of its own: write NAME={source.where}")
        return opened.cluster_id
    path = path_of(source.where)
    while path.suffix in _KINDS:  # a release in a name is no kind of file
        path = path.with_suffix("")
    return path.name


_KINDS = (".gz", ".jsonl", ".json", ".log", ".txt", ".db", ".sqlite", ".sqlite3")
"""What names of files end in that is not the name of a cluster."""


# --- Structured Streaming -----------------------------------------------------------------------


async def _stream(sources: Sequence[Source], job: Job) -> bool:
    """Follow clusters beside each other; answers whether none of them has failed for good."""
    if not sources:
        return True
    ended = Event()
    with ThreadPoolExecutor(len(sources)) as threads:
        try:
            followed = (_streamed(one, job, threads, ended) for one in sources)
            return all(await asyncio.gather(*followed))
        finally:  # somebody may have interrupted: threads do not hear it by themselves
            ended.set()


async def _streamed(source: Source, job: Job, threads: Executor, ended: Event) -> bool:
    """Follow one cluster, and begin anew where that fails; one that is alone has failed then."""
    from replay.cli.spark_capture import Streaming, stream  # noqa: PLC0415 - not everybody has it

    assert job.checkpoint is not None
    while True:
        try:
            async with _opened(source, job) as opened:
                target = _target(source, opened, job)
            cluster = Streaming(source.where, job.how, target, job.checkpoint, job.pause_s)
            told_of = partial(_print_one, job=job)
            work = partial(stream, job.session, cluster, told_of, ended, alone=job.alone)
            await asyncio.get_running_loop().run_in_executor(threads, work)
        except _WRONG as error:
            is_tried_again = job.pause_s is not None and not job.alone
            _tell(_Look(source, True, error=error), job, is_tried_again=is_tried_again)
        else:
            return True
        if job.pause_s is None or job.alone:
            return False
        await asyncio.sleep(job.pause_s)
