"""A life: the history in a log, record by record, with the state known at each record.

Everything is derived from the log, except answers, crashes and external actions. Answers and
crashes come from the journal, external actions from the simulated cluster. So the log of a killed
process can be checked, too.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import msgspec

from controlplane.controller.admission import CommandAnswer
from controlplane.controller.plan_execution import COMMAND_ID
from controlplane.core import views
from controlplane.core.codec import command_log, decode_command
from controlplane.core.codec.offsets import frozen
from controlplane.core.commands import AnyCommand, OffsetChange
from controlplane.core.entry import Entry
from controlplane.core.fold import Fold, fold
from controlplane.core.java import json_codec
from controlplane.core.plan import AlterGroup, AnyAction, DeleteGroup, Reason, Rejected
from controlplane.core.records import CommandRefused, CommandTrace, Properties
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState
from tests.controller.scene import COMMANDS, CONFIG, STATUS
from tests.laws.commands.execution import AnsweredCommand, Died, RunJournal, SimulatedCluster
from tests.laws.commands.world import SINK, Acted, Groups

C = TypeVar("C", bound=AnyCommand)

OffsetsByPartition = Mapping[Any, Any]
"""Partition → offset, or None; source partitions are equal as in Java."""


def wanted_offsets(changes: Iterable[OffsetChange], config: Properties) -> dict[Any, Any]:
    """Requested offset per partition, or None; the last request for a partition counts."""
    if config["connector.class"] != SINK:
        return {frozen(change.partition): change.offset for change in changes}
    return {
        (change.partition["kafka_topic"], change.partition["kafka_partition"]): (
            change.offset and change.offset["kafka_offset"]
        )
        for change in changes
        if change.partition is not None
    }


class Observation(NamedTuple):
    """State of a cluster at an instant: its topics and its consumer groups."""

    state: ClusterState
    groups: Groups

    def config(self, name: str) -> Properties | None:
        """The config of the connector, or None."""
        return self.state.config.connectors.get(name)

    def is_sink(self, name: str) -> bool:
        """True if the connector's offsets are those of a consumer group."""
        return (self.config(name) or {}).get("connector.class") == SINK

    def offsets(self, name: str, config: Properties | None = None) -> OffsetsByPartition:
        """The offsets with which a connector would start; `config` replaces a missing config."""
        config = self.config(name) or config or {}
        if config.get("connector.class") == SINK:
            return self.groups.get(f"connect-{name}", {})
        offset_views = views.source_offsets(self._imagined(name, config), name)
        return {
            frozen(view.partition): view.offset for view in offset_views if view.offset is not None
        }

    def stored(self, name: str) -> Any:
        """Stored offsets of a connector, as raw bytes."""
        start = json_codec.encode([name])[:-1] + b","
        kept = {
            (topic, key): value
            for topic, offset_state in self.state.offsets.items()
            for key, value in offset_state.values.items()
            if (key or b"").startswith(start)
        }
        return kept, self.groups.get(f"connect-{name}")

    def _imagined(self, name: str, config: Properties) -> ClusterState:
        """The state in which the connector has this config."""
        if self.config(name) is not None:
            return self.state
        connectors = {**self.state.config.connectors, name: config}
        config_state = msgspec.structs.replace(self.state.config, connectors=connectors)
        return msgspec.structs.replace(self.state, config=config_state)

    def tasks(self, name: str) -> Mapping[int, Properties | None]:
        """Return the configs of the tasks that workers run, by number."""
        configs = self.state.config.tasks.get(name, {})
        return {task: configs.get(task) for task in self.state.config.task_ids(name)}

    def topics(self, name: str) -> frozenset[str]:
        """Return the active topics of the connector."""
        return frozenset(self.state.status.active_topics.get(name, {}))

    def all_of(self, name: str) -> Any:
        """All facts about a connector, visible or not."""
        tables = [
            table
            for part in (self.state.config, self.state.status)
            for table in (getattr(part, field) for field in part.__struct_fields__)
            if isinstance(table, Mapping)
        ]
        return [table.get(name) for table in tables], self.stored(name)

    def visible_facts(self, name: str) -> Any:
        """All visible facts about a connector, and the offsets that its successor inherits."""
        exists = self.config(name) is not None
        return (
            self.config(name),
            views.target(self.state, name) if exists else None,
            self.tasks(name) if exists else None,
            self.offsets(name),
            self.topics(name),
            self.state.config.fenced_counts.get(name),
        )


class ObservedRecord(NamedTuple):
    """A record of Connect's topics, and the states before and after it."""

    entry: Entry
    before: Observation
    after: Observation
    command_id: str | None
    """Command that wrote the record; None: another writer."""

    @property
    def key(self) -> str:
        """Key as text, decoded as far as possible."""
        return (self.entry.key or b"").decode(errors="replace")

    @property
    def around(self) -> tuple[Observation, Observation]:
        """States before and after the record."""
        return self.before, self.after

    def is_record_of(self, kind: str, name: str) -> bool:
        """True for a record of a kind (`connector-`, `commit-`) of a connector."""
        return self.key == f"{kind}{name}"


