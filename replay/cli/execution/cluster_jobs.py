"""Job for each named cluster.

Clusters are processed one after the other, so memory holds one. `--jobs N` processes N clusters in
parallel, each in its own process; `--engine spark` processes each in a Spark task.

An unreadable cluster does not affect the others. `--resume FOLDER` stores each result at once. Its
file name contains a hash of everything that affects the result. These are the version of the
package, the last manifest, the fields of the task and the options of reading. Stored results are
therefore never stale. An interrupt loses only the work on clusters in progress.
"""

import functools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import click
import msgspec

from controlplane.core.moments import UnknownMoment
from controlplane.core.text.file_errors import unwritable
from controlplane.core.text.safe_text import count, safe
from controlplane.logs.log import LogError
from controlplane.private_files import make_folders, replacing
from controlplane.terminal.exit_codes import INTERRUPTED, REFUSED
from controlplane.terminal.log_options import not_empty
from controlplane.terminal.output import note
from replay.atomic_file import check_outside_clusters
from replay.cli.inputs.log_input import LogInput
from replay.cli.inputs.opened_inputs import open_input
from replay.cli.options.engines import ExecutorChoice, executing_options
from replay.cli.output.gap_warnings import tell
from replay.cli.output.progress_bar import bar
from replay.cluster_problem import ClusterProblem, problem_sentences
from replay.cluster_records import ClusterRecords
from replay.doubts import AnswerDoubts, doubt_sentences, gap_sentences
from replay.engine.spark.location import anywhere
from replay.errors import ReplayError

T = TypeVar("T")

_STEM = 217
"""Greatest number of letters of the cluster in the name of a result file.

A file system allows 255 bytes, and 38 of them are the hash and `.json`.
"""

_INPUT = (LogError, UnknownMoment, ReplayError)


class ResultNotWritable(ReplayError):
    """The folder for results is not writable."""


class JobOptions(NamedTuple):
    """Options for running a job: how, and where its results are stored."""

    resume: Path | None = None
    """Folder of stored results."""
    executing: ExecutorChoice = ExecutorChoice()


ONE_BY_ONE = JobOptions()


class ClusterJob(NamedTuple, Generic[T]):
    """Function that runs once per cluster, and the type of its result."""

    name: str
    """Gerund for the progress bar: `auditing`."""
    task: Callable[[ClusterRecords], T]
    """Struct that makes the result; its fields and the log are everything that affects it."""
    result: type[T]
    """Struct of the result, stored as JSON."""
    past: bool = False
    """True if the result is about the past, and not only about the state at the chosen moment."""
    task_of: Callable[[str], Callable[[ClusterRecords], T]] | None = None
    """Function that returns the task of a cluster, if `task` holds facts of other clusters."""
    notices_only: bool = False
    """True if the command prints gaps and doubts, and nothing else needs them.

    Tasks then return a bounded number of sentences about them.
    """

    def of_cluster(self, cluster: str) -> "ClusterJob[T]":
        """Return the job of one cluster, whose task holds no facts of other clusters.

        So another process receives only the facts that it needs. The hash of a stored result covers
        all fields of the task. So a change of other clusters' facts leaves the result valid.
        """
        if self.task_of is None:
            return self
        return self._replace(task=self.task_of(cluster), task_of=None)


class ClusterNotices(NamedTuple):
    """Sentences about the gaps and doubts of a cluster; `SHOWN` limits their number."""

    gaps: Sequence[str] = ()
    doubts: Sequence[str] = ()


