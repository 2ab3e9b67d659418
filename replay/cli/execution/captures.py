"""Captures of several logs, once or continuously: one after the other, streams in parallel.

A failing log does not affect the others. A continuous capture retries it: brokers return, and
people fix causes. The capture ends if its first look archives no log. It also ends if a later look
archives none, and waiting does not help.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager, nullcontext, suppress
from functools import partial
from threading import Event
from typing import Any, NamedTuple

from controlplane.core.text.safe_text import count, safe
from controlplane.event_loop import cancel_all
from controlplane.logs.log import LogError, LogUnavailable
from controlplane.logs.log_factory import OpenedLog, OpenOptions, open_log
from controlplane.logs.names import is_cluster, is_embedded, path_of, without_login
from controlplane.settings import SettingsError
from controlplane.terminal.command_errors import flush
from controlplane.terminal.output import note, print_json, say
from controlplane.terminal.tables import table
from replay.archive.segments.segment_files import SIZES
from replay.archive.stores.store import ArchiveStore
from replay.capture.log_capture import CaptureResult, CaptureTarget, LogCapture
from replay.capture.secrets import SecretPolicy
from replay.cli.execution.background_compaction import BackgroundCompaction
from replay.cli.output.progress_bar import bar
from replay.errors import ArchiveBusy, NotCapturable, ReplayError
from replay.progress import ProgressListener

KAFKA = "kafka"

LIVING = (KAFKA, "sqlite")
"""Forms of live logs; all others are dumps."""

_WRONG = (LogError, ReplayError)
"""Errors of one log, or of its cluster's archive."""

_PASSES = (LogUnavailable, ArchiveBusy)
"""Errors that pass by themselves, even if all logs have them."""


class CaptureSource(NamedTuple):
    """A log and the name of its cluster."""

    name: str | None
    where: str

    @property
    def called(self) -> str:
        """Name in messages: the given name, else the log without credentials."""
        return self.name or without_login(self.where)

    @property
    def cluster(self) -> str | None:
        """Name in the archive: as given, else from the file name. None: the id of the cluster.

        Raises:
            LogNotUsable: the log has no valid name.
        """
        if self.name is not None or is_cluster(self.where):
            return self.name
        path = path_of(self.where)
        while path.suffix in _KINDS:  # other suffixes stay: `.9` in `connect-3.9.db`
            path = path.with_suffix("")
        return path.name


_KINDS = (".gz", ".jsonl", ".json", ".log", ".txt", ".db", ".sqlite", ".sqlite3")
"""Suffixes of file names that are not part of a cluster's name."""


def check_names(sources: Sequence[CaptureSource]) -> None:
    """Refuse logs that would be one cluster of the archive.

    Raises:
        NotCapturable: two logs have the same name.
    """
    names: set[str] = set()
    for source in sources:
        with suppress(LogError):  # the capture of this log reports the error
            name = source.cluster
            if name in names:
                raise NotCapturable(f"two logs have the name {name}: give each its own by NAME=LOG")
            if name is not None:
                names.add(name)


class CaptureOptions(NamedTuple):
    """Target, secrets, form and repetition of all captures of a command."""

    store: ArchiveStore
    how: OpenOptions
    secrets: SecretPolicy
    output: str
    pause_s: float | None
    """Seconds between captures; None captures once."""
    alone: bool = True
    """True for a single log, which messages need not name."""
    session: Any = None
    """Spark session, if it reads the clusters."""
    checkpoint: str | None = None
    """Folder for Structured Streaming's progress; None if it is not used."""
    compaction: BackgroundCompaction | None = None
    """Compacts the captured clusters while the capture runs; None: no compaction."""


class _CaptureAttempt(NamedTuple):
    """Result of one attempt to capture a log."""

    source: CaptureSource
    goes_on: bool
    """True if the log may grow."""
    captured: CaptureResult | None = None
    error: Exception | None = None


