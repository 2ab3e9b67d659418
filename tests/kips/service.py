"""A control plane with requests as over HTTP: request → command → outcome → answer.

Its log is that of a small cluster, as workers have written it. `orders` is a source with two
running tasks, `sales` a sink with one. No worker runs here: `write_foreign` writes the records that
workers would report.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from controlplane.controller import StepListener
from controlplane.core.commands import AnyCommand
from controlplane.core.entry import Position
from controlplane.core.plan import AnyAction, Plan
from controlplane.core.releases.profiles import KIP, Profile
from controlplane.core.state import ClusterState
from controlplane.logs.log import Log, LogUnavailable, Record
from controlplane.logs.memory import MemoryLog
from controlplane.plane import ControlPlane, Refusal, Settings
from controlplane.plugins import catalogued
from controlplane.rest.endpoints.pure_requests import answer, command_of
from controlplane.rest.endpoints.reads import ReadInputs
from controlplane.rest.endpoints.writes import CompletedCommand, answer_to
from controlplane.rest.errors import Answer, RestError, refused
from controlplane.scenario.world import ConsumerGroups
from tests.controller.scene import COMMANDS, CONFIG, OFFSETS, STATUS, plane_on, raw, written_texts
from tests.patience import PATIENCE_S

SOURCE, SURE_SOURCE, FUSSY_SOURCE, SINK = "lab.Source", "lab.Sure", "lab.Fussy", "lab.Sink"

_CATALOGUE: list[dict[str, str]] = [
    {"class": SOURCE, "type": "source"},
    {"class": SURE_SOURCE, "type": "source", "alter_offsets": "accepts"},
    {"class": FUSSY_SOURCE, "type": "source", "alter_offsets": "as FileStreamSourceConnector"},
    {"class": SINK, "type": "sink"},
]
PLUGINS = catalogued(msgspec.json.encode(_CATALOGUE))
"""Three sources and a sink.

One source has no declared hook, one has a hook that accepts all, and one checks the offsets.
"""

SOURCE_CONFIG = {"connector.class": SOURCE, "tasks.max": "2"}
OWN = {**SOURCE_CONFIG, "offsets.storage.topic": "own"}
SINK_CONFIG = {"connector.class": SINK, "tasks.max": "1", "topics": "t"}

Body = dict[str, Any] | list[Any] | None
Fields = dict[str, Any]


class Beyond(ConsumerGroups):
    """Simulated consumer groups and workers, which record the requested actions."""

    def __init__(self) -> None:
        super().__init__()
        self.performed: list[AnyAction] = []

    async def perform(self, action: AnyAction) -> None:
        """Perform an action and append it to `performed`."""
        await super().perform(action)
        self.performed.append(action)


class RefusingLog(MemoryLog):
    """A log that refuses an append with a record for which `refuses` is true."""

    def __init__(self) -> None:
        super().__init__()
        self.refuses: Callable[[Record], bool] | None = None

    async def append(
        self, records: Sequence[Record], epoch: int | None = None
    ) -> Sequence[Position]:
        """Append records, or raise LogUnavailable if one of them is to be refused."""
        if self.refuses is not None and any(map(self.refuses, records)):
            raise LogUnavailable("it is away")
        return await super().append(records, epoch)


class AskedService:
    """Control plane with its HTTP interface. `beyond` records the actions outside of the log."""

    def __init__(
        self, plane: ControlPlane, log: Log, settings: Settings, beyond: ConsumerGroups
    ) -> None:
        self._plane = plane
        self._log = log
        self._profile = Profile.of(settings.profile)
        self._tracks_topics = settings.worker.topic_tracking_enable
        self.beyond = beyond

    @property
    def state(self) -> ClusterState:
        """Published state of the control plane."""
        return self._plane.state

    @property
    def reset_status(self) -> int:
        """Status of the answer to a reset: 204 in the KIP, 200 in releases."""
        return 204 if self._profile.release == KIP else 200

    async def ask(
        self, method: str, target: str, body: Body = None, *, signed: bool = False
    ) -> Answer:
        """Return the answer to a request with a JSON body; `signed`: another worker sends it."""
        if method == "GET":
            reading = ReadInputs(self.state, PLUGINS, tracks_topics=self._tracks_topics)
            return answer(reading, target)
        try:
            command = self._command(method, target, body, signed=signed)
            outcome = await self._plane.execute(command)
        except RestError as error:
            return error.answer()
        except Refusal as refusal:
            return refused(refusal.rejected).answer()
        return answer_to(CompletedCommand(command, outcome, self.state, self._profile, PLUGINS))

    async def status_and_message(
        self, method: str, target: str, body: Body = None
    ) -> tuple[int, Any]:
        """Return status and error message, or the whole body of a success ("": none)."""
        got = await self.ask(method, target, body)
        is_error = isinstance(got.body, dict) and "error_code" in got.body
        return got.status, got.body["message"] if is_error else got.body

    async def shows(self, target: str) -> Any:
        """JSON body of a GET, which must succeed."""
        status, body = await self.status_and_message("GET", target)
        assert status == 200, body
        return body

    async def plan(self, method: str, target: str, body: Body = None) -> Plan:
        """The plan of a request that can be fulfilled."""
        plan = await self._plane.plan(self._command(method, target, body))
        assert isinstance(plan, Plan), plan
        return plan

    async def write_foreign(self, *records: Record) -> None:
        """Append records as a foreign writer, and wait until the service has read them."""
        ends = {(at.topic, at.partition): at.offset + 1 for at in await self._log.append(records)}
        async with asyncio.timeout(PATIENCE_S):
            # A record without effect causes no event, so the test waits for the read position.
            while any(self.state.ends.get(at, 0) < end for at, end in ends.items()):  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    async def holds(self, topic: str) -> list[tuple[str, str | None]]:
        """Keys and values of everything in a topic."""
        return await written_texts(self._log, topic)

    async def everything(self) -> list[tuple[str, str | None]]:
        """Keys and values of everything in Connect's own topics."""
        return await written_texts(self._log, CONFIG, OFFSETS, STATUS)

    def _command(self, method: str, target: str, body: Body, *, signed: bool = False) -> AnyCommand:
        sent = None if body is None else msgspec.json.encode(body)
        return command_of(method, target, sent, self._profile, signed=signed)


