"""Records of alter and reset: their order and their keys.

Labels such as O9 name laws: see `tests/laws/commands`.
"""

from typing import Any

import pytest

from controlplane.core.decide import decide
from controlplane.core.plan import FenceProducers, Plan, Reason, Rejected
from tests.core.decisions import context_of, planned, refused
from tests.core.logs import config, offsets, read, records, tasks
from tests.core.offset_cases import (
    ALTERING,
    ONE,
    RESET,
    STOPPED,
    STOPPED_A,
    STOPPED_WITH_OWN,
    SURE,
    after,
    alter,
    connector,
    key,
    page,
    written_records,
)


def test_an_empty_map_is_an_offset_and_null_is_none() -> None:
    """An unknown partition with a null offset still gets a tombstone."""
    command = alter((page(0), {}), (page(1), None), (page(2), {"row": None}))
    assert written_records(STOPPED_A, command) == {
        "write": [f"{key(0)} {{}}", f"{key(1)} ", f'{key(2)} {{"row":null}}']
    }


@pytest.mark.parametrize("release", ["3.9", "kip"])
def test_equal_partitions_collapse(release: str) -> None:
    """Equal partitions keep the first spelling and the last offset; equality is Java's."""
    command = alter(
        ({"a": 1, "b": 2}, {"row": 1}),
        ({"b": 2, "a": 1}, {"row": 2}),
        ({"a": 1.0, "b": 2}, {"row": 3}),
        ({"a": True, "b": 2}, {"row": 4}),
    )
    records_by_step = written_records(STOPPED_A, command, release)
    assert sorted(records_by_step["write"]) == [
        '["a",{"a":1,"b":2}] {"row":2}',
        '["a",{"a":1.0,"b":2}] {"row":3}',
        '["a",{"a":true,"b":2}] {"row":4}',
    ]


def test_a_partition_may_be_null() -> None:
    """The null partition can be written, but is never listed."""
    assert written_records(STOPPED_A, alter((None, {"row": 1})), "3.9") == {
        "write": ['["a",null] {"row":1}']
    }


def test_values_are_written_as_java_does() -> None:
    """Values are written as 64-bit integers, doubles and escapes, in the order of a HashMap."""
    partition = {"topic": "ü\U0001f600\x1f/", "partition": -(2**63), "cluster": None}
    command = alter((partition, {"pos": 1e10, "a": 2.0, "inf": float("inf")}))
    topic = '"topic":"ü\\uD83D\\uDE00\\u001F/"'
    spelled = f'["a",{{"cluster":null,"partition":-9223372036854775808,{topic}}}]'
    offset = '{"inf":"Infinity","a":2.0,"pos":1.0E10}'
    for release in ("3.6", "4.3", "kip"):
        assert written_records(STOPPED_A, command, release) == {"write": [f"{spelled} {offset}"]}


SIX = alter(*((page(number), {"row": number} if number % 2 else None) for number in range(6)))


def pages(texts: list[str]) -> list[int]:
    """The pages of records, in order."""
    return [int(text.partition(":")[2].partition("}")[0]) for text in texts]


def test_releases_write_in_the_order_of_javas_maps() -> None:
    """Releases write in the order of a Java map of byte buffers; we keep the request's order.

    The expected orders come from Kafka's own classes.
    """
    assert pages(written_records(STOPPED_A, SIX)["write"]) == [0, 1, 2, 3, 4, 5]
    for release in ("3.6", "3.9", "4.3"):
        assert pages(written_records(STOPPED_A, SIX, release)["write"]) == [1, 2, 4, 5, 3, 0]
    records_by_step = written_records(STOPPED_WITH_OWN, SIX, "3.9")
    assert {name: pages(records_) for name, records_ in records_by_step.items()} == {
        "wipe-copy": [2, 4, 0],
        "write": [1, 2, 4, 5, 3, 0],
        "write-copy": [1, 5, 3],
    }


TWO_TOPICS = after(
    STOPPED_WITH_OWN,
    *records("own", (key(0), '{"row":1}')),
    *offsets((key(0), '{"row":1}'), (key(1), '{"row":7}')),
)


