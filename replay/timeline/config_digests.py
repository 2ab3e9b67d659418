"""Digests of each release's config state after every record of the config topic.

Each row of each table has a hash of 32 bytes. The digest of a state is the sum of the hashes. A
record thus changes the digest by its changed rows only. The sum does not depend on the order of the
records that led to the state. Equal states have equal digests. Different states have different
digests, unless an attacker constructs rows on purpose.
"""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import compress
from operator import is_not
from typing import Any, NamedTuple

import msgspec

from controlplane.core.codec.offsets import frozen
from controlplane.core.fold.config import ConfigFold, ConfigRows
from controlplane.core.fold.flat_values import flat
from controlplane.core.records import TaskConfig
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import Topics
from controlplane.core.topics.key_owners import owner
from replay.timeline.decoded_records import TimedRecord

BYTES = 32
"""Length of a digest."""

_ALL = (1 << 8 * BYTES) - 1
_DEFERRED, _TASKS = "deferred", "tasks"


def split_digests(digests: bytes) -> Iterator[bytes]:
    """Split concatenated digests; one bytes object is cheaper to send between processes."""
    return (digests[at : at + BYTES] for at in range(0, len(digests), BYTES))


class RowHashes:
    """Hashes of rows, cached: a value shared by rows or releases is hashed once."""

    def __init__(self) -> None:
        self._contents: dict[int, tuple[Any, bytes]] = {}
        self._rows: dict[tuple[str, str, int, int], int] = {}

    def row(self, table: str, name: str, value: Any) -> int:
        """Hash of a connector's row in a table; for tasks, the sum over all of them."""
        if table not in (_TASKS, _DEFERRED):
            return self.cell(table, name, -1, value)
        tasks = [self.cell(table, name, task, config) for task, config in value.items()]
        return sum(tasks, self.cell(table, name, -1, None))

    def cell(self, table: str, name: str, task: int, value: Any) -> int:
        """Hash of one row; `task` is -1 for a row without a task."""
        key = table, name, task, id(value)
        row_hash = self._rows.get(key)
        if row_hash is None:
            row_hash = self._rows[key] = _number(table, name, task, self._content(value))
        return row_hash

    def _content(self, value: Any) -> bytes:
        cached = self._contents.get(id(value))
        if cached is None:
            # The cached value stays alive, so its id stays unique.
            cached = value, _encoded_value(value)
            self._contents[id(value)] = cached
        return cached[1]


def _encoded_value(value: Any) -> bytes:
    """Encode a value: equal bytes mean equal Java values, in any order of fields."""
    try:
        return _ENCODER.encode(value)
    except (UnicodeEncodeError, RecursionError):  # half a surrogate pair, or nested too deeply
        return _ENCODER.encode(flat(frozen(value)))


_ENCODER = msgspec.msgpack.Encoder(order="deterministic")


def _number(table: str, name: str, task: int, content: bytes) -> int:
    where = f"{table}\0{task}\0{len(name)}\0{name}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(where + content, digest_size=BYTES).digest())


class DigestChunk:
    """Records to fold, with the cached hashes of their values."""

    def __init__(self, records: Sequence[TimedRecord]) -> None:
        self.records = records
        self.hashes = RowHashes()


NO_OFFSET = -1


class DigestChanges(NamedTuple):
    """Changes by each record of a chunk."""

    sums: bytes
    """Change that each record makes to the sum of row hashes, modulo 2^256; concatenated. The sum
    does not include the hash of the offset."""
    offsets: "array[int]"
    """Offset of the state; `NO_OFFSET` after a record that does not advance it."""


class _ConnectorRows(NamedTuple):
    """Rows of a connector, their hashes, and those of its pending task configs."""

    rows: ConfigRows
    """State of the rows after the last record other than a task config.

    Later task configs are pending: `hashes` and `waiting` include them.
    """
    hashes: Sequence[int]
    waiting: Mapping[int, int]
    """Hash of each pending task config, by task."""


_TABLES = ConfigRows._fields
_PLACES = range(len(_TABLES))
_AT_DEFERRED = _TABLES.index(_DEFERRED)
_NONE = _ConnectorRows(ConfigRows(), (0,) * len(_TABLES), {})


class _RowChange(NamedTuple):
    """A connector after a record, and the change of its sum of hashes."""

    connector: _ConnectorRows
    by: int


