"""Commands read Connect's topics of a cluster, and no topic with data of connectors."""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from replay.cli.main import main
from tests.jars import JarsUnavailable
from tests.kafka.producer import create_topic, writer
from tests.kafka.real_kafka import Broker
from tests.ports import free_ports

pytestmark = [pytest.mark.java, pytest.mark.broker]

RECORD = 100_000
RECORDS = 40
"""Size in bytes of each record in the user's topic, and the number of these records."""

PIECE = 1 << 16


class Relay:
    """Port that forwards to a broker and counts the bytes of its answers."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.target = 0
        self.fetched = 0

    async def serve(self, client: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        try:
            broker, to_broker = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:  # the broker has not started yet
            back.close()
            return
        ways = self._copy(client, to_broker, counted=False), self._copy(broker, back, counted=True)
        await asyncio.gather(*ways)

    async def _copy(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, counted: bool
    ) -> None:
        try:
            while piece := await source.read(PIECE):
                self.fetched += len(piece) * counted
                target.write(piece)
                await target.drain()
        except ConnectionError:
            pass
        finally:
            target.close()


@asynccontextmanager
async def relayed(directory: Path) -> AsyncIterator[tuple[Broker, Relay]]:
    """Broker that advertises a relay as its address."""
    relay = Relay(free_ports(1)[0])
    server = await asyncio.start_server(relay.serve, "127.0.0.1", relay.port)
    async with server:
        advertised = f"PLAINTEXT://127.0.0.1:{relay.port}"
        try:
            broker = Broker("3.9.1", directory, advertised__listeners=advertised)
        except JarsUnavailable as missing:
            pytest.skip(str(missing))
        relay.target = broker.ports["PLAINTEXT"]
        async with broker:
            yield broker, relay


async def fill(broker: Broker) -> None:
    """Create Connect's topics with one connector and its own offsets topic, and a user's topic."""
    for topic in ("connect-configs", "connect-offsets", "connect-status", "own", "orders"):
        await create_topic(broker, topic)
    config = {"connector.class": "S", "name": "a", "offsets.storage.topic": "own"}
    noise = random.Random(1)
    async with writer(broker) as out:
        value = json.dumps({"properties": config}).encode()
        await out.put("connect-configs", 0, b"connector-a", value)
        for position in (b'{"position":900}', b'{"position":0}'):
            await out.put("own", 0, b'["a",{"file":"f"}]', position)
        for number in range(RECORDS):
            await out.put("orders", 0, b"%d" % number, noise.randbytes(RECORD))


COMMANDS = {
    ("audit", "-o", "json"): 1,
    ("compat", "--from", "3.4", "--to", "3.9"): 0,
    ("lint", "--release", "3.9"): 0,
    ("report", "--to", "page.html"): 0,
}
"""Exit codes of commands about a cluster."""


def run_replay(words: tuple[str, ...], broker: Broker) -> Result:
    """Exit code and output of a command about a cluster."""
    return CliRunner().invoke(main, [words[0], f"kafka://{broker.bootstrap}", *words[1:]])


async def test_no_topic_of_a_user_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each command fetches the few records of Connect's topics, and not 4 MB of a user's topic."""
    monkeypatch.chdir(tmp_path)
    async with relayed(tmp_path) as (broker, relay):
        await fill(broker)
        for words, expected in COMMANDS.items():
            relay.fetched = 0
            result = await asyncio.to_thread(run_replay, words, broker)
            assert result.exit_code == expected, result.output
            assert 0 < relay.fetched < RECORDS * RECORD // 10, words
            if words[0] == "audit":
                kinds = {finding["kind"] for finding in json.loads(result.stdout)["findings"]}
                assert "offsets-regressed" in kinds, "the connector's own topic is read"
