"""The edge cases of the three topics, each a test with its number.

`docs/releases.md` has the same numbers and shows each edge case in every release.
"""

import msgspec
import pytest

from controlplane.core import views
from controlplane.core.codec import decode_partition, decode_status
from controlplane.core.fold import FateKind
from controlplane.core.java import json_codec
from controlplane.core.java.json_codec import decode_key
from controlplane.core.order import in_order
from controlplane.core.records import ConnectorStatus, Invalid, State, Target
from controlplane.core.releases.profiles import Profile
from controlplane.core.views.diff import diff
from controlplane.core.views.hazards import Danger, hazards
from tests.core.logs import (
    config,
    connector,
    offsets,
    outcomes,
    raw,
    read,
    records,
    report,
    status,
    tasks,
)
from tests.oracle.worker_writes import writing_answers


@pytest.mark.parametrize("value", ["null", "", " \n"])
@pytest.mark.parametrize(
    ("release", "empty_removes"),
    [
        ("0.11", False),
        ("1.1.1", True),
        ("2.2.2", False),
        ("2.3.0", True),
        ("2.6.0", False),
        ("2.6.1", True),
        ("3.9", True),
    ],
)
def test_edge_01_json_null_and_empty_values_remove_a_connector(
    value: str, release: str, *, empty_removes: bool
) -> None:
    """JSON `null` removes a connector; so does an empty value if Jackson reads null."""
    state = read(config(connector("a"), ("connector-a", value)), release)
    removed = value == "null" or empty_removes
    assert ("a" not in state.config.connectors) is removed


def test_edge_02_json_null_in_the_status_topic_is_an_error() -> None:
    """Only Kafka's null is a tombstone in the status topic; JSON null keeps the status."""
    key = "status-connector-a"
    fates = outcomes(status((key, report("RUNNING")), (key, "null")))
    assert fates[1].kind is FateKind.IGNORED
    assert "a" in read(status((key, report("RUNNING")), (key, "null"))).status.connectors


@pytest.mark.parametrize("key", ["commit-a", "tasks-fencing-a"])
@pytest.mark.parametrize("value", ["{}", '{"tasks":2.0,"task-count":2.0}', '{"tasks":"2"}'])
def test_edge_03_a_bad_integer_loses_the_rest_of_the_batch(key: str, value: str) -> None:
    """A bad integer loses the later records of the same poll, and a hazard reports it."""
    log = config(connector("a"), (key, value))
    assert outcomes(log)[1].kind is FateKind.LOSES_BATCH
    dangers = [hazard.danger for hazard in hazards(log, Profile.of("3.9"))]
    assert dangers == [Danger.LOSES_BATCH]


POISON = [
    ("any", None, "{}", ("0.9", "2.3", "3.9", "4.3")),
    (
        "bad base64",
        "session-key",
        '{"key":"*","algorithm":"a","creation-timestamp":1}',
        ("2.4", "4.3"),
    ),
    ("no key", "session-key", '{"algorithm":"a","creation-timestamp":1}', ("2.4", "3.2")),
    ("task without properties", "task-a-0", "{}", ("0.10.2", "3.2")),
    ("deep nesting", "connector-a", "[" * 5_000 + "]" * 5_000, ("2.8", "3.6")),
    ("nothing deferred", "commit-a", '{"tasks":0}', ("0.9",)),
]


@pytest.mark.parametrize(
    ("key", "value", "release"),
    [(key, value, release) for _, key, value, releases in POISON for release in releases],
)
def test_edge_04_poison_stops_a_starting_worker(key: str | None, value: str, release: str) -> None:
    """A worker of such a release exits at start; `kip` ignores only this record."""
    log = config((key, value))
    assert outcomes(log, release)[0].kind is FateKind.POISON
    assert hazards(log, Profile.of(release))[0].danger is Danger.STOPS_WORKER
    harmless = (FateKind.IGNORED, FateKind.UNDECODABLE, FateKind.ACCEPTED)
    assert outcomes(log, "kip")[0].kind in harmless