class CommandRun(NamedTuple):
    """A command, its records, and the states before it and after its end."""

    command: AnyCommand
    command_id: str
    began_ms: int
    """Time when the command was decided."""
    moments: tuple[ObservedRecord, ...]
    before: Observation
    after: Observation
    answered: tuple[AnsweredCommand, ...]
    acted: tuple[Acted, ...]
    """Outside actions performed for the command."""
    batches_ms: tuple[int, ...]
    """Times of its writes, including the command topic; empty if it wrote only its refusal."""
    ended: CommandAnswer | None
    """End of the command in the command topic."""

    @property
    def answer(self) -> CommandAnswer | None:
        """Last answer to the client; None: no answer."""
        return self.answered[-1].answer if self.answered else None

    @property
    def name(self) -> str:
        """Name of the connector; for a command without one, a name that no connector has."""
        return getattr(self.command, "connector", "\0")

    @property
    def keyed(self) -> bool:
        """True if the client may repeat the command under its id."""
        return all(answered.keyed for answered in self.answered)

    def succeeded(self) -> bool:
        """True if the client got a success."""
        return self.answer is not None and not isinstance(self.answer, Rejected)

    def failed(self) -> bool:
        """True if a failure was not the client's fault, or there was no answer."""
        refused = isinstance(self.answer, Rejected) and self.answer.reason is Reason.FAILED
        return refused or self.answer is None

    def refused(self, reason: Reason) -> bool:
        """True if the command was refused for this reason."""
        return isinstance(self.answer, Rejected) and self.answer.reason is reason

    def changes_offsets(self) -> bool:
        """True if the command wrote an offset, or changed a consumer group."""
        topics = {moment.entry.topic for moment in self.moments} - {CONFIG, STATUS}
        actions = (performed.action for performed in self.acted)
        return bool(topics) or any(
            isinstance(action, AlterGroup | DeleteGroup) for action in actions
        )

    def keys(self) -> list[str]:
        """Keys of the records that the command wrote into Connect's topics."""
        return [moment.key for moment in self.moments]

    def of(self, kind: str) -> list[ObservedRecord]:
        """Records of a kind that the command wrote about its connector."""
        return [moment for moment in self.moments if moment.is_record_of(kind, self.name)]

    def batches(self) -> Iterator[ObservedRecord]:
        """The last record of each batch; a crash point lies behind each."""
        for moment, after in zip(self.moments, [*self.moments[1:], None], strict=True):
            if after is None or after.entry.timestamp != moment.entry.timestamp:
                yield moment


class CrashedRun(NamedTuple):
    """A process that crashed during a command, and its successor."""

    act: CommandRun
    """The command in the life without this crash."""
    dead: Observation
    """State of the log when the process died."""
    back: Observation
    """State after the next process had completed the unfinished commands."""
    unfinished: bool
    """True if commands were still unfinished."""
    same: CommandAnswer
    """Answer to a client that repeated the same key."""
    settled: Observation
    anew: CommandAnswer
    """Answer to the command as a new request on a log without unfinished commands."""
    reissued: Observation
    acted: tuple[AnyAction, ...]
    """Outside actions during the recovery and the repeated request."""
    failed: tuple[Observation, ...]
    """States after a failed creation with offsets that the next process cannot complete.

    The process lacks the class, or its outside actions fail.
    """


class TopicPeriod(NamedTuple):
    """State of Connect's topics from an instant on."""

    since_ms: int
    state: ClusterState


