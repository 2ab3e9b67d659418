"""Configs that a worker refuses before it writes anything, sent over HTTP (KIP-26).

The situations and their error counts are those of Kafka's `ConnectorValidationIntegrationTest`.
"""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from controlplane import ControlPlane
from controlplane.core.context import DecisionSettings
from controlplane.observe import silent
from controlplane.plane import Settings, Surroundings
from tests.rest.served_history import client_of
from tests.validation.cases import APACHE, JSON, SINK, SOURCE, TRANSFORM, ConfigBody, without
from tests.validation.class_cases import CATALOGUE

GROUP = "connect-worker-group-id"
FILE_SINK = f"{APACHE}file.FileStreamSinkConnector"
TOMBSTONE = f"{TRANSFORM}predicates.RecordIsTombstone"
DEAD_LETTERS = "errors.deadletterqueue.topic.name"


def transformed(kind: str, names: str = "t", **own: str) -> ConfigBody:
    """A sink with a transformation, under one or more names."""
    configured = {f"transforms.t.{key}": value for key, value in own.items()}
    return SINK | {"transforms": names, "transforms.t.type": kind} | configured


def predicated(kind: str, names: str = "p") -> ConfigBody:
    """A sink with a predicate, under one or more names."""
    return SINK | {"predicates": names, "predicates.p.type": kind}


SITUATIONS: dict[str, tuple[ConfigBody, int]] = {
    "neither topics nor a pattern": (without(SINK, "topics"), 2),
    "topics and a pattern": (SINK | {"topics.regex": "r.*"}, 2),
    "dead letters among the topics": (SINK | {DEAD_LETTERS: "a"}, 1),
    "dead letters matched by the pattern": (
        without(SINK, "topics") | {"topics.regex": "r.*", DEAD_LETTERS: "ruh.roh"},
        1,
    ),
    "the worker's group by the name": (SINK | {"name": "worker-group-id"}, 1),
    "the worker's group by an override": (SINK | {"consumer.override.group.id": GROUP}, 1),
    "a topic creation group twice": (SOURCE | {"topic.creation.groups": "g1, g2, g1"}, 1),
    "a transformation twice": (transformed(f"{TRANSFORM}Filter", "t, t"), 1),
    "a missing transformation": (transformed("lab.Nowhere"), 1),
    "a transformation of another kind": (transformed(FILE_SINK), 1),
    "a negation without predicate": (transformed(f"{TRANSFORM}Filter", negate="true"), 1),
    "a predicate twice": (predicated(TOMBSTONE, "p, p"), 1),
    "a missing predicate": (predicated("lab.Nowhere"), 1),
    "a predicate of another kind": (predicated(FILE_SINK), 1),
}
for _key in ("key.converter", "header.converter"):
    SITUATIONS |= {
        f"a missing {_key}": (SINK | {_key: "lab.Nowhere"}, 1),
        f"a {_key} of another kind": (SINK | {_key: FILE_SINK}, 1),
        f"an abstract {_key}": (SINK | {_key: "lab.Converters$Abstract"}, 1),
        f"a {_key} without constructor": (SINK | {_key: "lab.Converters$Demanding"}, 1),
        f"a {_key} that throws": (SINK | {_key: "lab.Converters$Throwing"}, 1),
        f"a misconfigured {_key}": (
            SINK | {_key: "lab.Converters$Sound", f"{_key}.prop": "notaboolean"},
            1,
        ),
        f"a {_key} without definition": (SINK | {_key: "lab.Converters$Undefined"}, 0),
    }


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A catalogue file that declares the classes."""
    file = tmp_path_factory.mktemp("classes") / "catalogue.json"
    own = [{"class": FILE_SINK}, {"class": f"{APACHE}file.FileStreamSourceConnector"}]
    file.write_text(json.dumps([*own, *CATALOGUE]), "utf-8")
    return file


@pytest.fixture
async def client(catalogue: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A control plane that knows the declared classes."""
    worker = DecisionSettings(group_id=GROUP, key_converter=JSON, value_converter=JSON)
    settings = Settings(worker=worker, catalogue=str(catalogue))
    async with (
        ControlPlane.open("memory:", settings, Surroundings(notices=silent())) as plane,
        client_of(plane.app) as asking,
    ):
        yield asking


def test_all_situations_are_here() -> None:
    """All 28 situations of Kafka are listed."""
    assert len(SITUATIONS) == 28


@pytest.mark.parametrize("base", ["", "/compat/3.9.1", "/compat/4.3.0"])
@pytest.mark.parametrize("situation", SITUATIONS)
async def test_a_bad_config_has_as_many_errors_as_a_worker_finds(
    client: httpx.AsyncClient, situation: str, base: str
) -> None:
    """A config is refused on creation exactly if its validation has errors."""
    config, errors = SITUATIONS[situation]
    plugin = (config["connector.class"] or "").rpartition(".")[2]
    path = f"{base}/connector-plugins/{plugin}/config/validate"
    answered = await client.put(path, json=config)
    assert answered.status_code == httpx.codes.OK
    assert answered.json()["error_count"] == errors
    name = config["name"]
    posted = await client.post(f"{base}/connectors", json={"name": name, "config": config})
    expected_status = httpx.codes.BAD_REQUEST if errors else httpx.codes.CREATED
    assert posted.status_code == expected_status, posted.text
    await client.delete(f"{base}/connectors/{name}")
