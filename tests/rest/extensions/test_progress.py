"""`GET /connectors/{c}/progress`: lag of sinks, last changes of source offsets."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from httpx import AsyncClient
from msgspec import UNSET

from controlplane.controller.external import ExternalActionFailed
from controlplane.core.commands import CreateConnector
from controlplane.core.entry import TopicPartition
from controlplane.core.plan import AdminOverrides
from controlplane.core.views.group_progress import LogEnd
from controlplane.logs.log_factory import open_log
from controlplane.read_only.read_only_service import read_only_settings, reading_service
from controlplane.rest.app import App
from controlplane.settings import Configuration
from tests.controller.scene import NOW_MS, commit_offsets, plane_on, raw
from tests.rest.broker import SimulatedBroker
from tests.rest.plane import orders_plane
from tests.rest.served_history import catalogue, client_of

SINK = {
    "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
    "topics": "t,u",
}
NOW = "2023-11-14T22:13:20.000Z"


class BrokerWithEnds(SimulatedBroker):
    """A broker that also knows where its topics end; `u` has been deleted."""

    async def log_ends(
        self, partitions: Iterable[TopicPartition], admin: AdminOverrides = UNSET
    ) -> Mapping[TopicPartition, LogEnd]:
        """Return 9 as end of topic `t`, and no end for others."""
        del admin
        gone = LogEnd(None, "there is no such topic")
        return {at: LogEnd(9) if at[0] == "t" else gone for at in partitions}


class SilentBroker(SimulatedBroker):
    """Broker whose groups cannot be read."""

    async def group_offsets(
        self, group: str, admin: AdminOverrides = UNSET
    ) -> tuple[tuple[str, int, int], ...]:
        """Raise ExternalActionFailed: no broker answers."""
        del group, admin
        raise ExternalActionFailed("no broker answers")


async def test_each_offset_has_its_last_change() -> None:
    """Each offset has the time and the record of its last change; equal records count once."""
    assert NOW_MS == 1_700_000_000_000
    async with orders_plane() as (_, client):
        await client.put("/connectors/orders/stop")
        partition = {"filename": "orders.txt"}
        for position in (5, 6, 6):
            body = {"offsets": [{"partition": partition, "offset": {"position": position}}]}
            assert (await client.patch("/connectors/orders/offsets", json=body)).is_success
        shown = (await client.get("/connectors/orders/progress")).json()
        (entry,) = shown.pop("offsets")
        assert shown == {"connector": "orders", "type": "source"}
        assert entry["partition"] == partition
        assert entry["offset"] == {"position": 6}
        assert entry["changed_at"] == NOW
        assert entry["record"].startswith("offsets@")
        first = entry["record"]
        past = (await client.get(f"/connectors/orders/progress?as_of={first}")).json()
        assert past["offsets"] == [entry]
        missing = await client.get("/connectors/nobody/progress")
        assert (missing.status_code, missing.json()["message"]) == (
            404,
            "Connector nobody not found",
        )
        assert (await client.get("/compat/3.9/connectors/orders/progress")).status_code == 404


async def test_each_partition_of_a_sink_has_its_lag() -> None:
    """Each partition has its end and lag; an unknown end has a reason, and no lag."""
    broker = BrokerWithEnds()
    broker.ends.update({"t": 5, "u": 2})
    async with orders_plane(outside=broker) as (plane, client):
        await plane.execute(CreateConnector("sink", SINK))
        for topic in ("t", "u"):
            broker.consume("connect-sink", topic)
        shown = (await client.get("/connectors/sink/progress")).json()
        past = await client.get("/connectors/sink/progress?as_of=config@0")
    assert (past.status_code, past.json()["message"]) == (404, "Connector sink not found")
    rows = {row["partition"]["kafka_topic"]: row for row in shown["offsets"]}
    assert rows["t"]["offset"] == {"kafka_offset": 5}
    assert (rows["t"]["end"], rows["t"]["lag"]) == (9, 4)
    assert (rows["u"]["end"], rows["u"]["lag"]) == (None, None)
    assert rows["u"]["reason"] == "there is no such topic"
    assert (shown["type"], shown["group"], shown["lag"]) == ("sink", "connect-sink", 4)


async def test_unreadable_sink_group_gets_500() -> None:
    """A group that cannot be read is answered with Connect's 500 and the reason."""
    async with orders_plane(outside=SilentBroker()) as (plane, client):
        await plane.execute(CreateConnector("sink", SINK))
        answer = await client.get("/connectors/sink/progress")
    words = "Failed to retrieve consumer group offsets for sink connector sink: no broker answers"
    assert (answer.status_code, answer.json()["message"]) == (500, words)


async def offsets_and_lag(client: AsyncClient) -> tuple[object, object]:
    """Answers about offsets of the sink, and its lag; the error messages if they are refused."""
    offsets = (await client.get("/connectors/s/offsets")).json()
    progress = (await client.get("/connectors/s/progress")).json()
    return offsets.get("offsets", offsets.get("message")), progress.get("lag", "refused")


async def test_the_groups_of_an_embedded_log_are_shown(tmp_path: Path) -> None:
    """A service without a worker shows them, also a read-only one that began before the worker."""
    where = f"sqlite:///{tmp_path}/state.db"
    unread = (
        "Failed to retrieve consumer group offsets for sink connector s: they lie in its consumer "
        "group, not in the log that is read here"
    )
    committed = {
        "partition": {"kafka_topic": "t", "kafka_partition": 0},
        "offset": {"kafka_offset": 5},
    }
    async with plane_on(where, plugins=catalogue()) as plane, client_of(plane.app) as client:
        await plane.execute(CreateConnector("s", SINK))
        assert await offsets_and_lag(client) == ({"sink": []}, None)
        settings = read_only_settings(
            where, Configuration(), plane.context.profile, catalogue(), exactly_once=False
        )
        async with (
            await open_log(where) as opened,
            reading_service(opened, settings, live=True) as service,
            client_of(App(service)) as reader,
        ):
            assert await offsets_and_lag(reader) == (unread, "refused")
            await plane.log.create_topic("t", 1)
            await plane.log.append([raw("t", "k", "v")] * 7)
            await commit_offsets(plane.log, "connect-s", {("t", 0): 5})
            for shown in (client, reader):
                assert await offsets_and_lag(shown) == ({"sink": [committed]}, 2)
            past = await reader.get("/connectors/s/offsets?as_of=config@0")
            assert (past.status_code, past.json()["message"]) == (500, unread)
        await client.put("/connectors/s/stop")
        assert (await client.delete("/connectors/s/offsets")).is_success
        assert await offsets_and_lag(client) == ({"sink": []}, None)