@pytest.mark.parametrize("release", ["3.8", "3.9", "4.3", "kip"])
def test_removals_go_to_the_copy_first_and_values_last(release: str) -> None:
    """A crash between the steps restores no removed offset (O3, KAFKA-15018)."""
    command = alter((page(0), None), (page(1), {"row": 2}))
    plan = planned(STOPPED_WITH_OWN, command, release, hooks=SURE)
    assert [
        (step.name, {draft.topic for draft in step.records}, len(step.records), step.best_effort)
        for step in plan.steps
    ] == [
        ("wipe-copy", {"connect-offsets"}, 1, False),
        ("write", {"own"}, 2, False),
        ("write-copy", {"connect-offsets"}, 1, True),
    ]
    wiped = planned(TWO_TOPICS, RESET, release, hooks=SURE)
    assert [(step.name, len(step.records), step.best_effort) for step in wiped.steps] == [
        ("wipe-copy", 2, False),
        ("wipe", 2, False),
    ]


@pytest.mark.parametrize("release", ["3.6", "3.7"])
def test_before_3_8_everything_goes_to_the_copy_last(release: str) -> None:
    """Before 3.8 the worker's topic is written last, also for removals (KAFKA-15018)."""
    command = alter((page(0), None), (page(1), {"row": 2}))
    plan = planned(STOPPED_WITH_OWN, command, release, hooks=SURE)
    assert [(step.name, len(step.records), step.best_effort) for step in plan.steps] == [
        ("write", 2, False),
        ("write-copy", 2, True),
    ]
    wiped = planned(TWO_TOPICS, RESET, release, hooks=SURE)
    assert [(step.name, len(step.records)) for step in wiped.steps] == [
        ("wipe", 2),
        ("wipe-copy", 2),
    ]


def test_values_alone_need_no_step_before() -> None:
    """Values need no earlier step; neither does a connector that names the worker's topic."""
    assert list(written_records(STOPPED_WITH_OWN, ONE)) == ["write", "write-copy"]
    same = connector('"offsets.storage.topic":"connect-offsets"')
    assert list(written_records([same, STOPPED], ONE)) == ["write"]


def test_only_kip_reads_topics_back() -> None:
    """`kip` reads all topics back, as KIP-875 requires; releases wait for acknowledgements only."""
    command = alter((page(0), None), (page(1), {"row": 2}))
    ours = planned(STOPPED_WITH_OWN, command, hooks=SURE)
    assert [step.read_back for step in ours.steps] == [
        ("connect-offsets",),
        ("own",),
        ("connect-offsets",),
    ]
    theirs = planned(STOPPED_WITH_OWN, command, "4.3", hooks=SURE)
    assert {step.read_back for step in theirs.steps} == {()}


# --- exactly-once -------------------------------------------------------------------------------

STOPPED_NOW = after(
    [connector()],
    *tasks("a", 2),
    ("tasks-fencing-a", '{"task-count":2}'),
    ("commit-a", '{"tasks":0}'),
    STOPPED,
)


@pytest.mark.parametrize("command", [ONE, RESET], ids=["alter", "reset"])
@pytest.mark.parametrize("release", ["3.9", "kip"])
def test_tasks_are_fenced_before_offsets_are_written(command: Any, release: str) -> None:
    """Tasks are fenced once per stop: a count later than the commit shows it."""
    log = after(STOPPED_NOW, *offsets((key(0), '{"row":1}')))
    name = "write" if command is ONE else "wipe"
    plan = planned(log, command, release, hooks=SURE, exactly_once=True)
    assert [step.name for step in plan.steps] == ["fence", "count", name]
    assert plan.steps[0].action == FenceProducers(
        "a", ("connect-cluster-a-0", "connect-cluster-a-1")
    )
    assert plan.steps[1].records[0].value == b'{"task-count":0}'
    again = [*log[:-1], ("tasks-fencing-a", '{"task-count":0}'), log[-1]]
    assert list(written_records(again, command, release, exactly_once=True)) == [name]
    assert list(written_records(log, command, release)) == [name]


def test_fencing_comes_first_even_where_nothing_is_reset() -> None:
    """Tasks are fenced first, even if there is nothing to reset."""
    plan = planned(STOPPED_NOW, RESET, hooks=SURE, exactly_once=True)
    assert [step.name for step in plan.steps] == ["fence", "count"]
    assert plan.commit_point is None


# --- reset: what is known -----------------------------------------------------------------------


def test_nothing_known_means_nothing_written() -> None:
    """A reset without stored offsets succeeds and writes nothing."""
    gone = after(STOPPED_A, *offsets((key(0), "{}"), (key(0), None)))
    for log in (STOPPED_A, gone):
        for release in ALTERING:
            plan = planned(log, RESET, release, hooks=SURE)
            assert (plan.steps, plan.commit_point) == ((), None)


