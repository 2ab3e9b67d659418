"""Schema of the embedded log, and the upgrade of older files."""

import secrets
import sqlite3
from collections.abc import Sequence

from controlplane.logs.sqlite.checksums import checksum

APPLICATION_ID = 0x436E4374
"""Marks a SQLite file as a log ("CnCt" in the header of the file, visible to `file(1)`)."""

PAGE_BYTES = 8_192
"""Page size: 2 % fewer bytes per record than with SQLite's 4,096, and as fast."""

OFFSET_BITS = 40
"""Low bits of `log.id`: the offset (`OFFSET_LIMIT`); the high bits are `partition.number`."""

NUMBERS_LIMIT = 2 ** (63 - OFFSET_BITS)
"""Upper bound of `partition.number`: SQLite's integers have 63 bits and a sign."""

MIGRATIONS: Sequence[Sequence[str]] = (
    (
        # `number` is stable and never reused; `end` is the next offset, which compaction and
        # retention do not change.
        """CREATE TABLE partition (
             number INTEGER PRIMARY KEY,
             topic TEXT NOT NULL,
             partition INTEGER NOT NULL,
             "end" INTEGER NOT NULL,
             UNIQUE (topic, partition)
           )""",
        # Ordered by rowid: the rows of a partition are contiguous, in order of their offsets.
        """CREATE TABLE log (
             id INTEGER PRIMARY KEY,
             ts INTEGER NOT NULL,
             key BLOB,
             value BLOB,
             headers BLOB,
             aborted INTEGER NOT NULL
           )""",
        "CREATE TABLE fence (epoch INTEGER NOT NULL)",
        "INSERT INTO fence VALUES (0)",
        # For users of a SQLite shell; this program does not read the view.
        """CREATE VIEW entry AS
             SELECT topic, partition, log.id & ((1 << 40) - 1) AS "offset",
                    datetime(ts / 1000, 'unixepoch') AS time, CAST(key AS TEXT) AS key,
                    CAST(value AS TEXT) AS value, aborted
             FROM log JOIN partition ON number = log.id >> 40""",
    ),
    (
        # Snapshots: complete if `about` is not null. A transaction that removes records of a topic
        # also removes its snapshots. Numbers are never reused.
        """CREATE TABLE snapshot (
             number INTEGER PRIMARY KEY AUTOINCREMENT,
             topic TEXT NOT NULL,
             kind TEXT NOT NULL,
             about BLOB
           )""",
        """CREATE TABLE piece (
             snapshot INTEGER NOT NULL,
             place INTEGER NOT NULL,
             bytes BLOB NOT NULL,
             PRIMARY KEY (snapshot, place)
           )""",
    ),
    (
        # Id of the log, shared by its backups: one row that never changes.
        "CREATE TABLE cluster (id TEXT NOT NULL)",
        "INSERT INTO cluster VALUES (new_cluster_id())",
    ),
    (
        # Checksums detect flipped bits. Existing records get theirs now.
        "ALTER TABLE log ADD COLUMN checksum INTEGER",
        "UPDATE log SET checksum = record_checksum(id, ts, key, value, headers, aborted)",
    ),
    (
        # Topics imported from dumps, which do not contain the cluster's number of partitions.
        "CREATE TABLE assumed_partitions (topic TEXT PRIMARY KEY)",
    ),
)
"""Entry n upgrades a file of version n to n+1. Entries are added, never changed."""

VERSION = len(MIGRATIONS)
"""Schema version that this release writes, in `PRAGMA user_version`."""

READABLE_VERSION = 1
"""Oldest version that is read without an upgrade: readers do not need the later tables."""


CLUSTER_ID_VERSION = 3
"""Oldest version in which a log has a cluster id."""

CHECKED_VERSION = 4
"""Oldest version in which each record has a checksum."""

ASSUMED_VERSION = 5
"""Oldest version that stores the topics with an assumed number of partitions."""

ID_BYTES = 16
"""Bytes of a cluster id before Base64 (22 characters), as in Kafka's `Uuid`."""


def upgrade(
    connection: sqlite3.Connection, migrations: Sequence[Sequence[str]] = MIGRATIONS
) -> None:
    """Upgrade the schema within the transaction that the caller has begun."""
    connection.create_function("new_cluster_id", 0, _new_cluster_id)
    connection.create_function("record_checksum", 6, checksum)
    version = schema_version(connection)
    for statements in migrations[version:]:
        for statement in statements:
            connection.execute(statement)
    if version < len(migrations):
        connection.execute(f"PRAGMA user_version = {len(migrations)}")


def schema_version(connection: sqlite3.Connection) -> int:
    """Schema version of a file; 0 for a file without tables."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def cluster_id(connection: sqlite3.Connection) -> str | None:
    """Return the cluster id of a log; None if its schema version has none."""
    if schema_version(connection) < CLUSTER_ID_VERSION:
        return None
    row = connection.execute("SELECT id FROM cluster").fetchone()
    return None if row is None else str(row[0])


def _new_cluster_id() -> str:
    """Create a random id as Kafka does (`Uuid.randomUuid`): never with a leading hyphen."""
    while (new_id := secrets.token_urlsafe(ID_BYTES)).startswith("-"):
        pass
    return new_id
