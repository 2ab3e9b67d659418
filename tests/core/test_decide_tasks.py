"""Publishing task sets and fencing old producers: the records of each case.

Labels such as P1 name laws: see `tests/laws/commands`.
"""

import pytest

from controlplane.core.commands import FenceTasks, PublishTasks
from controlplane.core.plan import FenceProducers, Reason, Rejected
from controlplane.core.plugins import UNCHECKED
from controlplane.core.views import TASKS_MAX
from tests.core.decisions import SINK, SOURCE, planned, refused, steps, text
from tests.core.logs import Pair, config, raw, read, tasks

A: Pair = ("connector-a", f'{{"properties":{{"connector.class":"{SOURCE}"}}}}')
STOPPED: Pair = ("target-state-a", '{"state":"PAUSED","state.v2":"STOPPED"}')
TWO = [text(record) for record in tasks("a", 2)]

publish = PublishTasks("a", ({"n": "0"}, {"n": "1"}))
empty = PublishTasks("a", ())


def test_each_task_is_sent_and_then_the_commit() -> None:
    """Tasks are read back before their commit, so that no worker misses one."""
    written = steps([A], publish, "3.9")
    assert written == {"task-0": TWO[:1], "task-1": TWO[1:2], "commit": TWO[2:]}
    read_back = [step.read_back for step in planned([A], publish, "3.9").steps]
    assert read_back == [(), ("connect-configs",), ("connect-configs",)]


def test_with_exactly_once_support_there_are_two_transactions() -> None:
    """With exactly-once support, tasks are one transaction and the commit is another."""
    assert steps([A], publish, "3.9", exactly_once=True) == {"tasks": TWO[:2], "commit": TWO[2:]}


def test_a_task_set_is_written_in_one_batch() -> None:
    """P1: one batch has tasks and commit: a crash leaves the old set or the new one."""
    assert steps([A], publish) == {"commit": TWO}


@pytest.mark.parametrize("release", ["2.8", "3.9", "kip"])
@pytest.mark.parametrize("target", [[], [STOPPED]])
def test_an_empty_set_is_a_commit(target: list[Pair], release: str) -> None:
    """An empty task set is a single commit, also for a stopped connector."""
    assert steps([A, *target], empty, release) == {"commit": ['commit-a {"tasks":0}']}


def test_an_empty_set_writes_nothing_in_0_9() -> None:
    """0.9 writes nothing for an empty set: its readers would throw (KAFKA-3459)."""
    assert steps([A], empty, "0.9") == {}


@pytest.mark.parametrize("release", ["3.5.0", "3.9", "4.3", "kip"])
def test_a_stopped_connector_gets_no_tasks(release: str) -> None:
    """P3: tasks from a worker that has not read the stop are refused."""
    message = "Cannot submit non-empty set of task configs for stopped connector a"
    assert refused([A, STOPPED], publish, release) == Rejected(Reason.INVALID, message)


def test_a_leader_before_3_5_publishes_tasks_of_a_stopped_connector() -> None:
    """Before 3.5 the connector is PAUSED, and its tasks are accepted."""
    assert "commit" in steps([A, STOPPED], publish, "3.4")


@pytest.mark.parametrize("command", [publish, empty, FenceTasks("a")])
def test_a_missing_connector_is_refused(command: PublishTasks | FenceTasks) -> None:
    """G6: task records alone do not make a connector exist."""
    gone = Rejected(Reason.NO_SUCH_CONNECTOR, "Connector a not found")
    for release in ("3.9", "kip"):
        assert refused([*tasks("a", 2), STOPPED], command, release) == gone


def test_leftovers_are_overwritten() -> None:
    """P2: records of an interrupted publication do not affect the next one."""
    leftovers = [("task-a-1", '{"properties":{"old":"1"}}'), ("task-a-7", '{"properties":{}}')]
    log = [A, *leftovers]
    written = [
        (draft.key, draft.value) for step in planned(log, publish).steps for draft in step.records
    ]
    state = read(config(*log, *written), "kip")
    assert list(state.config.task_ids("a")) == [0, 1]
    assert state.config.tasks["a"][1] == {"n": "1"}


