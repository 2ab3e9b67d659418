"""What every release knows after every record of the config topic, as one number each.

Each row of each table of the state has a hash of 32 bytes; the digest of the state is their sum.
So a record changes the digest by the rows that it changes, and the sum is the one that a state made
in any other way has. Equal states have equal digests, whoever made them. That unequal ones differ
is certain enough for chance, not against somebody who makes up rows in order to deceive.
"""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import compress
from operator import is_not
from typing import Any, NamedTuple

import msgspec

from controlplane.core.codec.offsets import frozen
from controlplane.core.evolve.config import ConfigFold, ConfigRows
from controlplane.core.evolve.flat import flat
from controlplane.core.owners import owner
from controlplane.core.profiles import Profile
from controlplane.core.records import ConfigRecord, Invalid, TaskConfig
from controlplane.core.state import ConfigState, Topics
from replay.timeline.decoding import Decoded

BYTES = 32
"""Of a digest."""

_ALL = (1 << 8 * BYTES) - 1
_DEFERRED, _TASKS = "deferred", "tasks"


def several(digests: bytes) -> Iterator[bytes]:
    """Digests that lie one behind the other: so many of them go sooner from process to process."""
    return (digests[at : at + BYTES] for at in range(0, len(digests), BYTES))


def config_digest(state: ConfigState) -> bytes:
    """The digest of a state, from all of its rows."""
    hashes = Hashes()
    total = hashes.whole(state.offset, state.session_key)
    for table in ConfigRows._fields:
        for name, value in getattr(state, table).items():
            total += hashes.row(table, name, value)
    return _digest(total)


def _digest(total: int) -> bytes:
    return (total & _ALL).to_bytes(BYTES)


class Hashes:
    """The hash of each row. A value that several rows or releases have is looked at once."""

    def __init__(self) -> None:
        self._contents: dict[int, tuple[Any, bytes]] = {}
        self._rows: dict[tuple[str, str, int, int], int] = {}
        self._wholes: dict[tuple[int, int], int] = {}

    def row(self, table: str, name: str, value: Any) -> int:
        """Of what a table has of a connector; of tasks, the sum of each and of there being any."""
        if table not in (_TASKS, _DEFERRED):
            return self.cell(table, name, -1, value)
        tasks = (self.cell(table, name, *task) for task in value.items())
        return sum(tasks, self.cell(table, name, -1, None))

    def cell(self, table: str, name: str, task: int, value: Any) -> int:
        """Of one row; `task` is -1 where the row is of none."""
        key = table, name, task, id(value)
        known = self._rows.get(key)
        if known is None:
            known = self._rows[key] = _number(table, name, task, self._content(value))
        return known

    def whole(self, offset: int, session_key: Any) -> int:
        """Of the rows that are of no connector."""
        key = offset, id(session_key)
        known = self._wholes.get(key)
        if known is None:
            known = self.cell("offset", "", offset, None)
            known += self.cell("session_key", "", -1, session_key)
            self._wholes[key] = known
        return known

    def _content(self, value: Any) -> bytes:
        found = self._contents.get(id(value))
        if found is None:
            # The value is kept: while it is there, no other one has its id.
            found = value, _written(value)
            self._contents[id(value)] = found
        return found[1]


def _written(value: Any) -> bytes:
    """Bytes that are equal where Java's values are: kinds count, the order of fields does not."""
    try:
        return _ENCODER.encode(value)
    except (UnicodeEncodeError, RecursionError):  # half a surrogate pair, or nested too deeply
        return _ENCODER.encode(flat(frozen(value)))


_ENCODER = msgspec.msgpack.Encoder(order="deterministic")


def _number(table: str, name: str, task: int, content: bytes) -> int:
    where = f"{table}\0{task}\0{len(name)}\0{name}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(where + content, digest_size=BYTES).digest())


class Work:
    """Records to be folded, and what is known of their values."""

    def __init__(self, records: Sequence[Decoded]) -> None:
        self.records = records
        self.hashes = Hashes()


