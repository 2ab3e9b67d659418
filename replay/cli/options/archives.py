"""Arguments of commands on archives: clusters, moment and releases."""

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, cast

import click

import replay
from controlplane.core.releases.profiles import Profile
from controlplane.core.text.safe_text import count
from controlplane.terminal.exit_codes import REFUSED
from controlplane.terminal.log_options import not_empty, read_profile
from controlplane.terminal.option_names import MOMENT, Decorated, named_option
from controlplane.terminal.output import note
from controlplane.terminal.shell_completion import complete_files
from replay.archive import layout
from replay.archive.archived_cluster import ArchivedCluster
from replay.atomic_file import check_place
from replay.cli.inputs.store import command_settings, store_named
from replay.cli.options.engines import ExecutorChoice
from replay.cli.options.moments import checked_moment
from replay.cli.options.output_file import OutputFile
from replay.cli.output.gap_warnings import tell_doubts, tell_gaps
from replay.cluster_problem import ClusterProblem, attempted
from replay.doubts import AnswerDoubts
from replay.engine.plans.read_plan import ReadPlan
from replay.errors import NotWritable, ReplayError
from replay.fleet.archive_source import ArchiveSource, UnreadableCluster
from replay.fleet.cluster_plans import planned_each
from replay.progress import ProgressListener
from replay.releases import profiles_named

if TYPE_CHECKING:
    from replay.fleet.open_archive import OpenArchive

T = TypeVar("T")


class PlannedJob(Protocol):
    """Job about one cluster."""

    @property
    def cluster(self) -> ArchivedCluster:
        """The cluster whose records the job reads."""
        ...


PlannedT = TypeVar("PlannedT", bound=PlannedJob)

PROBLEMS_SHOWN = 20
"""Clusters that are named if none has an answer, so that they fit a screen; others are counted."""

NONE = "-"
"""Shown for an absent value."""


class ArchiveInput(NamedTuple):
    """An archive, and the way of reading it."""

    archive: str
    clusters: tuple[str, ...]
    """Only these clusters; empty means all."""
    exactly_once: bool
    trusting: bool
    failed: list[str]
    """Clusters that turned out to be unreadable."""

    def answer_of_each(
        self,
        ask: Callable[[str], T | ClusterProblem],
        *moments: str | None,
        jobs: int | None = None,
    ) -> list[T]:
        """Plan several clusters at a time; return the answers. Errors of clusters are printed.

        `ask` opens and plans a cluster at these moments; it may run in another process. `jobs`
        limits the number of processes.

        Raises:
            UnreadableCluster: every cluster failed (`no_answer`).
        """
        plans = planned_each(partial(_attempt, ask), self.selected(), moments, jobs)
        return self.readable(plans)

    def answer_without_damaged(
        self, jobs: Sequence[PlannedT], answer: Callable[[Sequence[PlannedT]], T]
    ) -> T:
        """Answer about all jobs; if a cluster's records are damaged, print that, and answer again.

        An answer is whole: it has no rows of a damaged cluster.

        Raises:
            ReplayError: the last readable cluster is damaged, or the error is about no cluster.
        """
        while True:
            try:
                return answer(jobs)
            except ReplayError as error:
                others = [job for job in jobs if job.cluster.name != error.cluster]
                # Each turn leaves a cluster out, so the loop ends.
                if error.cluster is None or not 0 < len(others) < len(jobs):
                    raise
                self.fail(ClusterProblem(error.cluster, str(error)))
                jobs = others

    def profiles(self, names: Sequence[str]) -> list[Profile]:
        """Releases by name, each once; `all` means one release of each distinct behaviour.

        Raises:
            UnknownRelease: an unknown name, or with `exactly_once` a release that lacks it.
        """
        return profiles_named(names, read_profile, exactly_once=self.exactly_once)

    def source(self, *, derived: bool = True) -> ArchiveSource:
        """The archive as a value; `ArchiveSource.anywhere` makes its path absolute, for tasks."""
        # Even if the archive is a folder, the output may go to an object store.
        settings = command_settings()
        return ArchiveSource(self.archive, settings, self.trusting, self.exactly_once, derived)

    def selected(self) -> list[str]:
        """Names of the selected clusters.

        Raises:
            NoArchive: the archive has no cluster at all.
        """
        return layout.selected_clusters(store_named(self.archive), self.clusters)

    @contextmanager
    def opened(
        self, executing: ExecutorChoice, progress: ProgressListener, *, from_segments: bool = False
    ) -> "Iterator[OpenArchive[Any]]":
        """Yield the archive as the Python API opens it.

        Raises:
            NoArchive: the archive has no cluster at all.
        """
        clusters = self.selected()  # without a cluster, Spark is not started
        engine = executing.choice
        with engine.session(progress) as session:
            yield replay.open(
                self.archive,
                clusters=clusters,
                spark=session,
                exactly_once=self.exactly_once,
                trust=self.trusting,
                from_segments=from_segments,
                conf=dict(engine.conf),
                progress=progress,
                jobs=executing.jobs,
            )

    def fail(self, problem: ClusterProblem) -> None:
        """Print the problem of a cluster; the command ends with exit code 2."""
        self.failed.append(problem.cluster)
        note(f"Error: {problem.sentence}")

    def readable(self, answers: Iterable[T | ClusterProblem]) -> list[T]:
        """Return the answers, and print the errors of the other clusters.

        Raises:
            UnreadableCluster: there is no answer (`no_answer`).
        """
        return list(self.each_readable(answers))

    def each_readable(self, answers: Iterable[T | ClusterProblem]) -> Iterator[T]:
        """Yield the answers as they come; then print the errors of the other clusters.

        Raises:
            UnreadableCluster: there is no answer (`no_answer`).
        """
        is_answered = False
        problems: list[ClusterProblem] = []
        for answer in answers:
            if isinstance(answer, ClusterProblem):
                problems.append(answer)
            else:
                is_answered = True
                yield answer
                del answer  # it would stay in memory until the next one is made
        if problems and not is_answered:
            raise no_answer(problems)
        for problem in problems:
            self.fail(problem)


