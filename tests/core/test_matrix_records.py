"""Records that each release writes: the version matrix of writers.

The matrix has more rows, for records that only a running worker writes. They are statuses of
removed tasks (from 2.5.1), repeated task configs after a config change (from 3.7.1), and `putSafe`
(0.10.0 against 0.10.1).
`tests/oracle/test_worker_writes.py` tests these against Kafka's classes.
"""

from typing import Any, NamedTuple

import pytest

from controlplane.core.codec import encode_status
from controlplane.core.commands import (
    AnyCommand,
    CreateConnector,
    DeleteConnector,
    PauseConnector,
    PublishTasks,
    StopConnector,
)
from controlplane.core.plan import Plan
from controlplane.core.records import State, Status, Target, TaskStatus
from controlplane.core.releases.profiles import Profile
from tests.core.decisions import PROPERTIES, SOURCE, decided, text
from tests.core.logs import Pair
from tests.core.test_matrix import PROFILE_NAMES, expected

LIVE: Pair = ("connector-a", f'{{"properties":{{"connector.class":"{SOURCE}"}}}}')

REFUSED = "refused"
"""The release has no such command."""

PAUSED = 'target-state-a {"state":"PAUSED"}'
PAUSED_TWICE = 'target-state-a {"state":"PAUSED","state.v2":"PAUSED"}'
STOPPED = 'target-state-a {"state":"PAUSED","state.v2":"STOPPED"}'
NO_TASKS = 'commit-a {"tasks":0}'
CONFIG = f'{{"connector.class":"{SOURCE}","topic":"t","file":"f","name":"a"}}'
CREATED = f'connector-a {{"properties":{CONFIG}}}'


class WrittenRow(NamedTuple):
    """A command about an existing or new connector, and the records by first release."""

    name: str
    log: list[Pair]
    command: AnyCommand
    written: dict[str, Any]


ROWS = [
    WrittenRow(
        "the target state goes with its connector",
        [LIVE],
        DeleteConnector("a"),
        {"0.9": ["connector-a "], "0.10.0": ["connector-a ", "target-state-a "]},
    ),
    WrittenRow(
        "an empty task set is a commit",
        [LIVE],
        PublishTasks("a", ()),
        {"0.9": [], "0.10.0": [NO_TASKS]},
    ),
    WrittenRow(
        "a target state has a second field",
        [LIVE],
        PauseConnector("a"),
        {"0.9": REFUSED, "0.10.0": [PAUSED], "3.5.0": [PAUSED_TWICE]},
    ),
    WrittenRow(
        "a stop is a pause to releases without STOPPED",
        [LIVE],
        StopConnector("a"),
        {"0.9": REFUSED, "3.5.0": [NO_TASKS, STOPPED]},
    ),
    WrittenRow(
        "the state comes before the config",
        [],
        CreateConnector("a", PROPERTIES, Target.STOPPED),
        {"0.9": REFUSED, "3.7.0": [STOPPED, CREATED]},
    ),
]


@pytest.mark.parametrize("release", PROFILE_NAMES)
@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_each_release_writes_its_records(row: WrittenRow, release: str) -> None:
    """Each release writes these records, in the order in which a leader sends them."""
    plan = decided(row.log, row.command, release)
    assert (sent(plan) if isinstance(plan, Plan) else REFUSED) == expected(row.written, release)


def sent(plan: Plan) -> list[str]:
    """The records of all steps, as text."""
    return [text((record.key, record.value)) for step in plan.steps for record in step.records]


REPORT = b'{"state":"RUNNING","trace":null,"worker_id":"w","generation":1'


@pytest.mark.parametrize("release", PROFILE_NAMES)
def test_statuses_have_a_version_from_4_1_on(release: str) -> None:
    """From 4.1 on, statuses have a version (KIP-891)."""
    running = TaskStatus("a", 0, Status(State.RUNNING, None, "w", 1, "1.0"))
    _, value = encode_status(running, Profile.of(release))
    assert value == expected(
        {"0.9": REPORT + b"}", "4.1.0": REPORT + b',"version":"1.0"}'}, release
    )