@pytest.mark.parametrize(
    ("key", "value", "release"),
    [
        ("session-key", '{"algorithm":"a","creation-timestamp":1}', "3.3"),
        ("task-a-0", "{}", "3.3"),
        ("connector-a", "[" * 5_000 + "]" * 5_000, "3.7"),
        ("commit-a", '{"tasks":0}', "0.10.0"),
    ],
)
def test_edge_04_later_releases_survive_poison(key: str, value: str, release: str) -> None:
    """Each release here is the first that survives the record."""
    assert outcomes(config((key, value)), release)[0].kind is not FateKind.POISON


@pytest.mark.parametrize(("count", "kept"), [("4294967296", 0), ("-1", -1), ("4294967298", 2)])
def test_edge_05_counts_are_narrowed_and_may_be_negative(count: str, kept: int) -> None:
    """A long is cut to an int without a check."""
    state = read(config(connector("a"), ("commit-a", f'{{"tasks":{count}}}')))
    assert state.config.task_counts["a"] == kept


def test_edge_05_a_float_is_no_integer() -> None:
    """`2.0` and `2e0` are doubles to Jackson."""
    for number in ("2.0", "2e0"):
        log = config(connector("a"), ("commit-a", f'{{"tasks":{number}}}'))
        assert outcomes(log)[1].thrown == "ConnectException"


def test_edge_06_trailing_garbage_is_accepted_and_nan_is_not() -> None:
    """Jackson stops reading after the value; Python's json is the other way round."""
    assert json_codec.decode(b'{"a":1} x', Profile.of("3.9")) == {"a": 1}
    with pytest.raises(json_codec.Undecodable):
        json_codec.decode(b'{"a":NaN}', Profile.of("3.9"))


@pytest.mark.parametrize(
    ("key", "name", "task"),
    [
        ("task-a-b-0", "a-b", 0),
        ("task-a-b--1", "a-b-", 1),
        ("task-a-b-2---", "a-b", 2),
        ("task-a-+3", "a", 3),
        ("task-a-007", "a", 7),
        ("task-a-٣", "a", 3),
        ("task--0", "", 0),
    ],
)
def test_edge_07_task_ids_are_parsed_as_java_does(key: str, name: str, task: int) -> None:
    """`String.split` drops trailing dashes, `parseInt` takes signs, zeros and any digits."""
    state = read(config((key, '{"properties":{}}')))
    assert state.config.deferred == {name: {task: {}}}
    stated = read(status((f"status-{key}", report("RUNNING"))))
    assert task in stated.status.tasks[name]


@pytest.mark.parametrize("key", ["task-0", "task-a-99999999999", "task-a-x", "task-"])
def test_edge_07_unparsable_task_ids_are_ignored(key: str) -> None:
    """Task ids with too few parts, too many digits or none are logged and ignored."""
    assert outcomes(config((key, '{"properties":{}}')))[0].kind is FateKind.IGNORED


def test_edge_08_deferred_tasks_beyond_the_count_are_applied_too() -> None:
    """The count and the task configs are independent of each other."""
    three = tasks("a", 3)[:3]
    state = read(config(connector("a"), *three, ("commit-a", '{"tasks":1}')))
    assert sorted(state.config.tasks["a"]) == [0, 1, 2]
    assert list(views.task_ids(state, "a")) == [0]


def test_edge_09_an_inconsistent_commit_still_sets_the_count() -> None:
    """`tasks()` gives none while the count is two; REST shows entries without config."""
    state = read(
        config(connector("a"), ("task-a-1", '{"properties":{}}'), ("commit-a", '{"tasks":2}'))
    )
    assert [*state.config.inconsistent] == ["a"]
    assert list(views.task_ids(state, "a")) == []
    assert views.task_configs(state, "a") == {0: None, 1: None}


def test_edge_10_an_empty_commit_bumps_the_generation_only_after_a_deferred_map() -> None:
    """A commit of 0 tasks counts if the connector has deferred tasks, even an empty map."""
    empty = ("commit-a", '{"tasks":0}')
    assert "a" not in read(config(connector("a"), empty)).config.generations
    once = config(connector("a"), *tasks("a", 1))
    assert read(once).config.generations["a"] == 0
    twice = config(connector("a"), *tasks("a", 1), empty)
    assert read(twice).config.generations["a"] == 1


