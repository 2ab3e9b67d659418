"""Replay of a recorded cluster's life by a worker that runs connectors.

Each request is sent to the REST API. Then the worker gets time to write the records that the
cluster wrote. The comparison of the next step finds records that our worker writes later.
"""

import asyncio
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from typing import NamedTuple, Self

import httpx
from msgspec.structs import replace

from controlplane.core.entry import Entry, Position, TopicPartition
from controlplane.core.order import before, entries_of, in_order
from controlplane.logs.dumps import read_dump
from controlplane.logs.memory import MemoryLog
from controlplane.plane import ControlPlane, Settings, Surroundings
from controlplane.scenario.story import RecordedAnswer, StoryStep, read_story, same
from controlplane.worker.factory import RuntimeEnvironment
from controlplane.worker.settings import RuntimeSettings
from controlplane.worker.worker import ConnectWorker
from tests.patience import PATIENCE_S
from tests.recorded_requests import HISTORIES, body_of, plugins_of, recorded_entries
from tests.rest.stories import EXACTLY_ONCE, recorded_form
from tests.worker.history_records import TOPICS, values_by_key, without_stacks
from tests.worker.recorded_connectors import recorded_classes
from tests.worker.recorded_mirrors import MirrorHeartbeatTask
from tests.worker.worker_fixture import QUICK

JSON = "org.apache.kafka.connect.json.JsonConverter"
WORKER_IDS = {"w1": "127.0.0.1:8083", "w2": "127.0.0.1:8084"}
ORDERS = "one\ntwo\nthree\n"
"""File of the source of lines: 14 bytes, as the recorded offset says."""
POLL_S = 0.005


GRACE_MS = 4_000
"""Graceful time-out of tasks, long enough to compare an episode on a busy machine."""


class Episode(NamedTuple):
    """A step that changes something, and the observations until the next one."""

    step: StoryStep
    observations: Sequence[StoryStep]
    recorded: Sequence[Entry]
    """Records of the cluster, in order."""


def episodes(history: str, *, until: int | None = None) -> Iterator[Episode]:
    """Episodes of a story, up to a step."""
    steps = read_story(HISTORIES / f"{history}.story.jsonl")
    steps = [step for step in steps if until is None or step.n <= until]
    entries, positions = recorded_entries(history), set[Position]()
    starts = [index for index, step in enumerate(steps) if step.kind != "observe"]
    for start, end in zip(starts, [*starts[1:], len(steps)], strict=True):
        written = before(entries, steps[end - 1].positions)
        recorded = [entry for entry in written if entry.position not in positions]
        positions |= {entry.position for entry in recorded}
        yield Episode(steps[start], steps[start + 1 : end], recorded)


class Tolerance(NamedTuple):
    """Differences that an episode may have."""

    sent: bool = True
    """False: the request is not sent; the cluster's records are copied."""
    answers: Container[str] = ()
    """Paths whose answers are not awaited."""
    additional_keys: Container[str] = ()
    """Keys of records that our worker alone writes."""
    missing_keys: Container[str] = ()
    """Keys of records that the cluster alone wrote."""


class LivedEpisode(NamedTuple):
    """Episode, and what our worker did in it."""

    episode: Episode
    tolerance: Tolerance
    ours: list[Entry]
    """Records of our worker, in order."""
    differences: list[str]
    """Paths of the answers that differ."""

    @property
    def unequal(self) -> list[str]:
        """Keys with different values, and the values."""
        recorded, ours = values_by_key(self.episode.recorded), values_by_key(self.ours)
        tolerated = {
            place for place in ours.keys() - recorded if place[1] in self.tolerance.additional_keys
        } | {place for place in recorded.keys() - ours if place[1] in self.tolerance.missing_keys}
        return [
            f"{place[1]}: {ours.get(place)}, not {recorded.get(place)}"
            for place in sorted({*recorded, *ours} - tolerated)
            if recorded.get(place) != ours.get(place)
        ]

    @property
    def missing_keys(self) -> set[str]:
        """Tolerated keys of cluster records that our worker did not write."""
        keys = {
            key for _, key in values_by_key(self.episode.recorded).keys() - values_by_key(self.ours)
        }
        return {key for key in keys if key in self.tolerance.missing_keys}

    @property
    def additional_keys(self) -> set[str]:
        """Keys of tolerated additional records."""
        return {key for _, key in values_by_key(self.ours) if key in self.tolerance.additional_keys}


