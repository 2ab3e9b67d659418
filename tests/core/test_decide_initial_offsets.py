"""Creating a connector with initial offsets (KIP-995): checks, messages, steps, rollback.

Labels such as N2 name laws: see `tests/laws/commands`.
"""

from typing import Any

import msgspec
import pytest

from controlplane.core.commands import CreateConnector, OffsetChange
from controlplane.core.plan import (
    AlterGroup,
    AskGroup,
    AskHook,
    DeleteGroup,
    FenceProducers,
    HookFailure,
    HookSuccess,
    Outcome,
    Plan,
    Reason,
    Rejected,
    Step,
)
from controlplane.core.records import Target
from tests.core.decisions import PROPERTIES, SINK, decided, planned, refused, steps
from tests.core.logs import connector, offsets, records, tasks
from tests.core.offset_cases import SmallLog, after, key, page

SURE, PERHAPS = HookSuccess(definite=True), HookSuccess(definite=False)
TWICE: dict[str, Any] = {"hooks": (SURE, SURE)}


def create(*changes: tuple[Any, Any], **fields: Any) -> CreateConnector:
    """Return a creation of connector `a` with these initial offsets."""
    config = fields.pop("config", PROPERTIES)
    return CreateConnector(
        "a", config, initial_offsets=tuple(OffsetChange(*c) for c in changes), **fields
    )


AT_ONE = create((page(0), {"row": 1}))
CONFIG = (
    'connector-a {"properties":{"connector.class":'
    '"org.apache.kafka.connect.file.FileStreamSourceConnector","topic":"t","file":"f","name":"a"}}'
)
LEFT_OVER: SmallLog = [
    *offsets((key(0), '{"row":41}'), (key(1), '{"row":7}'), ('["b",{"page":0}]', "{}"))
]
OWN = PROPERTIES | {"offsets.storage.topic": "own"}


# --- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize("release", ["2.8", "3.9", "4.3"])
def test_releases_refuse_initial_offsets(release: str) -> None:
    """Releases of Kafka refuse initial offsets: KIP-995 was never released."""
    assert refused([], AT_ONE, release) == Rejected(Reason.NOT_OFFERED, None)


def test_an_existing_connector_keeps_its_offsets() -> None:
    """N2: the refusal precedes the check of the offsets and the call of the hook."""
    expected = Rejected(Reason.ALREADY_EXISTS, "Connector a already exists")
    for command in (AT_ONE, create(), create(({"f": []}, None))):
        assert refused([connector("a")], command) == expected


def test_an_invalid_config_is_reported_before_invalid_offsets() -> None:
    """An invalid config is reported before invalid offsets (step 1)."""
    command = create(({"f": []}, None), config={"name": "b"})
    assert "doesn't match" in str(refused([], command).text)


def test_some_offset_must_be_given() -> None:
    """Empty offsets get the check and message of an alteration."""
    message = "Partitions / offsets need to be provided for an alter offsets request"
    assert refused([], create()) == Rejected(Reason.INVALID, message)


@pytest.mark.parametrize(
    ("command", "cause"),
    [
        (
            create(({"f": []}, {"row": 1})),
            "Offsets may only contain primitive types as values, but field f contains ARRAY",
        ),
        (
            create((None, None), config=PROPERTIES | {"connector.class": SINK}),
            "The partition for a sink connector offset cannot be null or missing",
        ),
    ],
    ids=["source", "sink"],
)
def test_offsets_of_another_form_are_refused(command: Any, cause: str) -> None:
    """The message names step 2 and the error."""
    text = f"Failed to validate the initial offsets of connector a: {cause}"
    assert refused([], command) == Rejected(Reason.INVALID, text)


def test_an_unknown_class_gets_no_offsets() -> None:
    """A connector of unknown type has offsets in an unknown place."""
    command = create((page(0), None), config={"connector.class": "x.Y"})
    assert "and which name matches x.Y" in str(refused([], command).text)


@pytest.mark.parametrize(
    ("hooks", "doing"),
    [
        ((HookFailure("no"),), "wipe the existing offsets"),
        ((SURE, HookFailure("no")), "set the initial offsets"),
    ],
)
def test_the_error_of_a_hook_names_its_step(hooks: Any, doing: str) -> None:
    """A hook's exception refuses the creation before any write, and the message names the step."""
    text = f"Failed to {doing} of connector a: no"
    assert refused([], AT_ONE, hooks=hooks) == Rejected(Reason.FAILED, text)


