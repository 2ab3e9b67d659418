"""Work grows linearly with the input."""

from collections.abc import Callable

import pytest

from controlplane.core.entry import Entry
from controlplane.core.fold import fold
from controlplane.core.releases.profiles import Profile
from controlplane.core.views.diff import diff
from controlplane.core.views.hazards import hazards
from controlplane.core.views.history import history
from tests.core.logs import config, connector, offsets, status, tasks
from tests.operation_counts import assert_linear

pytestmark = pytest.mark.slow

KIP = Profile.of("kip")
RUNNING = '{"state":"RUNNING","worker_id":"w","generation":1}'


def event_texts(entries: list[Entry]) -> Callable[[], object]:
    """The history of connector `c`, as shown to users."""
    return lambda: [
        (event.what, event.words, event.values) for event in history(entries, "c", KIP).events
    ]


def test_history_grows_linearly_with_config_keys() -> None:
    """The cost of a history grows linearly with the number of config keys."""
    assert_linear(lambda n: event_texts(config(connector("c", **keys(n)))), 50)


def keys(number: int) -> dict[str, str]:
    """Config with this number of keys."""
    return {f"key{index}": "value" for index in range(number)}


def test_history_grows_linearly_with_task_configs() -> None:
    """The cost is linear, although the commit changes all task configs at once."""
    assert_linear(lambda n: event_texts(config(connector("c"), *tasks("c", n))), 50)


def test_history_grows_linearly_with_task_statuses() -> None:
    """The cost is linear for statuses of many tasks, and for their removal."""

    def prepared(number: int) -> Callable[[], object]:
        names = [f"status-task-c-{task}" for task in range(number)]
        return event_texts(
            status(*((name, RUNNING) for name in names), *((name, None) for name in names))
        )

    assert_linear(prepared, 50)


def test_history_grows_linearly_with_active_topics() -> None:
    """The cost is linear for records of many active topics."""
    value = '{"topic":{"name":"t","connector":"c","task":0,"discoverTimestamp":1}}'
    assert_linear(
        lambda n: event_texts(
            status(*((f"status-topic-{at}:connector-c", value) for at in range(n)))
        ),
        50,
    )


def test_history_of_status_changes_costs_nothing_per_config_key() -> None:
    """The cost is linear, although statuses and config keys both grow."""

    def prepared(number: int) -> Callable[[], object]:
        reports = [("status-connector-c", RUNNING), ("status-connector-c", None)] * number
        return event_texts([*config(connector("c", **keys(number))), *status(*reports)])

    assert_linear(prepared, 50)


def test_difference_of_states_grows_linearly_with_offsets() -> None:
    """The cost is linear, even if keys of offsets must be parsed to find their connectors."""

    def prepared(number: int) -> Callable[[], object]:
        plain = (f'["c{at}",{{"p":1}}]' for at in range(number))
        escaped = (f'["c\\u00e4{at}",{{"p":1}}]' for at in range(number))
        state = fold(offsets(*((key, '{"at":1}') for key in (*plain, *escaped))), KIP)
        return lambda: diff(fold([], KIP), state)

    assert_linear(prepared, 50)


def test_hazards_grow_linearly_with_tombstones_and_tasks() -> None:
    """The cost is linear for tombstones in one partition and tasks in another."""

    def prepared(number: int) -> Callable[[], object]:
        removed = status(*[("status-connector-c", None)] * 8 * number)
        reports = ((f"status-task-c-{task}", RUNNING) for task in range(number))
        log = [*removed, *status(*reports, partition=1)]
        return lambda: hazards(log, KIP)

    assert_linear(prepared, 75)