def no_answer(problems: Sequence[ClusterProblem]) -> UnreadableCluster:
    """Print the problems of all clusters, one line each, except the last line: the error's."""
    lines = [problem.sentence for problem in problems[:PROBLEMS_SHOWN]]
    unlisted = len(problems) - len(lines)
    if unlisted:
        lines.append(f"… and {count(unlisted, 'more cluster')}")
    for line in lines[:-1]:
        note(f"Error: {line}")
    return UnreadableCluster(lines[-1])


def _attempt(ask: Callable[[str], T | ClusterProblem], name: str) -> T | ClusterProblem:
    return attempted(name, partial(ask, name))


def print_plan_notices(plans: Sequence[ReadPlan]) -> None:
    """Print notices, gaps and doubts of plans, each once."""
    for notice in dict.fromkeys(
        f"{plan.cluster}: {each}" for plan in plans for each in plan.notices
    ):
        note(notice)
    tell_gaps(gaps_of(plans))
    tell_doubts(doubts_of(plans))


def gaps_of(plans: Sequence[ReadPlan]) -> dict[str, list[str]]:
    """Gaps of plans by cluster; clusters without gaps are left out."""
    sentences_of: dict[str, dict[str, None]] = {}
    for plan in plans:
        for gap in plan.gaps:
            sentences_of.setdefault(plan.cluster, {})[gap.sentence] = None
    return {cluster: [*sentences] for cluster, sentences in sentences_of.items()}


def doubts_of(plans: Sequence[ReadPlan]) -> dict[str, list[AnswerDoubts]]:
    """Doubts of plans by cluster; clusters without doubts are left out."""
    every: dict[str, list[AnswerDoubts]] = {}
    for plan in plans:
        if plan.doubts:
            every.setdefault(plan.cluster, []).append(plan.answer_doubts)
    return every


def doubt_documents(plans: Sequence[ReadPlan]) -> dict[str, list[dict[str, Any]]]:
    """Doubts of plans by cluster, each once, as JSON documents."""
    documents: dict[str, list[dict[str, Any]]] = {}
    for cluster, every in doubts_of(plans).items():
        doubts = dict.fromkeys(chain.from_iterable(each.doubts for each in every))
        documents[cluster] = [doubt.document for doubt in doubts]
    return documents


