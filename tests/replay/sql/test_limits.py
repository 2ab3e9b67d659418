"""Limits of the fold in SQL, by example; each of its rules is necessary."""

import pytest

from controlplane.core.entry import Entry
from controlplane.core.fold import fold
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState
from tests.core.logs import KeyValue
from tests.replay.sql.oracle import RELEASES, TOPICS, Cut, SqlOracle, TableLine, lines_of

CONFIG = b'{"properties":{"k":"v"}}'


@pytest.fixture(scope="module")
def oracle() -> SqlOracle:
    """An oracle that all tests of the module share."""
    return SqlOracle()


def configs(*pairs: KeyValue) -> list[Entry]:
    """Return entries of the config topic."""
    return [Entry(TOPICS.config, 0, at, at, *pair) for at, pair in enumerate(pairs)]


def offsets(*pairs: KeyValue) -> list[Entry]:
    """An offsets topic of one partition."""
    return [Entry(TOPICS.offsets, 0, at, at, *pair) for at, pair in enumerate(pairs)]


ALL = Cut({TOPICS.config: [1_000], TOPICS.offsets: [1_000]})

UTF_8, HALF_PAIR = "not plain UTF-8", "half a surrogate pair"
NUMBER, TWICE = "a number that releases read differently", "a field twice"
BEHIND, TAKEN = (
    "a word or number with text behind it",
    "JSON that only DuckDB accepts, with text behind it",
)
NESTED, LONG = "more than 500 brackets", "longer than 5,000 characters"
ZEROS = "a number with leading zeros, in JSON from which SQL cannot remove them"
DIGITS = "a task number in digits of another script"
FIELDS = "a source partition with nested fields"

VALUES = {
    b'{"properties":{"k":"\xff"}}': UTF_8,
    b'{"properties":{"k":"\xed\xa0\x80"}}': UTF_8,
    '{"properties":{}}'.encode("utf-16-be"): UTF_8,
    b'\xef\xbb\xbf{"properties":{}}': UTF_8,
    b'{"properties":{"k":"\\ud800"}}': HALF_PAIR,
    b'{"properties":{"k":-0.0}}': NUMBER,
    b'{"properties":{},"x":1e99999999999}': NUMBER,
    b'{"properties":{"k":18446744073709551616}}': NUMBER,
    b'{"properties":null,"properties":{}}': TWICE,
    b'{"properties":{"k":%b}}' % (b"[" * 600 + b"]" * 600): NESTED,
    b'{"properties":{"k":"%b"}}' % (b"x" * 6_000): LONG,
    b'{"properties":{"k":01,"l":",01"}}': ZEROS,
    b"1 x": BEHIND,
    b"null x": BEHIND,
    b'{"properties":{"k":NaN}} x': TAKEN,
}
"""Record values of the config topic, and why SQL cannot follow them."""

KEYS = {b"connector-\xff": UTF_8, "task-a-\u0663".encode(): DIGITS}

OFFSET_KEYS = {
    b'["a",{"p":"\xff"}]': UTF_8,
    b'["a",{"p":1.0}]': NUMBER,
    b'["a",{"p":{}}]': FIELDS,
    b'["a",{"p":1,"p":2}]': TWICE,
}


def short_id(record_value: bytes) -> str:
    """Test id: the first 40 bytes of a value."""
    return repr(record_value[:40])


def test_values_that_sql_cannot_follow_are_named(oracle: SqlOracle) -> None:
    """SQL reports exactly these values, each with the reason."""
    oracle.log(configs((b"connector-b", CONFIG), *((b"connector-a", value) for value in VALUES)))
    expected = {(TOPICS.config, 0, at): why for at, why in enumerate(VALUES.values(), 1)}
    assert oracle.answer([ALL]).unfollowed == [expected]


@pytest.mark.parametrize("key", KEYS, ids=short_id)
def test_keys_that_sql_cannot_follow_are_named(key: bytes, oracle: SqlOracle) -> None:
    """SQL reports exactly the record whose key it cannot follow."""
    oracle.log(configs((b"connector-b", CONFIG), (key, CONFIG)))
    assert oracle.answer([ALL]).unfollowed == [{(TOPICS.config, 0, 1): KEYS[key]}]


def test_source_partitions_that_sql_cannot_follow_are_named(oracle: SqlOracle) -> None:
    """SQL reports exactly these source partitions."""
    oracle.log(offsets((b'["a",{"p":1}]', b"{}"), *((key, b"{}") for key in OFFSET_KEYS)))
    expected = {(TOPICS.offsets, 0, at): why for at, why in enumerate(OFFSET_KEYS.values(), 1)}
    assert oracle.answer([ALL]).unfollowed == [expected]


