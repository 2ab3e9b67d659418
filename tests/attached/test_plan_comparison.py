"""Comparison of plans with new records: equal, missing, different, foreign, out of order."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from controlplane.attached.plan_comparison import compare, has_appeared
from controlplane.core.entry import Entry
from controlplane.core.plan import Draft, Plan, Step
from controlplane.core.state import Topics
from tests.operation_counts import assert_linear

TOPICS = Topics()
STOPPED = {"state": "PAUSED", "state.v2": "STOPPED"}
CONFIG = {"properties": {"name": "orders", "file": "a", "password": "secret"}}


def draft(key: str, value: Mapping[str, Any] | None) -> Draft:
    """Planned record of the config topic."""
    return Draft(TOPICS.config, key.encode(), None if value is None else json.dumps(value).encode())


def entries(*records: tuple[str, Mapping[str, Any] | None]) -> list[Entry]:
    """Records of the config topic, from offset 5 on."""
    drafts = [draft(*record) for record in records]
    return [
        Entry(TOPICS.config, 0, 5 + number, 1, each.key, each.value)
        for number, each in enumerate(drafts)
    ]


STOP = Plan(
    (
        Step("commit", (draft("commit-orders", {"tasks": 0}),)),
        Step("state", (draft("target-state-orders", STOPPED),)),
    )
)
PUT = Plan((Step("config", (draft("connector-orders", CONFIG),)),))


def test_equal_records_are_as_planned() -> None:
    """Member order does not matter; records that workers add later are no difference."""
    turned = {"properties": dict(reversed(CONFIG["properties"].items()))}
    log_entries = entries(
        ("connector-others", CONFIG),
        ("connector-orders", turned),
        ("task-orders-0", CONFIG),
        ("commit-orders", {"tasks": 1}),
        ("session-key", {}),
    )
    comparison = compare(PUT, log_entries, TOPICS, "orders")
    assert comparison.as_planned
    assert [position.offset for position in comparison.records] == [6]


@pytest.mark.parametrize(
    ("plan", "log_entries", "difference"),
    [
        (
            STOP,
            entries(("commit-orders", {"tasks": 0})),
            "target-state-orders is missing in connect-configs",
        ),
        (
            PUT,
            entries(("connector-orders", {"properties": {**CONFIG["properties"], "file": "b"}})),
            "config@5 (connector-orders) differs from the plan in properties.file",
        ),
        (
            PUT,
            entries(("connector-orders", None)),
            "config@5 (connector-orders) is a tombstone, not as planned",
        ),
        (
            PUT,
            entries(("connector-orders", CONFIG), ("target-state-orders", STOPPED)),
            "config@6 (target-state-orders) was not planned",
        ),
        (
            STOP,
            entries(("target-state-orders", STOPPED), ("commit-orders", {"tasks": 0})),
            "config@5 lies before config@6, but was planned after it",
        ),
        (
            Plan(()),
            entries(("connector-orders", None)),
            "config@5 (connector-orders) was not planned",
        ),
    ],
    ids=["missing", "different", "tombstone", "foreign", "disordered", "refused"],
)
def test_each_difference_has_a_sentence(
    plan: Plan, log_entries: list[Entry], difference: str
) -> None:
    """Each kind of difference has a sentence without values, which may be secrets."""
    assert compare(plan, log_entries, TOPICS, "orders").differences == (difference,)


@pytest.mark.parametrize("actual", ['{"at":true}', '{"at":1.0}', '{"at":[1]}', '{"at":"1"}'])
@pytest.mark.parametrize("planned", ['{"at":1}', '{"at":[true]}'])
def test_values_of_another_type_differ(planned: str, actual: str) -> None:
    """A boolean or a float is no planned integer, although Python calls them equal."""
    offset = Draft(TOPICS.offsets, b'["orders",{}]', planned.encode())
    plan = Plan((Step("write", (offset,)),))
    written = [Entry(TOPICS.offsets, 0, 7, 1, offset.key, actual.encode())]
    (difference,) = compare(plan, written, TOPICS, "orders").differences
    assert difference.endswith(" differs from the plan in at")
    assert not has_appeared(plan, written)


def test_a_foreign_record_before_the_planned_one_is_a_difference() -> None:
    """A foreign record of the same key before the planned one is a separate difference."""
    foreign = {"properties": {"name": "orders", "file": "theirs"}}
    log_entries = entries(("connector-orders", foreign), ("connector-orders", CONFIG))
    comparison = compare(PUT, log_entries, TOPICS, "orders")
    assert [position.offset for position in comparison.records] == [6]
    assert comparison.differences == ("config@5 (connector-orders) was not planned",)


def test_a_plan_appears_once_all_its_values_are_there() -> None:
    """A plan has appeared once all planned values are there; other values of a key do not count."""
    commit, state = ("commit-orders", {"tasks": 0}), ("target-state-orders", STOPPED)
    foreign = ("target-state-orders", {"state": "STARTED"})
    assert has_appeared(STOP, entries(commit, foreign, state))
    assert not has_appeared(STOP, entries(commit, foreign))
    assert not has_appeared(STOP, entries(state))


def test_keys_are_named_without_secrets() -> None:
    """The key of an offset is named without the secret in its partition."""
    offset = Draft(TOPICS.offsets, b'["orders",{"password":"hunter2"}]', b'{"position":5}')
    (difference,) = compare(Plan((Step("write", (offset,)),)), [], TOPICS, "orders").differences
    assert difference == '["orders",{"password":[hidden]}] is missing in connect-offsets'


def test_many_records_are_compared_in_linear_time() -> None:
    """A change of thousands of offsets does not hold the event loop for seconds."""

    def prepared(size: int) -> Callable[[], object]:
        records = [(f"connector-c{number}", CONFIG) for number in range(size)]
        plan = Plan((Step("all", tuple(draft(*record) for record in records)),))
        log_entries = entries(*records)
        return lambda: compare(plan, log_entries, TOPICS, "orders")

    assert_linear(prepared, 200)


@pytest.mark.parametrize("brackets", [("[", "]"), ('{"a":', "}")], ids=["lists", "objects"])
def test_deep_values_are_compared(brackets: tuple[str, str]) -> None:
    """Values nested up to Python's limit and beyond differ, or are equal; none is an error."""
    opening, closing = brackets
    for depth in range(900, 1_010):
        texts = [f"{opening * depth}{end}{closing * depth}" for end in ("1", "2")]
        planned, actual = (text.encode() for text in texts)
        plan = Plan((Step("all", (Draft(TOPICS.config, b"k", planned),)),))
        comparison = compare(plan, [Entry(TOPICS.config, 0, 5, 1, b"k", actual)], TOPICS, "orders")
        assert comparison.differing
