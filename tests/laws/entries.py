"""Random logs with few names and all kinds of records, so that records interact."""

import json
from collections.abc import Sequence

from hypothesis import strategies as st

from controlplane.core.codec import encode_command
from controlplane.core.entry import Entry
from controlplane.core.records import (
    CommandAccepted,
    CommandFinished,
    CommandRecord,
    CommandRefused,
)
from controlplane.core.releases.profiles import PROFILES
from tests.core.logs import KeyValue

NAMES = ("a", "b", "a-1", "", "\ufffd")
TOPICS = ("connect-configs", "connect-offsets", "connect-status", "connect-commands", "own")

profiles = st.sampled_from(PROFILES)

LEVELS = 900
"""Nesting that is legal in every release.

A function with two calls per level would exceed Python's recursion limit.
"""

ACTIVE = b'{"topic":{"name":"t","connector":"a","task":0,"discoverTimestamp":1}}'


def deep(levels: int) -> bytes:
    """Return the JSON of lists nested this deep."""
    return b"[" * levels + b"]" * levels


def _raw(key: str) -> bytes:
    """Encode a key, with an invalid byte for each U+FFFD: Java reads that byte as U+FFFD."""
    return key.encode().replace("\ufffd".encode(), b"\xff")


_CONFIG_KEYS = [
    _raw(key)
    for name in NAMES
    for key in (
        f"connector-{name}",
        f"target-state-{name}",
        f"commit-{name}",
        f"task-{name}-0",
        f"task-{name}-1",
        f"tasks-fencing-{name}",
        f"restart-connector-{name}",
    )
] + [b"session-key", b"logger-cluster-x", b"task-x", b"task-a-+0--", b"junk"]
_CONFIG_VALUES: list[bytes | None] = [
    None,
    b"",
    b"null",
    b"{",
    b"[]",
    b"{}",
    b'{"properties":{"k":"v"}}',
    b'{"properties":{"k":"w","offsets.storage.topic":"own"}}',
    b'{"properties":null}',
    b'{"tasks":0}',
    b'{"tasks":1}',
    b'{"tasks":2}',
    b'{"tasks":-1}',
    b'{"tasks":01}',
    b'{"tasks":1.0}',
    b'{"task-count":1}',
    b'{"state":"PAUSED","state.v2":"STOPPED"}',
    b'{"state":"STOPPED"}',
    b'{"state":"STARTED","state.v2":"FUTURE"}',
    b'{"key":"AQ==","algorithm":"a","creation-timestamp":1}',
    b'{"key":"*","algorithm":"a","creation-timestamp":1}',
    b'{"include-tasks":true}',
    b'{"level":"INFO"}',
    b'{"properties":{"k":"\\ud800","\\udfff":%b,"connector.class":%b}}'
    % (deep(LEVELS), deep(LEVELS)),
    b'{"state":%b}' % deep(LEVELS),
]
_STATUS_KEYS = [
    _raw(key)
    for name in NAMES
    for key in (f"status-connector-{name}", f"status-task-{name}-0", f"status-task-{name}-1")
] + [
    b"status-topic-t:connector-a",
    b"status-topic-\xff:ZZZZZZZZZZa",
    "status-topic-t:connector\U0001f600a".encode(),
    b"status-topic-t",
    b"status-task-a-+0",
    b"junk",
]
_STATUS_VALUES: list[bytes | None] = [None, b"", b"null", b"{}"] + [
    json.dumps({"state": state, "worker_id": "w", "generation": generation}).encode()
    for state in ("UNASSIGNED", "RUNNING", "STOPPED", "RESTARTING", "FUTURE")
    for generation in (1, 2)
]
_STATUS_VALUES += [
    ACTIVE,
    b'{"state":"FAILED","trace":"\\ud800","worker_id":"\\udfff","generation":1}',
    b'{"state":%b,"worker_id":"w","generation":1}' % deep(LEVELS),
]
_OFFSET_KEYS = [
    f'["{name}",{partition}]'.encode()
    for name in NAMES[:2]
    for partition in ('{"p":1}', '{"p":1 }', '{"q":2,"p":1}', '{"p":1,"q":2}', "null")
] + [
    b'["a",{"p":"\\ud800"}]',
    b'["a",{"\\udfff":%b}]' % deep(LEVELS),
    b'["\xff",{"p":1}]',
    b"{",
    b"junk",
]
_OFFSET_VALUES: list[bytes | None] = [None, None, b"", b"null", b'{"o":1}', b'{"o":2}', b"{"]
_OFFSET_VALUES += [b'{"o":"\\ud800"}', b'{"o":%b}' % deep(LEVELS)]

