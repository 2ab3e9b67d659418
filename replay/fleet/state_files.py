"""Parquet files of states, partitioned by table, cluster and release.

    FOLDER/<table>/cluster=<cluster>/release=<release>/part-<bucket>-<number>.parquet
    FOLDER/summaries/part-00000-00000.parquet
    FOLDER/_STARTED
    FOLDER/_SUCCESS

In a folder of a file system, all files appear at once. They are written to a draft beside it, which
is renamed at the end. If a run is killed, the next run beside it removes the draft. An object store
cannot rename, so there `_SUCCESS` says that all files exist. Only there, a run first writes
`_STARTED`, so that no second run writes into the same folder.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain
from pathlib import Path

import msgspec
import pyarrow as pa

from controlplane.core.state import ClusterState
from controlplane.core.text.file_errors import unwritable
from controlplane.private_files import draft_folder, folder_mode, make_folders, remove_abandoned
from replay.archive.stores.hadoop_settings import HadoopSettings
from replay.archive.stores.object_store import CLAIMS
from replay.archive.stores.store import ArchiveStore, FolderStore, open_store
from replay.atomic_file import check_outside_clusters
from replay.cluster_problem import ClusterProblem, attempted
from replay.engine.query import StateQuery
from replay.engine.states.order_marks import OrderMarks
from replay.errors import ArchiveBusy, NotWritable, ReplayError
from replay.fleet.cluster_summaries import (
    ClusterCut,
    FleetQuestion,
    FoldedCluster,
    StateSummary,
    folded,
    summary_of,
    summary_table,
)
from replay.fleet.order_facts import MarksByRelease, order_facts
from replay.tables.parquet_files import empty_batch, encoded_files
from replay.tables.schemas import STATE_SCHEMAS
from replay.tables.state_tables import CONNECTORS_TABLE, STATE_TABLES, OrderFacts

SUCCESS = "_SUCCESS"
"""File that is written last, as by Spark and Hadoop."""

STARTED = "_STARTED"
"""First file of a run in an object store; it keeps other runs out of the folder."""

OFFSETS_TABLE = "offsets"
"""Table that is folded in buckets if a cluster is very large."""

_BY_FOLDER = ("cluster", "release")
"""Columns that are names of folders and not in the files."""


class StateFolder(msgspec.Struct, frozen=True):
    """Folder for the files of states, or of their differences.

    This is a value that can be sent to other processes.
    """

    where: str
    settings: HadoopSettings

    def write(
        self,
        table: str,
        state: ClusterState,
        cluster: str,
        bucket: int = 0,
        order: OrderFacts | None = None,
    ) -> int:
        """Write the rows of a table; return their number.

        Raises:
            NotWritable: no room, or no permission.
        """
        place = f"{table}/cluster={cluster}/release={state.profile.release}"
        schema = file_schema(table)
        row_batches = STATE_TABLES[table].batches(schema, cluster, state, order)
        return self.write_rows(place, schema, row_batches, bucket)

    def write_rows(
        self, place: str, schema: pa.Schema, row_batches: Iterable[pa.RecordBatch], bucket: int = 0
    ) -> int:
        """Write the files of one part of a table; return the number of rows.

        Raises:
            NotWritable: no room, or no permission.
        """
        store = open_store(self.where, self.settings)
        # Without rows there is an empty file: a reader of the table finds the schema.
        with_schema = chain([empty_batch(schema)], row_batches)
        written = 0
        for number, file in enumerate(encoded_files(schema, with_schema)):
            # In an object store, a killed task may have left a file of this name with other rows.
            store.replace(f"{place}/part-{bucket:05}-{number:05}.parquet", file.content)
            written += file.rows
        return written

    def finish(self, summaries: Sequence[StateSummary], clusters: Sequence[str]) -> pa.Table:
        """Write the summaries and the mark of success; return the table of summaries."""
        return self.complete("summaries", summary_table(summaries, clusters))

    def complete(self, name: str, table: pa.Table) -> pa.Table:
        """Write a small table as the last one, then the mark of success; return the table."""
        store = open_store(self.where, self.settings)
        (file,) = encoded_files(table.schema, [empty_batch(table.schema), *table.to_batches()])
        store.add(f"{name}/part-00000-00000.parquet", file.content)
        store.add(SUCCESS, b"")
        return table


def file_schema(table: str) -> pa.Schema:
    """Columns in the files of a table: without those that are names of folders."""
    schema = STATE_SCHEMAS[table]
    return pa.schema([field for field in schema if field.name not in _BY_FOLDER])


class StateTask(msgspec.Struct, frozen=True):
    """Task: fold one cluster, write tables of its states if a folder is given, and summarise."""

    question: FleetQuestion
    folder: StateFolder | None = None
    tables: tuple[str, ...] = ()
    offsets: bool = True
    """False: another job folds the offsets."""
    offset_facts: dict[str, MarksByRelease] = {}
    """Facts from that other job that depend on the order between partitions, by cluster."""

    def __call__(self, cut: ClusterCut) -> Iterator[StateSummary]:
        """Yield the summary of each release, or the problem of an unreadable cluster."""
        cluster = cut.cluster
        return self.summaries(cluster, attempted(cluster, lambda: self.question.query(*cut)))

    def summaries(self, cluster: str, query: StateQuery | ClusterProblem) -> Iterator[StateSummary]:
        """Yield the summary of each release of a planned cluster, or the problem of a cluster."""
        fold = attempted(cluster, partial(self._folded, query))
        if isinstance(fold, ClusterProblem):
            yield StateSummary(cluster, problem=fold.problem)
            return
        for state in fold.states:
            rows = self._write_tables(state, cluster, fold.marks)
            yield summary_of(fold.plan, state, rows, offsets=self.offsets)

    def _folded(self, query: StateQuery | ClusterProblem) -> FoldedCluster | ClusterProblem:
        if isinstance(query, ClusterProblem):
            return query
        marked = self.folder is not None and CONNECTORS_TABLE in self.tables
        try:
            return folded(query, offsets=self.offsets, marked=marked)
        except ArchiveBusy:  # a merge has removed files: open the cluster again
            again = self.question.query(query.plan.cluster, query.plan.ends)
            return folded(again, offsets=self.offsets, marked=marked)

    def _write_tables(
        self, state: ClusterState, cluster: str, marks: OrderMarks | None
    ) -> dict[str, int]:
        """Number of written rows, by table."""
        if self.folder is None:
            return {}
        of_offsets = self.offset_facts.get(cluster, {}).get(state.profile.release)
        order = order_facts(marks, state, of_offsets) if marks else None
        tables = [table for table in self.tables if self.offsets or table != OFFSETS_TABLE]
        return {table: self.folder.write(table, state, cluster, order=order) for table in tables}


@contextmanager
def new_folder(where: str, settings: HadoopSettings) -> Iterator[StateFolder]:
    """Yield a place for files; a folder appears as `where` when the block ends without an error.

    Raises:
        NotWritable: the place exists and has files, is in a cluster's folder, or cannot be written.
    """
    check_outside_clusters(where)
    store = open_store(where, settings)
    names = set(store.names("")) - {CLAIMS}
    if names and SUCCESS not in names and not isinstance(store, FolderStore):
        raise NotWritable(
            f"{where} has files but no {SUCCESS}, as after a run that was killed: remove them "
            "unless a run is writing, or name a new folder"
        )
    if names:
        raise NotWritable(f"{where} has files: name a new folder")
    if not isinstance(store, FolderStore):
        with _claimed(store):
            yield StateFolder(where, settings)
        return
    target = Path(store.where).absolute()
    if target.exists() and not target.is_dir():  # the rename at the end would fail
        raise NotWritable(f"{where} is a file: name a new folder")
    try:
        make_folders(target.parent)
        remove_abandoned(target.parent)
        with draft_folder(target) as draft:
            draft.chmod(folder_mode())
            yield StateFolder(str(draft), settings)
            draft.rename(target)
    except OSError as error:
        raise NotWritable(unwritable(target, error)) from None


@contextmanager
def _claimed(store: ArchiveStore) -> Iterator[None]:
    """Keep other runs out of a folder.

    A run that fails leaves the folder to the next one, unless it has written other files.
    """
    if not store.take(STARTED, b""):
        raise NotWritable(f"{store.where} is being written by another run: name a new folder")
    try:
        yield
    except BaseException:
        with suppress(ReplayError):  # an outage must not hide the error of the run
            store.remove(STARTED)
        raise
