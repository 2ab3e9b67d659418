"""Creating, configuring, patching and deleting: cases that no history contains.

Labels such as C2 name laws: see `tests/laws/commands`.
"""

import pytest

from controlplane.core.commands import (
    CreateConnector,
    DeleteConnector,
    PatchConfig,
    PutConfig,
)
from controlplane.core.entry import Entry
from controlplane.core.plan import Reason, Rejected
from controlplane.core.records import Target
from controlplane.core.releases.profiles import Profile
from tests.core.decisions import PROPERTIES, RELEASES, SINK, SOURCE, planned, refused, steps, text
from tests.core.logs import Pair, config, read, report, status, tasks

WRITTEN = f'{{"properties":{{"connector.class":"{SOURCE}","topic":"t","file":"f","name":"a"}}}}'
CONFIG = f"connector-a {WRITTEN}"
A: Pair = ("connector-a", WRITTEN)
PAUSED: Pair = ("target-state-a", '{"state":"PAUSED","state.v2":"PAUSED"}')
STOPPED: Pair = ("target-state-a", '{"state":"PAUSED","state.v2":"STOPPED"}')
ORPHANS = (PAUSED, STOPPED, ("target-state-a", '{"state":"STARTED","state.v2":"STARTED"}'))

MISNAMED = Rejected(
    Reason.INVALID,
    "Connector name configuration (b) doesn't match connector name in the URL (a)",
)

create = CreateConnector("a", PROPERTIES)


def test_the_name_keeps_its_place_or_is_added_at_the_end() -> None:
    """The name keeps its place in the config, or is added at the end if missing or null."""
    named = {"name": "a", **PROPERTIES}
    (written,) = steps([], CreateConnector("a", named))["config"]
    assert written.startswith('connector-a {"properties":{"name":"a",')
    (written,) = steps([], CreateConnector("a", named | {"name": None}))["config"]
    assert written.startswith('connector-a {"properties":{"name":"a",')
    assert steps([], create) == {"config": [CONFIG]}


@pytest.mark.parametrize("command", [CreateConnector, PutConfig])
def test_another_name_is_refused(command: type[CreateConnector | PutConfig]) -> None:
    """A different name is refused before any other check, also for an existing connector."""
    assert refused([A], command("a", {"name": "b"})) == MISNAMED


@pytest.mark.parametrize("release", ["3.7.0", "3.9", "4.3"])
def test_the_state_comes_before_the_config(release: str) -> None:
    """C2: every prefix of the log shows the connector only in the requested state."""
    plan = planned([], CreateConnector("a", PROPERTIES, Target.STOPPED), release)
    assert [step.name for step in plan.steps] == ["state", "config"]
    assert [len(step.records) for step in plan.steps] == [1, 1]
    assert plan.steps[0].records[0].value == b'{"state":"PAUSED","state.v2":"STOPPED"}'
    assert plan.commit_point == "config"
    assert plan.outcome.created
    # Both are read back together, before the answer.
    assert [step.read_back for step in plan.steps] == [(), ("connect-configs",)]


@pytest.mark.parametrize(
    ("release", "exactly_once"), [("3.9", True), ("4.3", True), ("kip", False)]
)
def test_state_and_config_are_one_transaction(release: str, *, exactly_once: bool) -> None:
    """State and config form one step with exactly-once support, and always under `kip`."""
    command = CreateConnector("a", PROPERTIES, Target.PAUSED)
    written = steps([], command, release, exactly_once=exactly_once)
    assert written == {"config": [text(PAUSED), CONFIG]}


def test_a_requested_running_state_is_written() -> None:
    """STARTED is written; only a missing initial state writes no record."""
    command = CreateConnector("a", PROPERTIES, Target.STARTED)
    written = steps([], command, "3.9")
    assert written["state"] == ['target-state-a {"state":"STARTED","state.v2":"STARTED"}']


@pytest.mark.parametrize("release", RELEASES)
def test_releases_inherit_an_orphan_target_state(release: str) -> None:
    """Releases violate C4: a crash between two tombstones pauses the next connector."""
    assert steps([PAUSED], create, release) == {"config": [CONFIG]}


