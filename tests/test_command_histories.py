"""Plans write the bytes that real clusters wrote for each recorded request.

For every recorded request, the log is folded up to the point that the writing worker had read. The
request becomes a command, and the command is decided. The plan must have the records of the
cluster:

- The config topic has the records of the request, then those of each later request to the leader.
- In the offsets topics: the records of altering and resetting, in order within each partition.

Statuses and commits of running tasks follow from no request and are left out. A refused request
must be refused with the same status and words, without records. Any other request
must get the recorded answer.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from controlplane.controller.decision import Decider
from controlplane.controller.external import NoExternalSystems
from controlplane.core import commands
from controlplane.core.codec import decode_config, decode_partition
from controlplane.core.commands import AnyCommand
from controlplane.core.context import Context, DecisionSettings
from controlplane.core.entry import Entry
from controlplane.core.plan import Draft, Plan, Rejected
from controlplane.core.records import SourcePartition, TaskCommit, TaskConfig, TaskCount
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import Topics
from controlplane.core.topics.partitioner import partition_of
from controlplane.rest.endpoints.pure_requests import answer, command_of
from controlplane.rest.endpoints.reads import ReadInputs
from controlplane.rest.endpoints.writes import CompletedCommand, answer_to
from controlplane.rest.errors import Answer, RestError, refused
from controlplane.scenario.json_equality import equal_json
from tests.core.logs import KeyValue
from tests.recorded_requests import RecordedRequest, plugins_of, recorded

TOPICS = Topics()

NOT_FORWARDED = (
    commands.PauseConnector,
    commands.ResumeConnector,
    commands.ResetTopics,
    commands.SetLoggerLevel,
)
"""Commands that the receiving worker performs itself; all others are forwarded to the leader."""

OF_OFFSETS = (commands.AlterOffsets, commands.ResetOffsets)

_NINETY_SECONDS = "removals with an own offsets topic and exactly-once support hang in Kafka"
_NO_LOG4J = "the worker ran without log4j-core and could set no logger level at all"

EXCEPTIONS: Mapping[tuple[str, int], str] = {
    ("compacted-3.9", 13): "the target state that was written has been compacted away",
    ("exactly-once-3.9", 21): _NINETY_SECONDS,
    ("exactly-once-3.9", 23): _NINETY_SECONDS,
    ("life-4.3", 99): _NO_LOG4J,
    ("life-4.3", 100): _NO_LOG4J,
}
"""Steps at which the cluster behaved unlike a healthy one, or the log has lost records."""

REQUESTS = list(recorded())
ASKED = [request for request in REQUESTS if request.step.method != "GET"]
READ = [request for request in REQUESTS if request.step.method == "GET"]

InPartition = tuple[int, bytes | None, bytes | None]
"""Partition, key and value of a record."""


def cases() -> Iterator[Any]:
    """All requests except reads; a request of `EXCEPTIONS` must differ from the cluster."""
    for request in ASKED:
        reason = EXCEPTIONS.get((request.history, request.step.n))
        marks = [pytest.mark.xfail(reason=reason, raises=AssertionError)] if reason else []
        yield pytest.param(request, marks=marks, id=named(request))


def named(request: RecordedRequest) -> str:
    """Name of a request in test reports."""
    return f"{request.history}-{request.step.n}"


# --- what we would do ---------------------------------------------------------------------------


def understood(request: RecordedRequest) -> tuple[AnyCommand, Profile]:
    """The command of a request, and the release of the worker that decides it."""
    method, path = request.step.method, request.step.path
    command = command_of(method, path, request.body, request.worker)
    if isinstance(command, NOT_FORWARDED):
        return command, request.worker
    return command_of(method, path, request.body, request.leader), request.leader


async def obeyed(request: RecordedRequest) -> "Obeyed | RestError":
    """Plan of a request, or its error."""
    try:
        command, profile = understood(request)
        return Obeyed(command, profile, await planned(request, command, profile))
    except RestError as error:
        return error


class Obeyed(NamedTuple):
    """A request that is not refused: its command, the deciding worker, and the plan."""

    command: AnyCommand
    profile: Profile
    plan: Plan


async def planned(
    request: RecordedRequest, command: AnyCommand, profile: Profile, *read: Entry
) -> Plan:
    """Plan of a worker that has read these records since the request."""
    state = request.state(profile, *read)
    worker = DecisionSettings(exactly_once_source=state.exactly_once)
    context = Context(profile=profile, worker=worker, plugins=plugins_of(request.history))
    decision = await Decider(context, NoExternalSystems()).decided(state, command)
    if isinstance(decision, Rejected):
        raise refused(decision)
    return decision


def drafts_of(plan: Plan) -> list[Draft]:
    """All records of a plan, in order."""
    return [draft for step in plan.steps for draft in step.records]


# --- what the cluster did -----------------------------------------------------------------------


def asked_next(records: Sequence[Entry], leader: Profile) -> AnyCommand:
    """Command of a worker that makes the leader write these records next."""
    configs = []
    for entry in records:
        match decode_config(entry.key, entry.value, leader):
            case TaskConfig(_, _, properties):
                configs.append(properties)
            case TaskCommit(name):
                return commands.PublishTasks(name, tuple(configs))
            case TaskCount(name):
                return commands.FenceTasks(name)
            case other:
                pytest.fail(f"no worker asks for {other}")
    pytest.fail("a task set without its commit")


def offsets_of(name: str, request: RecordedRequest) -> dict[tuple[str, int], list[KeyValue]]:
    """Records written about the offsets of one connector, by partition."""
    records = defaultdict(list)
    for entry in request.written_entries():
        if entry.topic not in (TOPICS.config, TOPICS.status):
            subject = decode_partition(entry.key, request.leader)
            # A reader cannot assign a key without a partition to a connector.
            if not isinstance(subject, SourcePartition) or subject.connector == name:
                records[entry.topic, entry.partition].append((entry.key, entry.value))
    return records


def by_partition(
    drafts: Iterable[Draft], ends: Mapping[str, Sequence[int]]
) -> dict[tuple[str, int], list[KeyValue]]:
    """Drafts of offsets by their partition."""
    records: dict[tuple[str, int], list[KeyValue]] = defaultdict(list)
    for draft in drafts:
        if draft.topic not in (TOPICS.config, TOPICS.status):
            partition = placed(draft, len(ends[draft.topic]))
            records[draft.topic, partition].append((draft.key, draft.value))
    return records


def placed(draft: Draft, partitions: int) -> int:
    """The partition that a draft names, else the one that its key chooses."""
    chosen = partition_of(draft.key, partitions)
    return chosen if draft.partition is None else draft.partition


def of_config(records: Iterable[Entry | Draft]) -> list[InPartition]:
    """Records of the config topic, which has one partition."""
    return [
        (
            placed(record, 1) if isinstance(record, Draft) else record.partition,
            record.key,
            record.value,
        )
        for record in records
        if record.topic == TOPICS.config
    ]


def resets_written(request: RecordedRequest) -> list[InPartition]:
    """Tombstones of topics that connectors used."""
    return sorted(
        (entry.partition, entry.key, entry.value)
        for entry in request.written_entries()
        if entry.topic == TOPICS.status and (entry.key or b"").startswith(b"status-topic-")
    )


def resets_drafted(drafts: Iterable[Draft], partitions: int) -> list[InPartition]:
    """Drafts for the status topic, by partition and key: Kafka's set of topics has no order."""
    return sorted(
        (placed(draft, partitions), draft.key, draft.value)
        for draft in drafts
        if draft.topic == TOPICS.status
    )