def missing_documents(plan: ReadPlan) -> dict[str, Any]:
    """Gaps and doubts of a plan, as members of a JSON document."""
    return {"gaps": [gap.sentence for gap in plan.gaps]} | plan.answer_doubts.documents


def archive_argument(command: Decorated) -> Decorated:
    """Add ARCHIVE and its options; the command gets `archive: ArchiveInput`."""

    @functools.wraps(command)
    def with_archive(
        archive: str, names: tuple[str, ...], *, exactly_once: bool, trusting: bool, **rest: Any
    ) -> Any:
        archive_input = ArchiveInput(archive, names, exactly_once, trusting, [])
        result = command(archive=archive_input, **rest)
        if archive_input.failed:
            raise SystemExit(REFUSED)
        return result

    for option in reversed(_OPTIONS):
        with_archive = option(with_archive)
    return with_archive  # type: ignore[return-value]  # click changes the type


def clusters_option(verb: str) -> Callable[[Decorated], Decorated]:
    """Add `--cluster NAME`, which may be repeated; the command gets `names`."""
    return click.option(
        "--cluster",
        "names",
        metavar="NAME",
        multiple=True,
        callback=not_empty,
        help=f"{verb} only this cluster. May be repeated.",
    )


_OPTIONS = (
    click.argument("archive", shell_complete=complete_files),
    clusters_option("Read"),
    click.option(
        "--exactly-once",
        is_flag=True,
        help="Read like workers with exactly-once support: skip aborted configs and offsets.",
    ),
    click.option("--trust", "trusting", is_flag=True, help="Skip the comparison of file hashes."),
)


def moment_option(about: str = "[default: end]") -> Callable[[Decorated], Decorated]:
    """Add `--as-of MOMENT`; the command gets `moment`."""
    help_text = f"Moment: {MOMENT}. {about}"
    return click.option(
        "--as-of", "moment", metavar="MOMENT", callback=checked_moment, help=help_text
    )


profiles_option = named_option(
    "--release",
    "releases",
    former=("--profile",),
    metavar="RELEASE",
    multiple=True,
    default=("kip",),
    help="Release of the workers, or kip; `all`: one of each distinct behaviour. May be repeated. "
    "[default: kip]",
)

connectors_option = click.option(
    "--connector",
    "connectors",
    metavar="NAME",
    multiple=True,
    callback=not_empty,
    help="Show only this connector. May be repeated.",
)


def file_option(*former: str) -> Callable[[Decorated], Decorated]:
    """Add `--file FILE`, required by `-o parquet`; the command gets `file`."""

    def with_option(command: Decorated) -> Decorated:
        @functools.wraps(command)
        def with_file(*, output: str, file: Path | None, **rest: Any) -> Any:
            _check_file(output, file)
            return command(output=output, file=file, **rest)

        return cast("Decorated", _file_option(former)(with_file))

    return with_option


def _check_file(output: str, file: Path | None) -> None:
    if (output == "parquet") is not (file is not None):
        raise click.UsageError("-o parquet and --file FILE belong together")
    if file is not None:
        check_place(file)
        if file.is_fifo():  # the opening would wait for a reader, and Ctrl-C would not end it
            raise NotWritable(f"{file} is a pipe, and Parquet needs a file: name a file")


def _file_option(former: tuple[str, ...]) -> Callable[[Any], Any]:
    return named_option(
        "--file",
        former=former,
        metavar="FILE",
        type=OutputFile(),
        help="Parquet file to write.",
    )


to_option = file_option("--to")


def folder_option(about: str, *former: str) -> Callable[[Decorated], Decorated]:
    """Add `--file` and `--folder`, one of which `-o parquet` requires; the command gets both."""

    def with_options(command: Decorated) -> Decorated:
        @functools.wraps(command)
        def with_folder(*, output: str, file: Path | None, folder: str | None, **rest: Any) -> Any:
            if folder is None:
                _check_file(output, file)
            elif output != "parquet" or file is not None:
                raise click.UsageError("--folder FOLDER needs -o parquet, and no --file")
            return command(output=output, file=file, folder=folder, **rest)

        option = click.option(
            "--folder",
            metavar="FOLDER",
            callback=not_empty,
            shell_complete=complete_files,
            help=about,
        )
        return cast("Decorated", option(_file_option(former)(with_folder)))

    return with_options