class ClusterResults(NamedTuple, Generic[T]):
    """Results by cluster, in the order of the arguments."""

    results: dict[str, T]
    failed: dict[str, str]
    """Reason, for each unreadable cluster."""
    gaps: dict[str, list[str]]
    """Gaps of each cluster, where there are any."""
    doubts: dict[str, AnswerDoubts]
    """Doubts of each cluster, where there are any."""
    notices: dict[str, ClusterNotices]
    """Printed sentences about gaps and doubts of each cluster."""

    @property
    def code(self) -> int:
        """Exit code with respect to unreadable clusters."""
        return REFUSED if self.failed else 0

    @property
    def document(self) -> dict[str, Any]:
        """Unreadable clusters, gaps and doubts as a JSON document."""
        documents = {cluster: doubts.documents for cluster, doubts in self.doubts.items()}
        members = {
            name: {cluster: document[name] for cluster, document in documents.items()}
            for name in AnswerDoubts._fields
        }
        return {"failed": self.failed, "gaps": self.gaps} | members


def fleet_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--resume`, `--jobs` and the engine options; the command gets `options`."""

    @functools.wraps(command)
    def with_options(resume: str | None, executing: ExecutorChoice, **arguments: Any) -> Any:
        if resume is not None:
            check_outside_clusters(resume)
        folder = None if resume is None else Path(resume)
        return command(options=JobOptions(folder, executing), **arguments)

    return click.option(
        "--resume",
        type=click.Path(file_okay=False),  # `path_type=Path` turns an empty text into a dot
        callback=not_empty,
        metavar="FOLDER",
        help="Store the result of each archived cluster in this folder. Later runs reuse it until "
        "the archive changes.",
    )(executing_options(with_options))


def run_for_each_cluster(
    inputs: Sequence[LogInput], job: ClusterJob[T], options: JobOptions = ONE_BY_ONE
) -> ClusterResults[T]:
    """Run the job for every cluster, with a progress bar.

    With a single cluster, its error is raised. If the error is about a moment and the cluster is
    archived, the message names the cluster. Ctrl-C ends the command.
    """
    cluster_results: ClusterResults[T] = ClusterResults({}, {}, {}, {}, {})
    named, resume = inputs, options.resume
    if options.executing.choice.is_spark:
        named, resume = _with_absolute_paths(inputs, options)
    with (
        # First, so that the bar and all processes have ended before its sentence is printed.
        interruption_named(inputs, options, cluster_results.results),
        bar() as shown,
        options.executing.by(shown) as executor,
    ):
        shown.begin(job.name, len(named))
        work = functools.partial(_processed, resume=resume)
        items = [(log, job.of_cluster(log.cluster)) for log in named]
        outcomes_of = executor.run(work, items)
        for log, outcomes in zip(named, outcomes_of, strict=True):
            for outcome in outcomes:
                _add(cluster_results, log, outcome, alone=len(named) == 1)
            shown.advance(1)
    tell({cluster: notices.gaps for cluster, notices in cluster_results.notices.items()})
    tell({cluster: notices.doubts for cluster, notices in cluster_results.notices.items()})
    for sentence in problem_sentences(cluster_results.failed):
        note(f"Error: {sentence}")
    return cluster_results


class _ClusterResult(NamedTuple, Generic[T]):
    """Result for one cluster, or the error that prevented it."""

    result: T | None
    error: Exception | None = None
    gaps: Sequence[str] = ()
    doubts: AnswerDoubts = AnswerDoubts()
    notices: ClusterNotices = ClusterNotices()


def _add(
    cluster_results: ClusterResults[T],
    log: LogInput,
    outcome: _ClusterResult[T],
    *,
    alone: bool,
) -> None:
    result, error, gaps, doubts, notices = outcome
    cluster = log.cluster
    cluster_results.notices[cluster] = notices
    if doubts.doubts:
        cluster_results.doubts[cluster] = doubts
    if gaps:
        cluster_results.gaps[cluster] = [*gaps]
    if result is not None:
        cluster_results.results[cluster] = result
    elif error is not None and (alone or isinstance(error, ResultNotWritable)):
        raise _named(error, log)
    else:
        cluster_results.failed[cluster] = safe(str(error))


def _named(error: Exception, log: LogInput) -> Exception:
    """Return the error; an error about a moment gets the name of the archived cluster."""
    if log.archived and isinstance(error, UnknownMoment):
        return UnknownMoment(ClusterProblem(log.cluster, str(error)).sentence)
    return error


def _processed(
    item: tuple[LogInput, ClusterJob[T]], resume: Path | None
) -> Iterator[_ClusterResult[T]]:
    """Work on one cluster, in any process."""
    log_input, job = item
    try:
        log = open_input(log_input)
        result = _cluster_result(log_input, log, job, resume)
        gaps = [gap.sentence for gap in log.gaps]
        doubts = log.past_doubts if job.past else log.doubts
        notices = ClusterNotices(gap_sentences(gaps), doubt_sentences([doubts]))
        if job.notices_only:
            gaps, doubts = [], AnswerDoubts()
        yield _ClusterResult(result, gaps=gaps, doubts=doubts, notices=notices)
    except _INPUT as error:
        yield _ClusterResult(None, error)


def _with_absolute_paths(
    inputs: Sequence[LogInput], options: JobOptions
) -> tuple[list[LogInput], Path | None]:
    """Inputs and result folder with absolute paths, for Spark's tasks."""
    if not all(log.archived for log in inputs):
        raise click.UsageError("Spark's tasks read archives only: create one with `replay capture`")
    resume = options.resume and options.resume.absolute()
    return [log._replace(where=anywhere(log.where)) for log in inputs], resume


@contextmanager
def interruption_named(
    inputs: Sequence[LogInput], options: JobOptions, finished: Sized = ()
) -> Iterator[None]:
    """On Ctrl-C within this context, end with a sentence about the clusters that are finished.

    `finished` is counted at that moment.
    """
    try:
        yield
    except KeyboardInterrupt:
        done = f"{len(finished)} of {count(len(inputs), 'cluster')} done"
        note(f"interrupted: {done}; {_storage_clause(inputs, options.resume)}")
        raise SystemExit(INTERRUPTED) from None


def _storage_clause(inputs: Sequence[LogInput], resume: Path | None) -> str:
    """Clause about stored results; only those of archives can be stored."""
    if not any(log.archived for log in inputs):
        return "no result is stored, since --resume stores those of archives only"
    if resume is None:
        return "--resume FOLDER would have stored their results"
    return f"--resume {resume} continues from there"


def _cluster_result(
    log_input: LogInput, log: ClusterRecords, job: ClusterJob[T], resume: Path | None
) -> T:
    if resume is None or log.head is None:
        return job.task(log)
    file = resume / f"{log_input.cluster[:_STEM]}-{_key(log_input, log, job)}.json"
    result = _stored_result(file, job)
    if result is None:
        result = job.task(log)
        _store_result(file, result)
    return result


def _key(log_input: LogInput, log: ClusterRecords, job: ClusterJob[T]) -> str:
    reading = log_input.reading
    decides = msgspec.to_builtins(job.task)
    about = (job.name, version("controlplane"), log.head, reading.exactly_once, reading.moment)
    return sha256(json.dumps([*about, decides]).encode()).hexdigest()[:32]


def _stored_result(path: Path, job: ClusterJob[T]) -> T | None:
    """Stored result; None if it is missing or unreadable."""
    try:
        return msgspec.convert(json.loads(path.read_bytes()), job.result, str_keys=True)
    except (OSError, ValueError, RecursionError):
        return None


def _store_result(path: Path, result: Any) -> None:
    """Store a result atomically, in ASCII: names may hold half surrogate pairs, as JSON may."""
    try:
        make_folders(path.parent)
        with replacing(path) as draft:
            document = json.dumps(msgspec.to_builtins(result, str_keys=True))
            draft.write_text(document, encoding="ascii")
    except OSError as error:
        raise ResultNotWritable(unwritable(path.parent, error)) from None


def worst(codes: Iterable[int]) -> int:
    """Exit code of several results: the greatest."""
    return max(codes, default=0)