@pytest.mark.parametrize(("text", "end"), [("no", ": no"), (None, "")])
def test_the_error_of_a_hook_keeps_its_cause(text: str | None, end: str) -> None:
    """The cause that a worker only logs stays a field of its own; a missing text adds nothing."""
    rejected = refused([], AT_ONE, hooks=(SURE, HookFailure(text, "KeyError('row')")))
    failed = f"Failed to set the initial offsets of connector a{end}"
    assert rejected == Rejected(Reason.FAILED, failed, "KeyError('row')")


# --- the hook -----------------------------------------------------------------------------------


def test_the_hook_is_called_for_reset_and_alteration() -> None:
    """The hook gets the new config twice: for the reset, and for the alteration."""
    first = decided(LEFT_OVER, AT_ONE)
    second = decided(LEFT_OVER, AT_ONE, hooks=(SURE,))
    assert isinstance(first, AskHook)
    assert isinstance(second, AskHook)
    assert first.offsets == ((page(0), None), (page(1), None))
    assert second.offsets == ((page(0), {"row": 1}),)
    assert first.config == second.config == PROPERTIES | {"name": "a"}


SET = "The offsets for this connector have been set successfully"
SET_HERE = (
    "The framework-managed offsets for this connector have been set successfully. However, if this "
    "connector manages offsets externally, they will need to be manually set in the system that "
    "the connector uses."
)


@pytest.mark.parametrize(
    ("wiped", "written", "message"), [(PERHAPS, SURE, SET), (SURE, PERHAPS, SET_HERE)]
)
def test_the_hooks_message_about_new_offsets_is_reported(
    wiped: HookSuccess, written: HookSuccess, message: str
) -> None:
    """The message is in a field of its own."""
    plan = planned([], AT_ONE, hooks=(wiped, written))
    assert plan.outcome == Outcome(created=True, facts={"initial_offsets_response": message})


# --- the steps ----------------------------------------------------------------------------------


def test_the_steps_are_wipe_write_create() -> None:
    """The config comes last: it is the commit point (N1, N5). Other connectors' offsets stay."""
    assert steps(LEFT_OVER, AT_ONE, **TWICE) == {
        "wipe": [f"{key(0)} ", f"{key(1)} "],
        "write": [f'{key(0)} {{"row":1}}'],
        "create": [CONFIG],
    }
    plan = planned(LEFT_OVER, AT_ONE, **TWICE)
    assert plan.commit_point == "create"
    assert [step.read_back for step in plan.steps] == [
        ("connect-offsets",),
        ("connect-offsets",),
        ("connect-configs",),
    ]


def test_without_old_offsets_no_step_wipes() -> None:
    """After a crash that follows the wipe, the plan of the same request has no step `wipe`."""
    assert list(steps([], AT_ONE, **TWICE)) == ["write", "create"]
    assert list(steps([], create((page(0), None)), **TWICE)) == ["create"]
    assert list(steps(LEFT_OVER, create((page(0), None)), **TWICE)) == ["wipe", "create"]


def test_without_offsets_it_is_an_ordinary_creation() -> None:
    """A creation without offsets uses left-over offsets, as before."""
    command = CreateConnector("a", PROPERTIES)
    assert steps(LEFT_OVER, command) == {"config": [CONFIG]}


def test_the_state_comes_with_the_config() -> None:
    """One batch; a target state left by an earlier connector is removed (C4)."""
    stopped = 'target-state-a {"state":"PAUSED","state.v2":"STOPPED"}'
    in_state = create((page(0), {"row": 1}), initial_state=Target.STOPPED)
    assert steps([], in_state, **TWICE)["create"] == [stopped, CONFIG]
    orphan: SmallLog = [("target-state-a", '{"state":"PAUSED"}')]
    assert steps(orphan, AT_ONE, **TWICE)["create"] == ["target-state-a ", CONFIG]


