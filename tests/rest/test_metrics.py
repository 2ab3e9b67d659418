"""Metrics of the service, as Prometheus reads them."""

import asyncio
import platform
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as openmetrics_families,
)
from prometheus_client.parser import text_string_to_metric_families

from controlplane.core.order import Ends
from controlplane.core.releases.profiles import Profile
from controlplane.logs.log import Record
from controlplane.logs.memory import MemoryLog
from controlplane.observe import silent
from controlplane.plane import ControlPlane, Surroundings
from controlplane.projection.follower import Follower
from controlplane.projection.limits import FollowerLimits
from controlplane.rest.app import App
from controlplane.rest.metrics import Metrics, exposition
from controlplane.rest.middleware_stack import MiddlewareStack
from controlplane.rest.security.middleware import Protection
from tests.outages import Cable, FollowerNotices, GatedLog, until
from tests.patience import PATIENCE_S
from tests.rest.security.guarded_app import TOKENS, auth_settings
from tests.rest.served_history import catalogue, following, service_of

KIP = Profile.of("kip")


class Scraped(NamedTuple):
    """Every sample, by its name and labels as they are written."""

    samples: dict[str, float]

    @classmethod
    def of(cls, text: str) -> "Scraped":
        """Parse an exposition; a series that occurs twice is an error."""
        samples: dict[str, float] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                labels = ",".join(
                    f"{name}={value}" for name, value in sorted(sample.labels.items())
                )
                key = f"{sample.name}{{{labels}}}" if labels else sample.name
                assert key not in samples
                samples[key] = sample.value
        return cls(samples)

    def of_family(self, name: str) -> dict[str, float]:
        """The samples of one name, by their labels."""
        return {
            key.removeprefix(name): value
            for key, value in self.samples.items()
            if key.partition("{")[0] == name
        }


class Measured(NamedTuple):
    """A control plane with metrics, and a client of it."""

    plane: ControlPlane
    client: httpx.AsyncClient

    async def scraped(self) -> Scraped:
        """Read the current metrics of the service."""
        return Scraped.of((await self.client.get("/metrics")).text)


@asynccontextmanager
async def measured(protection: Protection | None = None) -> AsyncIterator[Measured]:
    """A control plane without connectors, with its own metrics."""
    front = MiddlewareStack(protection or Protection(), KIP, silent())
    around = Surroundings(plugins=catalogue(), notices=front.logger)
    async with ControlPlane.open("memory:", around=around) as plane:
        transport = httpx.ASGITransport(front.application(plane.service))
        async with httpx.AsyncClient(transport=transport, base_url="http://connect") as client:
            yield Measured(plane, client)


@pytest.fixture
async def history() -> AsyncIterator[Scraped]:
    """Metrics of the recorded cluster `life-3.9`."""
    async with following("life-3.9") as follower:
        service = service_of(follower, "3.9", catalogue())
        app = Metrics().with_metrics(App(service), service)
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://connect") as client:
            yield Scraped.of((await client.get("/metrics")).text)


async def test_dashboards_find_the_names_of_the_jmx_exporter(history: Scraped) -> None:
    """Counts of connectors and tasks, and the state of each task, as the JMX exporter has them."""
    connectors = history.samples["kafka_connect_worker_connector_count"]
    tasks = history.samples["kafka_connect_worker_task_count"]
    assert connectors == history.samples["kafka_connect_connectors_count"] > 1
    totals = history.of_family("kafka_connect_worker_connector_total_task_count")
    assert len(totals) == connectors
    assert sum(totals.values()) == tasks > 1
    states = history.of_family("kafka_connect_connector_status")
    assert set(states.values()) == {1}
    for state in ("running", "paused", "failed", "unassigned"):
        counted = history.of_family(f"kafka_connect_worker_connector_{state}_task_count")
        shown = [labels for labels in states if f"status={state}" in labels]
        assert sum(counted.values()) == len(shown)
    assert history.samples["kafka_connect_up"] == 1


async def test_dashboards_find_the_names_of_rest_exporters(history: Scraped) -> None:
    """A connector's value is 1 if it is RUNNING; a task's value is the number of its state."""
    running = history.of_family("kafka_connect_connector_state_running")
    assert running
    assert all(value == ("state=running," in labels) for labels, value in running.items())
    numbers = {"failed": 0, "running": 1, "unassigned": 2, "paused": 3}
    tasks = history.of_family("kafka_connect_connector_tasks_state")
    assert tasks
    for labels, value in tasks.items():
        state = labels.partition("state=")[2].partition(",")[0]
        assert value == numbers[state]


async def test_build_and_process_have_metrics() -> None:
    """Version and Python are labels; processor, memory and files have the usual exporter names."""
    async with measured() as measured_plane:
        samples = (await measured_plane.scraped()).samples
    (build,) = [name for name in samples if name.startswith("controlplane_build_info")]
    assert f"version={version('controlplane')}" in build
    assert f"python={platform.python_version()}" in build
    for name in ("cpu_seconds_total", "resident_memory_bytes", "open_fds", "start_time_seconds"):
        assert samples[f"process_{name}"] > 0
    assert any(name.startswith("python_gc_collections_total") for name in samples)