@pytest.mark.parametrize("orphan", ORPHANS)
@pytest.mark.parametrize("command", [create, PutConfig("a", PROPERTIES)])
def test_an_orphan_target_state_is_removed_first(
    orphan: Pair, command: CreateConnector | PutConfig
) -> None:
    """C4: one batch removes the orphan target state; the new connector is STARTED."""
    plan = planned([orphan], command)
    assert steps([orphan], command) == {"config": ["target-state-a ", CONFIG]}
    written = [(draft.key, draft.value) for draft in plan.steps[0].records]
    assert read(config(orphan, *written), "kip").config.targets == {"a": Target.STARTED}


def test_an_orphan_target_state_is_overwritten() -> None:
    """C4: a requested state overwrites the orphan, without a tombstone."""
    command = CreateConnector("a", PROPERTIES, Target.PAUSED)
    assert steps([STOPPED], command) == {"config": [text(PAUSED), CONFIG]}


@pytest.mark.parametrize("release", [*RELEASES, "kip"])
def test_existing_connectors_are_not_created(release: str) -> None:
    """C3: creating an existing connector is refused; PUT changes it instead."""
    exists = Rejected(Reason.ALREADY_EXISTS, "Connector a already exists")
    assert refused([A], create, release) == exists
    assert not planned([A], PutConfig("a", PROPERTIES), release).outcome.created
    assert planned([], PutConfig("a", PROPERTIES), release).outcome.created


def test_releases_without_initial_states_refuse_one() -> None:
    """3.6 refuses an initial state: KIP-980 came with 3.7."""
    command = CreateConnector("a", PROPERTIES, Target.PAUSED)
    assert refused([], command, "3.6") == Rejected(Reason.NOT_OFFERED, None)


@pytest.mark.parametrize("release", [*RELEASES, "kip"])
def test_a_running_connector_is_reconfigured_with_one_record(release: str) -> None:
    """Target state and tasks stay (U1, U2): the connector's worker publishes new tasks."""
    log = [A, *tasks("a", 2)]
    assert steps(log, PutConfig("a", PROPERTIES), release) == {"config": [CONFIG]}


def test_a_paused_connector_keeps_its_tasks_through_compaction() -> None:
    """Releases drop a task set that is older than the config (KAFKA-17719): we commit it again."""
    log = [A, *tasks("a", 2), PAUSED]
    expected = [CONFIG, *map(text, tasks("a", 2))]
    assert steps(log, PutConfig("a", PROPERTIES)) == {"config": expected}
    assert steps(log, PutConfig("a", PROPERTIES), "4.3") == {"config": [CONFIG]}


def test_the_tasks_of_a_paused_connector_survive_compaction() -> None:
    """G1: our records give the same state after compaction, also for a release with the defect."""
    log = [A, *tasks("a", 2), PAUSED]
    for release, kept in {"kip": 2, "4.3": 0}.items():
        (step,) = planned(log, PutConfig("a", PROPERTIES), release).steps
        whole = [*log, *((draft.key.decode(), draft.value) for draft in step.records)]
        compacted = [
            record for n, record in enumerate(whole) if record[0] not in dict(whole[n + 1 :])
        ]
        assert len(read(config(*compacted), "4.3").config.task_ids("a")) == kept


def test_a_stopped_connector_has_its_empty_task_set_committed_again() -> None:
    """The commit of an empty task set is repeated, because its absence means that no set exists."""
    log = [A, *tasks("a", 2), *tasks("a", 0), STOPPED]
    assert steps(log, PutConfig("a", PROPERTIES)) == {"config": [CONFIG, 'commit-a {"tasks":0}']}


def test_a_failed_connector_has_its_tasks_committed_again() -> None:
    """The connector may fail again and never generate tasks, while the old ones keep running."""
    failed = status(("status-connector-a", report("FAILED")))
    log: list[Pair | Entry] = [A, *tasks("a", 1), *failed]
    written = steps(log, PutConfig("a", PROPERTIES))["config"]
    assert written == [CONFIG, 'task-a-0 {"properties":{"n":"0"}}', 'commit-a {"tasks":1}']