def test_aborted_records_of_a_connectors_own_topic_are_ignored(oracle: SqlOracle) -> None:
    """Without exactly-once support, aborted records count in the workers' topic only."""
    log = [
        Entry(topic, 0, at, at, b'["a",{"p":1}]', b'{"o":%d}' % at, (), at == 1)
        for topic in (TOPICS.offsets, "own")
        for at in range(2)
    ]
    oracle.log(log)
    ends = {TOPICS.offsets: [2], "own": [2]}
    answer = oracle.answer([Cut(ends, exactly_once=support) for support in (False, True)])
    for cut, exactly_once in enumerate((False, True)):
        state = fold(log, Profile.of("3.9"), exactly_once=exactly_once)
        assert answer.lines[cut, "3.9"] == lines_of(state)


FOLLOWED = {
    "text after an object": b'{"properties":{"k":"v"}}}, {"properties":{}}',
    "a trailing comma": b'{"properties":{"k":"v",}}',
    "NaN for a number": b'{"properties":{"k":NaN}}',
    "text that looks like NaN": b'{"properties":{"k":"NaN, Infinity, ]"}}',
    "a leading zero": b'{"properties":{"k":007}}',
    "a surrogate pair": b'{"properties":{"k":"\\ud83d\\ude00"}}',
    "escapes": b'{"\\u0070roperties":{"k":"\\u0000\\/"}}',
    "white space": b' {\t"properties" :\r\n{} } ',
    "a control character": b'{"properties":{"k":"\t"}}',
    "comments": b'/**/{"properties":{}}',
    "an unknown word": b"not json",
    "a minus without digits": b"- 1",
    "nothing": b"",
    "blanks": b" \n",
    "null": b" null ",
    "a fraction for a count": b'{"tasks":2.0,"task-count":2.0}',
    "a count of more than 32 bits": b'{"tasks":4294967297,"task-count":-4294967297}',
}


def test_odd_values_are_read_as_by_the_fold(oracle: SqlOracle) -> None:
    """SQL reads odd values as the fold does, and reports none that it cannot follow."""
    keys = (b"connector-b", b"task-a-0", b"commit-a", b"tasks-fencing-a", b"target-state-a")
    logs = {
        name: configs(
            (b"connector-b", CONFIG), (b"connector-a", CONFIG), *((key, value) for key in keys)
        )
        for name, value in FOLLOWED.items()
    }
    oracle.logs(logs)
    answer = oracle.answer([ALL._replace(cluster=name) for name in logs])
    assert not any(answer.unfollowed)
    for number, (name, log) in enumerate(logs.items()):
        for release in RELEASES:
            assert answer.lines[number, release] == _folded(log, release), name


def _folded(log: list[Entry], release: str) -> set[TableLine]:
    state: ClusterState = fold(log, Profile.of(release))
    return lines_of(state)


TASK = (b"task-a-0", CONFIG)
COMMIT = (b"commit-a", b'{"tasks":1}')
CONNECTOR = (b"connector-a", CONFIG)
REMOVAL = (b"connector-a", None)

RULES = {
    "empty_is_null": configs(CONNECTOR, (b"connector-a", b"")),
    "leading_zeros": configs((b"connector-a", b'{"properties":{"k":01}}')),
    "v2": configs((b"target-state-a", b'{"state":"PAUSED","state.v2":"STOPPED"}')),
    "drops_tasks": configs(CONNECTOR, TASK, COMMIT, REMOVAL),
    "drops_deferred": configs(CONNECTOR, TASK, REMOVAL, CONNECTOR, COMMIT),
    "needs_config": configs(TASK, COMMIT),
    "fencing": configs(CONNECTOR, TASK, COMMIT),
    "keys": configs((b"session-key", b'{"key":"AQ","algorithm":"a","creation-timestamp":1}')),
    "removes": offsets((b'["a",{"p":1}]', None)),
    "partitions": offsets((b'["a",{"p":1}]', None)),
}
"""Log per rule in which releases differ; the rule changes the result of the fold."""


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_every_rule_is_necessary(rule: str, oracle: SqlOracle) -> None:
    """SQL with the rule agrees with the fold; SQL with the inverted rule does not."""
    log = RULES[rule]
    oracle.log(log)
    answer = oracle.answer([ALL])
    with oracle.turned(rule):
        inverted = oracle.answer([ALL])
    for release in RELEASES:
        expected = _folded(log, release)
        assert answer.lines[0, release] == expected
        assert inverted.lines[0, release] != expected