@asynccontextmanager
async def serving(
    log: Log,
    release: str = KIP,
    beyond: ConsumerGroups | None = None,
    stepped: StepListener | None = None,
    **settings: Any,
) -> AsyncIterator[AskedService]:
    """Serve a log with a control plane of a release."""
    outside = beyond or Beyond()
    plane_settings = Settings(profile=release, **settings)
    around = {"plugins": PLUGINS, "outside": outside, "stepped": stepped}
    async with plane_on(log, plane_settings, **around) as plane:
        yield AskedService(plane, log, plane_settings, outside)


async def log_of(*records: Record, log: MemoryLog | None = None) -> MemoryLog:
    """A log with Connect's topics, each of one partition, and these records."""
    log = log or MemoryLog()
    topics = {record.topic for record in records}
    for topic in (CONFIG, OFFSETS, STATUS, COMMANDS, *topics):
        await log.create_topic(topic, 1)
    await log.append(records)
    return log


async def running(*records: Record) -> MemoryLog:
    """The log of the small cluster, followed by more records."""
    return await log_of(*ORDERS, *SALES, *records)


# --- what workers write -------------------------------------------------------------------------


def configured(name: str, config: Fields) -> Record:
    """Return the record of a connector config."""
    return raw(CONFIG, f"connector-{name}", _json({"properties": {**config, "name": name}}))


def published(name: str, *configs: Fields) -> list[Record]:
    """A task set with its commit."""
    tasks = [
        raw(CONFIG, f"task-{name}-{number}", _json({"properties": config}))
        for number, config in enumerate(configs)
    ]
    return [*tasks, raw(CONFIG, f"commit-{name}", _json({"tasks": len(configs)}))]


def target_state(name: str, **state: str) -> Record:
    """A target state: its value's fields, `v2` for `state.v2`."""
    spelled = {"state.v2" if key == "v2" else key: value for key, value in state.items()}
    return raw(CONFIG, f"target-state-{name}", _json(spelled))


def reported(name: str, state: str | None, task: int | None = None) -> Record:
    """A status record of a connector or of one of its tasks; None: a tombstone."""
    key = f"status-connector-{name}" if task is None else f"status-task-{name}-{task}"
    status = {
        "state": state,
        "trace": None,
        "worker_id": "w:8083",
        "generation": 1,
        "version": None,
    }
    return raw(STATUS, key, None if state is None else _json(status))


def used(name: str, topic: str, task: int | None = 0) -> Record:
    """Record that a task has used a topic; without a task it is a tombstone."""
    topic_use = {"name": topic, "connector": name, "task": task, "discoverTimestamp": 1579297899}
    key = f"status-topic-{topic}:connector-{name}"
    return raw(STATUS, key, None if task is None else _json({"topic": topic_use}))


def came_to(name: str, partition: Fields, offset: Fields | None, topic: str = OFFSETS) -> Record:
    """Return the record of a committed source offset; None: a tombstone."""
    value = None if offset is None else _json(offset)
    return raw(topic, _json([name, partition]), value)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


ORDERS = (
    configured("orders", SOURCE_CONFIG),
    *published("orders", {"table": "a"}, {"table": "b"}),
    reported("orders", "RUNNING"),
    reported("orders", "RUNNING", 0),
    reported("orders", "RUNNING", 1),
    used("orders", "t", 0),
    used("orders", "u", 1),
    came_to("orders", {"table": "a"}, {"pos": 41}),
    came_to("orders", {"table": "b"}, {"pos": 7}),
)
SALES = (
    configured("sales", SINK_CONFIG),
    *published("sales", {"topics": "t"}),
    reported("sales", "RUNNING"),
    reported("sales", "RUNNING", 0),
    used("sales", "t", 0),
)
