"""Runs of `replay watch`: batches here, or a stream of Spark, printed from the tables."""

import json
import time
from typing import TYPE_CHECKING, NamedTuple

from controlplane.core.state import Topics
from controlplane.core.text.value_text import plain
from controlplane.terminal.command_errors import flush, write
from controlplane.terminal.output import note, say
from replay.cli.options.archives import ArchiveInput
from replay.cli.output.feed_lines import batch_line, finding_line, state_line
from replay.cluster_problem import ClusterProblem
from replay.errors import NoArchive, ReplayError
from replay.findings import Severity
from replay.fleet.feed.change_feed import ArchiveFeed
from replay.fleet.feed.feed_tables import BATCHES, FINDING_CHANGES, STATE_CHANGES
from replay.tables.cells import RowDocument

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

LOOK_S = 1
"""Seconds between two checks whether a stream has written a batch or has ended."""

_SEVERITIES = [severity.value for severity in Severity]


class WatchOptions(NamedTuple):
    """Pause between batches, and the form of what is printed."""

    every_s: float | None
    """Seconds between two checks of the archive for new records; None: one check."""
    output: str
    """`table` for people, or `json`."""
    least: str
    """Severity of the mildest printed findings."""


class FeedPrinter:
    """Prints the rows of batches that count, each batch once.

    A batch counts once all its rows are written (`change_feed`).
    """

    def __init__(self, feed: ArchiveFeed, archive: ArchiveInput, options: WatchOptions) -> None:
        self._feed = feed
        self._archive = archive
        self._options = options
        self._topics: dict[str, Topics] = {}
        self._printed = feed.batch

    def catch_up(self) -> None:
        """Print all batches that count and were not printed."""
        while self._printed < self._feed.batch:
            self._printed += 1
            self._print(self._printed)
            flush()

    def name_problems(self) -> None:
        """Name clusters that are unreadable since an earlier run: no row of a batch names them."""
        for problem in self._feed.problems:
            if problem.cluster not in self._archive.failed:
                self._archive.fail(problem)

    def _print(self, number: int) -> None:
        tables = self._feed.tables
        for row in tables.rows(STATE_CHANGES, number):
            self._show(STATE_CHANGES, row)
        for row in tables.rows(FINDING_CHANGES, number):
            if _SEVERITIES.index(row["severity"]) >= _SEVERITIES.index(self._options.least):
                self._show(FINDING_CHANGES, row)
        for row in tables.rows(BATCHES, number):
            self._show(BATCHES, row)
            if row["problem"] is not None:
                self._archive.fail(ClusterProblem(row["cluster"], row["problem"]))

    def _show(self, table: str, row: RowDocument) -> None:
        if self._options.output == "json":
            write(json.dumps(plain({"rows_of": table, **_decoded(row)})) + "\n")
        elif table == STATE_CHANGES:
            say(state_line(row, self._topics_of(row["cluster"])))
        elif table == FINDING_CHANGES:
            clusters = {record["cluster"] for record in row["evidence"]}
            say(finding_line(row, {cluster: self._topics_of(cluster) for cluster in clusters}))
        elif row["problem"] is None:
            say(batch_line(row))

    def _topics_of(self, cluster: str) -> Topics:
        if cluster not in self._topics:
            try:
                self._topics[cluster] = self._feed.context.source.cluster(cluster).topics
            except ReplayError:
                # The cluster has become unreadable, and its names of topics are unknown. A position
                # such as `config@57` then shows the topic's full name, unless that is the default.
                return Topics()
        return self._topics[cluster]


_JSON = ("after", "as_of", "before", "since")
"""Columns with JSON text; `-o json` prints their decoded values."""


def _decoded(row: RowDocument) -> RowDocument:
    return {
        name: json.loads(cell) if name in _JSON and cell is not None else cell
        for name, cell in row.items()
    }


def check_archive(feed: ArchiveFeed, archive: ArchiveInput) -> None:
    """Refuse an archive without any cluster, unless the checkpoint names one.

    Raises:
        NoArchive: the archive has no cluster, or its path does not exist.
    """
    if not feed.last_looks:
        archive.selected()


def watch_here(feed: ArchiveFeed, printer: FeedPrinter, every_s: float | None) -> None:
    """Run batches in this process; with a pause, until Ctrl-C.

    A later outage of the archive is printed, and the next check tries again.
    """
    feed.advance()
    printer.catch_up()
    printer.name_problems()
    while every_s is not None:
        time.sleep(every_s)
        try:
            feed.advance()
        except NoArchive as error:
            note(f"Error: {error}; tried again in {every_s:g} s")
        printer.catch_up()


def watch_stream(feed: ArchiveFeed, printer: FeedPrinter, every_s: float | None) -> None:
    """Run a stream of Spark until it ends, or until Ctrl-C.

    Raises:
        ReplayError: the error of a batch.
        NoSpark: Spark has failed.
    """
    printer.name_problems()  # the stream may continue until Ctrl-C
    query = feed.start(every_s)
    try:
        _awaited(query, printer, feed)
    finally:
        query.stop()
    printer.catch_up()
    printer.name_problems()


def _awaited(query: "StreamingQuery", printer: FeedPrinter, feed: ArchiveFeed) -> None:
    from pyspark.errors import PySparkException  # noqa: PLC0415 - needs an extra

    from replay.engine.spark.session import NoSpark, root_cause  # noqa: PLC0415 - the same

    try:
        while not query.awaitTermination(LOOK_S):
            printer.catch_up()
    except PySparkException as error:
        if feed.trouble is not None:
            raise feed.trouble from None
        raise NoSpark(f"Spark has failed ({root_cause(error)})") from None
