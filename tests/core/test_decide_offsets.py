"""Altering and resetting offsets of source connectors: refusals, hooks, messages.

Labels such as O6 name laws: see `tests/laws/commands`.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from controlplane.core.commands import AlterOffsets, OffsetChange
from controlplane.core.context import DecisionSettings
from controlplane.core.plan import (
    AskHook,
    AskRemoteOffsets,
    HookFailure,
    Outcome,
    Reason,
    Rejected,
)
from controlplane.core.plugins import UNCHECKED
from tests.core.decisions import SOURCE, decided, planned, refused
from tests.core.logs import offsets, tasks
from tests.core.offset_cases import (
    ALTERING,
    ONE,
    PERHAPS,
    RESET,
    STOPPED,
    STOPPED_A,
    SURE,
    SmallLog,
    after,
    alter,
    connector,
    key,
    page,
)

by_name = pytest.mark.parametrize("command", [ONE, RESET], ids=["alter", "reset"])


# --- what is refused ----------------------------------------------------------------------------


@by_name
@pytest.mark.parametrize("release", ["2.8", "3.4", "3.5"])
def test_before_3_6_offsets_can_only_be_read(command: Any, release: str) -> None:
    """Before 3.6, changes of offsets are refused: KIP-875 came in two halves."""
    assert refused(STOPPED_A, command, release) == Rejected(Reason.NOT_OFFERED, None)


@pytest.mark.parametrize("release", ALTERING)
def test_missing_offsets_are_refused_first(release: str) -> None:
    """An alteration without offsets is refused before the connector is looked up."""
    message = "Partitions / offsets need to be provided for an alter offsets request"
    assert refused([], alter(), release) == Rejected(Reason.INVALID, message)


@by_name
@pytest.mark.parametrize("release", ALTERING)
def test_a_missing_connector_is_refused(command: Any, release: str) -> None:
    """Leftover offsets of a deleted connector cannot be changed."""
    log = after([STOPPED], *offsets((key(0), '{"row":3}')))
    assert refused(log, command, release) == Rejected(
        Reason.NO_SUCH_CONNECTOR, "Connector a not found"
    )


NOT_STOPPED: Mapping[str, SmallLog] = {
    "started": [connector()],
    "paused": [connector(), ("target-state-a", '{"state":"PAUSED","state.v2":"PAUSED"}')],
    "stopped half-way": after(STOPPED_A, *tasks("a", 1)),
}


@by_name
@pytest.mark.parametrize("log", NOT_STOPPED.values(), ids=NOT_STOPPED)
@pytest.mark.parametrize("release", ["3.6", "3.9", "kip"])
def test_the_connector_must_be_stopped(log: SmallLog, command: Any, release: str) -> None:
    """O6: the connector must be STOPPED and without tasks. O5: no hook is called."""
    message = (
        "Connectors must be in the STOPPED state before their offsets can be modified. This can be "
        "done for the specified connector by issuing a 'PUT' request to the "
        "'/connectors/a/stop' endpoint"
    )
    assert refused(log, command, release) == Rejected(Reason.NOT_STOPPED, message)


@by_name
@pytest.mark.parametrize(
    ("written", "message"),
    [
        ('"x.Y"', "Failed to find any class that implements Connector and which name matches x.Y,"),
        ("null", "Connector config {connector.class=null} contains no connector type"),
        ('["x"]', "The connector.class [x] is no text"),
    ],
)
def test_offsets_of_a_missing_class_are_not_changed(
    command: Any, written: str, message: str
) -> None:
    """A source and a sink store offsets in different places."""
    log: SmallLog = [("connector-a", f'{{"properties":{{"connector.class":{written}}}}}'), STOPPED]
    rejected = refused(log, command, "3.9")
    assert rejected.reason is Reason.FAILED
    assert str(rejected.text).startswith(message)


@by_name
def test_without_a_catalogue_offsets_cannot_be_located(command: Any) -> None:
    """The class is trusted to be there, but not to be a source."""
    rejected = refused(STOPPED_A, command, plugins=UNCHECKED)
    assert rejected.reason is Reason.FAILED
    assert "as source or sink in the plugin catalogue" in str(rejected.text)


NESTED: list[tuple[dict[str, Any], str]] = [
    ({"f": {"a": 1}}, "MAP"),
    ({"f": {}}, "MAP"),
    ({"f": [1]}, "ARRAY"),
    ({"f": 2**63}, "class java.math.BigInteger"),
    ({"f": -(2**63) - 1}, "class java.math.BigInteger"),
    ({"good": 1, "f": []}, "ARRAY"),
]


@pytest.mark.parametrize(("fields", "type_name"), NESTED, ids=[str(fields) for fields, _ in NESTED])
@pytest.mark.parametrize("side", ["partition", "offset"])
@pytest.mark.parametrize(
    ("release", "reason"), [("3.6", Reason.FAILED), ("4.3", Reason.FAILED), ("kip", Reason.INVALID)]
)
def test_only_primitive_values_are_offsets(
    fields: dict[str, Any], type_name: str, side: str, release: str, reason: Reason
) -> None:
    """Releases fail at other values; our message names the error. No hook is called."""
    command = alter((fields, {"row": 1})) if side == "partition" else alter((page(0), fields))
    text = f"Offsets may only contain primitive types as values, but field f contains {type_name}"
    assert refused(STOPPED_A, command, release) == Rejected(reason, text)


def test_workers_report_the_first_fault_of_their_map() -> None:
    """A worker checks offsets in the order of its map, this project in that of the request."""
    command = alter((page(0), {"b": []}), (page(1), {"c": {}}), ({"z": 1}, {"d": []}))
    assert "field c contains MAP" in str(refused(STOPPED_A, command, "3.9").text)
    assert "field b contains ARRAY" in str(refused(STOPPED_A, command).text)


def test_the_form_is_checked_last() -> None:
    """The form is checked after the connector's state, and before the hook."""
    assert refused([connector()], alter(({"f": []}, None))).reason is Reason.NOT_STOPPED


