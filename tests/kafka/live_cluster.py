"""Connect worker and a service beside it, whose answers a test compares at quiet points."""

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import httpx

from controlplane.logs.kafka.reads.reader import KafkaReader
from controlplane.scenario.story import RecordedAnswer, same
from tests.cli.running_service import running
from tests.kafka.real_kafka import Broker, KafkaWorker
from tests.patience import PATIENCE_S

TOPICS = ("connect-configs", "connect-offsets", "connect-status")

QUIET_S = 0.6
"""Seconds without writes after which topics are quiet; a task flushes offsets every 0.2 s."""

PAUSE_S = 0.1
"""Pause between two requests to a worker that has not finished."""

TRIES = 60
"""Number of quiet points at which answers may differ before `ComparedWorker.agree` fails."""

BUSY = (httpx.codes.CONFLICT, httpx.codes.INTERNAL_SERVER_ERROR)
"""Statuses of a rebalancing worker; the request can be sent again."""

CATALOGUE = "/connector-plugins?connectorsOnly=false"


@asynccontextmanager
async def serving(broker: Broker, worker: KafkaWorker) -> AsyncIterator[httpx.AsyncClient]:
    """Client of a service that has read the topics; it knows the worker only through files."""
    catalogue = worker.directory / "plugins.json"
    catalogue.write_bytes((await worker.rest.get(CATALOGUE)).content)
    words = (f"kafka://{broker.bootstrap}", "--follow", "--quiet", "--dialect", worker.release)
    files = ("--plugins", str(catalogue), "--worker-properties", str(worker.config))
    async with running(*words, *files) as service:
        async with httpx.AsyncClient(base_url=service.url, timeout=PATIENCE_S) as rest:
            yield rest
        code, printed = await service.end(signal.SIGTERM)
    assert code == 0, printed


class ComparedWorker:
    """Worker, and the service whose answers must equal the worker's while the topics are quiet."""

    def __init__(
        self, worker: KafkaWorker, service: httpx.AsyncClient, reader: KafkaReader
    ) -> None:
        self.worker = worker
        self.compared = 0
        self.more_paths: tuple[str, ...] = ()
        """Further paths that both must answer alike."""
        self._agreed: dict[str, RecordedAnswer] = {}
        """Answers at the last quiet point, by path."""
        self._service = service
        self._reader = reader

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request to the worker, again while it rebalances; return the successful answer."""
        answer = await self.answer(method, path, body)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    async def answer(self, method: str, path: str, body: Any = None) -> httpx.Response:
        """Send a request to the worker, again while it rebalances; return any other answer."""

        async def sent() -> httpx.Response | None:
            answer = await self.worker.rest.request(method, path, json=body)
            return None if answer.status_code in BUSY else answer

        answer: httpx.Response = await self._asked_until(sent, lambda got: got is not None, path)
        return answer

    async def until(self, path: str, is_right: Callable[[Any], bool]) -> None:
        """Repeat a request to the worker until the answer is right."""
        await self._asked_until(lambda: _get(self.worker.rest, path), is_right, path)

    async def _asked_until(
        self, ask: Callable[[], Awaitable[Any]], is_right: Callable[[Any], bool], about: str
    ) -> Any:
        got: Any = None
        for _ in range(round(PATIENCE_S / PAUSE_S)):
            got = await ask()
            if is_right(got):
                return got
            await asyncio.sleep(PAUSE_S)
        raise AssertionError(f"{about} is still {got}\n{self.worker.printed}")

    async def agree(self) -> None:
        """Send all reads to both at a quiet point, and compare the answers.

        A worker does not report that it is idle. Quiet topics may also mean that it has not begun:
        its answers can then be ahead of the log. On a busy machine that lasts for seconds, so the
        reads are repeated until both sides stand still.
        """
        different: dict[str, tuple[RecordedAnswer, RecordedAnswer]] = {}
        for _ in range(TRIES):
            await self._quiet()
            paths = [*await self._paths_of(self.worker.rest), *self.more_paths]
            theirs, ours = await asyncio.gather(
                _answers(self.worker.rest, paths), _answers(self._service, paths)
            )
            different = _differences(theirs, ours)
            if not different:
                self.compared += len(paths)
                self._agreed = ours
                return
        raise AssertionError("\n".join(f"{path}: {both}" for path, both in different.items()))

    async def same_cluster(self) -> None:
        """Both report the same cluster id and the same release."""
        theirs, ours = [await _get(rest, "/") for rest in (self.worker.rest, self._service)]
        for field in ("kafka_cluster_id", "version"):
            assert ours[field] == theirs[field]

    async def still_answers(self) -> None:
        """The service answers as at the last quiet point, also while its log is unavailable."""
        assert self._agreed
        ours = await _answers(self._service, list(self._agreed))
        assert _differences(self._agreed, ours) == {}

    async def _quiet(self) -> None:
        """Wait until the topics have not grown for `QUIET_S` seconds."""
        before, ends = None, await self._reader.ends(TOPICS)
        for _ in range(round(PATIENCE_S / QUIET_S)):
            if ends == before:
                return
            await asyncio.sleep(QUIET_S)
            before, ends = ends, await self._reader.ends(TOPICS)
        raise AssertionError(f"the topics never stop growing: {before}, {ends}")

    async def _paths_of(self, rest: httpx.AsyncClient) -> list[str]:
        """Paths of every read endpoint, for each connector and for a missing one."""
        paths = ["/connectors", "/connectors?expand=status&expand=info"]
        everything = await _get(rest, paths[-1]) or {}
        for name, expansion in {**everything, "nobody": {}}.items():
            info, status = expansion.get("info", {}), expansion.get("status", {})
            stem = f"/connectors/{quote(name, safe='')}"
            paths += [stem + end for end in ("", "/config", "/tasks", "/status", "/topics")]
            paths += [f"{stem}/tasks/{task['id']}/status" for task in status.get("tasks", [])]
            paths += [f"{stem}/tasks-config", f"{stem}/tasks/7/status"]
            # Offsets of a sink lie in its consumer group, which is no topic of Connect's.
            paths += [f"{stem}/offsets"] * (info.get("type") != "sink")
        return paths


async def _get(rest: httpx.AsyncClient, path: str) -> Any:
    """Successful answer; None for any other."""
    answer = await rest.get(path)
    return answer.json() if answer.is_success else None


async def _answers(rest: httpx.AsyncClient, paths: list[str]) -> dict[str, RecordedAnswer]:
    return {path: await _recorded_answer(rest, path) for path in paths}


def _differences(
    expected: Mapping[str, RecordedAnswer], actual: Mapping[str, RecordedAnswer]
) -> dict[str, tuple[RecordedAnswer, RecordedAnswer]]:
    """Both answers of each path for which they differ."""
    return {
        path: (answer, actual[path])
        for path, answer in expected.items()
        if not same(answer, actual[path])
    }


async def _recorded_answer(rest: httpx.AsyncClient, path: str) -> RecordedAnswer:
    answer = await rest.get(path)
    is_json = answer.headers.get("content-type") == "application/json"
    return RecordedAnswer(answer.status_code, answer.json() if is_json else None)
