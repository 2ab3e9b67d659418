"""Random commands to an attached cluster, and their effects in the cluster's log."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from itertools import count
from random import Random
from typing import Any, NamedTuple

import httpx

from controlplane.core.entry import Entry
from tests.kafka.live_cluster import TOPICS

SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
CONFIGS, OFFSETS, _ = TOPICS

Effect = tuple[str, object]
"""Meaning of a record about one connector: its kind and its distinctive value."""


class SentCommand(NamedTuple):
    """Request that changes a connector, and the records that show its effect."""

    kind: str
    method: str
    path: str
    body: Any = None
    configs: tuple[Effect, ...] = ()
    """Effects in the config topic, in their order."""
    offsets: tuple[Effect, ...] = ()
    """Effects in the offsets topic, in their order."""
    number: int = 0


class LaneExchange(NamedTuple):
    """Command, its idempotency key, and the status of the answer."""

    command: SentCommand
    key: str
    status: int

    @property
    def is_acknowledged(self) -> bool:
        """True if the service has answered that the command is done."""
        return self.status < httpx.codes.MULTIPLE_CHOICES


class Lane:
    """Connector that gets random commands, one after the other.

    Its file does not exist, so its tasks write no offsets. Each config and each offset has its own
    number.
    """

    def __init__(self, name: str, chance: Random) -> None:
        self.name = name
        self.exchanges: list[LaneExchange] = []
        self._chance = chance
        self._numbers = count(1)

    async def run(self, rest: httpx.AsyncClient, over: asyncio.Event) -> None:
        """Send commands until the test ends."""
        while not over.is_set():
            command = self._drawn()
            key = f"{self.name}-{command.number}"
            answer = await rest.request(
                command.method, command.path, json=command.body, headers={"idempotency-key": key}
            )
            self.exchanges.append(LaneExchange(command, key, answer.status_code))

    @property
    def has_acknowledged(self) -> bool:
        """True once the service has acknowledged a command."""
        return any(exchange.is_acknowledged for exchange in self.exchanges)

    def _drawn(self) -> SentCommand:
        number = next(self._numbers)
        kinds: tuple[Callable[[int], SentCommand], ...] = (
            *(self._creation, self._creation_with_offsets, self._deletion, self._new_config),
            *(self._alteration, self._reset, self._restart),
            *(self._target("pause", "PAUSED"), self._target("resume", "STARTED")),
            *(self._target("stop", "STOPPED"),) * 2,
        )
        return self._chance.choice(kinds)(number)._replace(number=number)

    @property
    def _path(self) -> str:
        return f"/connectors/{self.name}"

    def _config(self, number: int) -> dict[str, str]:
        return {
            "connector.class": SOURCE,
            "topic": "lines",
            "file": f"missing-{self.name}",
            "batch.size": str(number),
        }

    def _offset(self, number: int) -> list[dict[str, Any]]:
        partition = {"filename": f"missing-{self.name}"}
        return [{"partition": partition, "offset": {"position": number}}]

    def _creation(self, number: int) -> SentCommand:
        state = self._chance.choice(["RUNNING", "PAUSED", "STOPPED"])
        body = {"name": self.name, "config": self._config(number), "initial_state": state}
        return SentCommand("create", "POST", "/connectors", body, (("config", str(number)),))

    def _creation_with_offsets(self, number: int) -> SentCommand:
        creation = self._creation(number)
        body = {**creation.body, "initial_offsets": self._offset(number)}
        offsets: tuple[Effect, ...] = (("offset", number),)
        return creation._replace(kind="create-with-offsets", body=body, offsets=offsets)

    def _deletion(self, _: int) -> SentCommand:
        return SentCommand("delete", "DELETE", self._path, configs=(("config", None),))

    def _new_config(self, number: int) -> SentCommand:
        effects = (("config", str(number)),)
        config = self._config(number)
        return SentCommand("put-config", "PUT", f"{self._path}/config", config, effects)

    def _alteration(self, number: int) -> SentCommand:
        body, effects = {"offsets": self._offset(number)}, (("offset", number),)
        return SentCommand("alter", "PATCH", f"{self._path}/offsets", body, offsets=effects)

    def _reset(self, _: int) -> SentCommand:
        return SentCommand("reset", "DELETE", f"{self._path}/offsets")

    def _restart(self, _: int) -> SentCommand:
        path = f"{self._path}/restart?includeTasks=true"
        return SentCommand("restart", "POST", path, configs=(("restart", None),))

    def _target(self, verb: str, state: str) -> Callable[[int], SentCommand]:
        def command(_: int) -> SentCommand:
            return SentCommand(verb, "PUT", f"{self._path}/{verb}", configs=(("target", state),))

        return command

    # --- laws -------------------------------------------------------------------------------------

    def check(self, entries: Iterable[Entry], rows: dict[str, dict[str, Any]]) -> None:
        """Check that the log and the trail (its rows by key) agree with the answers."""
        effects = list(self.effects(entries))
        configs = [effect for topic, effect in effects if topic == CONFIGS]
        offsets = [effect for topic, effect in effects if topic == OFFSETS]
        done = [exchange.command for exchange in self.exchanges if exchange.is_acknowledged]
        _check_order(configs, [effect for command in done for effect in command.configs])
        _check_order(offsets, list(self._acknowledged_offsets()))
        for exchange in self.exchanges:
            row = rows[exchange.key]
            if exchange.is_acknowledged:
                assert row["outcome"] == "done", (exchange, row)
            if exchange.command.kind == "create-with-offsets" and row["outcome"] != "done":
                self._check_nothing_half_done(exchange, configs, row)
            self._check_compared(exchange, row)

    def _acknowledged_offsets(self) -> Iterator[Effect]:
        """Effects on offsets. A reset writes a tombstone only if there is an offset to remove."""
        is_set = False
        for command, _, status in self.exchanges:
            acknowledged = status < httpx.codes.MULTIPLE_CHOICES
            if acknowledged:
                yield from command.offsets
            if command.kind == "reset":
                if acknowledged and is_set:
                    yield ("offset", None)
                is_set = False
            elif command.offsets:
                is_set = acknowledged

    def effects(self, entries: Iterable[Entry]) -> Iterator[tuple[str, Effect]]:
        """Topic and effect of each record about this connector."""
        for entry in entries:
            effect = self._effect(entry)
            if effect is not None:
                yield entry.topic, effect

    def _effect(self, entry: Entry) -> Effect | None:
        key, value = (entry.key or b"").decode(), json.loads(entry.value or b"null")
        if entry.topic == OFFSETS and json.loads(key)[0] == self.name:
            return "offset", value and value["position"]
        if key == f"connector-{self.name}":
            return "config", value and value["properties"]["batch.size"]
        if key == f"target-state-{self.name}":
            return "target", value and value.get("state.v2", value["state"])
        return ("restart", None) if key == f"restart-connector-{self.name}" else None

    def _check_nothing_half_done(
        self, exchange: LaneExchange, configs: list[Effect], row: dict[str, Any]
    ) -> None:
        """Check that a failed creation leaves no connector."""
        created = ("config", str(exchange.command.number))
        if created in configs:
            later = configs[configs.index(created) + 1 :]
            assert any(kind == "config" for kind, _ in later), (exchange, row, configs)

    def _check_compared(self, exchange: LaneExchange, row: dict[str, Any]) -> None:
        """Check that the records are as planned, or that the trail names each difference."""
        if row["outcome"] == "refused" and "compared" not in row:
            return  # this service refused it, and sent no request
        if row["compared"] == "as planned":
            return
        assert row["compared"] == "differs", (exchange, row)
        if exchange.is_acknowledged:
            explained = [text for text in row["differences"] if text.endswith(" was not planned")]
            assert row["differences"] == explained, (exchange, row)


def _check_order(effects: list[Effect], expected: list[Effect]) -> None:
    """Check that the log has these effects in this order; others may lie between them."""
    left = iter(effects)
    for number, effect in enumerate(expected):
        assert effect in left, (number, expected, effects)


async def trail_of(rest: httpx.AsyncClient) -> AsyncIterator[dict[str, Any]]:
    """All commands of the trail that were sent through the service."""
    after: str | None = None
    while True:
        query = {} if after is None else {"after": after}
        page = (await rest.get("/commands", params=query)).json()
        for row in page["commands"]:
            if row["principal"] is not None:
                yield row
        after = page["next"]
        if after is None:
            return