def is_recorded_answer(response: Answer, request: RecordedRequest) -> bool:
    """True if an answer equals the recorded one; an empty body equals null."""
    return response.status == request.step.status and equal_json(
        response.body or None, request.step.answer
    )


# --- the proof ----------------------------------------------------------------------------------


@pytest.mark.parametrize("case", list(cases()))
async def test_requests_are_answered_and_written_as_they_were(case: RecordedRequest) -> None:
    """Every record is equal, in order, to the byte; a refusal has the same words and no record."""
    configs = [entry for entry in case.written_entries() if entry.topic == TOPICS.config]
    done = await obeyed(case)
    if isinstance(done, RestError):
        assert is_recorded_answer(done.answer(), case), str(done)
        assert configs == []
        return
    command, profile, plan = done
    drafts = drafts_of(plan)
    own = len(of_config(drafts))
    assert of_config(drafts) == of_config(configs[:own])
    await followed(case, configs, own)
    if isinstance(command, OF_OFFSETS):
        ends = case.step.positions
        assert by_partition(drafts, ends) == offsets_of(command.connector, case)
    if isinstance(command, commands.ResetTopics):
        partitions = len(case.step.positions[TOPICS.status])
        assert resets_drafted(drafts, partitions) == resets_written(case) != []
    state = case.state(profile, *configs[:own])
    assert is_recorded_answer(
        answer_to(
            CompletedCommand(command, plan.outcome, state, profile, plugins_of(case.history))
        ),
        case,
    )


