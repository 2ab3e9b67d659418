"""Random logs of two connectors; most of their records change the state."""

from hypothesis import strategies as st

from controlplane.core.entry import Entry
from tests.core.logs import KeyValue

NAMES = ("a", "a-1")

_CONFIGS = (b'{"properties":{"k":"v"}}', b'{"properties":{"k":1,"l":[null,"\\u00e9"]}}', None)
_STATES = (
    b'{"state":"STARTED"}',
    b'{"state":"PAUSED","state.v2":"STOPPED"}',
    b'{"state":"STOPPED"}',
    b'{"state":"PAUSED","state.v2":1}',
    b'{"state":"PAUSED","state.v2":"FUTURE"}',
    None,
)
_COUNTS = (0, 1, 2, 2, -1, 4294967298)
_TASKS = (b'{"properties":{"t":"1"}}', b'{"properties":{"t":"2"}}', b'{"properties":{}}')
_KEYS = (b"AQID", b"AQ", b"AQ=", b"", b"*")
_ODD = (
    b"",
    b" ",
    b"null",
    b"{",
    b"[]",
    b"{} x",
    b'{"properties":{"k":"w"}}}',
    b'{"properties":null}',
    b'{"tasks":01}',
    b'{"tasks":1.0}',
    b'{"tasks":true}',
    b'{"task-count":"1"}',
    b'{"properties":{"k":"v",}}',
    b'{"state":NaN}',
    b"7",
)
_OFFSET_KEYS = (
    b'["a",{"p":1}]',
    b'["a",{"p":1 }]',
    b'["a",{"p":"1"}]',
    b'["a",{"p":1,"q":null}]',
    b'["a",{"q":null,"p":1}]',
    b'["a",null]',
    b'["a"]',
    b'["a",{"p":01}]',
    b'["b",{}]',
    b"junk",
    None,
)
_OFFSET_VALUES = (None, None, b'{"o":1}', b'{"o":2}', b"null", b"")


def _pairs(name: str) -> st.SearchStrategy[KeyValue]:
    """Strategy for a record of one connector in the config topic."""
    counts = st.sampled_from(_COUNTS)
    kinds: dict[str, st.SearchStrategy[bytes | None]] = {
        f"connector-{name}": st.sampled_from(_CONFIGS),
        f"target-state-{name}": st.sampled_from(_STATES),
        f"task-{name}-0": st.sampled_from(_TASKS),
        f"task-{name}-1": st.sampled_from(_TASKS),
        f"task-{name}-+1-": st.sampled_from(_TASKS),
        f"commit-{name}": st.builds(lambda count: b'{"tasks":%d}' % count, counts),
        f"tasks-fencing-{name}": st.builds(lambda count: b'{"task-count":%d}' % count, counts),
    }
    good = [st.tuples(st.just(key.encode()), value) for key, value in kinds.items()]
    odd = st.tuples(st.sampled_from([*kinds, "session-key"]).map(str.encode), st.sampled_from(_ODD))
    return st.one_of(*good, *good, odd)


_SESSION_KEYS: st.SearchStrategy[KeyValue] = st.builds(
    lambda key: (
        b"session-key",
        b'{"key":"%b","algorithm":"HmacSHA256","creation-timestamp":1}' % key,
    ),
    st.sampled_from(_KEYS),
)

_OTHERS: st.SearchStrategy[KeyValue] = st.tuples(
    st.sampled_from((b"restart-connector-a", b"logger-cluster-x", b"junk", b"task-a", None)),
    st.sampled_from((b"{}", b"{", None)),
)

CONFIGS = st.one_of(*(_pairs(name) for name in (*NAMES, *NAMES)), _SESSION_KEYS, _OTHERS)
OFFSETS = st.tuples(st.sampled_from(_OFFSET_KEYS), st.sampled_from(_OFFSET_VALUES))


CONFIG = ("connect-configs", 0)


@st.composite
def dense_logs(draw: st.DrawFn, max_size: int = 40, partitions: int = 3) -> list[Entry]:
    """Entries in the order of writing, mostly in the config topic. Timestamps may decrease."""
    ends: dict[tuple[str, int], int] = {}
    log = []
    for _ in range(draw(st.integers(0, max_size))):
        is_offset = draw(st.integers(0, 2)) == 0
        place = ("connect-offsets", draw(st.integers(0, partitions - 1))) if is_offset else CONFIG
        offset = ends.get(place, 0) + draw(st.sampled_from((0, 0, 2)))
        ends[place] = offset + 1
        key, value = draw(OFFSETS if is_offset else CONFIGS)
        aborted = draw(st.integers(0, 9)) == 0
        log.append(Entry(*place, offset, draw(st.integers(1, 9)), key, value, (), aborted))
    return log
