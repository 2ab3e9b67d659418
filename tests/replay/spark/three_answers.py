"""Answers of the service, Spark and SQL about the same logs at the same moments.

Each log becomes the archive of a cluster. Spark folds all logs in one job; offset keys in two
partitions need a second one. SQL reads the same segments, and the service folds the logs
themselves.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import msgspec
from pyspark.sql import SparkSession

from controlplane.core.entry import Entry
from controlplane.core.moments import UnknownMoment
from controlplane.core.order import in_order
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState
from controlplane.logs.memory import MemoryLog
from controlplane.scenario.folds import FoldTask
from replay.archive.segments.segment_files import SegmentSizes
from replay.engine.local_engine import LocalEngine, LocalOptions
from replay.engine.query import StateQuery
from replay.engine.slices import LIMITS, TaskLimits
from replay.engine.spark.engine import SparkEngine
from replay.engine.states.state_digest import digest
from tests.replay.archive.archives import SMALL, capture, cluster_in, log_of, served
from tests.replay.sql.oracle import RELEASES, Cut, SqlOracle, TableLine, lines_of

SLICED = LIMITS._replace(slice_rows=6)
"""Limits with so few rows that partitions of short logs are sliced, and merged by a shuffle."""

CUTS_AT_ONCE = 2_000
"""Number of moments per SQL query: for each one SQL holds the whole prefix."""


class FoldQuestion(NamedTuple):
    """Question about a moment of a cluster, for some releases."""

    cut: Cut
    profiles: Sequence[Profile]

    @property
    def moment(self) -> str:
        """The cut in the form of `--as-of`."""
        if self.cut.record is None:
            return msgspec.json.encode(self.cut.ends).decode()
        return "{}@{}:{}".format(*self.cut.record)


class FoldAnswers(NamedTuple):
    """Answers about a moment: two states per profile, and SQL's lines per release."""

    question: FoldQuestion
    service: list[ClusterState]
    spark: list[ClusterState]
    sql: Mapping[str, set[TableLine]]

    def disagreements(self) -> Iterator[str]:
        """Text per profile: lines that a program lacks, with the programs that have them.

        The text is empty if the programs agree.
        """
        folded = zip(self.question.profiles, self.service, self.spark, strict=True)
        for profile, service, spark in folded:
            lines_by_program = {"service": lines_of(service), "Spark": lines_of(spark)}
            release = _RELEASES.get(profile.release)
            if release is not None:
                lines_by_program["SQL"] = {
                    line for line in self.sql[release] if _is_read(line, service)
                }
            odd = [*_lines_with_missing_programs(lines_by_program), *_differing(service, spark)]
            where = f"{profile.release} as of {self.question.moment}"
            yield "\n  ".join([where, *odd]) if odd else ""


_RELEASES = {Profile.of(release).release: release for release in RELEASES}


def _is_read(line: TableLine, state: ClusterState) -> bool:
    """True if the line has no topic, or one that the worker read at that moment. SQL reads all."""
    _, of_topic, topic = line[0].rpartition(" ")
    return not of_topic or topic in state.ends_by_topic


def _lines_with_missing_programs(lines_by_program: Mapping[str, set[TableLine]]) -> Iterator[str]:
    for line in sorted(set().union(*lines_by_program.values())):
        who = [name for name, lines in lines_by_program.items() if line in lines]
        if len(who) < len(lines_by_program):
            yield f"{', '.join(who)}: {line}"


def _differing(service: ClusterState, spark: ClusterState) -> list[str]:
    """Differences of two whole states, which SQL does not compute."""
    if service == spark and digest(service) == digest(spark):
        return []
    return [f"service: in all {digest(service)}", f"Spark: in all {digest(spark)}"]


Moments = Callable[[Sequence[Entry]], Sequence[Entry]]
"""Function that selects the records of a log after which the folds are compared."""

PREFIXES = 4


def every(log: Sequence[Entry]) -> Sequence[Entry]:
    """Every record; the log up to each one is a prefix."""
    return log