@pytest.mark.parametrize("committed", [(), [("commit-a", '{"tasks":2}')]])
def test_there_must_be_a_whole_task_set_to_commit_it_again(committed: list[Pair]) -> None:
    """The commit is not repeated without a complete task set."""
    assert steps([A, *committed, PAUSED], PutConfig("a", PROPERTIES)) == {"config": [CONFIG]}


PATCHED: Pair = (
    "connector-a",
    f'{{"properties":{{"name":"a","connector.class":"{SOURCE}","topic":"t","x":"1"}}}}',
)


@pytest.mark.parametrize("release", ["3.8", "3.9", "4.3", "kip"])
def test_a_patch_adds_changes_and_removes(release: str) -> None:
    """U4: a patch applies to the present config, in the order of Java's HashMap."""
    command = PatchConfig("a", {"x": None, "topic": "u", "file": "f"})
    (written,) = steps([PATCHED], command, release)["config"]
    expected = f'"connector.class":"{SOURCE}","name":"a","topic":"u","file":"f"'
    assert written == f'connector-a {{"properties":{{{expected}}}}}'


def test_a_patch_needs_something_to_patch() -> None:
    """A missing connector is refused before the patch is checked; 3.7 has no patches."""
    command = PatchConfig("a", {"connector.class": SINK})
    gone = Rejected(Reason.NO_SUCH_CONNECTOR, "Connector a not found")
    assert refused([], command, "3.8") == refused([], command) == gone
    assert refused([PATCHED], command, "3.7") == Rejected(Reason.NOT_OFFERED, None)


def test_a_patch_renames_nothing() -> None:
    """A patch with another name is refused; releases would store it under the old key."""
    command = PatchConfig("a", {"name": "b"})
    assert refused([PATCHED], command) == MISNAMED
    assert '"name":"b"' in steps([PATCHED], command, "3.9")["config"][0]


TOMBSTONES = ["connector-a ", "target-state-a "]


@pytest.mark.parametrize("target", [[], [PAUSED]])
def test_both_tombstones_are_written(target: list[Pair]) -> None:
    """The config's tombstone deletes the connector; the target state's tombstone follows."""
    log, command = [A, *target], DeleteConnector("a")
    apart = {"config": TOMBSTONES[:1], "state": TOMBSTONES[1:]}
    assert steps(log, command, "3.9") == steps(log, command, "2.8") == apart
    assert steps(log, command, "3.9", exactly_once=True) == {"config": TOMBSTONES}
    assert steps(log, command) == {"config": TOMBSTONES}
    assert planned(log, command, "3.9").commit_point == "config"


def test_without_target_states_there_is_one_tombstone() -> None:
    """0.9 writes one tombstone, since it has no target states."""
    assert steps([A], DeleteConnector("a"), "0.9") == {"config": TOMBSTONES[:1]}


@pytest.mark.parametrize("release", ["0.9", *RELEASES, "kip"])
def test_a_deleted_connector_is_not_deleted_again(release: str) -> None:
    """D4: the deletion writes nothing; an orphan target state is no connector (G6)."""
    gone = Rejected(Reason.NO_SUCH_CONNECTOR, "Connector a not found")
    assert refused([A, PAUSED, ("connector-a", None)], DeleteConnector("a"), release) == gone


def test_names_are_opaque() -> None:
    """G7: a key is the prefix and the name; no name is parsed."""
    for name in ("a-1", "cluster", "connector-a", "gr/ö %;+{}", "\U0001f600"):
        (step,) = planned([], CreateConnector(name, PROPERTIES)).steps
        (record,) = step.records
        assert record.key == f"connector-{name}".encode()
        state = read(config((record.key, record.value)), "kip")
        assert list(state.config.connectors) == [name]
        assert state.profile == Profile.of("kip")
