"""Replay of recorded histories: a control plane of ours gets the recorded requests over HTTP.

The replay's log grows like the recorded one. Our control plane writes the records of each request.
The replay copies all other records from the recording, as a foreign writer. They are statuses, task
sets, offsets and records that were injected. A new control plane starts on this log whenever a
worker of the history starts.
"""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import NamedTuple, Self
from urllib.parse import unquote

import httpx
from msgspec.structs import replace

from controlplane.core.entry import Entry, Position
from controlplane.core.order import Ends, before, entries_of, in_order
from controlplane.core.state import Topics
from controlplane.logs.dumps import read_dump
from controlplane.logs.memory import MemoryLog
from controlplane.plane import ControlPlane, Settings, Surroundings
from controlplane.scenario.story import RecordedAnswer, StoryStep, same
from tests.recorded_requests import HISTORIES, body_of, plugins_of, recorded_entries
from tests.rest.broker import SimulatedBroker

EXACTLY_ONCE = {("exactly-once-3.9", "w1"), ("exactly-once-3.9", "w2"), ("aborted-3.9", "w2")}
"""Workers that ran with exactly-once support."""

NINETY_SECONDS = "removals with an own offsets topic and exactly-once support hang in Kafka"
NO_LOG4J = "the worker ran without log4j-core and could set no logger level at all"
OLD_LEADER = "the leader was of an older release, which does not know the request"

EXCEPTIONS: Mapping[tuple[str, int], str] = {
    ("exactly-once-3.9", 21): NINETY_SECONDS,
    ("exactly-once-3.9", 23): NINETY_SECONDS,
    ("life-4.3", 99): NO_LOG4J,
    ("life-4.3", 100): NO_LOG4J,
    ("roll-3.4-3.9-3.4", 13): OLD_LEADER,
}
"""Requests that get other answers here, with the reason.

A replay copies the recorded records of such a request instead of sending it.
"""


class ComparedAnswer(NamedTuple):
    """The recorded answer and ours to one path, at a step of a history."""

    step: StoryStep
    path: str
    recorded: RecordedAnswer
    ours: RecordedAnswer
    location: str | None = None
    """Location header of our answer; None without one."""
    unrecorded: tuple[Entry, ...] = ()
    """Records that our control plane wrote, and the cluster did not."""

    @property
    def agrees(self) -> bool:
        """True if both answers are equal. A `Location` has to lead to the same name."""
        located = _name_in(self.step.location) == _name_in(self.location)
        return located and same(self.recorded, self.ours)