@pytest.mark.parametrize(
    ("release", "kept"), [("3.4", 1), ("3.6.2", 1), ("3.7.0", 1), ("3.7.1", None), ("3.9", None)]
)
def test_edge_11_an_early_commit_counts_up_to_3_7_0(release: str, kept: int | None) -> None:
    """A commit before its connector applies up to 3.7.0; later it removes the tasks."""
    state = read(config(*tasks("a", 1), connector("a")), release)
    assert state.config.task_counts.get("a") == kept


@pytest.mark.parametrize(
    ("release", "tasks_kept", "deferred_kept", "applied_kept"),
    [
        ("2.5.0", True, True, None),
        ("2.5.1", False, True, None),
        ("3.3", False, True, None),
        ("3.4", False, False, None),
        ("3.7.1", False, False, False),
    ],
)
def test_edge_12_releases_differ_in_the_remains_of_a_deletion(
    release: str, *, tasks_kept: bool, deferred_kept: bool, applied_kept: bool | None
) -> None:
    """Three releases changed the remains; fencing, generation and target state always stay."""
    log = config(
        connector("a"),
        ("target-state-a", '{"state":"PAUSED"}'),
        *tasks("a", 2),
        ("tasks-fencing-a", '{"task-count":2}'),
        ("task-a-0", '{"properties":{}}'),
        ("connector-a", None),
    )
    config_state = read(log, release).config
    assert ("a" in config_state.tasks) is tasks_kept
    assert ("a" in config_state.task_counts) is tasks_kept
    assert bool(config_state.deferred.get("a")) is deferred_kept
    assert ("a" in config_state.applied) is bool(applied_kept)
    assert config_state.targets["a"] is Target.PAUSED
    if Profile.of(release).fencing:
        assert config_state.fenced_counts["a"] == 2
        assert config_state.generations["a"] == 0


def test_edge_13_a_target_state_may_come_first_and_its_tombstone_means_started() -> None:
    """The target waits for its config; its tombstone on a live connector calls no listener."""
    first = config(("target-state-a", '{"state":"PAUSED"}'), connector("a"))
    assert read(first).config.targets["a"] is Target.PAUSED
    removed = config(
        connector("a"), ("target-state-a", '{"state":"PAUSED"}'), ("target-state-a", None)
    )
    assert read(removed).config.targets["a"] is Target.STARTED
    assert outcomes(removed, live=True)[2].calls == ()


@pytest.mark.parametrize(
    ("value", "target"),
    [
        ('{"state":"PAUSED","state.v2":"STOPPED"}', Target.STOPPED),
        ('{"state":"PAUSED","state.v2":"FUTURE"}', Target.STARTED),
        ('{"state":"PAUSED","state.v2":7}', Target.PAUSED),
        ('{"state":"PAUSED","state.v2":null}', Target.PAUSED),
    ],
)
def test_edge_14_an_unknown_state_v2_blocks_the_fallback(value: str, target: Target) -> None:
    """A wrong type or null falls back to `state`; an unknown word does not."""
    assert read(config(connector("a"), ("target-state-a", value))).config.targets["a"] is target


@pytest.mark.parametrize(("release", "target"), [("3.4", "STARTED"), ("3.5", "STOPPED")])
def test_edge_15_a_naive_stopped_stops_from_3_5_on(release: str, target: str) -> None:
    """`{"state":"STOPPED"}` stops from 3.5 on; before, it is refused and the old state stays."""
    state = read(config(connector("a"), ("target-state-a", '{"state":"STOPPED"}')), release)
    assert state.config.targets["a"].value == target


def test_edge_16_the_config_offset_skips_undecodable_values() -> None:
    """Unknown keys advance the offset; undecodable values and invisible aborted records do not."""
    assert read(config(connector("a"), ("what", "{}"))).config.offset == 2
    assert read(config(connector("a"), ("what", "{"))).config.offset == 1
    aborted = [msgspec.structs.replace(entry, aborted=True) for entry in config(connector("a"))]
    assert read(aborted).config.offset == 1
    assert read(aborted, exactly_once=True).config.offset == -1