def test_an_own_topic_is_wiped_last_and_written_first() -> None:
    """The own topic is wiped last and written first, as in all offset changes (KAFKA-15018)."""
    log = after(LEFT_OVER, *records("own", (key(2), "{}")))
    records_by_step = steps(log, create((page(0), {"row": 1}), config=OWN), **TWICE)
    gone = [f"{key(number)} " for number in range(3)]
    new_records = [f'{key(0)} {{"row":1}}']
    assert list(records_by_step) == ["wipe-copy", "wipe", "write", "write-copy", "create"]
    assert records_by_step["wipe-copy"] == records_by_step["wipe"] == gone
    assert records_by_step["write"] == records_by_step["write-copy"] == new_records


def test_the_key_of_the_log_is_used_again() -> None:
    """O9: the new offset uses the earlier connector's spelling of the key."""
    spelled = '["a",{"topic":"t","cluster":"c"}]'
    command = create(({"cluster": "c", "topic": "t"}, {"pos": 1}))
    records_by_step = steps([*offsets((spelled, "{}"))], command, **TWICE)
    assert (records_by_step["wipe"], records_by_step["write"]) == (
        [f"{spelled} "],
        [f'{spelled} {{"pos":1}}'],
    )


def test_tasks_of_an_earlier_connector_are_fenced() -> None:
    """Task counts outlive a connector (D3): exactly-once support fences its old tasks."""
    lived = [connector("a"), *tasks("a", 2), ("tasks-fencing-a", '{"task-count":2}')]
    log: SmallLog = [*lived, ("connector-a", None), ("target-state-a", None)]
    plan = planned(log, AT_ONE, exactly_once=True, **TWICE)
    assert [step.name for step in plan.steps] == ["fence", "count", "write", "create"]
    ids = ("connect-cluster-a-0", "connect-cluster-a-1")
    assert plan.steps[0].action == FenceProducers("a", ids)
    assert plan.steps[1].records[0].value == b'{"task-count":0}'
    assert [step.name for step in planned(log, AT_ONE, **TWICE).steps] == ["write", "create"]
    fresh = planned([], AT_ONE, exactly_once=True, **TWICE)
    assert [step.name for step in fresh.steps] == ["write", "create"]


def test_written_offsets_can_be_removed_again() -> None:
    """N3: if the config cannot be written, no new or old offsets remain."""
    plan = planned(LEFT_OVER, create((page(0), {"row": 1}), config=OWN), **TWICE)
    undone = {step.name: step.undo for step in plan.steps}
    assert {name for name, undo in undone.items() if not undo} == {"create"}
    for step in plan.steps[:2]:
        assert step.undo == msgspec.structs.replace(step, undo=None, doing="")
    for name, topic in (("write", "own"), ("write-copy", "connect-offsets")):
        undo = undone[name]
        assert isinstance(undo, Step)
        assert [(record.topic, record.key, record.value) for record in undo.records] == [
            (topic, key(0).encode(), None)
        ]
    assert msgspec.convert(msgspec.to_builtins(plan), Plan) == plan


# --- sinks --------------------------------------------------------------------------------------

AT_FIVE = create(
    ({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 5}),
    ({"kafka_topic": "t", "kafka_partition": 1}, None),
    config=PROPERTIES | {"connector.class": SINK, "topics": "t"},
)


def test_a_sink_starts_with_a_new_group() -> None:
    """The group is deleted, then its offsets are set; a null offset needs no action."""
    assert decided([], AT_FIVE) == AskGroup("a", "connect-a")
    first = decided([], AT_FIVE, group=(("t", 0, 99),))
    assert isinstance(first, AskHook)
    assert first.offsets == (({"kafka_topic": "t", "kafka_partition": 0}, None),)
    plan = planned([], AT_FIVE, group=(("t", 0, 99),), **TWICE)
    delete, put = DeleteGroup("a", "connect-a"), AlterGroup("a", "connect-a", (("t", 0, 5),))
    assert [(step.name, step.action) for step in plan.steps] == [
        ("wipe", delete),
        ("write", put),
        ("create", None),
    ]
    assert plan.steps[1].undo == Step("wipe", action=delete)


def test_a_sink_may_start_without_offsets() -> None:
    """Deleting the group is enough if all offsets are null."""
    command = msgspec.structs.replace(AT_FIVE, initial_offsets=(AT_FIVE.initial_offsets or ())[1:])
    plan = planned([], command, group=(), **TWICE)
    assert [step.name for step in plan.steps] == ["wipe", "create"]
