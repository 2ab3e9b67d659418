"""Forbidden client settings of a connector refuse the actions that need its clients (KIP-458)."""

import pytest

from controlplane.controller.external import (
    NoExternalSystems,
    OverridesForbidden,
    known_policy,
    sink_progress,
)
from controlplane.core.commands import AnyCommand, FenceTasks
from controlplane.core.context import Context, DecisionSettings
from controlplane.core.plan import Reason, Rejected
from controlplane.core.state import ClusterState, ConfigState
from controlplane.core.text.override_refusal import override_refusal
from tests.core.decisions import SINK, context_of, planned, refused
from tests.core.logs import Pair, tasks
from tests.core.offset_cases import ONE, RESET, STOPPED, SURE, connector

NONE = DecisionSettings(override_policy="None")
ADMIN = '"admin.override.client.id":"x"'
CONSUMER = '"consumer.override.client.id":"x"'
FORBIDDEN = (
    "Client Config Overrides not allowed [[client.id,x,[],[The 'None' policy does not allow "
    "'client.id' to be overridden in the connector configuration.],true]]"
)
OLD_TASKS: list[Pair] = [*tasks("a", 2), ("tasks-fencing-a", '{"task-count":2}'), *tasks("a", 0)]


def test_producers_are_not_fenced_with_a_forbidden_admin() -> None:
    """The admin client of the connector fences producers; without old ones nothing is refused."""
    log = [connector(ADMIN), *OLD_TASKS]
    rejected = Rejected(Reason.FAILED, FORBIDDEN)
    assert refused(log, FenceTasks("a"), exactly_once=True, worker=NONE) == rejected
    planned(log, FenceTasks("a"), exactly_once=True)
    planned(log[:1], FenceTasks("a"), exactly_once=True, worker=NONE)


@pytest.mark.parametrize("command", [ONE, RESET])
@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        (
            ADMIN,
            "Failed to perform zombie fencing for source connector prior to modifying offsets",
        ),
        (CONSUMER, FORBIDDEN),
    ],
)
def test_a_worker_fences_before_it_changes_offsets(
    command: AnyCommand, override: str, sentence: str
) -> None:
    """Fencing fails if the admin client is forbidden; the change fails if another client is."""
    log = [connector(override), *OLD_TASKS, STOPPED]
    rejected = Rejected(Reason.FAILED, sentence)
    assert refused(log, command, exactly_once=True, hooks=SURE, worker=NONE) == rejected
    planned(log, command, exactly_once=True, hooks=SURE)


async def test_a_reader_does_not_know_the_default_policy() -> None:
    """Releases before 3.0 have the default None, but their workers may have another policy."""
    sink = {"connector.class": SINK, "consumer.override.group.id": "ours"}
    old = context_of("2.8")
    state = ClusterState(old.profile, config=ConfigState(connectors={"a": sink}))
    with pytest.raises(OverridesForbidden):
        await sink_progress(state, "a", old, NoExternalSystems())
    assert (await sink_progress(state, "a", known_policy(old), NoExternalSystems())).group == "ours"
    strict = context_of("2.8", worker=NONE)
    with pytest.raises(OverridesForbidden):
        await sink_progress(state, "a", known_policy(strict), NoExternalSystems())


@pytest.mark.parametrize(("release", "is_refused"), [("2.2", False), ("2.3", True), ("3.0", False)])
def test_the_default_policy_depends_on_the_release(release: str, *, is_refused: bool) -> None:
    """Before 2.3 there are no policies; from 3.0 on the default is All."""
    context: Context = context_of(release)
    config = {"producer.override.acks": "1"}
    assert (override_refusal(config, ["producer"], context) is not None) is is_refused
    assert override_refusal({"producer.override.": "no key"}, ["producer"], context) is None