async def run(sources: Sequence[CaptureSource], job: CaptureOptions) -> bool:
    """Capture all logs once, then the live ones repeatedly.

    Returns True if everything was archived. Problems are printed.
    """
    streamed = [source for source in sources if job.checkpoint and is_cluster(source.where)]
    looks = [await _look(source, job) for source in sources if source not in streamed]
    _print([look.captured for look in looks if look.captured], job)
    nothing_works = not streamed and all(look.error for look in looks)
    ends = job.pause_s is None or nothing_works
    living = [] if ends else [look.source for look in looks if look.goes_on]
    failed = [look for look in looks if look.error]
    for look in failed:
        _tell(look, job, is_tried_again=look.source in living)
    _tell_what_follows(
        [look.source for look in looks if look.captured and look.source in living], job
    )
    # Without a live log the command ends at once: no compaction runs beside it.
    compaction = job.compaction if living or streamed else None
    if compaction is None and job.compaction is not None and job.compaction.retains:
        command = "replay compact-archive ARCHIVE --retain DURATION"
        note(f"no old records were removed: run `{command}`")
    async with compaction.running() if compaction else nullcontext():
        succeeded = await _all_succeed([_go_on(living, job), _stream(streamed, job)])
    return succeeded and all(look.source in living for look in failed)


async def _all_succeed(parts: Iterable[Coroutine[Any, Any, bool]]) -> bool:
    """Run parts of the command in parallel; if one raises an error, end the others first."""
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        return all(await asyncio.gather(*tasks))
    finally:
        await cancel_all(tasks)


def _tell_what_follows(living: list[CaptureSource], job: CaptureOptions) -> None:
    """Announce that the command waits: otherwise it would wait silently."""
    if living:
        called = ", ".join(source.called for source in living)
        note(f"{called}: captured again every {job.pause_s:g} s until Ctrl-C; --once captures once")


async def _go_on(living: list[CaptureSource], job: CaptureOptions) -> bool:
    """Capture repeatedly. Returns False if no log can be archived and waiting does not help."""
    while living and job.pause_s is not None:
        await asyncio.sleep(job.pause_s)
        looks = [await _look(source, job) for source in living]
        _print([look.captured for look in looks if look.captured and look.captured.added], job)
        failed = [look for look in looks if look.error]
        passes = any(isinstance(look.error, _PASSES) for look in failed)
        goes_on = passes or len(failed) < len(looks)
        for look in failed:
            _tell(look, job, is_tried_again=goes_on)
        if not goes_on:
            return False
    return True


def _tell(look: _CaptureAttempt, job: CaptureOptions, *, is_tried_again: bool) -> None:
    """Print the problem of a log."""
    sentence = safe(str(look.error))
    if is_tried_again:
        note(f"{look.source.called}: {sentence}; the capture is retried")
    else:
        which = "" if job.alone else f"{look.source.called}: "
        note(f"Error: {which}{sentence}")


def _print_one(captured: CaptureResult, job: CaptureOptions) -> None:
    _print([captured], job)


def _print(captured: Sequence[CaptureResult], job: CaptureOptions) -> None:
    if captured:
        _print_results(captured, job.output)
    if job.compaction is not None:
        for result in captured:
            job.compaction.note(result.cluster.name)


# --- one log ------------------------------------------------------------------------------------


async def _look(source: CaptureSource, job: CaptureOptions) -> _CaptureAttempt:
    """Archive the present content of one log."""
    goes_on = False
    try:
        goes_on = is_cluster(source.where) or is_embedded(source.where)
        async with _opened(source, job) as opened:
            with bar() as progress:
                captured = await _capture(source, opened, job, progress).run()
    except _WRONG as error:
        return _CaptureAttempt(source, goes_on, error=error)
    return _CaptureAttempt(source, goes_on, captured)


def _capture(
    source: CaptureSource, opened: OpenedLog, job: CaptureOptions, progress: ProgressListener
) -> LogCapture:
    """Create the capture: Spark tasks for a cluster, this process for anything else."""
    target = _target(source, opened, job)
    if job.session is None or opened.form != KAFKA:
        return LogCapture(opened.log, target, goes_on=opened.form in LIVING, progress=progress)
    from replay.capture.spark_capture import SparkCapture  # noqa: PLC0415 - needs an extra
    from replay.cli.execution.spark_captures import source as spark_source  # noqa: PLC0415

    read_by = spark_source(job.session, source.where, job.how)
    return SparkCapture(opened.log, target, read_by, progress)