async def test_each_partition_has_its_position_and_lag() -> None:
    """Each partition has its position and its lag: the number of records behind the position."""
    async with measured() as measured_plane:
        before = await measured_plane.scraped()
        place = "{partition=0,topic=connect-configs}"
        body = {"name": "x", "config": {"connector.class": "FileStreamSource", "topic": "t"}}
        assert (await measured_plane.client.post("/connectors", json=body)).status_code == 201
        after = await measured_plane.scraped()
        positions = [
            scrape.of_family("controlplane_log_position")[place] for scrape in (before, after)
        ]
        assert positions[0] < positions[1]
        lags = after.of_family("controlplane_projection_lag_records")
        assert len(lags) == len(after.of_family("controlplane_log_position")) == 1 + 1 + 25 + 5
        assert set(lags.values()) == {0}
        assert after.samples["controlplane_log_followed"] == 1
        target = "controlplane_connector_target_state{connector=x,state=started}"
        assert after.samples[target] == 1


async def test_commands_are_counted_with_their_outcome() -> None:
    """Commands are counted by kind; refused ones also by reason."""
    async with measured() as measured_plane:
        for _ in range(2):
            await measured_plane.client.put("/connectors/nix/stop")
        body = {"name": "x", "config": {"connector.class": "FileStreamSource", "topic": "t"}}
        await measured_plane.client.post("/connectors", json=body)
        await measured_plane.client.put("/connectors/x/pause")
        counts = (await measured_plane.scraped()).of_family("controlplane_command_seconds_count")
        assert counts == {
            "{command=stop,outcome=no such connector}": 2,
            "{command=create,outcome=done}": 1,
            "{command=pause,outcome=done}": 1,
        }


async def test_requests_are_counted_by_endpoint() -> None:
    """Requests to unknown paths share one series."""
    async with measured() as measured_plane:
        for name in ("a", "b", "c%2Fd"):
            await measured_plane.client.get(f"/connectors/{name}")
        await measured_plane.client.get("/compat/3.9/connectors/a")
        for path in ("/nix", "/nox", "/connectors/a/nix"):
            await measured_plane.client.get(path)
        await measured_plane.client.request("BREW", "/connectors")
        counts = (await measured_plane.scraped()).of_family("controlplane_http_requests_total")
        assert counts == {
            "{method=GET,route=/connectors/{},status=404}": 4,
            "{method=GET,route=other,status=404}": 3,
            "{method=other,route=/connectors,status=405}": 1,
        }
        again = (await measured_plane.scraped()).of_family("controlplane_http_requests_total")
        assert again["{method=GET,route=/metrics,status=200}"] == 1


async def test_two_planes_do_not_mix() -> None:
    """Each plane counts its own requests."""
    async with measured() as first_plane, measured() as other:
        await first_plane.client.get("/connectors")
        counts = (await other.scraped()).of_family("controlplane_http_requests_total")
        assert counts == {}


async def test_two_listeners_of_one_service_tell_the_same() -> None:
    """With `admin.listeners` both listeners expose the same metrics, each series once."""
    async with following("life-3.9") as follower:
        front = MiddlewareStack(Protection(), KIP, silent())
        service = service_of(follower, "kip", catalogue())
        texts = []
        for app in (front.application(service), front.application(service)):
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, base_url="http://connect") as client:
                scraped = Scraped.of((await client.get("/metrics")).text)
                texts.append(scraped.of_family("kafka_connect_connector_status"))
        assert texts[0] == texts[1] != {}


async def test_metrics_come_in_the_format_that_the_client_accepts() -> None:
    """Metrics come in Prometheus' own format, or in OpenMetrics if the client accepts it.

    HEAD is allowed; other methods are not.
    """
    async with measured() as measured_plane:
        plain = await measured_plane.client.get("/metrics")
        assert plain.headers["content-type"].startswith("text/plain; version=")
        accept = {"accept": "application/openmetrics-text; version=1.0.0"}
        other = await measured_plane.client.get("/metrics", headers=accept)
        assert other.headers["content-type"].startswith("application/openmetrics-text")
        assert [*openmetrics_families(other.text)]  # type: ignore[no-untyped-call]
        assert (await measured_plane.client.head("/metrics")).status_code == 200
        assert (await measured_plane.client.post("/metrics")).status_code == 404
        assert (await measured_plane.client.get("/compat/3.9/metrics")).status_code == 404


async def test_metrics_name_connectors_and_are_protected(tmp_path: Path) -> None:
    """Scraping needs the role VIEW, unless the metrics are open."""
    async with measured(Protection(auth_settings(tmp_path))) as measured_plane:
        assert (await measured_plane.client.get("/metrics")).status_code == 401
        headers = {"authorization": f"Bearer {TOKENS['vera']}"}
        scraped = Scraped.of((await measured_plane.client.get("/metrics", headers=headers)).text)
        refused = "controlplane_http_requests_total{method=GET,route=/metrics,status=401}"
        assert scraped.samples[refused] == 1
    async with measured(Protection(auth_settings(tmp_path, metrics_open=True))) as measured_plane:
        assert (await measured_plane.client.get("/metrics")).status_code == 200


