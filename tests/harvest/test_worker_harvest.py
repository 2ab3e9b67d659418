"""Catalogues harvested over HTTP without Java: the worker is our own control plane."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from controlplane import ControlPlane
from controlplane.core.releases.profiles import Profile
from controlplane.harvest.bounded_worker import BoundedWorker
from controlplane.harvest.catalogue_file import catalogue_text
from controlplane.harvest.harvest_result import Harvest
from controlplane.harvest.worker_harvest import from_worker, version_of
from controlplane.observe import silent
from controlplane.plane import Settings, Surroundings
from controlplane.plugins import catalogued, kafkas_own
from tests.documentation_digests import sentences, without_sentences
from tests.rest.served_history import client_of
from tests.validation.answers import CONNECTORS, WORKER
from tests.validation.cases import MIRROR, SINK, SOURCE

JDBC = "io.example.JdbcSourceConnector"
MASK = "io.example.Mask$Value"
FOREIGN: tuple[Mapping[str, Any], ...] = (
    {
        "class": JDBC,
        "type": "source",
        "version": "10.7",
        "config": [
            {"name": "url", "type": "STRING", "required": True, "documentation": "The database."},
            {"name": "rows", "type": "INT", "default": "5", "group": "Reading", "order": 1},
            {"name": "pin", "type": "PASSWORD", "width": "LONG", "display_name": "PIN"},
        ],
    },
    {
        "class": MASK,
        "type": "transformation",
        "config": [{"name": "fields", "type": "LIST", "required": True, "dependents": ["with"]}],
    },
)
"""Plugins that only the worker knows."""

SENTENCES = {
    "connector": {"tasks.max": "So many tasks."},
    "source": {"exactly.once.support": "Never twice."},
    "sink": {"topics": "Where to read."},
    "transformation": {"negate": "The other way round."},
    "mirror": {"target.cluster.alias": "The other side."},
    "producer": {"linger.ms": "A while."},
    "consumer": {"max.poll.records": "A handful."},
    "admin": {"retries": "Again."},
    "org.apache.kafka.connect.file.FileStreamSourceConnector": {"file": "A file."},
    "org.apache.kafka.connect.transforms.Cast": {"spec": "What to cast."},
    "org.apache.kafka.connect.json.JsonConverter": {"schemas.enable": "Or not."},
}
"""Documentation that differs from ours, in every scope."""

VALIDATED = (
    SOURCE,
    SINK,
    MIRROR,
    {"connector.class": JDBC, "name": "x", "rows": "many"},
    SOURCE
    | {
        "transforms": "t",
        "transforms.t.type": MASK,
        "transforms.t.negate": "true",
        "producer.override.linger.ms": "5",
    },
)
RELEASES = ("2.8.2", "3.1.2", "3.2.0", "3.9.1", "4.0.2", "4.3.0")


@asynccontextmanager
async def worker(release: str, catalogue: bytes) -> AsyncIterator[httpx.AsyncClient]:
    """Client of a control plane that answers as a release's worker with these plugins."""
    settings = Settings(profile=release, worker=WORKER)
    around = Surroundings(catalogued(catalogue), notices=silent())
    async with (
        ControlPlane.open("memory:", settings, around) as plane,
        client_of(plane.app) as client,
    ):
        client.base_url = httpx.URL(f"http://connect/compat/{release}/")
        yield client


def original() -> bytes:
    """Catalogue of the harvested worker."""
    listed = [*({"class": name} for name in CONNECTORS), *FOREIGN]
    return json.dumps({"plugins": listed, "documentation": SENTENCES}).encode()


async def harvest(release: str) -> tuple[Harvest, bytes, list[tuple[int, int]]]:
    """Harvest a worker of a release; return harvest, catalogue file and progress."""
    steps: list[tuple[int, int]] = []
    async with worker(release, original()) as client:
        bounded_worker = BoundedWorker(client, "the worker")
        version, profile = await version_of(bounded_worker), Profile.of(release)
        harvested = await from_worker(
            bounded_worker,
            version,
            profile,
            kafkas_own(),
            lambda done, of: steps.append((done, of)),
        )
    return harvested, catalogue_text(harvested, kafkas_own(), profile).encode(), steps