@asynccontextmanager
async def _opened(source: CaptureSource, job: CaptureOptions) -> AsyncIterator[OpenedLog]:
    """Open a log for one attempt, because brokers and files come and go."""
    try:
        opened = await open_log(source.where, job.how)
    except SettingsError as error:
        raise NotCapturable(str(error)) from None
    try:
        for problem in opened.problems:
            note(f"{source.called}: {problem}")
        yield opened
    finally:
        await opened.log.close()


def _target(source: CaptureSource, opened: OpenedLog, job: CaptureOptions) -> CaptureTarget:
    return CaptureTarget(job.store, _name(source, opened), job.how.topics, job.secrets, SIZES)


def _name(source: CaptureSource, opened: OpenedLog) -> str:
    """Name in the archive: as given, else the cluster id, else from the file name."""
    name = opened.cluster_id if source.cluster is None else source.cluster
    if name is None:
        raise NotCapturable(f"{source.where} has no name of its own: write NAME={source.where}")
    return name


# --- Structured Streaming -----------------------------------------------------------------------


async def _stream(sources: Sequence[CaptureSource], job: CaptureOptions) -> bool:
    """Follow clusters in parallel; returns True unless one has failed permanently."""
    if not sources:
        return True
    ended = Event()
    with ThreadPoolExecutor(len(sources)) as threads:
        try:
            followed = (_streamed(source, job, threads, ended) for source in sources)
            return await _all_succeed(followed)
        finally:  # threads do not notice an interrupt by themselves
            ended.set()


async def _streamed(
    source: CaptureSource, job: CaptureOptions, threads: Executor, ended: Event
) -> bool:
    """Follow one cluster and restart after failures; a single cluster fails at once."""
    from replay.cli.execution.spark_captures import StreamedCluster, stream  # noqa: PLC0415 - needs an extra

    assert job.checkpoint is not None
    while True:
        try:
            async with _opened(source, job) as opened:
                target = _target(source, opened, job)
            cluster = StreamedCluster(source.where, job.how, target, job.checkpoint, job.pause_s)
            listener = partial(_print_one, job=job)
            work = partial(stream, job.session, cluster, listener, ended, alone=job.alone)
            await asyncio.get_running_loop().run_in_executor(threads, work)
        except _WRONG as error:
            is_tried_again = job.pause_s is not None and not job.alone
            _tell(_CaptureAttempt(source, True, error=error), job, is_tried_again=is_tried_again)
        else:
            return True
        if job.pause_s is None or job.alone:
            return False
        await asyncio.sleep(job.pause_s)


# --- output -------------------------------------------------------------------------------------

TOPICS_SHOWN = 5
"""Greatest number of other topics to print: a dump of a whole broker may have hundreds."""


def _print_results(captured: Sequence[CaptureResult], output: str) -> None:
    """Print added records, gaps and the head of each cluster."""
    _print_tables(captured) if output == "table" else print_json(list(map(_document, captured)))
    flush()  # a capture may go on for days, and its reader may be a pipe


def _print_tables(captured: Sequence[CaptureResult]) -> None:
    table(("CLUSTER", "READ", "ADDED", "ARCHIVED", "HEAD"), [_row(result) for result in captured])
    for result in captured:
        for gap in result.cluster.gaps:
            say(f"{result.cluster.name}: {gap.sentence}", style="yellow")
        if 0 < len(result.left_out) <= TOPICS_SHOWN:
            topics = ", ".join(result.left_out)
            say(f"{result.cluster.name}: not archived, because no connector names them: {topics}")


def _row(captured: CaptureResult) -> tuple[str, ...]:
    records = count(captured.records, "record")
    return (
        captured.cluster.name,
        str(captured.read),
        str(captured.added),
        records,
        captured.cluster.chain.head,
    )


def _document(captured: CaptureResult) -> dict[str, Any]:
    return {
        "cluster": captured.cluster.name,
        "read": captured.read,
        "added": captured.added,
        "archived": captured.records,
        "ends": captured.cluster.ends,
        "head": captured.cluster.chain.head,
        "gaps": [gap.sentence for gap in captured.cluster.gaps],
        "left_out": list(captured.left_out),
    }