async def test_names_with_any_characters_are_escaped() -> None:
    """Names in metrics may contain any text: quotes, line ends, half of a surrogate pair."""
    async with measured() as measured_plane:
        log = measured_plane.plane.log
        names = ['a"b\\c\nd', "\ud800"]
        value = b'{"properties":{"connector.class":"x"}}'
        keys = [f"connector-{name}".encode("utf-8", "surrogatepass") for name in names]
        records = [Record("connect-configs", 0, 1, key, value, ()) for key in keys]
        await log.append(records, None)
        await until(lambda: len(measured_plane.plane.state.config.connectors) == len(names))
        response = await measured_plane.client.get("/metrics")
        assert response.status_code == 200
        totals = Scraped.of(response.text).of_family(
            "kafka_connect_worker_connector_total_task_count"
        )
        assert '{connector=a"b\\c\nd}' in totals


class AwaitableNotices(FollowerNotices):
    """A logger whose lines a test can wait for."""

    exception = FollowerNotices.warning


async def test_the_last_known_state_is_exposed_during_an_outage() -> None:
    """The last known state is exposed, marked as old; unknown values are not exposed."""
    metrics, notices, log = Metrics(), AwaitableNotices(), MemoryLog()
    for topic in ("connect-configs", "connect-offsets", "connect-status", "connect-commands"):
        await log.create_topic(topic, 1)
    cable = Cable(log)
    limits = FollowerLimits(retry_first_ms=1, retry_last_ms=1, topics_poll_ms=1)
    async with Follower(cable, limits=limits, notices=metrics.counting_logger(notices)) as follower:
        service = service_of(follower, "kip", catalogue())
        transport = httpx.ASGITransport(metrics.with_metrics(App(service), service))
        async with httpx.AsyncClient(transport=transport, base_url="http://connect") as client:
            assert Scraped.of((await client.get("/metrics")).text).samples[FOLLOWED] == 1
            assert Scraped.of((await client.get("/metrics")).text).samples[UP] == 1
            cable.cut.set()
            await notices.failed.wait()
            away = Scraped.of((await client.get("/metrics")).text)
            assert away.samples[FOLLOWED] == 0
            assert away.samples[UP] == 0
            assert away.samples["controlplane_log_interruptions_total"] == 1
            assert away.of_family("controlplane_log_position")
            assert away.of_family("controlplane_projection_lag_records") == {}
            cable.cut.clear()
            await notices.back.wait()
            assert Scraped.of((await client.get("/metrics")).text).samples[FOLLOWED] == 1


async def test_a_scrape_does_not_wait_for_a_long_first_load(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The log counts as not followed; several scrapes share one read, which goes on."""
    monkeypatch.setattr(exposition, "STATE_PATIENCE_S", 0.05)
    log = MemoryLog()
    await log.create_topic("connect-configs", 1)
    gated = GatedLog(log)
    async with Follower(gated, live=False) as follower:
        service = service_of(follower, "3.9")
        transport = httpx.ASGITransport(Metrics().with_metrics(App(service), service))
        async with httpx.AsyncClient(transport=transport, base_url="http://connect") as client:
            gated.may_be_read.clear()
            gated.begun = 0
            for _ in range(2):
                loading = Scraped.of((await client.get("/metrics")).text)
                assert loading.samples[FOLLOWED] == 0
                assert "kafka_connect_worker_connector_count" not in loading.samples
            assert gated.begun == 1
            monkeypatch.setattr(exposition, "STATE_PATIENCE_S", PATIENCE_S)
            gated.may_be_read.set()
            loaded = Scraped.of((await client.get("/metrics")).text)
            assert loaded.samples["kafka_connect_worker_connector_count"] == 0
    await log.close()


class UnansweredEnds(Cable):
    """A log whose ends only its follower can read: other reads wait for ever."""

    async def ends(self, topics: Iterable[str]) -> Ends:
        if self.cut.is_set():
            await asyncio.Event().wait()
        return await self.log.ends(topics)


async def test_other_metrics_are_answered_without_the_ends_of_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other metrics are answered in time, without the ends of the log."""
    monkeypatch.setattr(exposition, "ENDS_PATIENCE_S", 0.01)
    async with following("life-3.9") as follower:
        log = UnansweredEnds(MemoryLog())
        log.cut.set()
        service = service_of(follower, "kip", catalogue(), log=log)
        transport = httpx.ASGITransport(Metrics().with_metrics(App(service), service))
        async with httpx.AsyncClient(transport=transport, base_url="http://connect") as client:
            scraped = Scraped.of((await client.get("/metrics")).text)
        assert scraped.samples["kafka_connect_worker_connector_count"] > 1
        assert scraped.of_family("controlplane_projection_lag_records") == {}


FOLLOWED = "controlplane_log_followed"
UP = "kafka_connect_up"