@pytest.mark.parametrize(
    "pair",
    [
        ("restart-connector-a", '{"include-tasks":true,"only-failed":false}'),
        ("logger-cluster-root", '{"level":"DEBUG"}'),
    ],
)
def test_edge_17_events_are_never_replayed(pair: tuple[str, str]) -> None:
    """Events in the log before the start restart nothing; later ones do."""
    assert outcomes(config(pair))[0].calls == ()
    assert len(outcomes(config(pair), live=True)[0].calls) == 1


def test_edge_18_a_fencing_tombstone_is_ignored_until_compaction() -> None:
    """A running worker keeps the old count. A worker that starts after compaction has none."""
    log = config(("tasks-fencing-a", '{"task-count":2}'), ("tasks-fencing-a", None))
    assert read(log).config.fenced_counts == {"a": 2}
    assert read(log[1:]).config.fenced_counts == {}


def test_edge_19_property_values_are_not_type_checked() -> None:
    """Numbers, objects and nulls are stored as they are."""
    state = read(config(("connector-a", '{"properties":{"n":1,"o":{},"z":null}}')))
    assert state.config.connectors["a"] == {"n": 1, "o": {}, "z": None}


def test_edge_20_a_status_tombstone_takes_the_tasks_along_across_partitions() -> None:
    """The fold depends on the order of partitions: `in_order` fixes it, and a hazard reports it."""
    task = status(("status-task-a-0", report("RUNNING")), partition=1)
    gone = status(("status-connector-a", None), partition=0, start=5)
    assert read([*task, *gone]).status.tasks == {}
    assert 0 in read([*gone, *task]).status.tasks["a"]
    assert in_order([*gone, *task]) == [*task, *gone]
    found_hazards = hazards([*gone, *task], Profile.of("3.9"))
    assert [hazard.danger for hazard in found_hazards] == [Danger.PARTITION_ORDER]


@pytest.mark.parametrize(("release", "task_state"), [("3.5.2", "UNASSIGNED"), ("3.6.0", "RUNNING")])
def test_edge_21_a_stale_unassigned_is_ignored(release: str, task_state: str) -> None:
    """From 3.6.0 on, a stale UNASSIGNED of a task's old worker is ignored."""
    pairs = [(key, report("RUNNING", 2)) for key in ("status-task-a-0", "status-connector-a")]
    late = [(key, report("UNASSIGNED", 1)) for key, _ in pairs]
    state = read(status(*pairs, *late), release)
    assert state.status.tasks["a"][0].state.value == task_state
    assert state.status.connectors["a"].state is State.UNASSIGNED


def test_edge_22_an_unknown_state_keeps_the_previous_status() -> None:
    """A 3.4 worker ignores STOPPED and shows the previous status, or none."""
    key = "status-connector-a"
    log = status((key, report("RUNNING")), (key, report("STOPPED")))
    assert read(log, "3.4").status.connectors["a"].state is State.RUNNING
    assert read(log, "3.9").status.connectors["a"].state is State.STOPPED
    assert read(log[1:], "3.4").status.connectors == {}


def test_edge_23_the_separator_of_active_topics_is_skipped_by_length() -> None:
    """A colon and any ten UTF-16 units separate; REST shows the names in the *value*."""
    value = '{"topic":{"name":"other","connector":"x","task":0,"discoverTimestamp":1}}'
    state = read(status(("status-topic-t2:ZZZZZZZZZZc2", value)))
    assert list(state.status.active_topics) == ["c2"]
    assert list(state.status.active_topics["c2"]) == ["t2"]
    assert views.active_topics(state, "c2") == ["other"]