def sampled_prefixes(log: Sequence[Entry]) -> Sequence[Entry]:
    """The last record, and up to three earlier ones at equal distances; each ends a prefix."""
    return log[:: min(-1, -len(log) // PREFIXES)]


def jobs_done(spark: SparkSession) -> int:
    """Number of SQL executions of a Spark session so far; each job of `SparkEngine` is one."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    return int(spark._jsparkSession.sharedState().statusStore().executionsCount())


class ThreeFolds:
    """Service, Spark and SQL, which fold the same logs."""

    def __init__(
        self,
        spark: SparkSession,
        oracle: SqlOracle,
        sizes: SegmentSizes = SMALL,
        limits: TaskLimits = SLICED,
    ) -> None:
        self._spark = SparkEngine(spark, limits)
        self._oracle = oracle
        self._sizes = sizes

    def answers(
        self, logs: Mapping[str, Sequence[Entry]], questions: Sequence[FoldQuestion]
    ) -> Iterator[FoldAnswers]:
        """Answers to the questions about moments that the service knows.

        Other questions are left out, such as one about a record in a topic that no worker reads.
        """
        held = {name: log_of(log) for name, log in logs.items()}
        with TemporaryDirectory() as name:
            folder = Path(name)
            for cluster, log in held.items():
                capture(folder, log, name=cluster, sizes=self._sizes)
            served_questions = list(_served(held, questions))
            queries = [
                _state_query(folder, number, question)
                for number, (question, _) in enumerate(served_questions)
            ]
            in_spark = self._spark.states(queries)
            self._oracle.archive(folder)
            in_sql = self._lines([question.cut for question, _ in served_questions])
            for (question, service), spark, sql in zip(
                served_questions, in_spark, in_sql, strict=True
            ):
                yield FoldAnswers(question, service, spark, sql)

    def differ(self, asks: Sequence[FoldTask], moments: Moments = every) -> list[str]:
        """Text per question about a log: the first difference, or empty if the folds agree.

        The folds are compared after each record that `moments` selects.
        """
        names = {ask.entries: f"log-{number}" for number, ask in enumerate(asks)}
        readers: dict[tuple[tuple[Entry, ...], bool], list[Profile]] = {}
        for ask in asks:
            readers.setdefault((ask.entries, ask.exactly_once), []).append(ask.profile)
        questions = [
            FoldQuestion(Cut(None, entry.position, exactly_once, names[entries]), profiles)
            for (entries, exactly_once), profiles in readers.items()
            for entry in moments(in_order(entries))
        ]
        differences: dict[tuple[str, bool, Profile], str] = {}
        for answers in self.answers({name: log for log, name in names.items()}, questions):
            cut, profiles = answers.question
            for profile, text in zip(profiles, answers.disagreements(), strict=True):
                place = cut.cluster, cut.exactly_once, profile
                differences[place] = differences.get(place) or text
        return [
            differences.get((names[ask.entries], ask.exactly_once, ask.profile), "") for ask in asks
        ]

    def _lines(self, cuts: Sequence[Cut]) -> Iterator[dict[str, set[TableLine]]]:
        for start in range(0, len(cuts), CUTS_AT_ONCE):
            batch = cuts[start : start + CUTS_AT_ONCE]
            lines = self._oracle.answer(batch).lines
            for number in range(len(batch)):
                yield {release: lines[number, release] for release in RELEASES}


def _served(
    logs: Mapping[str, MemoryLog], questions: Sequence[FoldQuestion]
) -> Iterator[tuple[FoldQuestion, list[ClusterState]]]:
    for question in questions:
        (_, _, exactly_once, cluster), profiles = question
        with suppress(UnknownMoment):
            log, moment = logs[cluster], question.moment
            yield question, served(log, moment, profiles, exactly_once=exactly_once)


def _state_query(folder: Path, number: int, question: FoldQuestion) -> StateQuery:
    """Query of an archive: odd numbers read segments only, even ones also derived files.

    Derived files are snapshots, and winners: rows of a segment that may still count.
    """
    cut, profiles = question
    options = LocalOptions(cut.exactly_once, derived=number % 2 == 0)
    local = LocalEngine(cluster_in(folder, cut.cluster), options)
    return StateQuery(local, local.plan(question.moment, profiles), profiles)
