"""Random records of every kind, well-formed or not, with few names so that records interact."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from tests.core.logs import KeyValue
from tests.oracle.documents import anything, nested, obj, scalar, sometimes_damaged
from tests.oracle.draw import Draw

NAMES = (
    *(b"a b a b a-b c".split()),
    *(b"", b"a-", b" ", b"a:b", b"\xed\xa0\x80"),
    *("é😀".encode(), "😀".encode(), "😀-".encode(), "\uff5e".encode(), "\U0010ffff".encode()),
)
ODD_NAMES = NAMES[5:]
TASKS = (b"0", b"1", b"0", b"1", b"2")
ODD_TASKS = (
    *(b"-1 +1 00 007 2-- -- 99999999999 2147483648 -2147483648 0x0 1.0 x 1-".split()),
    b"",
    b" 1",
    "٣".encode(),
    b"\xf0\x9d\x9f\x8f",  # digit one, mathematical, beyond U+FFFF
    b"\xef\xbc\x91",  # digit one, of full width
)
PARTITION_NAMES = (
    *(b'"p"', b'"q"', b'"\\u0070"', b'"db"', b'"table"', b'"schema"', b'"server"', b'"topic"'),
    *(b'"filename"', '"é"'.encode(), rb'"\ud83d\ude00"', rb'"\u001f"', b'""', b'"AaAa"', b'"BBBB"'),
)
"""Few names that interact, and many with another order in a HashMap; the last two share a hash."""

STATES = tuple(b'"RUNNING" "UNASSIGNED" "RUNNING" "UNASSIGNED" "PAUSED" "FAILED"'.split())
NEW_STATES = tuple(b'"RESTARTING" "STOPPED" "DESTROYED" "running" "STARTED" "X"'.split())
TARGETS = tuple(b'"STARTED" "PAUSED" "STOPPED"'.split())
ODD_TARGETS = tuple(b'"paused" "X" "" "RUNNING"'.split())
SECRETS = (b'"AQID"', b'"AQ=="', b'"AQ"', b'"AQI="')
ODD_SECRETS = (b'""', b'"AQ="', b'"A"', b'"AQ=\\n"', b'" AQID"', b'"_-"', b'"=="', b'"+/+/"')

NO_KEYS = (
    *(b"foo connector task-a- task--0 task-0 task- session-keyX status-task-0 commit".split()),
    *(b"status- target-state- tasks-fencing- status-connector status-task-a- restart-".split()),
    *(b"Connector-a logger-cluster status-topic-t status-topic-t:short".split()),
    b"",
    b"\xff",
    b"\xef\xbb\xbfconnector-a",
    b"connector-\xff",
    b"connector-\xed\xa0",
    b"connector-\xe2\x82",
    b"connector-\x00",
)


def name(draw: Draw) -> bytes:
    """A connector's name, rarely an odd one."""
    return draw.one_of(ODD_NAMES if draw.mishap(0.05) else NAMES[:5])


def task(draw: Draw) -> bytes:
    """A task's number, rarely an odd one."""
    return draw.one_of(ODD_TASKS if draw.mishap(0.05) else TASKS)


class FieldSpec(NamedTuple):
    """A field of a kind of record, and its possible values."""

    name: bytes
    good: tuple[bytes, ...]
    odd: tuple[bytes, ...] = ()
    optional: bool = False


class RecordKind(NamedTuple):
    """A kind of record: its key, and the fields of its value."""

    key: Callable[[Draw], bytes]
    value: Callable[[Draw], bytes]
    removable: float = 0.02
    """Probability that a record is a tombstone."""


def _field(draw: Draw, part: FieldSpec) -> tuple[bytes, bytes] | None:
    if draw.mishap(0.06) or (part.optional and draw.chance(0.4)):
        return None
    quoted = b'"' + part.name + b'"'
    if draw.mishap(0.08):
        return quoted, scalar(draw)
    if part.odd and draw.mishap(0.15):
        return quoted, draw.one_of(part.odd)
    return quoted, draw.one_of(part.good)


