"""The public Python API: an open archive, and its tables.

    archive = replay.open("fleet")
    archive.state("connectors", as_of="2026-03-01", release="3.9")

With a Spark session, tables are data frames. `state`, `timeline`, `history` and `diff` return lazy
ones: Spark's tasks make their rows. Without a session, tables are Arrow tables. Schemas and names
of columns are those of `replay.tables.schemas` and `replay.timeline.timeline_rows`.
"""

import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from os import PathLike
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, cast

import pyarrow as pa

from controlplane.core.releases.profiles import KIP, Profile, resolve
from controlplane.core.text.safe_text import utf8_text
from replay.archive import layout
from replay.archive.stores.hadoop_settings import settings as store_settings
from replay.atomic_file import check_outside_clusters
from replay.audit.thresholds import thresholds as read_thresholds
from replay.cluster_problem import ClusterProblem
from replay.compat.release_change import RolloutMode, check_predictable
from replay.engine.executors import Executor
from replay.engine.spark.location import anywhere
from replay.fleet.answer_warnings import warn_of_absent
from replay.fleet.archive_source import ArchiveSource, UnreadableCluster
from replay.fleet.arguments import (
    check_tables,
    check_text,
    filter_in,
    member,
    moment_text,
    names_in,
)
from replay.fleet.cluster_summaries import FleetQuestion, StateSummary, joined, summary_table
from replay.fleet.comparisons import DifferenceQuery, MomentRelease
from replay.fleet.difference_files import COMPARISONS_TABLE, ComparedCluster, comparison_table
from replay.fleet.feed.change_feed import ArchiveFeed
from replay.fleet.feed.cluster_batch import FeedContext
from replay.fleet.feed.feed_tables import FeedTables
from replay.fleet.fleet_choice import fleet_of
from replay.fleet.fleet_tables import audit_table, cluster_table, compat_table, partition_table
from replay.fleet.state_files import new_folder
from replay.fleet.table_queries import HistoryQuery, IntervalQuery, StateTableQuery, TableQuery
from replay.fleet.table_run import OnUnreadable, TableWork
from replay.progress import ProgressListener
from replay.releases import profiles_named
from replay.tables.schemas import STATE_SCHEMAS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from replay.fleet.local_fleet import LocalFleet
    from replay.fleet.spark.fleet_jobs import SparkFleet

FrameT = TypeVar("FrameT")
"""Type of the tables: Arrow tables, or data frames of Spark."""

Releases = str | Sequence[str]
"""One release or several: a release, a line such as 3.9, `kip`, or `all`.

`kip` reads like the newest release, with known defects corrected. `all` means one release of each
distinct behaviour.
"""


def _known_release(name: str) -> Profile:
    """Release by its name; a warning names the one that is read in place of an unknown one."""
    resolved = resolve(name)
    if resolved.warning:  # `warnings.warn` would show a repeated warning once
        warnings.warn_explicit(resolved.warning, UserWarning, "replay", 1)
    return resolved.profile


def _known_connectors(compared: Iterable[ComparedCluster]) -> set[str]:
    return {utf8_text(name) for each in compared for name in each.connectors}


class ArchiveOptions(NamedTuple):
    """Options of `replay.open`; an empty `clusters` means all."""

    clusters: tuple[str, ...] = ()
    exactly_once: bool = False
    trust: bool = False
    unreadable: OnUnreadable = OnUnreadable.SKIP
    from_segments: bool = False
    jobs: int | None = None