_STOP = {"command": "stop", "connector": "\ud800"}


def _commands(command_id: str) -> list[CommandRecord]:
    return [
        CommandAccepted(command_id, 1, "ana", _STOP, {"steps": []}),
        CommandFinished(command_id, 2, {"ended": "done"}),
        CommandRefused(command_id, 3, "ana", _STOP, "no"),
    ]


_COMMANDS: list[KeyValue] = [
    encode_command(command) for name in ("k", "l", "") for command in _commands(name)
]
_COMMANDS += [(key, None) for key, _ in _COMMANDS[::3]]
_HUGE = b'{"type":"finished","command_id":"k","at_ms":1,"outcome":{"n":%d}}' % 10**30
_COMMANDS.append((b"k", _HUGE))

_bytes = st.one_of(st.none(), st.binary(max_size=20))


def _pairs(keys: list[bytes], values: list[bytes | None]) -> st.SearchStrategy[KeyValue]:
    good = st.tuples(st.sampled_from(keys), st.sampled_from(values))
    return st.one_of(good, good, good, good, st.tuples(_bytes, _bytes))


_FEW_STATUS_KEYS = [
    b"status-connector-a",
    b"status-task-a-0",
    b"status-task-a-00",
    b"status-topic-t:connector-a",
]

_PAIRS = {
    "connect-configs": _pairs(_CONFIG_KEYS, _CONFIG_VALUES),
    "connect-status": _pairs(_STATUS_KEYS, _STATUS_VALUES),
    "connect-offsets": _pairs(_OFFSET_KEYS, _OFFSET_VALUES),
    "own": _pairs(_OFFSET_KEYS, _OFFSET_VALUES),
    "connect-commands": st.sampled_from(_COMMANDS) | st.tuples(_bytes, _bytes),
}


@st.composite
def logs(draw: st.DrawFn, max_size: int = 40, among: Sequence[str] = TOPICS) -> list[Entry]:
    """Entries in the order of writing: offsets ascend with gaps, clocks run backwards at times."""
    ends: dict[tuple[str, int], int] = {}
    log = []
    for _ in range(draw(st.integers(0, max_size))):
        topic = draw(st.sampled_from(among))
        partition = 0 if topic == "connect-configs" else draw(st.integers(0, 2))
        offset = ends.get((topic, partition), 0) + draw(st.sampled_from((0, 0, 0, 1, 5)))
        ends[topic, partition] = offset + 1
        key, value = draw(_PAIRS[topic])
        aborted = draw(st.integers(0, 9)) == 0
        time_ms = 1000 + draw(st.integers(0, 50))
        log.append(Entry(topic, partition, offset, time_ms, key, value, (), aborted))
    return log


@st.composite
def statuses(draw: st.DrawFn, max_size: int = 30) -> list[Entry]:
    """Entries of a status topic with so few keys that values and tombstones replace each other."""
    ends = [0, 0]
    log = []
    for at in range(draw(st.integers(0, max_size))):
        partition = draw(st.integers(0, 1))
        key = draw(st.sampled_from(_FEW_STATUS_KEYS))
        value = None if draw(st.booleans()) else draw(st.sampled_from(_STATUS_VALUES))
        aborted = draw(st.integers(0, 9)) == 0
        log.append(
            Entry("connect-status", partition, ends[partition], 1000 + at, key, value, (), aborted)
        )
        ends[partition] += 1
    return log