def test_edge_24_offsets_are_found_by_raw_bytes_or_not_at_all() -> None:
    """A release looks for the re-serialised key; `kip` looks for the bytes in the log."""
    key = '["a",{"db":"d","table":"t","schema":"s"}]'
    log = offsets((key, '{"pos":1}'))
    assert [view.offset for view in views.source_offsets(read(log, "3.9"), "a")] == [None]
    assert [view.offset for view in views.source_offsets(read(log, "kip"), "a")] == [{"pos": 1}]
    found_hazards = hazards(log, Profile.of("3.9"))
    assert [hazard.danger for hazard in found_hazards] == [Danger.OFFSET_UNREACHABLE]


def test_edge_25_java_writes_its_own_json() -> None:
    """Java writes astral characters as pairs, doubles with exponent, upper-case escapes."""
    value = {"e": "😀", "c": "\x1f", "d": 1e10, "p": "/é"}
    written = json_codec.encode(value)
    assert written == r'{"e":"\uD83D\uDE00","c":"\u001F","d":1.0E10,"p":"/é"}'.encode()


def test_edge_26_a_foreign_partitioner_puts_one_key_into_two_partitions() -> None:
    """Compaction keeps both records; the order decides which one counts: a hazard."""
    key = '["a",{"p":1}]'
    log = [*offsets((key, '{"o":1}')), *offsets((key, '{"o":2}'), partition=1, start=3)]
    found_hazards = hazards(log, Profile.of("3.9"))
    assert [hazard.danger for hazard in found_hazards] == [Danger.PARTITION_ORDER]


@pytest.mark.parametrize(("release", "offset"), [("3.9", None), ("kip", {"pos": 1})])
def test_edge_27_own_offsets_topics_never_fall_back(release: str, offset: object) -> None:
    """A release ignores an offset that only the worker's topic has; `kip` falls back to it."""
    log = [
        *config(connector("a", **{"offsets.storage.topic": "own"})),
        *offsets(('["a",{"p":1}]', '{"pos":1}')),
        *records("own", ('["a",{"p":2}]', '{"pos":2}')),
    ]
    by_raw = {view.raw: view.offset for view in views.source_offsets(read(log, release), "a")}
    assert by_raw == {raw('["a",{"p":1}]'): offset, raw('["a",{"p":2}]'): {"pos": 2}}


def test_edge_28_only_exactly_once_support_is_blind_for_aborted_records() -> None:
    """A worker without exactly-once support obeys aborted records, except in own topics."""
    aborted = [
        msgspec.structs.replace(entry, aborted=True)
        for entry in [*config(connector("a")), *offsets(("k", "1")), *records("own", ("k", "1"))]
    ]
    state = read(aborted)
    assert "a" in state.config.connectors
    assert state.offsets["connect-offsets"].values == {b"k": b"1"}
    assert state.offsets["own"].values == {}
    assert read(aborted, exactly_once=True).config.connectors == {}


@pytest.mark.parametrize(
    ("release", "kind"),
    [
        ("3.4", FateKind.ACCEPTED),
        ("3.5.0", FateKind.LOSES_BATCH),
        ("3.5.1", FateKind.LOSES_BATCH),
        ("3.5.2", FateKind.IGNORED),
        ("3.6.0", FateKind.LOSES_BATCH),
        ("3.6.1", FateKind.IGNORED),
    ],
)
def test_edge_29_offset_keys_that_are_no_json_lose_the_batch(release: str, kind: FateKind) -> None:
    """Three releases lose the record and the rest of its batch; others keep the record."""
    log = offsets(("{", '{"pos":1}'))
    assert outcomes(log, release)[0].kind is kind
    kept = read(log, release).offsets["connect-offsets"].values
    assert (b"{" in kept) is (kind is not FateKind.LOSES_BATCH)


@pytest.mark.java
@pytest.mark.parametrize(("release", "does"), [("0.10.0.1", "refuses"), ("0.10.1.0", "writes")])
def test_edge_30_put_safe_needs_a_cached_status_in_0_10_0(release: str, does: str) -> None:
    """The answer is that of Kafka's `CacheEntry` (more cases in `test_worker_writes`)."""
    assert writing_answers(release)["safely"]["nothing"] == does