def test_a_reset_knows_both_topics() -> None:
    """A reset removes offsets of either topic from both."""
    assert written_records(TWO_TOPICS, RESET) == {
        "wipe-copy": [f"{key(0)} ", f"{key(1)} "],
        "wipe": [f"{key(0)} ", f"{key(1)} "],
    }


REORDERED = '["a",{"topic":"t","cluster":"c"}]'
IN_HASH_ORDER = '["a",{"cluster":"c","topic":"t"}]'
SPACED = '["a", {"cluster": "c", "topic": "t"}]'


@pytest.mark.parametrize(
    "command",
    [
        RESET,
        alter(({"topic": "t", "cluster": "c"}, None)),
        alter(({"cluster": "c", "topic": "t"}, None)),
    ],
)
def test_only_kip_reuses_stored_keys(command: Any) -> None:
    """O9: the stored key is found under any order of members, in the log and in the request."""
    log = after(STOPPED_A, *offsets((REORDERED, '{"pos":1}')))
    name = "wipe" if command is RESET else "write"
    assert written_records(log, command) == {name: [f"{REORDERED} "]}
    assert written_records(log, command, "4.3") == {name: [f"{IN_HASH_ORDER} "]}


def test_every_spelling_is_removed_and_one_is_altered() -> None:
    """A reset removes every spelling; an alteration uses a worker's, or the first in byte order."""
    present = [(REORDERED, '{"pos":1}'), (SPACED, '{"pos":2}')]
    log = after(STOPPED_A, *offsets(*present))
    assert written_records(log, RESET) == {"wipe": [f"{SPACED} ", f"{REORDERED} "]}
    command = alter(({"topic": "t", "cluster": "c"}, {"pos": 9}))
    assert written_records(log, command) == {"write": [f'{SPACED} {{"pos":9}}']}
    log = after(STOPPED_A, *offsets(*present, (IN_HASH_ORDER, '{"pos":3}')))
    assert written_records(log, command) == {"write": [f'{IN_HASH_ORDER} {{"pos":9}}']}


def test_a_key_of_the_workers_topic_is_reused_in_the_own_topic() -> None:
    """The own topic gets the spelling of the worker's topic only if it has none itself."""
    command = alter(({"cluster": "c", "topic": "t"}, {"pos": 9}))
    log = after(STOPPED_WITH_OWN, *offsets((REORDERED, '{"pos":1}')))
    nine = ' {"pos":9}'
    assert written_records(log, command) == {
        "write": [REORDERED + nine],
        "write-copy": [REORDERED + nine],
    }
    log += records("own", (SPACED, '{"pos":1}'))
    assert written_records(log, command) == {
        "write": [SPACED + nine],
        "write-copy": [REORDERED + nine],
    }


def test_offsets_that_no_worker_lists_are_reset() -> None:
    """O1: a reset includes nested partitions, the null partition and hidden spellings."""
    nested, nowhere = '["a",{"f":{"g":1}}]', '["a",null]'
    log = after(
        STOPPED_A, *offsets((nested, "{}"), (nowhere, "{}"), (key(0), "{}"), (REORDERED, "{}"))
    )
    log += offsets((SPACED, None), start=4)
    assert written_records(log, RESET) == {
        "wipe": sorted(f"{raw_key} " for raw_key in (nested, nowhere, key(0), REORDERED))
    }
    without_nested = after(log[:2], *log[3:])
    assert written_records(without_nested, RESET, "3.9") == {"wipe": [f"{key(0)} "]}


def test_releases_fail_at_nested_partitions_when_they_reset() -> None:
    """Releases fail to reset nested partitions: they list them, and then check their form."""
    log = after(STOPPED_A, *offsets(('["a",{"f":{"g":1}}]', "{}")))
    message = "Offsets may only contain primitive types as values, but field f contains MAP"
    assert refused(log, RESET, "3.9") == Rejected(Reason.FAILED, message)


def test_a_key_is_removed_where_it_lies() -> None:
    """A tombstone goes to the partition where a foreign writer has put the key.

    Only a fold that traces records knows it.
    """
    entries = [*config(connector(), STOPPED), *offsets((key(0), "{}"), partition=3)]
    for trace, place in ((True, 3), (False, None)):
        state = read(entries, "kip", trace=trace)
        plan = decide(state, RESET, context_of("kip", hooks=SURE))
        assert isinstance(plan, Plan)
        assert [draft.partition for draft in plan.steps[0].records] == [place]
