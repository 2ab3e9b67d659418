"""C1 to C5, creating a connector; N1 to N5, creating it with its initial offsets (KIP-995).

Each law is a function that checks every case in a life, asserts, and yields once per case.
"""

from collections.abc import Iterator

from controlplane.core.commands import (
    CreateConnector,
    DeleteConnector,
    PutConfig,
    RestoreConnector,
)
from controlplane.core.fold import fold
from controlplane.core.plan import Outcome, Reason, Rejected
from controlplane.core.records import Target
from tests.laws.commands.life import (
    CommandRun,
    Life,
    Observation,
    OffsetsByPartition,
    wanted_offsets,
)

CREATED_BY = (CreateConnector, PutConfig)


def c1(life: Life) -> Iterator[None]:
    """A connector is visible if and only if the latest `connector-c` is no tombstone."""
    visible: set[str] = set()
    for moment in life.moments:
        if moment.key.startswith("connector-") and moment.entry.value != b"{":
            name = moment.key.removeprefix("connector-")
            change = visible.discard if moment.entry.value is None else visible.add
            change(name)
        assert set(moment.after.state.config.connectors) == visible
        yield


def c2(life: Life) -> Iterator[None]:
    """No prefix of the log shows c with a target state other than the requested one."""
    for act, command in life.acts_of(CreateConnector):
        if command.initial_state is None:
            continue
        for moment in act.moments:
            if moment.after.config(act.name) is not None:
                assert moment.after.state.config.targets[act.name] is command.initial_state
                yield


def c3(life: Life) -> Iterator[None]:
    """Once the creation is answered, later commands see c; creating it again writes nothing."""
    for number, act in enumerate(life.acts):
        if isinstance(act.answer, Rejected) and act.answer.reason is Reason.ALREADY_EXISTS:
            assert not act.moments
            yield
        if not isinstance(act.command, CREATED_BY) or not _created(act):
            continue
        for later in life.acts[number + 1 :]:
            if later.name == act.name:
                if later.answered and later.answered[0].began_ms > act.answered[-1].ended_ms:
                    assert later.before.config(act.name) is not None
                    yield
                if isinstance(later.command, DeleteConnector | RestoreConnector):
                    break


def c4(life: Life) -> Iterator[None]:
    """An orphan `target-state-c` never influences a later create."""
    if life.profile.inherits_target_state:
        return
    for act in life.acts:
        if (
            isinstance(act.command, CREATED_BY)
            and _wished(act) is None
            and not act.before.config(act.name)
        ):
            for moment in act.moments:
                if moment.after.config(act.name) is not None:
                    assert moment.after.state.config.targets[act.name] is Target.STARTED
                    yield


def c5(life: Life) -> Iterator[None]:
    """Reading a log up to a creation once more changes no connector and no target state."""
    for act, _ in life.acts_of(CreateConnector):
        if not act.moments:
            continue
        last_ms = act.moments[-1].entry.timestamp
        prefix = [entry for entry in life.entries if entry.timestamp <= last_ms]
        twice = fold(prefix * 2, life.profile, exactly_once=life.cluster.exactly_once).config
        once = act.moments[-1].after.state.config
        assert twice.connectors == once.connectors
        for name in twice.connectors:
            assert twice.targets[name] is once.targets[name]
        yield


def n1(life: Life) -> Iterator[None]:
    """The connector is visible only together with exactly the requested offsets."""
    for act, command in _with_offsets(life):
        for moment in act.moments:
            if moment.after.config(act.name) is not None:
                assert moment.after.offsets(act.name) == requested(command)
                yield


def n2(life: Life) -> Iterator[None]:
    """Refusals with 409 and 400 leave the offsets unchanged."""
    for act, _ in _with_offsets(life):
        if isinstance(act.answer, Rejected) and act.answer.reason is not Reason.FAILED:
            assert not act.changes_offsets()
            yield


def n3(life: Life) -> Iterator[None]:
    """A failed creation leaves all old offsets or none, and no connector."""
    for act, command in _with_offsets(life):
        if isinstance(act.ended, Rejected) and not life.disturbed(act):
            assert act.after.config(act.name) is None
            _left_whole(act, command, act.after)
            yield
    for crash, command in life.crashes_of(CreateConnector):
        for after in crash.failed:
            if after.config(crash.act.name) is None:
                _left_whole(crash.act, command, after)
                yield


def _left_whole(act: CommandRun, command: CreateConnector, after: Observation) -> None:
    """The next connector of the name starts at the old position, or at none, in every topic."""
    for config in (command.config, {**command.config, "offsets.storage.topic": None}):
        left = after.offsets(act.name, config)
        assert left in ({}, act.before.offsets(act.name, config))


def n4(life: Life) -> Iterator[None]:
    """Repeating the command after any crash gives the same final state."""
    for crash, command in life.crashes_of(CreateConnector):
        if command.initial_offsets is not None and isinstance(crash.act.ended, Outcome):
            for observation in (crash.settled, crash.reissued):
                assert observation.visible_facts(crash.act.name) == crash.act.after.visible_facts(
                    crash.act.name
                )
            yield


def n5(life: Life) -> Iterator[None]:
    """Tasks never start before they can read the offsets: the config is written last."""
    for act, _ in _with_offsets(life):
        if act.of("connector-"):
            assert act.moments[-1].is_record_of("connector-", act.name)
            assert all(performed.at_ms < act.moments[-1].entry.timestamp for performed in act.acted)
            yield


def requested(command: CreateConnector) -> OffsetsByPartition:
    """Return the initial offsets that a creation asks for."""
    offsets = wanted_offsets(command.initial_offsets or (), command.config)
    return {partition: offset for partition, offset in offsets.items() if offset is not None}


def _with_offsets(life: Life) -> Iterator[tuple[CommandRun, CreateConnector]]:
    """Creations with offsets, in releases that have them."""
    if life.profile.creates_with_offsets:
        for act, command in life.acts_of(CreateConnector):
            if command.initial_offsets is not None:
                yield act, command


def _created(act: CommandRun) -> bool:
    return isinstance(act.answer, Outcome) and act.answer.created


def _wished(act: CommandRun) -> Target | None:
    return getattr(act.command, "initial_state", None)
