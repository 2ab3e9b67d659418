"""Random commands to an attached cluster, and their effects in the cluster's log."""

import asyncio
import json
from collections.abc import (
    AsyncIterator,
    Callable,
    Container,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from itertools import count
from random import Random
from typing import Any, NamedTuple

import httpx

from controlplane.attached.execution import CHECK
from controlplane.core.entry import Entry
from tests.kafka.live_cluster import TOPICS

SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
CONFIGS, OFFSETS, _ = TOPICS

Effect = tuple[str, object]
"""Meaning of a record about one connector: its kind and its distinctive value."""

TrailRows = Mapping[str, Mapping[str, Any]]
"""Commands of the trail by key."""

CHANGED = "The connector is left as it is: check its offsets, and resume it"
"""End of the reason of a creation that another client has changed."""


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
    """Command, its idempotency key, and the status and text of the answer."""

    command: SentCommand
    key: str
    status: int
    text: str

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
            self.exchanges.append(LaneExchange(command, key, answer.status_code, answer.text))

    @property
    def has_acknowledged(self) -> bool:
        """True once the service has acknowledged a command."""
        return any(exchange.is_acknowledged for exchange in self.exchanges)

    def _drawn(self) -> SentCommand:
        number = next(self._numbers)
        kinds: tuple[Callable[[int], SentCommand], ...] = (
            *(self._creation, self._new_config, self._alteration, self._reset, self._restart),
            *(self._creation_with_offsets, self._deletion) * 3,
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

    def check(
        self, entries: Iterable[Entry], rows: TrailRows, disturbed: Container[str] = ()
    ) -> None:
        """Check that the log and the trail agree with the answers.

        `disturbed` has the keys of creations during which another client resumed the connector.
        Commands without a row were never accepted, so they have no effect.
        """
        effects = list(self.effects(entries))
        configs = [effect for topic, effect in effects if topic == CONFIGS]
        offsets = [effect for topic, effect in effects if topic == OFFSETS]
        for exchange in self._accepted(rows):
            row = rows[exchange.key]
            if exchange.is_acknowledged:
                assert row["outcome"] == "done", (exchange, row)
            if row["outcome"] == "unknown":
                assert row["reason"].endswith(CHECK), (exchange, row)
            if _is_left_to_another(row):
                assert exchange.key in disturbed, (exchange, row)
            self._check_compared(exchange, row)
        _check_order(configs, list(self._configs(configs, rows)))
        _check_order(offsets, list(self._offsets(offsets, rows)))

    def _configs(self, written: Container[Effect], rows: TrailRows) -> Iterator[Effect]:
        """Effects on configs in order: those of commands done, and of creations taken back."""
        for exchange in self._accepted(rows):
            if _is_done(exchange, rows):
                yield from exchange.command.configs
            elif _is_taken_back(exchange, rows, exchange.command.configs, written):
                yield from (*exchange.command.configs, ("config", None))

    def _offsets(self, written: Container[Effect], rows: TrailRows) -> Iterator[Effect]:
        """Effects on offsets in order; see `_configs`.

        A reset writes a tombstone only if there is an offset to remove.
        """
        is_set = False
        for exchange in self._accepted(rows):
            command, is_done = exchange.command, _is_done(exchange, rows)
            if is_done:
                yield from command.offsets
            elif _is_taken_back(exchange, rows, command.offsets, written):
                yield from (*command.offsets, ("offset", None))
            if command.kind == "reset":
                if is_done and is_set:
                    yield ("offset", None)
                is_set = False
            elif command.offsets:
                is_set = is_done

    def _accepted(self, rows: TrailRows) -> Iterator[LaneExchange]:
        return (exchange for exchange in self.exchanges if exchange.key in rows)

    def effects(self, entries: Iterable[Entry]) -> Iterator[tuple[str, Effect]]:
        """Topic and effect of each committed record about this connector."""
        for entry in entries:
            effect = self._effect(entry)
            if effect is not None and not entry.aborted:
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

    def _check_compared(self, exchange: LaneExchange, row: Mapping[str, Any]) -> None:
        """Check that the records are as planned, or that the trail names each difference."""
        if row["outcome"] == "refused" and "compared" not in row:
            return  # this service refused it, and sent no request
        if row["compared"] == "as planned":
            return
        assert row["compared"] == "differs", (exchange, row)
        if exchange.is_acknowledged:
            explained = [text for text in row["differences"] if text.endswith(" was not planned")]
            assert row["differences"] == explained, (exchange, row)


def _is_done(exchange: LaneExchange, rows: TrailRows) -> bool:
    """True if the command was done, perhaps after its answer."""
    return bool(rows[exchange.key]["outcome"] == "done")


def _is_taken_back(
    exchange: LaneExchange,
    rows: TrailRows,
    effects: Sequence[Effect],
    written: Container[Effect],
) -> bool:
    """True if a creation with offsets has written these effects and failed.

    The service must have removed them, before it began the next command. There are two exceptions:
    an unknown outcome, and a connector that another client has changed. The trail names them.
    """
    row = rows[exchange.key]
    may_stay = row["outcome"] == "unknown" or _is_left_to_another(row)
    is_creation = exchange.command.kind == "create-with-offsets"
    return is_creation and not may_stay and any(effect in written for effect in effects)


def _is_left_to_another(row: Mapping[str, Any]) -> bool:
    """True if the service left the connector as another client had changed it."""
    return bool((row.get("reason") or "").endswith(CHANGED))


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