async def answers(release: str, catalogue: bytes) -> dict[str, bytes]:
    """Bodies of the responses about plugins, by request."""
    everything = "connector-plugins?connectorsOnly=false"
    bodies = {}
    async with worker(release, catalogue) as client:
        listed = (await client.get(everything)).json()
        paths = [f"connector-plugins/{plugin['class']}/config" for plugin in listed]
        for path in (everything, *paths):
            bodies[path] = (await client.get(path)).content
        for config in VALIDATED:
            path = f"connector-plugins/{config['connector.class']}/config/validate"
            bodies[json.dumps(config)] = (await client.put(path, json=config)).content
    return bodies


@pytest.mark.parametrize("release", [release for release in RELEASES if release >= "3.2"])
async def test_answers_with_a_harvested_catalogue_are_the_workers(release: str) -> None:
    """The answers have equal bytes for foreign plugins and for documentation in every scope."""
    _, file, _ = await harvest(release)
    theirs = await answers(release, original())
    assert await answers(release, file) == theirs
    assert await answers(release, b"[]") != theirs


@pytest.mark.parametrize("release", [release for release in RELEASES if release < "3.2"])
async def test_a_worker_before_3_2_lists_connectors_only(release: str) -> None:
    """A foreign transformation, which it does not list, is trusted or refused."""
    harvested, file, _ = await harvest(release)
    assert any("lists connectors alone" in sentence for sentence in harvested.lacking)
    theirs, ours = await answers(release, original()), await answers(release, file)
    assert {path for path in theirs if theirs[path] != ours[path]} == {json.dumps(VALIDATED[-1])}


async def test_kafkas_own_classes_are_listed_by_name(tmp_path: object) -> None:
    """The settings of Kafka's classes are known for every release; the file adds documentation."""
    _, file, _ = await harvest("3.9.1")
    written = json.loads(file)
    own = [
        plugin for plugin in written["plugins"] if plugin["class"].startswith("org.apache.kafka")
    ]
    assert {tuple(plugin) for plugin in own} == {("class",)}
    assert {plugin["class"] for plugin in written["plugins"]} >= {JDBC, MASK, *CONNECTORS}
    for scope, texts in SENTENCES.items():
        assert texts.items() <= written["documentation"][scope].items()
    assert written["harvested"] == {"release": "3.9.1"}


async def test_other_releases_keep_their_definitions() -> None:
    """A release's file changes only the documentation of other releases."""
    _, file, _ = await harvest("3.9.1")
    named = json.dumps([{"class": name} for name in CONNECTORS] + list(FOREIGN)).encode()
    own, other = await answers("4.3.0", named), await answers("4.3.0", file)
    assert own != other
    plain = {path: without_sentences(text.decode()) for path, text in own.items()}
    assert {path: without_sentences(text.decode()) for path, text in other.items()} == plain
    path = "connector-plugins/org.apache.kafka.connect.file.FileStreamSourceConnector/config"
    texts = dict(zip(names(other[path]), sentences(other[path].decode()), strict=True))
    assert texts["tasks.max"] == "So many tasks."
    assert texts["connector.plugin.version"] in sentences(own[path].decode()), "came with 4.1"


def names(answer: bytes) -> list[str]:
    """Names of settings in an answer."""
    return [document["name"] for document in json.loads(answer)]


async def test_progress_is_reported() -> None:
    """Progress starts at 0 and ends at the total."""
    _, _, steps = await harvest("3.9.1")
    assert steps[0][0] == 0
    assert steps[-1][0] == steps[-1][1] > len(CONNECTORS)
    assert steps == sorted(steps)
