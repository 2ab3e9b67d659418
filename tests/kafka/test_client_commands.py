"""Client commands against real workers: what workers support, and what they lack."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self

import pytest
import pytest_asyncio

from controlplane.core.state import Topics
from tests.client.client_calls import ClusterCalls
from tests.conftest import sampled
from tests.kafka.conftest import RELEASES, up
from tests.kafka.real_kafka import Broker, KafkaWorker, cluster_settings
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.java, pytest.mark.broker, pytest.mark.asyncio(loop_scope="module")]

SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
LINES = "one\ntwo\nthree\n"


def own_names(release: str) -> dict[str, Any]:
    """Names for a cluster beside the others of the broker."""
    topics = ("configs", "offsets", "status")
    return cluster_settings(Topics(*(f"{release}-{part}" for part in topics)))


class AsyncCommands:
    """Client commands in a thread beside the event loop."""

    def __init__(self, cluster: ClusterCalls, broker: Broker) -> None:
        self.cluster = cluster
        self.broker = broker

    async def output(self, *words: object, **environment: str) -> str:
        """Run a command that must succeed; return its output."""
        return await asyncio.to_thread(lambda: self.cluster.output(*words, **environment))

    async def refused(self, *words: object) -> str:
        """Run a command that must be refused; return its error."""
        return await asyncio.to_thread(lambda: self.cluster.refused(*words))

    async def position(self) -> int | None:
        """Number of bytes that the source has read."""
        offsets = json.loads(await self.output("offsets", "orders", "-o", "json"))["offsets"]
        return int(offsets[0]["offset"]["position"]) if offsets else None

    async def reads_to(self, position: int) -> None:
        """Wait until the source has read up to this position."""
        async with asyncio.timeout(PATIENCE_S):
            while await self.position() != position:  # noqa: ASYNC110 - no event reports it
                await asyncio.sleep(0.2)


class SharedWorkers:
    """Workers of this module's tests: one cluster per release, all on one broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._workers: dict[str, AsyncCommands] = {}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *why: object) -> None:
        await self._stack.aclose()

    async def commands(self, release: str) -> AsyncCommands:
        """Commands for a worker without connectors, with files of a source and a sink."""
        if release not in self._workers:
            self._workers[release] = await self._started(release)
        ask = self._workers[release]
        await ask.output("delete", "--all", "--yes", "--wait")
        return ask

    async def _started(self, release: str) -> AsyncCommands:
        names = {} if release == RELEASES[0] else own_names(release)
        starting = KafkaWorker(release, self._broker, **names)
        worker = await self._stack.enter_async_context(starting)
        folder = worker.directory
        cluster = ClusterCalls(worker.url, folder)
        cluster.file("lines.txt", LINES)
        config = {"connector.class": SOURCE, "file": f"{folder}/lines.txt", "topic": "orders"}
        cluster.file("orders.json", {"name": "orders", "config": config})
        cluster.file(
            "copy.properties",
            f"name=copy\nconnector.class={SINK}\ntopics=orders\nfile={folder}/copy.txt\n",
        )
        return AsyncCommands(cluster, self._broker)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def workers(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SharedWorkers]:
    """Workers that start when a test first uses them."""
    folder = tmp_path_factory.mktemp("commands")
    async with up(RELEASES[0], folder) as broker, SharedWorkers(broker) as shared:
        yield shared


@pytest.mark.parametrize("release", sampled(RELEASES, "4.3.0"))
async def test_verbs_steer_a_connector_of_a_real_worker(
    release: str, workers: SharedWorkers
) -> None:
    """Connectors are applied, restarted, paused, stopped, altered, exported and imported."""
    ask = await workers.commands(release)
    folder = ask.cluster.folder
    files = ("-f", folder / "orders.json", "-f", folder / "copy.properties")
    applied = await ask.output("apply", *files, "--wait")
    assert applied.startswith("orders: created\ncopy: created\n")
    applied = await ask.output("apply", *files)
    assert applied.startswith("orders: unchanged\ncopy: unchanged\n")
    assert await ask.output("diff", "-f", folder / "orders.json") == "no difference\n"
    await ask.reads_to(len(LINES))
    assert await ask.output("topics", "orders") == "orders\n"
    restart = ("restart", "orders", "--tasks", "all", "--wait")
    assert await ask.output(*restart) == "orders: restarted (1 of 1 tasks)\n"
    await ask.output("restart", "task", "orders/0", "--wait")
    await ask.output("pause", "--all", "--wait")
    assert await ask.output("resume", "--state", "paused", "--wait")
    await _offsets(ask)
    await _carried(ask)


async def _offsets(ask: AsyncCommands) -> None:
    """Edit the source's offset in an editor: it continues from there."""
    assert "orders is RUNNING, and only a stopped" in await ask.refused("offsets", "edit", "orders")
    editor = ask.cluster.editor(f'"position": {len(LINES)}', '"position": 4')
    edited = await ask.output("offsets", "edit", "orders", "--stop", "--yes", editor=editor)
    assert "orders: altered (The offsets for this connector have been altered" in edited
    await ask.reads_to(len(LINES))
    await ask.output("stop", "orders", "--wait")
    await ask.output("offsets", "reset", "orders", "--yes")
    assert await ask.position() is None
    await ask.output("resume", "orders", "--wait")
    await ask.reads_to(len(LINES))