class HistoryReplay:
    """A control plane and its log, at the current step of a history."""

    def __init__(self, history: str) -> None:
        self._history = history
        self._releases: dict[str, str] = {}
        self._planes = AsyncExitStack()
        self._now_ms = 0
        self._log = MemoryLog()
        self._entries = recorded_entries(history)
        self._present_positions: set[Position] = set()
        """Positions of the recorded entries that the replay's log holds."""
        self._broker = SimulatedBroker()
        self._compacted = False
        """True from a compaction of the cluster's log until the next worker starts."""

    async def __aenter__(self) -> Self:
        await self._make_topics()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._planes.aclose()

    async def take(self, step: StoryStep, *, sent: bool = True) -> list[ComparedAnswer]:
        """Replay one step; a request that is not `sent` still leaves its recorded records."""
        self._now_ms = max(self._now_ms, step.at_ms)
        answers: list[ComparedAnswer] = []
        if step.kind == "request" and sent:
            await self._reach(step.before)
            answers.append(await self._request(step))
        self._compacted |= step.kind == "compacted"
        if step.kind == "start":
            await self._start(step)
        else:
            await self._reach(step.positions)
        if step.kind == "observe":
            self._consume(step)
            answers += [await self._observed(step, path) for path in step.answers]
        return answers

    # --- events of the cluster --------------------------------------------------------------------

    async def _start(self, step: StoryStep) -> None:
        """Open a new control plane, with the settings of the worker that starts."""
        assert step.worker is not None
        assert step.release is not None
        await self._planes.aclose()
        if self._compacted:
            await self._compact()
        await self._write_missing(step.positions)
        self._releases[step.worker] = step.release
        around = Surroundings(
            plugins=plugins_of(self._history), outside=self._broker, now_ms=lambda: self._now_ms
        )
        settings = Settings(exactly_once=(self._history, step.worker) in EXACTLY_ONCE)
        plane = ControlPlane.open(self._log, settings, around)
        self._plane = await self._planes.enter_async_context(plane)
        transport = httpx.ASGITransport(self._plane.app)
        client = httpx.AsyncClient(transport=transport, base_url="http://connect")
        self._client = await self._planes.enter_async_context(client)

    async def _compact(self) -> None:
        """Continue with the compacted log: a starting worker reads no other records."""
        self._compacted = False
        self._entries = recorded_entries(self._history, compacted=True)
        self._present_positions, self._log = set(), MemoryLog()
        await self._make_topics()

    async def _make_topics(self) -> None:
        dump = read_dump(HISTORIES / f"{self._history}.log.jsonl")
        for topic, ends in dump.about["end"].items():
            await self._log.create_topic(topic, len(ends))

    async def _reach(self, positions: Ends) -> None:
        """Write the missing recorded records up to these ends; let the control plane read them."""
        await self._plane.follower.wait_for_records(await self._write_missing(positions))

    async def _write_missing(self, positions: Ends) -> list[Position]:
        """Write the recorded records before these ends that the log lacks, in recorded order."""
        until = before(self._entries, positions)
        missing = [entry for entry in until if entry.position not in self._present_positions]
        self._present_positions |= {entry.position for entry in missing}
        written = []
        for entry in missing:
            ends = await self._log.ends([entry.topic])
            moved = replace(entry, offset=ends[entry.topic][entry.partition])
            await self._log.put([moved])
            written.append(moved.position)
        return written

    def _consume(self, step: StoryStep) -> None:
        """Commit the recorded offsets of running sinks to the broker: no log holds them."""
        for name in self._plane.state.config.connectors:
            status = step.answers.get(f"/connectors/{name}/status")
            offsets = step.answers.get(f"/connectors/{name}/offsets")
            if status is None or offsets is None or not _is_running_sink(status):
                continue
            for entry in offsets.answer.get("offsets", []):
                topic = entry["partition"]["kafka_topic"]
                self._broker.ends[topic] = entry["offset"]["kafka_offset"]
                self._broker.consume(f"connect-{name}", topic)

    # --- requests ---------------------------------------------------------------------------------

    async def _request(self, step: StoryStep) -> ComparedAnswer:
        """Send a request, and match its records with the recorded ones."""
        topics = [topic for topic in await self._log.topics() if topic != Topics().commands]
        begin = await self._log.ends(topics)
        response = await self._ask(step, step.method, step.path, body_of(step))
        batches = [batch async for batch in self._log.read(topics, start=begin)]
        unrecorded = self._recognize(step, in_order(entries_of(batches)))
        recorded, location = (
            RecordedAnswer(step.status, step.answer),
            response.headers.get("location"),
        )
        return ComparedAnswer(
            step, step.path, recorded, recorded_form(response), location, unrecorded
        )

    def _recognize(self, step: StoryStep, written: list[Entry]) -> tuple[Entry, ...]:
        """Match written and recorded records of equal bytes; return the unmatched written ones."""
        until = before(self._entries, step.positions)
        left = [entry for entry in until if entry.position not in self._present_positions]
        unrecorded = []
        for entry in written:
            same = (candidate for candidate in left if _content(candidate) == _content(entry))
            match = next(same, None)
            if match is None:
                unrecorded.append(entry)
            else:
                left.remove(match)
                self._present_positions.add(match.position)
        return tuple(unrecorded)

    async def _observed(self, step: StoryStep, path: str) -> ComparedAnswer:
        response = await self._ask(step, "GET", path)
        return ComparedAnswer(step, path, step.answers[path], recorded_form(response))

    async def _ask(
        self, step: StoryStep, method: str, path: str, body: bytes | None = None
    ) -> httpx.Response:
        assert step.worker is not None
        return await self._client.request(
            method,
            f"/compat/{self._releases[step.worker]}{path}",
            content=body,
            headers={} if body is None else {"content-type": "application/json"},
        )


def _is_running_sink(status: RecordedAnswer) -> bool:
    shown = status.answer
    return bool(shown.get("type") == "sink" and shown["connector"]["state"] == "RUNNING")


def _content(entry: Entry) -> tuple[str, int, bytes | None, bytes | None]:
    return entry.topic, entry.partition, entry.key, entry.value


def _name_in(location: str | None) -> str | None:
    """The name at the end of a `Location`; Kafka does not always encode it."""
    return None if location is None else unquote(location.partition("/connectors/")[2])


def recorded_form(response: httpx.Response) -> RecordedAnswer:
    """An answer in the form of recorded ones: the body is JSON, text, or nothing."""
    if not response.text:
        return RecordedAnswer(response.status_code, None)
    is_json = response.text.startswith(("{", "["))
    return RecordedAnswer(response.status_code, response.json() if is_json else response.text)