COUNT = "tasks-fencing-a"


def counted(count: int) -> Pair:
    """Return the task count record of connector `a`."""
    return COUNT, f'{{"task-count":{count}}}'


FENCING = [
    ([A], None),  # never committed
    ([A, *tasks("a", 2), counted(2)], None),  # counted since the last commit
    ([A, *tasks("a", 3)], (0, 3)),  # no tasks before: nothing to fence
    ([A, *tasks("a", 1), counted(1), *tasks("a", 1)], (0, 1)),  # the new task fences the old one
    ([A, *tasks("a", 1), counted(1), *tasks("a", 2)], (1, 2)),
    ([A, *tasks("a", 2), counted(2), *tasks("a", 1)], (2, 1)),
    ([A, *tasks("a", 2), counted(2), *tasks("a", 0)], (2, 0)),
    ([A, *tasks("a", 0), counted(0), *tasks("a", 2)], (0, 2)),
    ([counted(3), A, *tasks("a", 1)], (3, 1)),  # D3: the count of a deleted connector
]


@pytest.mark.parametrize("release", ["3.3", "3.9", "4.3", "kip"])
@pytest.mark.parametrize(("log", "expected"), FENCING, ids=range(len(FENCING)))
def test_old_producers_are_fenced_and_then_counted(
    log: list[Pair], expected: tuple[int, int] | None, release: str
) -> None:
    """A row of `FENCING` has the number of producers to fence, and the count to write."""
    plan = planned(log, FenceTasks("a"), release, exactly_once=True)
    if expected is None:
        assert plan.steps == ()
        return
    fenced, count = expected
    ids = tuple(f"connect-cluster-a-{task}" for task in range(fenced))
    actions = [step.action for step in plan.steps if step.action is not None]
    assert actions == ([FenceProducers("a", ids)] if fenced else [])
    (record,) = plan.steps[-1].records
    assert (record.key, record.value) == tuple(map(raw, counted(count)))
    # The count is written after all fencing, and after the records that came meanwhile were read.
    assert all(step.read_back == ("connect-configs",) for step in plan.steps)
    written = read(config(*log, (record.key, record.value)), release)
    assert "a" not in written.config.pending_fencing


def test_a_foreign_count_of_producers_is_limited() -> None:
    """A foreign record may name two billion producers; the plan fences at most `TASKS_MAX`."""
    log = [A, *tasks("a", 3), counted(2**31 - 1), *tasks("a", 1)]
    plan = planned(log, FenceTasks("a"), "3.9", exactly_once=True)
    (action,) = (step.action for step in plan.steps if step.action is not None)
    assert isinstance(action, FenceProducers)
    assert len(action.transactional_ids) == TASKS_MAX


@pytest.mark.parametrize("class_name", [SINK, "no.such.Class"])
def test_only_sources_are_fenced(class_name: str) -> None:
    """Fencing is refused for a sink, and for a class that the catalogue lacks."""
    log = [("connector-a", f'{{"properties":{{"connector.class":"{class_name}"}}}}')]
    rejected = Rejected(Reason.INVALID, "Connector a is not a source connector")
    assert refused(log, FenceTasks("a"), "3.9") == refused(log, FenceTasks("a")) == rejected


def test_an_unknown_class_may_be_a_source() -> None:
    """Without a catalogue the type is unknown, which gives another error."""
    log = [("connector-a", '{"properties":{"connector.class":"no.such.Class"}}')]
    rejected = refused(log, FenceTasks("a"), plugins=UNCHECKED)
    assert rejected.reason is Reason.FAILED
    assert rejected.sentence.startswith("The type of connector a is unknown")


def test_releases_without_fencing_refuse_it() -> None:
    """3.2 refuses fencing, which came with KIP-618."""
    assert refused([A], FenceTasks("a"), "3.2") == Rejected(Reason.NOT_OFFERED, None)