async def followed(request: RecordedRequest, configs: Sequence[Entry], done: int) -> list[Plan]:
    """The leader's plans for requests of workers, which wrote the rest of the config topic."""
    plans = []
    while done < len(configs):
        command = asked_next(configs[done:], request.leader)
        plan = await planned(request, command, request.leader, *configs[:done])
        expected = of_config(drafts_of(plan))
        assert expected
        assert expected == of_config(configs[done : done + len(expected)])
        done += len(expected)
        plans.append(plan)
    return plans


@pytest.mark.parametrize("case", READ, ids=named)
def test_questions_are_answered_as_they_were(case: RecordedRequest) -> None:
    """Read requests get the recorded responses and write no record."""
    assert is_recorded_answer(
        answer(ReadInputs(case.state(case.worker), plugins_of(case.history)), case.step.path), case
    )
    assert of_config(case.written_entries()) == []


@pytest.mark.parametrize("number", [2, 3, 6, 31])
async def test_a_transaction_is_a_step(number: int) -> None:
    """A gap in the offsets, a transaction marker, begins the next step of a plan."""
    request = next(request for request in ASKED if named(request) == f"exactly-once-3.9-{number}")
    configs = [entry for entry in request.written_entries() if entry.topic == TOPICS.config]
    first = await planned(request, *understood(request))
    rest = await followed(request, configs, len(drafts_of(first)))
    steps = [step for plan in (first, *rest) for step in plan.steps]
    offsets = [entry.offset for entry in configs]
    began = [offset for offset in offsets if offset - 1 not in offsets]
    lengths = [len(step.records) for step in steps if step.records]
    assert began == [offsets[sum(lengths[:n])] for n in range(len(lengths))]


def test_every_request_is_accounted_for() -> None:
    """285 of 290 requests are exact, and so are all 17 read requests."""
    assert (len(ASKED), len(READ)) == (290, 17)
    assert EXCEPTIONS.keys() <= {(request.history, request.step.n) for request in ASKED}
    assert len(EXCEPTIONS) == 5


@pytest.mark.parametrize("lost", [b"connector-pages", b"task-pages-1", b"commit-pages"])
async def test_a_lost_record_is_noticed(lost: bytes) -> None:
    """Without one of the four records of a creation the comparison fails."""
    request = next(request for request in ASKED if named(request) == "life-3.9-6")
    (missing,) = [entry for entry in request.written_entries() if entry.key == lost]
    entries = [entry for entry in request.entries if entry is not missing]
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        await test_requests_are_answered_and_written_as_they_were(request._replace(entries=entries))