def _updated(was: _ConnectorRows, rows: ConfigRows, name: str, hashes: RowHashes) -> _RowChange:
    """Hash the rows that a record has changed; the fold makes a new object for a changed row.

    So rows are compared by identity. Only `deferred` may change in place: `_joined` hashes these
    changes.
    """
    numbers, waiting, by = list(was.hashes), was.waiting, 0
    places = [*compress(_PLACES, map(is_not, was.rows, rows))]
    # For each pending task config, `_joined` has changed the hash of `deferred`, not `was.rows`.
    # After a commit, `deferred` may be the same object as in `was.rows`, for instance None. The
    # comparison then finds no change, but the hash still includes the pending task configs.
    if waiting and _AT_DEFERRED not in places:
        places.append(_AT_DEFERRED)
    for at in places:
        after: Any = rows[at]
        number = 0 if after is None else hashes.row(_TABLES[at], name, after)
        by += number - numbers[at]
        numbers[at] = number
        if at == _AT_DEFERRED:
            waiting = {
                task: hashes.cell(_DEFERRED, name, task, config)
                for task, config in (after or {}).items()
            }
    return _RowChange(_ConnectorRows(rows, numbers, waiting), by)


def _joined(was: _ConnectorRows, record: TaskConfig, hashes: RowHashes) -> _RowChange:
    """Add a pending task config; the first one of a connector creates the set of pending ones."""
    name, task = record.connector, record.task
    task_hash = hashes.cell(_DEFERRED, name, task, record.properties)
    by = task_hash - was.waiting.get(task, 0)
    if not was.hashes[_AT_DEFERRED]:
        by += hashes.cell(_DEFERRED, name, -1, None)
    numbers = list(was.hashes)
    numbers[_AT_DEFERRED] += by
    return _RowChange(_ConnectorRows(was.rows, numbers, {**was.waiting, task: task_hash}), by)


class DigestFold:
    """Fold of the config topic, or of some of its connectors, with the changes of its digest."""

    def __init__(self, topics: Topics, profile: Profile, begun: "DigestFold | None" = None) -> None:
        self.profile = profile
        self.topics = topics
        self.fold = ConfigFold(profile)
        self.rows_by_connector: dict[str, _ConnectorRows] = {}
        self.owners: dict[bytes | None, str | None] = {}
        if begun is not None:
            self.fold.adopt(begun.fold.publish())
            self.rows_by_connector = begun.rows_by_connector.copy()
            self.owners = begun.owners if profile is begun.profile else {}

    def fork(self, profile: Profile) -> "DigestFold":
        """Copy the fold for a release; the copies are independent."""
        return DigestFold(self.topics, profile, self)

    def take(self, work: DigestChunk) -> DigestChanges:
        """Fold some records; return the changes by each of them."""
        fold, hashes = self.fold, work.hashes
        sums, offsets = [], array("q")
        for timed in work.records:
            sums.append((self._change(timed, hashes) & _ALL).to_bytes(BYTES))
            advanced = fold.offset == timed.entry.offset + 1
            offsets.append(fold.offset if advanced else NO_OFFSET)
        return DigestChanges(b"".join(sums), offsets)

    def rest(self) -> DigestChanges:
        """Return nothing: the changes by every record have been returned already."""
        return DigestChanges(b"", array("q"))

    def _change(self, timed: TimedRecord, hashes: RowHashes) -> int:
        """Fold a record; return the change of the sum."""
        session_key = self.fold.session_key
        record = timed.fold(self.fold)
        name = self._owner(timed.entry.key)
        if name is not None:
            was = self.rows_by_connector.get(name, _NONE)
            if isinstance(record, TaskConfig):
                now = _joined(was, record, hashes)
            else:
                now = _updated(was, self.fold.of(name), name, hashes)
            self.rows_by_connector[name] = now.connector
            return now.by
        if self.fold.session_key is session_key:
            return 0
        before, after = (
            hashes.cell("session_key", "", -1, key) for key in (session_key, self.fold.session_key)
        )
        return after - before

    def _owner(self, key: bytes | None) -> str | None:
        try:
            return self.owners[key]
        except KeyError:
            name = self.owners[key] = owner(self.topics.config, key, self.topics, self.profile)
            return name