def _struct(draw: Draw, parts: tuple[FieldSpec, ...]) -> bytes:
    drawn = (_field(draw, part) for part in parts)
    fields = [field for field in drawn if field is not None]
    if draw.chance(0.05):
        fields.reverse()
    return obj(draw, fields)


def struct(*parts: FieldSpec) -> Callable[[Draw], bytes]:
    """Return a function that draws objects with these fields."""
    return partial(_struct, parts=parts)


def _properties(draw: Draw) -> bytes:
    names = (b'"x"', b'"y"', b'"\\u0078"', '"é"'.encode(), b'""')
    if draw.mishap(0.03):
        names = (b'"\xed\xa0\x80"', rb'"\ud83d"', rb'"\ud83d\ude00"', b'"\xc0\x80"', b'"\xe2"')
    fields = [(draw.one_of(names), scalar(draw)) for _ in range(draw.below(3))]
    return obj(draw, fields, kept=True)


def _config(draw: Draw) -> bytes:
    if draw.mishap(0.06):
        return obj(draw, [])
    value = scalar(draw) if draw.mishap(0.08) else _properties(draw)
    return obj(draw, [(b'"properties"', value)])


def _active_topic(draw: Draw) -> bytes:
    return obj(draw, [(b'"topic"', scalar(draw) if draw.mishap(0.08) else _TOPIC(draw))])


def _offset_key(draw: Draw) -> bytes:
    if draw.mishap(0.1):
        return nested(draw) if draw.chance(0.05) else sometimes_damaged(draw, anything(draw))
    owner = scalar(draw) if draw.mishap(0.05) else b'"' + draw.one_of((b"a", b"b", b"a-b")) + b'"'
    partition = scalar(draw) if draw.mishap(0.1) else _partition(draw)
    items = [owner, partition, *([scalar(draw)] if draw.mishap(0.02) else [])]
    comma = b", " if draw.chance(0.1) else b","
    return sometimes_damaged(draw, b"[" + comma.join(items) + b"]")


def _partition(draw: Draw) -> bytes:
    values = (*(b"0 1 1.0 1.0 0.0 -0.0 true 01 1e0 [1]".split()), b'"t"', b'"\\u0074"', b"[1.0]")
    many = draw.chance(0.2)
    names = PARTITION_NAMES if many else PARTITION_NAMES[:3]
    most = 6 if many else 3
    fields = [(draw.one_of(names), draw.one_of(values)) for _ in range(draw.below(most))]
    return obj(draw, fields, kept=True)


def _topic_key(draw: Draw) -> bytes:
    odd = (b"t.v-w", b"", "😀".encode(), "\uff5et".encode())
    topic = draw.one_of(odd) if draw.mishap(0.1) else draw.one_of((b"t", b"u"))
    separator = _separator(draw) if draw.mishap(0.15) else b":connector-"
    return b"status-topic-" + topic + separator + name(draw)


_SEPARATORS = (b":connector-", b":ZZZZZZZZZZ", b":connector", b"", b":X:connect-")
_UNITS = ("Z", "-", ":", "é", "\uff5e", "\ufffd", "😀", "\U0010ffff")
"""Characters of one UTF-16 unit and of two, and of one to four bytes."""


def _separator(draw: Draw) -> bytes:
    """A text of about the separator's length, which Kafka skips by its length in UTF-16 units."""
    if draw.chance(0.3):
        return draw.one_of(_SEPARATORS)
    units = (draw.one_of(_UNITS) for _ in range(5 + draw.below(7)))
    return f":{''.join(units)}".encode()


def named(prefix: bytes) -> Callable[[Draw], bytes]:
    """Return a function that draws keys: the prefix and a name."""
    return lambda draw: prefix + name(draw)


def numbered(prefix: bytes) -> Callable[[Draw], bytes]:
    """Return a function that draws keys: the prefix, a name, and a task."""
    return lambda draw: prefix + name(draw) + b"-" + task(draw)