async def _carried(ask: AsyncCommands) -> None:
    """Export both connectors as a bundle, delete them, and import them with all their state."""
    await ask.output("stop", "--all", "--wait")
    bundle = ask.cluster.folder / "bundle.json"
    await asyncio.to_thread(lambda: ask.cluster.ask("bundle", "export", "--all", "-f", bundle))
    await ask.output("offsets", "reset", "orders", "--yes")
    await ask.output("delete", "--all", "--yes", "--wait")
    assert json.loads(await ask.output("get", "-o", "json")) == {}
    imported = await ask.output("bundle", "import", bundle)
    lines = "copy: created (STOPPED, 1 offset)\norders: created (STOPPED, 1 offset)\n"
    assert imported.startswith(lines)
    assert await ask.position() == len(LINES)
    imported = await ask.output("bundle", "import", bundle)
    assert imported.startswith("copy: unchanged\norders: unchanged\n")


async def test_options_that_workers_lack_are_refused(
    workers: SharedWorkers, tmp_path: Path
) -> None:
    """Options that Kafka's workers would ignore are refused, with a hint to read the log."""
    ask = await workers.commands(RELEASES[0])
    judged = await ask.output("apply", "-f", ask.cluster.folder / "orders.json", "--dry-run")
    assert judged.startswith("orders: would be created (the config is valid")
    await ask.output("apply", "-f", ask.cluster.folder / "orders.json", "--wait")
    bad = ask.cluster.file("bad.json", {"name": "orders", "connector.class": SOURCE})
    refused = await ask.refused("apply", "-f", bad, "--dry-run")
    assert 'not valid: Missing required configuration "topic" which has no' in refused
    for words, lacks in (
        (("stop", "orders", "--dry-run"), "no dry run: read its log with --cluster kafka://"),
        (("get", "--as-of", "config@1"), "no --as-of: read its log with --cluster kafka://"),
        (("history", "orders"), "no history: read its log with --cluster kafka://"),
        (("watch",), "no watch: read its log with --cluster kafka://"),
        (("undo", "orders", "--to", "config@1"), "no undo"),
        (("commands",), "no audit trail"),
    ):
        assert lacks in await ask.refused(*words)
    log = AsyncCommands(ClusterCalls(f"kafka://{ask.broker.bootstrap}", tmp_path), ask.broker)
    document = json.loads(await log.output("stop", "orders", "--dry-run", "-o", "json"))
    assert [step["name"] for step in document[0]["plan"]["steps"]] == ["tasks", "state"]
    assert "created" in await log.output("history", "orders")
    assert await log.output("get") == await ask.output("get")
    await ask.reads_to(len(LINES))
    heads, *_ = (await ask.output("offsets", "orders")).splitlines()
    assert heads.split() == ["PARTITION", "OFFSET"]
    heads, *_ = (await log.output("offsets", "orders")).splitlines()
    assert heads.split() == ["PARTITION", "OFFSET", "UNCHANGED", "SINCE", "RECORD"]


@pytest.mark.prove
@pytest.mark.parametrize(
    ("release", "names", "unreachable"),
    [
        ("3.9.1", ("a b", "größe 😀", "a/b", "%", "a%2Fb", "..", "a;b?c#d"), ()),
        ("4.3.0", ("a b", "größe 😀"), ("a/b", "%", "..")),
    ],
)
async def test_odd_names_are_accepted_as_by_workers(
    release: str, names: tuple[str, ...], unreachable: tuple[str, ...], workers: SharedWorkers
) -> None:
    """Workers accept odd names as far as they can; 4.x refuses some paths."""
    ask = await workers.commands(release)
    folder = ask.cluster.folder
    config = {"connector.class": SOURCE, "file": f"{folder}/lines.txt", "topic": "orders"}
    documents = [{"name": name, "config": config} for name in names]
    await ask.output("apply", "-f", ask.cluster.file("odd.json", documents), "--wait")
    for name in names:
        document = json.loads(await ask.output("describe", name, "-o", "json"))
        assert (document["name"], document["status"]["name"]) == (name, name)
        assert await ask.output("pause", name, "--wait") == f"{name}: paused\n"
    for name in unreachable:
        refused = await ask.refused("describe", name)
        assert "whose HTTP server refuses GET /connectors/" in refused
        assert "before Connect sees it (Ambiguous URI path " in refused
    assert sorted(json.loads(await ask.output("get", "-o", "json"))) == sorted(names)


@pytest.mark.prove
async def test_endpoints_that_an_older_release_lacks_are_named(workers: SharedWorkers) -> None:
    """Missing endpoints are named; a patch is sent as a whole config; a bundle has no offsets."""
    ask = await workers.commands("3.4.1")
    await ask.output("apply", "-f", ask.cluster.folder / "orders.json", "--wait")
    refused = await ask.refused("stop", "orders")
    assert "is Kafka Connect 3.4.1, which has no PUT /connectors/orders/stop" in refused
    patched = await ask.output("patch", "orders", "-s", "batch.size=7", "--wait")
    assert patched == "orders: updated (batch.size: ∅ → 7)\n"
    result = await asyncio.to_thread(lambda: ask.cluster.ask("bundle", "export", "orders"))
    assert (result.code, json.loads(result.out)["connectors"][0]["offsets"]) == (1, None)