class _Connector(NamedTuple):
    """The rows of a connector, the hash of each, and of the tasks that wait one by one."""

    rows: ConfigRows
    """As they were before the last tasks that wait: these are seen when they come."""
    hashes: Sequence[int]
    waiting: Mapping[int, int]


_TABLES = ConfigRows._fields
_PLACES = range(len(_TABLES))
_AT_DEFERRED = _TABLES.index(_DEFERRED)
_NONE = _Connector(ConfigRows(), (0,) * len(_TABLES), {})


class _Changed(NamedTuple):
    """A connector after a record, and by how much the sum of its hashes is another one now."""

    connector: _Connector
    by: int


def _updated(was: _Connector, rows: ConfigRows, name: str, hashes: Hashes) -> _Changed:
    """The rows that are there now. Rows are replaced, never changed in place."""
    found, waiting, by = list(was.hashes), was.waiting, 0
    places = [*compress(_PLACES, map(is_not, was.rows, rows))]
    if waiting and _AT_DEFERRED not in places:  # some have come since, and may be gone again
        places.append(_AT_DEFERRED)
    for at in places:
        after: Any = rows[at]
        number = 0 if after is None else hashes.row(_TABLES[at], name, after)
        by += number - found[at]
        found[at] = number
        if at == _AT_DEFERRED:
            waiting = {
                task: hashes.cell(_DEFERRED, name, task, one) for task, one in (after or {}).items()
            }
    return _Changed(_Connector(rows, found, waiting), by)


def _joined(was: _Connector, record: TaskConfig, hashes: Hashes) -> _Changed:
    """The same with one more task that waits, in a set that is there from then on."""
    name, task = record.connector, record.task
    one = hashes.cell(_DEFERRED, name, task, record.properties)
    by = one - was.waiting.get(task, 0)
    if not was.hashes[_AT_DEFERRED]:
        by += hashes.cell(_DEFERRED, name, -1, None)
    found = list(was.hashes)
    found[_AT_DEFERRED] += by
    return _Changed(_Connector(was.rows, found, {**was.waiting, task: one}), by)


class Digesting:
    """The fold of the config topic, and the digest of what it knows."""

    def __init__(self, topics: Topics, profile: Profile, begun: "Digesting | None" = None) -> None:
        self.profile = profile
        self.topics = topics
        self.fold = ConfigFold(profile)
        self.sum = 0
        """Of the hashes of all rows that are of a connector."""
        self.known: dict[str, _Connector] = {}
        self.owners: dict[bytes | None, str | None] = {}
        if begun is not None:
            self.fold.adopt(begun.fold.publish())
            self.sum, self.known = begun.sum, begun.known.copy()
            self.owners = begun.owners if profile is begun.profile else {}

    def fork(self, profile: Profile) -> "Digesting":
        """Another one that knows the same, and goes on by itself."""
        return Digesting(self.topics, profile, self)

    def take(self, work: Work) -> bytes:
        """Fold some records; the digest after each of them, one behind the other."""
        return b"".join([self._after(one, work.hashes) for one in work.records])

    def rest(self) -> bytes:
        """Nothing: every record has been told of."""
        return b""

    def _after(self, one: Decoded, hashes: Hashes) -> bytes:
        record = one.fold(self.fold)
        name = self._owner(one.entry.key)
        if name is not None:
            self.sum += self._change(name, record, hashes)
        return _digest(self.sum + hashes.whole(self.fold.offset, self.fold.session_key))

    def _change(self, name: str, record: ConfigRecord | Invalid, hashes: Hashes) -> int:
        """By how much a record has changed the sum of what is known of a connector."""
        was = self.known.get(name, _NONE)
        if isinstance(record, TaskConfig):
            now = _joined(was, record, hashes)
        else:
            now = _updated(was, self.fold.of(name), name, hashes)
        self.known[name] = now.connector
        return now.by

    def _owner(self, key: bytes | None) -> str | None:
        try:
            return self.owners[key]
        except KeyError:
            found = self.owners[key] = owner(self.topics.config, key, self.topics, self.profile)
            return found
