"""A3 to A5, active topics; G1 to G7 without G5, laws about every written record."""

from collections.abc import Iterable, Iterator
from itertools import pairwise

from controlplane.core.commands import (
    PauseConnector,
    ResetTopics,
    ResumeConnector,
    SetLoggerLevel,
)
from controlplane.core.entry import Entry
from controlplane.core.fold import fold
from controlplane.core.order import in_order
from controlplane.core.plan import Outcome, Reason, Rejected
from controlplane.core.records import State, Target
from controlplane.core.state import ClusterState
from tests.controller.scene import CONFIG, STATUS
from tests.laws.commands.execution import TOPICS
from tests.laws.commands.life import CommandRun, Life, Observation, ObservedRecord
from tests.laws.test_compaction import compacted


def a3(life: Life) -> Iterator[None]:
    """A reset writes keys of its own connector only."""
    for act, _ in life.acts_of(ResetTopics):
        for moment in act.moments:
            assert moment.entry.topic == STATUS
            assert moment.key.partition(":")[2] == f"connector-{act.name}"
            assert moment.entry.value is None
            for name in life.names() - {act.name}:  # others may be reset at the same time
                assert moment.before.topics(name) == moment.after.topics(name)
            yield


def a4(life: Life) -> Iterator[None]:
    """Recording a topic twice has the effect of recording it once."""
    twice = [
        entry
        for entry in life.entries
        for _ in range(2 if (entry.key or b"").startswith(b"status-topic-") else 1)
    ]
    if len(twice) > len(life.entries):
        once = life.final
        assert _folded(life, twice).status.active_topics == once.status.active_topics
        yield


def a5(life: Life) -> Iterator[None]:
    """A reset without active topics succeeds and writes nothing, also for an unknown connector."""
    for act, _ in life.acts_of(ResetTopics):
        if life.profile.status_topics and not act.before.topics(act.name):
            assert act.answer is None or act.succeeded()
            assert not act.moments
            yield


def g1(life: Life) -> Iterator[None]:
    """Partitions may be read in any order; compaction of our own records changes no view."""
    assert _folded(life, in_order(sorted(life.entries, key=_place))) == life.final
    if not life.profile.writes_tasks_when_reconfigured:
        return
    for act in life.acts:
        if act.of("connector-"):
            last_ms = act.moments[-1].entry.timestamp
            entries = [entry for entry in life.entries if entry.timestamp <= last_ms]
            few = Observation(_folded(life, compacted(entries, TOPICS)), act.after.groups)
            if _ours(life, act) and not _owner_is_asked(life, act):
                assert few.visible_facts(act.name) == act.after.visible_facts(act.name)
                yield


def g2(life: Life) -> Iterator[None]:
    """Repeating a command completes an interrupted one, wherever it stopped."""
    for crash in life.crashes:
        if isinstance(crash.act.ended, Outcome):
            assert crash.reissued.visible_facts(crash.act.name) == crash.act.after.visible_facts(
                crash.act.name
            )
            yield


def g3(life: Life) -> Iterator[None]:
    """An impossible request is refused, and nothing is written."""
    for act in life.acts:
        if isinstance(act.answer, Rejected) and act.answer.reason is not Reason.FAILED:
            assert not act.moments
            assert not act.acted
            yield


def g4(life: Life) -> Iterator[None]:
    """A displaced leader writes nothing. Records of other workers commute with the leader's."""
    for displaced in life.journal.displaced:
        before, after = displaced.records
        assert displaced.noticed
        assert before == after
        yield
    anybodys = {act.command_id for act in life.acts if isinstance(act.command, UNPRIVILEGED)}
    config = [moment for moment in life.moments if moment.entry.topic == CONFIG]
    for number, (earlier, later) in enumerate(pairwise(config)):
        if (earlier.command_id in anybodys) != (
            later.command_id in anybodys
        ) and earlier.key != later.key:
            entries = [moment.entry for moment in config[:number]]
            swapped = Observation(_folded(life, [*entries, later.entry, earlier.entry]), {})
            in_turn = Observation(_folded(life, [*entries, earlier.entry, later.entry]), {})
            for name in life.names():
                assert swapped.visible_facts(name) == in_turn.visible_facts(name)
            yield


def g6(life: Life) -> Iterator[None]:
    """Records of an unknown connector never make it visible."""
    for moment in life.moments:
        if not moment.key.startswith("connector-"):
            before, after = (
                observation.state.config.connectors for observation in (moment.before, moment.after)
            )
            assert before.keys() == after.keys()
            yield


def g7(life: Life) -> Iterator[None]:
    """Names are opaque: records about one connector concern no other."""
    owners = {act.command_id: act.name for act in life.acts}
    for moment in life.moments:
        if moment.command_id is not None:
            for name in life.names() - {owners[moment.command_id]}:
                assert moment.before.all_of(name) == moment.after.all_of(name)
                yield


# --- shared by the laws -------------------------------------------------------------------------

UNPRIVILEGED = (PauseConnector, ResumeConnector, SetLoggerLevel)


def _place(entry: Entry) -> tuple[str, int, int]:
    """Sort key: topic, then partitions from the last, then offset."""
    return entry.topic, -entry.partition, entry.offset


def _folded(life: Life, entries: Iterable[Entry]) -> ClusterState:
    return fold(entries, life.profile, exactly_once=life.cluster.exactly_once)


def _ours(life: Life, act: CommandRun) -> bool:
    """True if the last records of a connector's tasks and their commit came from a command."""
    keys = {f"commit-{act.name}"} | {f"task-{act.name}-{task}" for task in range(9)}
    last = {moment.key: moment.command_id for moment in _until(life, act) if moment.key in keys}
    return None not in last.values()


def _owner_is_asked(life: Life, act: CommandRun) -> bool:
    """True if the worker of a running connector has yet to publish tasks for its config."""
    pending = False
    for moment in _until(life, act):
        if moment.is_record_of("commit-", act.name):
            pending = False
        if moment.is_record_of("connector-", act.name):
            pending = _runs(moment.before, act.name)
    return pending


def _until(life: Life, act: CommandRun) -> list[ObservedRecord]:
    last_ms = act.moments[-1].entry.timestamp
    return [moment for moment in life.moments if moment.entry.timestamp <= last_ms]


def _runs(observation: Observation, name: str) -> bool:
    reported = observation.state.status.connectors.get(name)
    failed = reported is not None and reported.state is State.FAILED
    return observation.state.config.targets.get(name) is Target.STARTED and not failed
