"""Parquet files of a change feed, partitioned by batch.

    FOLDER/state_changes/batch=7/cluster-<cluster>-00000.parquet    changes of one cluster
    FOLDER/finding_changes/batch=7/cluster-<cluster>-00000.parquet  findings about one cluster
    FOLDER/finding_changes/batch=7/fleet-00000.parquet              findings about several clusters
    FOLDER/batches/batch=7/part-00000.parquet                       written last

A batch counts once its file in `batches` exists. From then on, its files never change. If a crash
comes earlier, the next run removes the files of the batch, and repeats it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from replay.archive.stores.hadoop_settings import HadoopSettings
from replay.archive.stores.store import ArchiveStore, open_store
from replay.errors import ArchiveBusy
from replay.tables.cells import RowDocument, batches
from replay.tables.parquet_files import empty_batch, encoded_files
from replay.tables.schemas import FEED_SCHEMAS

BATCHES, STATE_CHANGES, FINDING_CHANGES = FEED_SCHEMAS
"""Names of the tables."""

BATCH = "batch"
"""Column that is the name of a folder, and not in the files."""

LockCheck = Callable[[], None]
"""Raises an error if another feed has taken over. It is called directly before each write."""

FLEET = "fleet"
"""Stem of the files that belong to no single cluster."""


def cluster_stem(cluster: str) -> str:
    """Stem of a cluster's files; its prefix keeps a cluster named `fleet` apart from `FLEET`."""
    return f"cluster-{cluster}"


def other_feed(where: str, batch: int) -> ArchiveBusy:
    """Create the error for a batch that another feed writes, or has written."""
    return ArchiveBusy(
        f"another feed writes batch {batch} in {where}: run one at a time. A killed feed keeps an "
        "object store locked for up to 2 minutes, or up to 10 without conditional puts: retry then"
    )


class FeedTables(msgspec.Struct, frozen=True):
    """Tables of a change feed, as a value that can be sent to other processes."""

    where: str
    settings: HadoopSettings

    @property
    def store(self) -> ArchiveStore:
        """Store of the tables' files."""
        return open_store(self.where, self.settings)

    def last(self) -> int:
        """Number of the last batch that counts; -1 before the first."""
        store = self.store
        names = (name.partition("=") for name in store.names(BATCHES))
        numbers = [int(number) for key, _, number in names if key == BATCH and number.isdigit()]
        for number in sorted(numbers, reverse=True):
            if store.size(_commit(number)) is not None:  # else a crash has left the folder
                return number
        return -1

    def clear(self, batch: int, check: LockCheck) -> None:
        """Remove the files of a batch that does not count yet.

        Raises:
            ArchiveBusy: another feed writes the batch.
            NotWritable: no permission.
        """
        store = self.store
        for table in (STATE_CHANGES, FINDING_CHANGES):
            folder = _folder(table, batch)
            for name in store.names(folder):
                check()
                store.remove(f"{folder}/{name}")

    def write(
        self, table: str, batch: int, stem: str, rows: Iterable[RowDocument], check: LockCheck
    ) -> int:
        """Write rows of a batch; return their number. Without rows there is no file.

        Raises:
            ArchiveBusy, LeaseLost: another feed writes the batch.
            NotWritable: no room, or no permission.
        """
        store, schema = self.store, _file_schema(table)
        written = 0
        for number, file in enumerate(encoded_files(schema, batches(schema, rows))):
            name = f"{_folder(table, batch)}/{stem}-{number:05}.parquet"
            check()
            store.replace(name, file.content)
            written += file.rows
        return written

    def commit(self, batch: int, rows: Sequence[RowDocument]) -> None:
        """Let a batch count.

        Raises:
            ArchiveBusy: another feed has written the same batch, or claims to write it.
            NotWritable: no room, or no permission.
        """
        schema = _file_schema(BATCHES)
        row_batches = chain([empty_batch(schema)], batches(schema, rows))
        (file,) = encoded_files(schema, row_batches)
        if not self.store.take(_commit(batch), file.content):
            raise other_feed(self.where, batch)

    def add_empty(self, batch: int, check: LockCheck) -> None:
        """Write files without rows, so that each table can be read from the first batch on.

        Raises:
            ArchiveBusy: another feed writes the batch.
            NotWritable: no room, or no permission.
        """
        for table in (STATE_CHANGES, FINDING_CHANGES):
            schema = _file_schema(table)
            (file,) = encoded_files(schema, [empty_batch(schema)])
            check()
            self.store.replace(f"{_folder(table, batch)}/empty-00000.parquet", file.content)

    def rows(self, table: str, batch: int) -> Iterator[RowDocument]:
        """Rows of a batch, by file."""
        store, folder = self.store, _folder(table, batch)
        for name in store.names(folder):
            if name.startswith((".", "_")):  # draft of a killed process, or a claim
                continue
            file = pq.ParquetFile(store.open(f"{folder}/{name}"))
            for rows in file.iter_batches():
                yield from ({BATCH: batch} | row for row in rows.to_pylist())

    def table(self, name: str) -> pa.Table:
        """Rows of all batches that count, in their order."""
        rows = (row for batch in range(self.last() + 1) for row in self.rows(name, batch))
        return pa.Table.from_pylist(list(rows), FEED_SCHEMAS[name])


def _folder(table: str, batch: int) -> str:
    return f"{table}/{BATCH}={batch}"


def _commit(batch: int) -> str:
    """Name of the file with which a batch counts."""
    return f"{_folder(BATCHES, batch)}/part-00000.parquet"


def _file_schema(table: str) -> pa.Schema:
    return pa.schema([field for field in FEED_SCHEMAS[table] if field.name != BATCH])