class OpenArchive(Generic[FrameT]):
    """An archive of one or more clusters, open for queries.

    Most methods take one or both of these arguments:

    `as_of`: a time, a record (`config@57`) or a vector of end offsets; None or `end` is the end.
    Other texts raise `UnknownMoment`.
    `release`: release of the workers that read the log (`Releases`). Most methods accept several
    releases, or `all`: one release of each distinct behaviour. The other methods raise a ValueError
    for several. Every method raises it for an empty sequence.

    In the tables of `clusters()`, `partitions()`, `summaries()` and `write_state()`, a cluster
    without an answer has a row with the reason. In the other tables such a cluster has no rows, and
    a `SkippedCluster` warning names it. A task of Spark writes the warning to its log. With
    `unreadable="raise"`, such a cluster causes the error `UnreadableCluster` instead, whatever the
    table. Only the feed of `follow` continues: its table `batches` names the cluster.

    A named connector without any record has no rows. Without Spark, an `AbsentConnector` warning
    names it. `write_diff` warns with Spark, too.

    Records may be missing in the archive, for instance after a retention. Then an `UncertainAnswer`
    warning tells what is unknown, and the earliest certain moment. `summaries()`, `partitions()`,
    `write_state()` and `write_diff()` have columns for this instead.

    Arguments that take several names (`connectors`, `tables`) also take one name. A name or moment
    that is no text raises a TypeError.
    """

    def __init__(
        self,
        where: str | PathLike[str],
        options: ArchiveOptions,
        conf: dict[str, str],
        spark: "SparkSession | None" = None,
        progress: ProgressListener | None = None,
    ) -> None:
        self._source = ArchiveSource(
            anywhere(where),
            store_settings(conf),
            options.trust,
            options.exactly_once,
            derived=not options.from_segments,
        )
        self._selected = options.clusters
        self._unreadable = options.unreadable
        self._spark = spark
        self._progress = progress
        self._jobs = options.jobs
        self.names: list[str] = layout.selected_clusters(self._source.store, options.clusters)
        """Names of the clusters in this archive, or of the selected ones."""
        if options.clusters:
            layout.check_any_archived(self._source.store, options.clusters)

    # --- tables -----------------------------------------------------------------------------

    def clusters(self) -> FrameT:
        """List the archived clusters (`schemas.CLUSTERS`), unreadable ones included."""
        return self._problem_table(cluster_table(self._source, self.names, self._fleet.requests))

    def partitions(self) -> FrameT:
        """List what each partition has, misses, and knows for certain (`schemas.PARTITIONS`)."""
        return self._problem_table(partition_table(self._source, self.names, self._fleet.requests))

    def state(
        self, table: str = "connectors", *, as_of: str | None = None, release: Releases = KIP
    ) -> FrameT:
        """Return one table of the state at a moment.

        `table`: a name in `schemas.STATE_SCHEMAS`, such as `tasks`.

        Raises:
            ValueError: there is no table of that name.
            UnknownRelease: a release is unknown.
            UnreadableCluster: a cluster is unreadable and not to be skipped.
        """
        check_tables([table])
        return self._table(StateTableQuery(table, moment_text(as_of), self._profiles(release)))

    def summaries(self, *, as_of: str | None = None, release: Releases = KIP) -> FrameT:
        """Fold every cluster; return the digests of the states (`schemas.SUMMARIES`)."""
        question = self._question(as_of, release)
        parts = self._answered(self._fleet.summaries(question, self.names))
        return self._small(summary_table(joined(parts), self.names))

    def timeline(
        self,
        connectors: str | Iterable[str] | None = None,
        *,
        as_of: str | None = None,
        release: Releases = KIP,
        offsets: bool = False,
    ) -> FrameT:
        """Return the period in which each fact held, up to a moment (`timeline_rows.INTERVALS`).

        `connectors` restricts it; `offsets` includes source offsets, the majority of records.

        Raises:
            ValueError: `connectors` is empty.
        """
        profiles = self._profiles(release)
        return self._table(
            IntervalQuery(moment_text(as_of), profiles, filter_in(connectors), offsets)
        )

    def history(
        self, *connectors: str, as_of: str | None = None, release: Releases = KIP
    ) -> FrameT:
        """Return every record about some connectors, with its effect (`timeline_rows.EVENTS`).

        Raises:
            ValueError: no connector is named.
        """
        query = HistoryQuery(moment_text(as_of), self._profiles(release), names_in(connectors))
        if not connectors:  # such as a filter without a result
            raise ValueError("no connector is named: give one or more")
        return self._table(query)

    def diff(  # noqa: PLR0913 - each side has three coordinates
        self,
        since: str | None = None,
        until: str | None = None,
        *,
        release: str = KIP,
        to_release: str | None = None,
        to_cluster: str | None = None,
        connectors: str | Iterable[str] | None = None,
    ) -> FrameT:
        """Compare two moments, releases or clusters (`timeline_rows.CHANGES`).

        With `to_release` or `to_cluster`, `until` defaults to `since`. Otherwise a moment of None
        is the end.

        Raises:
            NoArchive: `to_cluster` is not archived.
            ValueError: no second side is named, or `connectors` is empty.
        """
        sides = self._sides((since, until), (release, to_release), to_cluster)
        return self._table(DifferenceQuery(*sides, filter_in(connectors)))

    def audit(
        self,
        *,
        as_of: str | None = None,
        release: str = KIP,
        thresholds: Mapping[str, str | int] | None = None,
    ) -> FrameT:
        """Find problems in the logs, the worst first (`schemas.FINDINGS`).

        `thresholds` changes limits by name; `replay audit --list` shows them.

        Raises:
            BadThreshold: a threshold is unknown or has an invalid value.
        """
        question = FleetQuestion(self._source, moment_text(as_of), (self._profile(release),))
        table = audit_table(question, self.names, thresholds or {}, self._executor)
        return self._small(table.answer(self._unreadable))

    def compat(
        self,
        start: str,
        goal: str,
        *,
        mode: str | None = None,
        transitive: bool = False,
        as_of: str | None = None,
    ) -> FrameT:
        """Predict the effects of a release change on each connector (`schemas.VERDICTS`).

        `mode` is upgrade, downgrade or rolling; `transitive` steps through every line in between.

        Raises:
            ValueError: `mode` has another value.
            BadReleaseChange: the mode contradicts the direction.
            UnknownRelease: a release is unknown, or of a line newer than all known ones.
        """
        before, after = self._profile(start), self._profile(goal)
        check_predictable(*names_in(start), *names_in(goal))
        question = FleetQuestion(self._source, moment_text(as_of), (before, after))
        rollout = member(RolloutMode, "mode", mode) if mode else None
        table = compat_table(question, self.names, rollout, self._executor, transitive=transitive)
        return self._small(table.answer(self._unreadable))

    # --- files and views --------------------------------------------------------------------

    def write_state(
        self,
        folder: str | PathLike[str],
        *,
        as_of: str | None = None,
        release: Releases = KIP,
        tables: str | Iterable[str] = tuple(STATE_SCHEMAS),
        review: Callable[[Sequence[StateSummary]], None] = lambda _: None,
    ) -> pa.Table:
        """Write tables of the state as Parquet, partitioned by cluster and release.

        Each cluster is folded once, for all tables and releases, and written where it is folded.
        The folder appears when all files are complete; it must be new or empty. In an object store,
        the file `_SUCCESS` appears last instead. An unreadable cluster has no files, and its
        problem is in the returned summaries (`schemas.SUMMARIES`).

        `review` receives the summaries before the folder appears. If it raises an error, no folder
        appears.

        Raises:
            ValueError: there is no table of that name.
            NotWritable: the folder has files, or cannot be written.
            UnreadableCluster: a cluster is unreadable and not to be skipped. No folder appears.
        """
        chosen = names_in(tables)
        check_tables(chosen)
        question = self._question(as_of, release)
        with new_folder(anywhere(folder), self._source.settings) as place:
            parts = self._fleet.summaries(question, self.names, place, chosen)
            summaries = joined(self._answered(parts))
            review(summaries)
            return place.finish(summaries, self.names)

    def write_diff(  # noqa: PLR0913 - each side has three coordinates
        self,
        folder: str | PathLike[str],
        since: str | None = None,
        until: str | None = None,
        *,
        release: str = KIP,
        to_release: str | None = None,
        to_cluster: str | None = None,
        connectors: str | Iterable[str] | None = None,
        review: Callable[[Sequence[ComparedCluster]], None] = lambda _: None,
    ) -> pa.Table:
        """Write the rows of `diff` as Parquet, partitioned by cluster.

        Each cluster is compared and written in one task. As in `write_state`, the folder appears
        when all files are complete. In an object store, the file `_SUCCESS` appears last instead.
        `review` receives the counts before that. Returns the counts and the problems
        (`timeline_rows.COMPARISONS`).

        Raises:
            NoArchive: `to_cluster` is not archived.
            ValueError: no second side is named, or `connectors` is empty.
            NotWritable: the folder has files, or cannot be written.
            UnreadableCluster: a cluster is unreadable and not to be skipped. No folder appears.
        """
        sides = self._sides((since, until), (release, to_release), to_cluster)
        query = DifferenceQuery(*sides, filter_in(connectors))
        with new_folder(anywhere(folder), self._source.settings) as place:
            written = list(self._fleet.differences(query, self._source, self.names, place))
            table = comparison_table(written, self.names)
            self._check_problems(table)
            review(written)
            warn_of_absent(query.connectors, _known_connectors(written))
            return place.complete(COMPARISONS_TABLE, table)

    def register_views(
        self,
        register: Callable[[str, Any], Any] | None = None,
        *,
        as_of: str | None = None,
        release: Releases = KIP,
        prefix: str = "",
    ) -> list[str]:
        """Register the tables of the state as SQL views; return their names.

        Spark gets temporary views; each query of them reads the archive. Without Spark, `register`
        takes a name and an Arrow table. A DuckDB connection or a Polars `SQLContext` has such a
        method. The Arrow tables are of one moment, although the archive may grow meanwhile.

        Raises:
            ValueError: neither Spark nor `register` is given.
        """
        if self._spark is None and register is None:
            raise ValueError("there is no Spark session: give `register`, such as DuckDB's")
        tables = list(STATE_SCHEMAS)
        query = StateTableQuery(tables[0], moment_text(as_of), self._profiles(release))
        frames: dict[str, Any] = self._fleet.state_frames(self._work(query), query, tables)
        for table, frame in frames.items():
            if register is None:
                frame.createOrReplaceTempView(prefix + table)
            else:
                register(prefix + table, frame)
        return [prefix + table for table in tables]

    def follow(
        self,
        folder: str | PathLike[str],
        checkpoint: str | PathLike[str],
        *,
        release: str = KIP,
        thresholds: Mapping[str, str | int] | None = None,
    ) -> ArchiveFeed:
        """Return the feed of changes: `advance` it by one batch, or `start` a stream of Spark.

        Each batch writes its rows to tables in `folder` (`schemas.FEED_SCHEMAS`). `checkpoint` is a
        folder for the progress and for snapshots. Clusters that are archived later are followed,
        too, unless `replay.open` has named clusters.

        Raises:
            ArchiveCorrupt: the tables and the checkpoint do not belong together.
            OtherReading: the checkpoint was written with other options.
            BadThreshold: a threshold is unknown or has an invalid value.
            NotWritable: a folder lies in that of a cluster.
        """
        profile = self._profile(release)
        settings = self._source.settings
        for place in (folder, checkpoint):
            check_outside_clusters(str(place))
        context = FeedContext(
            self._source,
            FeedTables(anywhere(folder), settings),
            anywhere(checkpoint),
            settings,
            profile,
            read_thresholds(thresholds or {}),
        )
        return ArchiveFeed(context, self._executor, self._selected, self._spark)

    # --- execution --------------------------------------------------------------------------

    def _table(self, query: TableQuery[Any]) -> FrameT:
        return cast("FrameT", self._fleet.frame(self._work(query)))

    def _work(self, query: TableQuery[Any]) -> TableWork:
        return TableWork(query, self._source, self.names, self._unreadable)

    def _small(self, table: pa.Table) -> FrameT:
        """A table that lies in this process, as Arrow table or data frame like the other tables."""
        return cast("FrameT", self._fleet.small_frame(table))

    def _problem_table(self, table: pa.Table) -> FrameT:
        """A small table that has a column for the problems of clusters, which may be raised."""
        self._check_problems(table)
        return self._small(table)

    def _check_problems(self, table: pa.Table) -> None:
        for cluster, problem in zip(table["cluster"], table["problem"], strict=True):
            self._check(cluster.as_py(), problem.as_py())

    def _answered(self, parts: Generator[StateSummary, None, None]) -> Iterator[StateSummary]:
        """Summaries as they arrive, until a problem is raised."""
        with closing(parts):  # an error ends the processes that plan
            for part in parts:
                self._check(part.cluster, part.problem)
                yield part

    def _check(self, cluster: str, problem: str | None) -> None:
        """Raise `UnreadableCluster` for a problem of a cluster that is not to be skipped."""
        if problem is not None and self._unreadable is OnUnreadable.RAISE:
            raise UnreadableCluster(ClusterProblem(cluster, problem).line)

    @property
    def _fleet(self) -> "LocalFleet | SparkFleet":
        return fleet_of(self._spark, self._progress, self._jobs)

    @property
    def _executor(self) -> Executor:
        return self._fleet.executor

    def _question(self, as_of: str | None, release: Releases) -> FleetQuestion:
        return FleetQuestion(self._source, moment_text(as_of), self._profiles(release))

    def _sides(
        self,
        moments: tuple[str | None, str | None],
        releases: tuple[str, str | None],
        to_cluster: str | None,
    ) -> tuple[MomentRelease, MomentRelease]:
        """Sides of a comparison; the second one has its own defaults (`diff`)."""
        (since, until), (release, to_release) = moments, releases
        if (since, until, to_release, to_cluster) == (None, None, None, None):
            raise ValueError("name a second side: `since`, `to_release` or `to_cluster`")
        if to_cluster is not None:
            check_text(to_cluster, "a cluster", "blue")
            layout.check_any_archived(self._source.store, [to_cluster])
        before = self._profile(release)  # once: an unknown release has one warning
        after = before if to_release is None else self._profile(to_release)
        is_same_moment = to_release is not None or to_cluster is not None
        end = since if until is None and is_same_moment else until
        first = MomentRelease(moment_text(since), before)
        return first, MomentRelease(moment_text(end), after, to_cluster)

    def _profile(self, release: Releases) -> Profile:
        profiles = self._profiles(release)
        if len(profiles) != 1:
            raise ValueError(f"one release is needed, and {release!r} names {len(profiles)}")
        return profiles[0]

    def _profiles(self, release: Releases) -> tuple[Profile, ...]:
        names = names_in(release, "a release", "3.9")
        if not names:
            raise ValueError("no release is named: give one or more")
        exactly_once = self._source.exactly_once
        return tuple(profiles_named(names, _known_release, exactly_once=exactly_once))