class Life(NamedTuple):
    """A history that was executed, with all states in between."""

    cluster: SimulatedCluster
    entries: Sequence[Entry]
    periods: Sequence[TopicPeriod]
    final: ClusterState
    """State after the whole history, including the command topic."""
    moments: Sequence[ObservedRecord]
    acts: Sequence[CommandRun]
    journal: RunJournal
    crashes: Sequence[CrashedRun] = ()

    @property
    def profile(self) -> Profile:
        """The release that read and wrote."""
        return self.cluster.profile

    def at(self, time_ms: int) -> Observation:
        """Return the state of cluster and groups at an instant."""
        number = bisect_right(self.periods, time_ms, key=lambda period: period.since_ms)
        return Observation(self.periods[number - 1].state, self.cluster.kafka.at(time_ms))

    def acts_of(self, kind: type[C]) -> Iterator[tuple[CommandRun, C]]:
        """Yield the runs of commands of one kind."""
        for act in self.acts:
            if isinstance(act.command, kind):
                yield act, act.command

    def crashes_of(self, kind: type[C]) -> Iterator[tuple[CrashedRun, C]]:
        """Yield the crashes during commands of one kind."""
        for crash in self.crashes:
            if isinstance(crash.act.command, kind):
                yield crash, crash.act.command

    def deaths_of(self, act: CommandRun) -> Iterator[Died]:
        """Yield each process death that left a caller of this command without an answer."""
        for answered in act.answered:
            if answered.answer is None and not answered.away:
                yield next(death for death in self.journal.died if death.at_ms >= answered.ended_ms)

    def repeated(self, *kinds: type[AnyCommand]) -> Iterator[tuple[CommandRun, CommandRun]]:
        """Pairs of equal successful commands without a change between them."""
        for first, again in pairwise(self.acts):
            if isinstance(first.command, kinds) and first.command == again.command:
                unchanged = first.after.all_of(first.name) == again.before.all_of(first.name)
                if first.succeeded() and unchanged and not again.failed():
                    yield first, again

    def disturbed(self, act: CommandRun) -> bool:
        """True if another writer wrote between the batches of the command."""
        first_ms, last_ms = act.batches_ms[0], act.batches_ms[-1]
        foreign_ms = [
            moment.entry.timestamp for moment in self.moments if moment.command_id is None
        ]
        times_ms = (*foreign_ms, *self.cluster.kafka.committed_ms)
        return any(first_ms < time_ms < last_ms for time_ms in times_ms)

    def names(self) -> set[str]:
        """Every connector that a command was about."""
        return {act.name for act in self.acts}


def life_of(entries: Sequence[Entry], journal: RunJournal, cluster: SimulatedCluster) -> Life:
    """Result of a history. `entries` are in the order of writing."""
    growing = Fold(cluster.profile, exactly_once=cluster.exactly_once)
    periods = [TopicPeriod(-1, growing.snapshot())]
    moments = []
    for entry in (entry for entry in entries if entry.topic != COMMANDS):
        growing.apply(entry)
        periods.append(TopicPeriod(entry.timestamp, growing.snapshot()))
        groups = cluster.kafka.at(entry.timestamp)
        before, after = (Observation(period.state, groups) for period in periods[-2:])
        moments.append(ObservedRecord(entry, before, after, _id_of(entry)))
    final = fold(entries, cluster.profile, exactly_once=cluster.exactly_once)
    life = Life(cluster, entries, periods, final, moments, (), journal)
    acts = sorted(_acts(life), key=lambda act: act.began_ms)
    return life._replace(acts=tuple(acts))


def _id_of(entry: Entry) -> str | None:
    """The command that wrote a record."""
    return next(
        (value.decode() for name, value in entry.headers if name == COMMAND_ID and value), None
    )


def _acts(life: Life) -> Iterator[CommandRun]:
    """Commands that were answered, or had begun when the process died."""
    answered: dict[str, list[AnsweredCommand]] = defaultdict(list)
    for answer in life.journal.answered:
        answered[answer.command_id].append(answer)
    moments: dict[str | None, list[ObservedRecord]] = defaultdict(list)
    for moment in life.moments:
        moments[moment.command_id].append(moment)
    accepted_ms: dict[str | None, set[int]] = defaultdict(set)
    refused_ms: dict[str | None, set[int]] = defaultdict(set)
    for entry in life.entries:
        refused = isinstance(decode_command(entry.key, entry.value), CommandRefused)
        (refused_ms if refused else accepted_ms)[_id_of(entry)].add(entry.timestamp)
    traces = life.final.commands
    begun = [command_id for command_id, trace in traces.items() if trace.accepted]
    for command_id in dict.fromkeys([*answered, *begun]):
        trace = traces.get(command_id, CommandTrace())
        answers = tuple(answered[command_id])
        written_ms = sorted(accepted_ms[command_id])
        decided_ms = written_ms or sorted(refused_ms[command_id])[-1:] or [answers[0].ended_ms]
        command = _command(answers, trace)
        yield CommandRun(
            command=command,
            command_id=command_id,
            began_ms=decided_ms[0],
            moments=tuple(moments[command_id]),
            before=life.at(decided_ms[0] - 1),
            after=life.at(decided_ms[-1]),
            answered=answers,
            acted=_acted(life, command, decided_ms),
            batches_ms=tuple(written_ms),
            ended=command_log.ended(trace) if trace.finished else None,
        )


def _command(answers: Sequence[AnsweredCommand], trace: CommandTrace) -> AnyCommand:
    if answers:
        return answers[0].command
    assert trace.accepted is not None
    command: AnyCommand = msgspec.convert(trace.accepted.command, AnyCommand)
    return command


def _acted(life: Life, command: AnyCommand, decided_ms: Sequence[int]) -> tuple[Acted, ...]:
    name, first_ms, last_ms = getattr(command, "connector", None), decided_ms[0], decided_ms[-1]
    during = (
        performed
        for performed in life.cluster.kafka.acted
        if first_ms <= performed.at_ms <= last_ms
    )
    return tuple(performed for performed in during if performed.action.connector == name)