def test_sink_offsets_of_a_source_are_refused() -> None:
    """Under KIP-875 the request may name the kind of its offsets."""
    command = AlterOffsets("a", (OffsetChange({"kafka_topic": "t"}, None, "sink"),))
    message = "These are offsets of a sink connector, but a is a source connector"
    assert refused(STOPPED_A, command) == Rejected(Reason.INVALID, message)
    same = AlterOffsets("a", (OffsetChange(page(0), None, "source"),))
    assert isinstance(decided(STOPPED_A, same), AskHook)


FAR = '"producer.override.bootstrap.servers":"far:9092, b:9"'
OWN = '"offsets.storage.topic":"own"'


@pytest.mark.parametrize(
    ("members", "exactly_once", "ours", "reached"),
    [
        ([FAR], False, "near:9092", True),
        ([FAR], True, "near:9092", False),
        ([FAR, OWN], False, "near:9092", False),
        ([FAR, OWN], False, "b:9,far:9092", True),
        ([FAR, OWN], False, "", True),
        ([OWN], True, "near:9092", True),
    ],
)
def test_offsets_on_another_cluster_are_asked_for(
    members: list[str], exactly_once: bool, ours: str, reached: bool
) -> None:
    """A decision asks for offsets on another cluster if the connector's producers write there."""
    worker = DecisionSettings(bootstrap_servers=ours)
    decision = decided(
        [connector(*members), STOPPED], ONE, exactly_once=exactly_once, worker=worker
    )
    if reached:
        assert isinstance(decision, AskHook)
        return
    assert isinstance(decision, AskRemoteOffsets)
    assert decision.topic == ("own" if OWN in members else "connect-offsets")
    assert decision.clients == {"producer.override.bootstrap.servers": "far:9092, b:9"}
    assert "lie on another Kafka cluster, far:9092, b:9:" in str(decision.refusal.text)


# --- the hook -----------------------------------------------------------------------------------


def test_the_hook_gets_the_config_and_the_offsets() -> None:
    """The hook gets the config, and the offsets as read by Connect's converter."""
    command = alter(({"topic": "t", "partition": 0, "cluster": "c"}, {"o": 2.0}), (None, None))
    question = decided(STOPPED_A, command, "3.9")
    assert isinstance(question, AskHook)
    assert question.connector == "a"
    assert question.config == {"connector.class": SOURCE}
    assert question.offsets == (
        (None, None),
        ({"cluster": "c", "partition": 0, "topic": "t"}, {"o": 2.0}),
    )
    assert list(question.offsets[1][0] or ()) == ["cluster", "partition", "topic"]


def test_a_reset_always_calls_the_hook() -> None:
    """A reset calls the hook even without offsets: others may lie outside of Kafka."""
    log = after(STOPPED_A, *offsets((key(3), '{"row":1}'), ('["b",{"page":9}]', "{}")))
    question = decided(log, RESET, "3.9")
    assert isinstance(question, AskHook)
    assert question.offsets == ((page(3), None),)
    nothing = decided(STOPPED_A, RESET, "3.9")
    assert isinstance(nothing, AskHook)
    assert nothing.offsets == ()


@by_name
def test_a_hook_that_throws_is_the_answer(command: Any) -> None:
    """The hook's exception refuses the command, with its message or none."""
    for text in ("told to refuse these offsets", None):
        rejected = refused(STOPPED_A, command, "3.9", hooks=(HookFailure(text),))
        assert rejected == Rejected(Reason.FAILED, text)


PERHAPS_TEXT = (
    "The Connect framework-managed offsets for this connector have been {0} successfully. However, "
    "if this connector manages offsets externally, they will need to be manually {0} in the system "
    "that the connector uses."
)


@pytest.mark.parametrize(("command", "word"), [(ONE, "altered"), (RESET, "reset")])
@pytest.mark.parametrize("release", ALTERING)
def test_the_hook_decides_the_message(command: Any, word: str, release: str) -> None:
    """The message depends on the hook's answer: definite, or not."""
    sure = planned(STOPPED_A, command, release, hooks=SURE)
    text = f"The offsets for this connector have been {word} successfully"
    assert sure.outcome == Outcome(message=text)
    perhaps = planned(STOPPED_A, command, release, hooks=PERHAPS)
    assert perhaps.outcome == Outcome(message=PERHAPS_TEXT.format(word))