def test_edge_30_readers_ignore_generations() -> None:
    """The last record wins, also if its generation is lower."""
    key = "status-connector-a"
    state = read(status((key, report("RUNNING", 9)), (key, report("FAILED", 1))), "0.10.0")
    assert state.status.connectors["a"].generation == 1


def test_edge_31_generations_depend_on_how_much_history_is_left() -> None:
    """Generations count commits, so workers never compare them; no difference is reported."""
    log = config(connector("a"), *tasks("a", 1), *tasks("a", 1))
    whole, compacted = read(log), read([log[0], *log[3:]])
    assert whole.config.generations != compacted.config.generations
    assert diff(whole, compacted) == []


def test_edge_32_keys_are_repaired_as_java_does() -> None:
    """An encoded surrogate is one replacement character, where Python makes three."""
    assert decode_key(b"connector-\xed\xa0\x80") == "connector-�"
    log = config((b"connector-\xed\xa0\x80", '{"properties":{}}'))
    assert list(read(log).config.connectors) == ["�"]


@pytest.mark.parametrize(
    ("release", "value", "text"),
    [
        ("3.9", b'{"properties":{"k":"\xc0\x80"}}', "\0"),
        ("4.2.0", b'{"properties":{"k":"\xed\xa0\xbd\xed\xb8\x80"}}', "😀"),
        ("4.2.1", b'{"properties":{"k":"\xed\xa0\xbd\xed\xb8\x80"}}', None),
    ],
)
def test_edge_33_jackson_is_lenient_with_utf8(release: str, value: bytes, text: str | None) -> None:
    """Overlong forms are always accepted, encoded surrogates up to 4.2.0."""
    state = read(config(("connector-a", value)), release)
    assert state.config.connectors.get("a") == (None if text is None else {"k": text})


@pytest.mark.parametrize(
    ("release", "text", "expected"),
    [
        ("3.9", b"9223372036854775808", -(2**63)),
        ("2.3", b"-0.0", "-0.0"),
        ("2.4", b"-0.0", "0.0"),
        ("3.9", b"1e400", "inf"),
        ("3.6", b"1" * 1001, int("1" * 1001)),
    ],
)
def test_edge_34_numbers_are_those_of_java(release: str, text: bytes, expected: object) -> None:
    """Integers wrap at 64 bits, zero loses its sign from 2.4 on, a large number is Infinity."""
    number = json_codec.decode(b"[" + text + b"]", Profile.of(release))
    assert isinstance(number, list)
    if isinstance(expected, int):
        assert number[0] == (expected + 2**63) % 2**64 - 2**63
    else:
        assert str(number[0]) == expected


@pytest.mark.parametrize("value", [b"1" * 1001, b"[" * 1001 + b"]" * 1001])
def test_edge_34_limits_hold_from_3_7_on(value: bytes) -> None:
    """More than 1000 digits or levels are refused."""
    closing = b"]" * value[:900].count(b"[")
    json_codec.decode(b"[" + value[:900] + closing + b"]", Profile.of("3.7"))
    with pytest.raises(json_codec.Undecodable):
        json_codec.decode(value, Profile.of("3.7"))


def test_every_edge_has_a_test() -> None:
    """Each of the edge cases 1 to 34 has a test with its number."""
    numbers = {int(name.split("_")[2]) for name in globals() if name.startswith("test_edge_")}
    assert numbers == set(range(1, 35))


def test_null_keys_decode_to_invalid() -> None:
    """The codecs of offsets and statuses give Invalid for a null key.

    In an offsets topic such a key is legal; in the config and status topics it is poison.
    """
    profile = Profile.of("3.9")
    assert isinstance(decode_partition(None, profile), Invalid)
    assert isinstance(decode_status(None, b"{}", profile), Invalid)


def test_a_status_tombstone_decodes_to_a_removal() -> None:
    """Kafka's null alone is a tombstone."""
    key = b"status-connector-a"
    assert decode_status(key, None, Profile.of("3.9")) == ConnectorStatus("a", None)
    assert isinstance(decode_status(key, b"null", Profile.of("3.9")), Invalid)