_COUNTS = (b"0", b"1", b"1", b"2", b"2", b"3")
_ODD_COUNTS = (b"-1", b"4294967296", b"4294967298", b"2147483648", b"1.0", b'"1"', b"true", b"-0")
_GENERATIONS = (b"1", b"2", b"3", b"4294967297", b"-1")
_FLAGS = (b"true", b"false")
_NAMES_QUOTED = (b'"t"', b'"a"', b'""')

_STATUS = struct(
    FieldSpec(b"state", STATES, NEW_STATES),
    FieldSpec(b"trace", (b"null", b'"oops"')),
    FieldSpec(b"worker_id", (b'"w1"', b'"w2"'), (b"null",)),
    FieldSpec(b"generation", _GENERATIONS, (b"1.0", b'"1"')),
    FieldSpec(b"version", (b'"1.0"', b"null"), optional=True),
)
_TOPIC = struct(
    FieldSpec(b"name", _NAMES_QUOTED),
    FieldSpec(b"connector", _NAMES_QUOTED),
    FieldSpec(b"task", TASKS),
    FieldSpec(b"discoverTimestamp", (b"99", b"1700000000000")),
)
_OFFSET = struct(FieldSpec(b"pos", (b"1", b"2", b"1.5", b'"x"', b"[1]")))

CONNECTOR = RecordKind(named(b"connector-"), _config, 0.15)
TASK = RecordKind(numbered(b"task-"), _config)
COMMIT = RecordKind(named(b"commit-"), struct(FieldSpec(b"tasks", _COUNTS, _ODD_COUNTS)))
TARGET = RecordKind(
    named(b"target-state-"),
    struct(
        FieldSpec(b"state", TARGETS, ODD_TARGETS),
        FieldSpec(b"state.v2", TARGETS, ODD_TARGETS, optional=True),
    ),
    0.15,
)
FENCING = RecordKind(
    named(b"tasks-fencing-"), struct(FieldSpec(b"task-count", _COUNTS, _ODD_COUNTS))
)
SESSION_KEY = RecordKind(
    lambda _: b"session-key",
    struct(
        FieldSpec(b"key", SECRETS, ODD_SECRETS),
        FieldSpec(b"algorithm", (b'"HmacSHA256"', b'"X"'), (b'""',)),
        FieldSpec(
            b"creation-timestamp", (b"1", b"1700000000000"), (b"1.0", b"9223372036854775808")
        ),
    ),
)
RESTART = RecordKind(
    named(b"restart-connector-"),
    struct(FieldSpec(b"include-tasks", _FLAGS), FieldSpec(b"only-failed", _FLAGS)),
)
LOGGER = RecordKind(
    named(b"logger-cluster-"), struct(FieldSpec(b"level", (b'"DEBUG"', b'"x"', b'""')))
)
CONNECTOR_STATUS = RecordKind(named(b"status-connector-"), _STATUS, 0.15)
TASK_STATUS = RecordKind(numbered(b"status-task-"), _STATUS, 0.1)
ACTIVE_TOPIC = RecordKind(_topic_key, _active_topic, 0.2)
OFFSET = RecordKind(_offset_key, _OFFSET, 0.25)

CONFIG_KINDS = (
    *(CONNECTOR, CONNECTOR, TASK, TASK, TASK, COMMIT, COMMIT, TARGET, TARGET),
    *(FENCING, SESSION_KEY, RESTART, LOGGER),
)
STATUS_KINDS = (CONNECTOR_STATUS, TASK_STATUS, TASK_STATUS, ACTIVE_TOPIC)
OFFSET_KINDS = (OFFSET,)


def pair(draw: Draw, kind: RecordKind) -> KeyValue:
    """Key and value of a record of this kind, sometimes ill-formed."""
    key: bytes | None = kind.key(draw)
    if draw.mishap(0.03):
        key = None if draw.chance(0.2) else draw.one_of(NO_KEYS)
    if draw.chance(kind.removable):
        return key, None
    if draw.mishap(0.03):
        return key, b"null"
    return key, anything(draw) if draw.mishap(0.05) else sometimes_damaged(draw, kind.value(draw))
