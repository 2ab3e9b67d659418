"""Pausing, resuming, stopping: one record, or two in an order that survives a crash.

Labels such as S3 name laws: see `tests/laws/commands`.
"""

import pytest

from controlplane.core.commands import (
    PauseConnector,
    ResumeConnector,
    StopConnector,
)
from controlplane.core.plan import Reason, Rejected
from controlplane.core.records import Target
from tests.core.decisions import planned, refused, steps
from tests.core.logs import Pair, config, connector, read, tasks

A = connector("a")
STOPPED: Pair = ("target-state-a", '{"state":"PAUSED","state.v2":"STOPPED"}')
Lifecycle = PauseConnector | ResumeConnector | StopConnector
COMMANDS = (PauseConnector("a"), ResumeConnector("a"), StopConnector("a"))

WRITTEN = {
    "2.8": ('{"state":"PAUSED"}', '{"state":"STARTED"}'),
    "3.9": (
        '{"state":"PAUSED","state.v2":"PAUSED"}',
        '{"state":"STARTED","state.v2":"STARTED"}',
    ),
}
WRITTEN |= {"3.4": WRITTEN["2.8"], "3.5": WRITTEN["3.9"], "kip": WRITTEN["3.9"]}


@pytest.mark.parametrize("release", WRITTEN)
@pytest.mark.parametrize("log", [[A], [A, *tasks("a", 2)], [A, *tasks("a", 0), STOPPED]])
def test_pausing_and_resuming_take_one_record(log: list[Pair], release: str) -> None:
    """S2 to S4: in every state the command writes the same single record, never STOPPED."""
    paused, started = WRITTEN[release]
    assert steps(log, PauseConnector("a"), release) == {"state": [f"target-state-a {paused}"]}
    assert steps(log, ResumeConnector("a"), release) == {"state": [f"target-state-a {started}"]}


@pytest.mark.parametrize(
    ("release", "exactly_once"), [("3.5", False), ("3.9", True), ("kip", False)]
)
def test_a_stop_removes_the_tasks_first(release: str, *, exactly_once: bool) -> None:
    """T1: no prefix is STOPPED with tasks; each record is read back before the next."""
    log = [A, *tasks("a", 2)]
    plan = planned(log, StopConnector("a"), release, exactly_once=exactly_once)
    assert [step.name for step in plan.steps] == ["tasks", "state"]
    assert [step.read_back for step in plan.steps] == [("connect-configs",)] * 2
    written = [(record.key, record.value) for step in plan.steps for record in step.records]
    targets = [Target.STARTED, Target.STARTED, Target.STOPPED]
    for done, target in enumerate(targets):
        state = read(config(*log, *written[:done]), release)
        assert (state.config.targets["a"], len(state.config.task_ids("a"))) == (
            target,
            0 if done else 2,
        )


def test_stopping_again_writes_the_same() -> None:
    """A second stop writes the same records and changes no state (T2)."""
    log = [A, *tasks("a", 0), STOPPED]
    once = steps([A], StopConnector("a"))
    assert steps(log, StopConnector("a")) == once
    written = [
        (record.key, record.value)
        for step in planned(log, StopConnector("a")).steps
        for record in step.records
    ]
    before, after = (read(config(*part), "kip").config for part in (log, [*log, *written]))
    assert (before.targets, before.task_counts) == (after.targets, after.task_counts)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("release", ["3.9", "kip"])
def test_a_missing_connector_is_refused(command: Lifecycle, release: str) -> None:
    """A target state without a config is no connector."""
    gone = Rejected(Reason.NO_SUCH_CONNECTOR, "Unknown connector a")
    assert refused([STOPPED], command, release) == gone


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_are_refused_before_their_kip(command: Lifecycle) -> None:
    """KIP-52 brought pausing, KIP-875 stopping; older releases refuse before any other check."""
    without = {"0.9", "3.4"} if isinstance(command, StopConnector) else {"0.9"}
    for release in without:
        assert refused([], command, release) == Rejected(Reason.NOT_OFFERED, None)
    assert planned([A], command, "3.5").steps
