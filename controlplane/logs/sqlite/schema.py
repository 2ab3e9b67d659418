"""Tables of the embedded log, and how a file of an older version becomes one of this version."""

import secrets
import sqlite3
from collections.abc import Sequence

from controlplane.logs.sqlite.checksums import checksum

APPLICATION_ID = 0x436E4374
"""Marks a SQLite file as ours ("CnCt", in the header of the file, where `file(1)` sees it too)."""

PAGE_BYTES = 8_192
"""Page size: 2 % fewer bytes per record than with SQLite's 4,096, and as fast."""

OFFSET_BITS = 40
"""`log.id` = number of the topic's partition, shifted by this, plus the offset (`OFFSET_LIMIT`)."""

NUMBERS_LIMIT = 2 ** (63 - OFFSET_BITS)
"""`partition.number` lies below, because SQLite's integers have 63 bits and a sign."""

MIGRATIONS: Sequence[Sequence[str]] = (
    (
        # `number` is stable and never used twice; `end` is the next offset, which compaction and
        # retention leave as it is.
        """CREATE TABLE partition (
             number INTEGER PRIMARY KEY,
             topic TEXT NOT NULL,
             partition INTEGER NOT NULL,
             "end" INTEGER NOT NULL,
             UNIQUE (topic, partition)
           )""",
        # In the order of the rowid: a partition lies in one piece, in the order of its offsets.
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
        # For people with a SQLite shell; nothing here reads it.
        """CREATE VIEW entry AS
             SELECT topic, partition, log.id & ((1 << 40) - 1) AS "offset",
                    datetime(ts / 1000, 'unixepoch') AS time, CAST(key AS TEXT) AS key,
                    CAST(value AS TEXT) AS value, aborted
             FROM log JOIN partition ON number = log.id >> 40""",
    ),
    (
        # What was folded of a topic, for whoever begins: complete where `about` is there. Whatever
        # removes records of a topic removes its snapshots with them. Numbers are not used twice.
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
        # What the log is called for as long as there is a copy of it: one row, never changed.
        "CREATE TABLE cluster (id TEXT NOT NULL)",
        "INSERT INTO cluster VALUES (new_cluster_id())",
    ),
    (
        # A flipped bit is noticed. Records that lie there already get theirs now.
        "ALTER TABLE log ADD COLUMN checksum INTEGER",
        "UPDATE log SET checksum = record_checksum(id, ts, key, value, headers, aborted)",
    ),
    (
        # Topics out of dumps that do not tell how many partitions the cluster has.
        "CREATE TABLE assumed_partitions (topic TEXT PRIMARY KEY)",
    ),
)
"""Entry n brings a file of version n to version n+1. Entries are added, never changed."""

VERSION = len(MIGRATIONS)
"""The version of the schema that this release writes, in `PRAGMA user_version`."""

READABLE_VERSION = 1
"""The oldest version that is read as it is: what came since can be done without."""


NAMED_VERSION = 3
"""The oldest version in which a log has a name of its own."""

CHECKED_VERSION = 4
"""The oldest version in which each record has a checksum."""

ASSUMED_VERSION = 5
"""The oldest version that stores which topics may have more partitions in their cluster."""

ID_BYTES = 16
"""Of the name, before it becomes 22 characters of Base64: those of Kafka's `Uuid`."""


def upgrade(
    connection: sqlite3.Connection, migrations: Sequence[Sequence[str]] = MIGRATIONS
) -> None:
    """Bring the schema up to date inside of the transaction that the caller has begun."""
    connection.create_function("new_cluster_id", 0, _new_cluster_id)
    connection.create_function("record_checksum", 6, checksum)
    version = schema_version(connection)
    for statements in migrations[version:]:
        for statement in statements:
            connection.execute(statement)
    if version < len(migrations):
        connection.execute(f"PRAGMA user_version = {len(migrations)}")


def schema_version(connection: sqlite3.Connection) -> int:
    """Version of the schema that a file has; 0 where nothing has been made yet."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def cluster_id(connection: sqlite3.Connection) -> str | None:
    """What a log is called; None: it is of a version in which it is called nothing."""
    if schema_version(connection) < NAMED_VERSION:
        return None
    found = connection.execute("SELECT id FROM cluster").fetchone()
    return None if found is None else str(found[0])


def _new_cluster_id() -> str:
    """A name as Kafka gives them (`Uuid.randomUuid`): random, and not like an option's."""
    while (made := secrets.token_urlsafe(ID_BYTES)).startswith("-"):
        pass
    return made