class HistoryLife:
    """Worker on a log in memory, up to a step of a history."""

    def __init__(self, history: str, folder: Path) -> None:
        self._history, self._folder = history, folder
        self._topics = dict(read_dump(HISTORIES / f"{history}.log.jsonl").about["end"])
        self._compared: dict[TopicPartition, int] = {}
        """Ends of our log, up to which its records have been compared."""
        self._log = MemoryLog()
        self._clock = count(1_795_215_000_000)
        self._workers = AsyncExitStack()
        self._plane: ControlPlane | None = None
        """The control plane of the worker that runs."""
        self._client: httpx.AsyncClient
        (folder / "orders.txt").write_text(ORDERS)

    async def __aenter__(self) -> Self:
        MirrorHeartbeatTask.released.clear()
        for topic in (TOPICS.config, TOPICS.offsets, TOPICS.status):
            await self._log.create_topic(topic, len(self._topics[topic]))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._workers.aclose()
        MirrorHeartbeatTask.released.set()

    async def live(self, episode: Episode, tolerance: Tolerance) -> LivedEpisode:
        """Repeat one episode with the worker."""
        lived, step = LivedEpisode(episode, tolerance, [], []), episode.step
        if step.kind == "start":
            await self._start(step)
        elif step.kind == "stop":
            self._plane = None
            await self._workers.aclose()
        elif step.kind == "request" and tolerance.sent:
            answer = RecordedAnswer(step.status, step.answer)
            lived.differences.extend(await self._differences(step, step.path, answer))
        elif step.kind != "kill":
            await self._take_over(episode.recorded)
        await self._until_same(lived)
        for observation in episode.observations:
            for path, answer in observation.answers.items():
                patient = path not in tolerance.answers
                lived.differences.extend(
                    await self._differences(observation, path, answer, patient=patient)
                )
        return lived

    async def _start(self, step: StoryStep) -> None:
        """Start a worker, and then close a killed one, which the new claim has fenced."""
        killed, self._workers = self._workers, AsyncExitStack()
        assert step.worker is not None
        assert step.release is not None
        exactly_once = (self._history, step.worker) in EXACTLY_ONCE
        environment = RuntimeEnvironment(
            recorded_classes(self._folder, step.release), _runtime(step.worker, exactly_once)
        )
        settings = Settings(profile=step.release, exactly_once=exactly_once)
        around = Surroundings(plugins=plugins_of(self._history), now_ms=lambda: next(self._clock))
        worker = await self._workers.enter_async_context(
            ConnectWorker.open(self._log, environment, settings, around)
        )
        self._plane = worker.plane
        await killed.aclose()
        transport = httpx.ASGITransport(worker.plane.app)
        base_url = f"http://connect/compat/{step.release}"
        self._client = httpx.AsyncClient(transport=transport, base_url=base_url)
        await self._workers.enter_async_context(self._client)

    async def _take_over(self, recorded: Sequence[Entry]) -> None:
        """Append to our log, at its ends, recorded records that our worker does not write."""
        for entry in recorded:
            ends = await self._log.ends([entry.topic])
            end = ends[entry.topic][entry.partition]
            await self._log.put([replace(entry, offset=end, timestamp=next(self._clock))])

    async def _until_same(self, lived: LivedEpisode) -> None:
        """Wait, for a bounded time, until the worker has written the cluster's records."""
        deadline = asyncio.get_running_loop().time() + PATIENCE_S
        while lived.unequal and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(POLL_S)
            lived.ours[:] = await self._uncompared_entries()
        await self._until_folded(lived.ours)
        self._compared |= {(entry.topic, entry.partition): entry.offset + 1 for entry in lived.ours}

    async def _until_folded(self, entries: Iterable[Entry]) -> None:
        """Wait until the running worker has folded its log; it answers the next request."""
        if self._plane is not None:
            followed = {TOPICS.config, TOPICS.offsets, TOPICS.status}
            positions = [entry.position for entry in entries if entry.topic in followed]
            await self._plane.follower.wait_for_records(positions)

    async def _uncompared_entries(self) -> list[Entry]:
        present = await self._log.topics()
        starts = {
            topic: [self._compared.get((topic, number), 0) for number in range(present[topic])]
            for topic in self._topics
            if topic in present
        }
        return in_order(entries_of([batch async for batch in self._log.read(starts, start=starts)]))

    async def _differences(
        self, step: StoryStep, path: str, recorded: RecordedAnswer, *, patient: bool = True
    ) -> list[str]:
        """List with the path if our answer differs; a read is repeated until it agrees."""
        deadline = asyncio.get_running_loop().time() + PATIENCE_S
        while not _agree(recorded, await self._answer(step, path)):
            is_read = step.kind == "observe" or step.method == "GET"
            if not (is_read and patient) or asyncio.get_running_loop().time() > deadline:
                return [path]
            await asyncio.sleep(POLL_S)
        return []

    async def _answer(self, step: StoryStep, path: str) -> RecordedAnswer:
        body = body_of(step)
        headers = {} if body is None else {"content-type": "application/json"}
        method = step.method or "GET"
        response = await self._client.request(method, path, content=body, headers=headers)
        return recorded_form(response)


def _runtime(worker: str, exactly_once: bool) -> RuntimeSettings:
    return replace(
        QUICK,
        worker_id=WORKER_IDS[worker],
        exactly_once=exactly_once,
        task_shutdown_graceful_timeout_ms=GRACE_MS,
        key_converter=JSON,
        value_converter=JSON,
    )


def _agree(recorded: RecordedAnswer, ours: RecordedAnswer) -> bool:
    return same(
        replace(recorded, answer=without_stacks(recorded.answer)),
        replace(ours, answer=without_stacks(ours.answer)),
    )
