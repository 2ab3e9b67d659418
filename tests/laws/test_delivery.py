"""Laws of source tasks (Q1–Q4, X1–X3) and of KIP-910's hook (H1–H5), on a simulated clock.

The log is real; its acknowledgements fail, come late, or in another order. docs/kafka-unit-tests.md
has the sentence of each law.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from controlplane.connect.errors import ConnectError
from controlplane.connect.records import OffsetPair
from controlplane.connect.source import OffsetPairs
from controlplane.logs.log import Record
from tests.conftest import FEWER_EXAMPLES
from tests.laws.delivery.simulated_clock import simulated
from tests.laws.delivery.source_world import (
    LifePlan,
    SourceWorld,
    by_partition,
    offsets_of,
    records_of,
)
from tests.laws.delivery.unsteady import AppendFate

PARTS = (1, 2, 3)

seconds = st.sampled_from((0.0, 0.001, 0.03, 0.3))
fates = st.lists(
    st.builds(AppendFate, st.sampled_from(("done", "done", "away", "lost", "refused")), seconds),
    max_size=12,
).filter(lambda drawn: not drawn or any(fate.kind == "done" for fate in drawn))
batches = st.lists(st.lists(st.sampled_from(PARTS), max_size=4), min_size=1, max_size=8)
crashes = st.lists(st.sampled_from((0.0, 0.015, 0.04, 0.09, 0.2, 0.5, 2.0)), max_size=3)


def override(call: int, offsets: OffsetPairs, read: Mapping[int, int]) -> OffsetPairs | None:
    """Hook: replace every second offset by that of the last record read, and add a partition.

    The last record read may still be in flight. Every third call returns None.
    """
    if call % 3 == 2:
        return None
    marked: list[OffsetPair] = [
        (partition, {"at": read[int(str(partition["p"]))], "hook": call})
        for number, (partition, _) in enumerate(offsets)
        if "p" in partition and number % 2 == 0
    ]
    return [*marked, ({"extra": 1}, {"call": call} if call % 2 == 0 else None)]


def plans(**fixed: Any) -> st.SearchStrategy[LifePlan]:
    """Strategy for life plans; some parts can be fixed."""
    drawn: dict[str, Any] = {
        "batches": batches,
        "fates": fates,
        "delays_s": st.lists(seconds, max_size=6),
        "interval_ms": st.sampled_from((20, 50, 300)),
        "hook": st.sampled_from((None, override)),
    }
    return st.builds(LifePlan, **drawn | fixed)


def at_least_once(world: SourceWorld, records: Sequence[Record]) -> None:
    """Q1: a committed offset passes no record of its partition without an acknowledgement."""
    for key, offset in offsets_of(records):
        if "p" in key and offset is not None:
            passed = {(key["p"], number) for number in range(1, offset["at"] + 1)}
            assert passed <= world.acknowledged, "Q1"
            assert passed <= {*world.records}, "Q4"


@given(plans())
def test_no_offset_passes_a_record_in_flight(plan: LifePlan) -> None:
    """Q1, Q3, H3 and H4 hold at each commit; failed records are committed in the end."""
    world = SourceWorld(plan, at_least_once)
    simulated(world.live())
    assert {part: offset["at"] for part, offset in world.committed.items()} == world.totals


@given(plans(batches=batches.filter(lambda drawn: any(1 in batch for batch in drawn))))
def test_a_stuck_partition_holds_up_no_other(plan: LifePlan) -> None:
    """Q2: the other partitions commit all offsets, the stuck one none."""
    world = SourceWorld(msgspec.structs.replace(plan, stuck=1), at_least_once)
    simulated(world.live())
    expected = {part: count for part, count in world.totals.items() if part != 1}
    assert {part: offset["at"] for part, offset in world.committed.items()} == expected


@given(plans(), crashes)
def test_a_crash_loses_nothing(plan: LifePlan, crash_times: list[float]) -> None:
    """Q4 and H5: each life continues from the committed offsets; no record is lost."""
    world = SourceWorld(plan, at_least_once)

    async def lives() -> None:
        for crash_s in crash_times:
            await world.live(crash_s=crash_s)
        await world.live()

    simulated(lives())
    everything = {
        (part, number) for part, count in world.totals.items() for number in range(1, count + 1)
    }
    assert {*world.records} == everything
    assert {part: offset["at"] for part, offset in world.committed.items()} == world.totals


# --- the hook of KIP-910 --------------------------------------------------------------------------


@settings(max_examples=FEWER_EXAMPLES)
@given(plans(hook=st.none()), st.sampled_from((None, [])))
def test_a_hook_that_says_nothing_changes_nothing(plan: LifePlan, nothing: Any) -> None:
    """H1: the records and the last commits are those of the same life without the hook.

    The commits before them may differ: the hook must see an offset before its commit.
    """
    without, silent = lives_of(plan, at_least_once, nothing)
    assert silent.hooked
    assert (silent.committed, silent.extra) == (without.committed, without.extra)
    assert {*silent.records} == {*without.records}


def lives_of(
    plan: LifePlan, check: Callable[[SourceWorld, Sequence[Record]], None], output: Any
) -> tuple[SourceWorld, SourceWorld]:
    """Live without a hook, and with a hook that takes no time and always has this output."""
    without = SourceWorld(plan, check)
    simulated(without.live())
    hooked = SourceWorld(msgspec.structs.replace(plan, hook=lambda *_: output, hook_s=0.0), check)
    simulated(hooked.live())
    return without, hooked


@given(plans(hook=st.just(override)))
def test_the_output_of_the_hook_wins(plan: LifePlan) -> None:
    """H2: at rest, the hook's last offset for a partition wins over the offset of its records.

    Partitions that only the hook names are committed, too; None removes a partition.
    """
    world = SourceWorld(plan, at_least_once)
    simulated(world.live())
    last = {str(partition): offset for _, output in world.hooked for partition, offset in output}
    for part, count in world.totals.items():
        output = last.get(str({"p": part}))
        is_last = output is not None and output["at"] == count
        assert world.committed[part] == (output if is_last else {"at": count})
    assert world.extra == {'{"extra": 1}': last["{'extra': 1}"]}


# --- exactly once ---------------------------------------------------------------------------------


def exactly_once(world: SourceWorld, records: Sequence[Record]) -> None:
    """X1 and X2: offsets come with exactly their records, unless the source has aborted them.

    H2: the offsets are the input of the hook, replaced and completed by its output. Only the last
    commit of a life calls no hook.
    """
    sent = records_of(records)
    assert len({*sent}) == len(sent)
    assert not {*sent} & {*world.records}, "a record comes twice"
    moved = {key["p"]: offset for key, offset in offsets_of(records) if "p" in key}
    covered = set()
    for part, offset in moved.items():
        before = world.committed.get(part, {"at": 0})["at"]
        assert offset is not None
        covered |= {(part, number) for number in range(before + 1, offset["at"] + 1)}
    assert {*sent} <= covered, "X1: a record without its offset"
    assert covered - {*sent} <= world.aborted, "X2: an offset without its record"
    if world.hook_answer is not None:
        assert by_partition(offsets_of(records)) == world.hook_answer, "H2"
    elif world.plan.hook is not None:
        assert world.log.steady, "H2: a commit without the hook"


transactions = plans(
    boundary=st.sampled_from(("poll", "interval", "connector")),
    ends=st.lists(st.sampled_from((None, "commit", "abort")), min_size=1, max_size=4),
)


@given(transactions, crashes)
def test_records_and_offsets_are_one(plan: LifePlan, crash_times: list[float]) -> None:
    """X1, X2, H4 and H5 hold at each append, over crashes; in the end each record exists once."""
    world = SourceWorld(plan, exactly_once)

    async def lives() -> None:
        for crash_s in crash_times:
            await world.live(crash_s=crash_s)
        await world.live()

    simulated(lives())
    assert all(count == 1 for count in world.records.values())
    if plan.boundary != "connector":
        assert {part: offset["at"] for part, offset in world.committed.items()} == world.totals
        assert sum(world.records.values()) == sum(world.totals.values())


@given(transactions.map(partial(msgspec.structs.replace, hook=None)), st.sampled_from((None, [])))
@example(LifePlan(batches=[[1], [2, 1]], boundary="poll"), None)
@example(LifePlan(batches=[[1], [2, 1]], boundary="interval"), [])
@example(LifePlan(batches=[[1], [2, 1]], boundary="connector", ends=["commit", "abort"]), None)
def test_a_hook_that_says_nothing_changes_no_transaction(plan: LifePlan, nothing: Any) -> None:
    """H1: the transactions are those of the same life without the hook, in the same order."""
    without, silent = lives_of(plan, exactly_once, nothing)
    assert silent.appends == without.appends
    assert (silent.committed, silent.extra) == (without.committed, without.extra)


@given(transactions.map(partial(msgspec.structs.replace, hook=override)))
@example(LifePlan(batches=[[1]], boundary="poll", hook=override))
@example(LifePlan(batches=[[1], [2], [1]], boundary="interval", hook=override))
@example(LifePlan(batches=[[1]], boundary="connector", ends=["commit"], hook=override))
def test_a_transaction_has_the_output_of_the_hook(plan: LifePlan) -> None:
    """H2: each call of the hook has one append, which has its output and its tombstones.

    `exactly_once` compares each append with the output.
    """
    world = SourceWorld(plan, exactly_once)
    simulated(world.live())
    assert world.lost_answers == []
    last = {
        key: offset for _, output in world.hooked for key, offset in by_partition(output).items()
    }
    extra = '{"extra": 1}'
    assert world.extra == ({extra: last[extra]} if extra in last else {})


@given(transactions, st.sampled_from((0.0, 0.02, 0.05, 0.2)))
@example(LifePlan(batches=[[1]], boundary="poll"), 0.0)
def test_a_fenced_task_commits_nothing(plan: LifePlan, overtaken_s: float) -> None:
    """X3: once another process has taken over, the task writes nothing.

    The task fails if it has records to commit; without records it may end without a failure.
    """
    world = SourceWorld(plan, exactly_once)
    failure = simulated(world.zombie(overtaken_s))
    if world.records.total() < plan.committable:
        assert isinstance(failure, ConnectError)
    else:
        assert failure is None or isinstance(failure, ConnectError)
