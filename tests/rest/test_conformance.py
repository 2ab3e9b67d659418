"""Checklist of Connect's REST API: a test for each of its lines, in its order.

The answers are those of a worker 3.9 unless a test names another release. The probe
(`tests.rest.probes`) covers most lines with more requests.
"""

import asyncio
import hmac
import json
import re
from base64 import b64encode
from typing import Any
from urllib.parse import quote

import pytest

from controlplane.controller import CommandLimits
from controlplane.core import views
from controlplane.core.commands import CommandRequest, StopConnector
from controlplane.core.plan import Step
from controlplane.core.plugins import parse_catalogue
from controlplane.logs.memory import MemoryLog
from controlplane.plane import Settings
from controlplane.rest.app import App
from tests.controller.scene import plane_on, written_texts
from tests.rest.plane import orders_plane
from tests.rest.probes.runtime import KEY
from tests.rest.served_history import client_of, following, service_of
from tests.rest.settled_cluster import FAILURE, FILE, at_rest

BASE = "/compat/3.9"
JSON = {"content-type": "application/json"}
FAILING = FILE | {"fail": "connector"}
NO_TYPE = [
    ("GET", "/nix", {}, 404),
    ("DELETE", "/connectors", {}, 405),
    ("GET", "/connectors", {"accept": "text/html"}, 406),
    ("GET", "/connectors", {"content-type": "text/plain"}, 415),
]


@pytest.mark.parametrize(("method", "path", "headers", "status"), NO_TYPE)
async def test_errors_before_a_method_is_found_have_no_type(
    method: str, path: str, headers: dict[str, str], status: int
) -> None:
    """An error before method dispatch has a JSON body, but no `Content-Type`."""
    async with orders_plane() as (_, client):
        answer = await client.request(method, BASE + path, headers=headers)
    assert (answer.status_code, answer.json()["error_code"]) == (status, status)
    assert "content-type" not in answer.headers


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("", 204),
        ("?includeTasks=TRUE", 202),
        ("?includeTasks=yes", 204),
        ("?includeTasks=", 204),
        ("?includetasks=true", 204),
        ("?includeTasks=false&includeTasks=true", 204),
    ],
)
async def test_only_true_is_true(query: str, status: int) -> None:
    """Every value but `true` is false; the first value counts."""
    async with at_rest() as scene:
        path = f"{BASE}/connectors/orders/restart{query}"
        assert (await scene.client.post(path)).status_code == status


async def test_numbers_become_texts() -> None:
    """Numbers and booleans of a config become texts with their spelling kept."""
    async with orders_plane() as (_, client):
        body = json.dumps(FILE)[:-1] + ', "tasks.max": 1, "some": 1.50, "flag": true}'
        path = f"{BASE}/connectors/orders/config"
        config = (await client.put(path, content=body, headers=JSON)).json()["config"]
    assert (config["tasks.max"], config["some"], config["flag"]) == ("1", "1.50", "true")


async def test_an_unknown_field_is_a_failure() -> None:
    """An unknown field gets an error in Jackson's words."""
    async with orders_plane() as (_, client):
        answer = await client.post(f"{BASE}/connectors", json={"foo": 1})
    assert answer.status_code == 500
    assert answer.json()["message"].startswith(
        'Unrecognized field "foo" (class org.apache.kafka.connect.runtime.rest.entities.'
        "CreateConnectorRequest), not marked as ignorable (3 known properties: "
        '"config", "name", "initial_state"])\n'
    )


async def test_a_name_is_trimmed_and_has_to_match() -> None:
    """The trimmed name must equal the name in the config."""
    async with orders_plane() as (_, client):
        created = await client.post(f"{BASE}/connectors", json={"name": " a\t", "config": FILE})
        differs = {"name": " b ", "config": {**FILE, "name": " b "}}
        refused = await client.post(f"{BASE}/connectors", json=differs)
    assert (created.status_code, created.json()["name"]) == (201, "a")
    text = "Connector name configuration ( b ) doesn't match connector name in the URL (b)"
    assert (refused.status_code, refused.json()["message"]) == (400, text)


async def test_a_no_break_space_is_not_trimmed() -> None:
    """Java's `trim` removes no character above U+0020."""
    async with orders_plane() as (_, client):
        created = await client.post(f"{BASE}/connectors", json={"name": "a\u00a0", "config": FILE})
        assert created.json()["name"] == "a\u00a0"
        assert (await client.get(f"{BASE}/connectors/a")).status_code == 404


async def test_control_characters_in_a_name_are_refused() -> None:
    """The message lists the numbers of the characters if Connect's own definitions are known."""
    async with plane_on(MemoryLog()) as plane, client_of(plane.app) as client:
        named = {"name": "a\x01\x7fb", "config": FILE}
        answer = await client.post(f"{BASE}/connectors", json=named)
    assert answer.status_code == 400
    assert (
        "Invalid value a\x01\x7fb for configuration name: String may not contain control sequences "
        "but had the following ASCII chars: 1, 127" in answer.json()["message"]
    )


NAMES = ("a/b", "a%b", "a%2Fb", "a{b}", "a;b=c", "a+b", "größe 😀", 'a"?#&b')


@pytest.mark.parametrize("dialect", ["", BASE])
@pytest.mark.parametrize("name", NAMES)
async def test_every_route_finds_any_name(name: str, dialect: str) -> None:
    """Every endpoint finds a connector with any name."""
    async with at_rest() as scene:
        client, at = scene.client, f"{dialect}/connectors/{quote(name, safe='')}"
        created = await client.post(
            f"{dialect}/connectors", json={"name": name, "config": FILE | {"name": name}}
        )
        if not dialect:  # a release's `Location` keeps characters that have a meaning in a URL
            assert (await client.get(created.headers["location"])).json()["name"] == name
        await scene.runtime.settle(long=True)
        for path in ("", "/config", "/tasks", "/status", "/tasks/0/status", "/topics", "/offsets"):
            shown = await client.get(at + path)
            assert shown.status_code == 200, (path, shown.text)
        done = [
            await client.put(f"{at}/config", json=FILE),
            await client.patch(f"{at}/config", json={"topic": "rows"}),
            await client.put(f"{at}/pause"),
            await client.put(f"{at}/resume"),
            await client.post(f"{at}/restart"),
            await client.post(f"{at}/tasks/0/restart"),
            await client.put(f"{at}/topics/reset"),
            await client.put(f"{at}/stop"),
        ]
        await scene.runtime.settle(long=True)
        done += [await client.delete(f"{at}/offsets"), await client.delete(at)]
        assert all(response.is_success for response in done), [response.text for response in done]
        assert {*views.connectors(scene.plane.state)} == {"orders", "copies", "sink"}


async def test_statuses_of_success_are_connects() -> None:
    """Statuses are 201 with a Location, 200, 204 or 202; an empty body has no content type."""
    async with at_rest() as scene:
        client, at = scene.client, f"{BASE}/connectors"
        responses = [
            await client.post(at, json={"name": "a", "config": FILE}),
            await client.put(f"{at}/b/config", json=FILE),
            await client.put(f"{at}/b/config", json=FILE),
            await client.patch(f"{at}/b/config", json={}),
            await client.get(f"{at}/b"),
            await client.put(f"{at}/b/pause"),
            await client.put(f"{at}/b/resume"),
            await client.put(f"{at}/b/stop"),
            await client.post(f"{at}/orders/restart"),
            await client.post(f"{at}/orders/restart?includeTasks=true"),
            await client.post(f"{at}/orders/tasks/0/restart"),
            await client.put(f"{at}/b/topics/reset"),
            await client.patch(f"{at}/copies/offsets", json=_source_offsets(1)),
            await client.delete(f"{at}/copies/offsets"),
            await client.delete(f"{at}/b"),
        ]
    codes = [201, 201, 200, 200, 200, 202, 202, 204, 204, 202, 204, 202, 200, 200, 204]
    assert [response.status_code for response in responses] == codes
    assert ["location" in response.headers for response in responses] == [
        code == 201 for code in codes
    ]
    assert all(
        ("content-type" in response.headers) == bool(response.content) for response in responses
    )


def _source_offsets(position: int) -> Any:
    return {"offsets": [{"partition": {"filename": "a.txt"}, "offset": {"position": position}}]}


async def test_without_status_a_connector_is_not_expanded() -> None:
    """A connector without status is left out of every expansion."""
    async with orders_plane() as (_, client):
        path = f"{BASE}/connectors?expand=info"
        assert (await client.get(path)).json().keys() == {"orders"}
        assert (await client.get(f"{path}&expand=status")).json() == {}


async def test_a_trace_is_shown_where_there_is_one() -> None:
    """A status without a trace has no such member."""
    async with at_rest() as scene:
        await scene.client.put(f"{BASE}/connectors/sick/config", json=FAILING)
        await scene.runtime.settle(long=True)
        failed = (await scene.client.get(f"{BASE}/connectors/sick/status")).json()
        runs = (await scene.client.get(f"{BASE}/connectors/orders/status")).json()
    assert failed["connector"]["trace"] == FAILURE
    assert runs["connector"].keys() == {"state", "worker_id"}
    assert [task.keys() for task in runs["tasks"]] == [{"id", "state", "worker_id"}]


async def test_versions_are_shown_from_4_1() -> None:
    """From 4.1 on a status has a version, possibly null; a plugin only if it has one."""
    async with at_rest() as scene:
        for release, has_version in (("3.9", False), ("4.3", True)):
            path = f"/compat/{release}/connectors/orders/status"
            status = (await scene.client.get(path)).json()
            assert ("version" in status["connector"]) is has_version
    catalogue = parse_catalogue(b'[{"class": "lab.Source", "type": "source"}]')
    async with following("life-3.9") as follower:
        service = service_of(follower, "3.9", catalogue)
        async with client_of(App(service)) as client:
            listed = (await client.get("/connector-plugins")).json()
    assert {"class": "lab.Source", "type": "source"} in listed


@pytest.mark.parametrize("forward", ["", "?forward=true", "?forward=false"])
async def test_nothing_is_forwarded(forward: str) -> None:
    """No command is forwarded, at any number of hops: the only process leads.

    `tests.scenario.test_exchange` counts the hops of real workers.
    """
    async with at_rest() as scene:
        at = f"{BASE}/connectors/orders"
        responses = [
            await scene.client.put(f"{at}/config{forward}", json=FILE),
            await scene.client.post(f"{at}/restart{forward}"),
            await scene.client.delete(f"{at}{forward}"),
        ]
    assert [response.status_code for response in responses] == [200, 204, 204]


@pytest.mark.parametrize(
    ("release", "text"),
    [
        ("3.6", r"Request timed out"),
        ("3.9", r"Request timed out\. The worker is currently .+, which began at .+Z\."),
    ],
)
async def test_a_request_that_times_out_is_still_completed(release: str, text: str) -> None:
    """A timeout gets 500, and names the stage from 3.7 on. The command is still completed."""
    goes_on = asyncio.Event()

    async def held(command: CommandRequest, _: Step) -> None:
        if isinstance(command.command, StopConnector):
            await goes_on.wait()

    # The command must have begun by then: one that still waits is cancelled.
    settings = Settings(limits=CommandLimits(request_timeout_ms=1_000))
    async with orders_plane(settings=settings, stepped=held) as (plane, client):
        stopped = await client.put(f"/compat/{release}/connectors/orders/stop")
        goes_on.set()
        assert stopped.status_code == 500
        assert re.fullmatch(text, stopped.json()["message"])
    stopped_at_last = ("target-state-orders", '{"state":"PAUSED","state.v2":"STOPPED"}')
    assert (await written_texts(plane.log, "connect-configs"))[-1] == stopped_at_last


@pytest.mark.parametrize("forward", ["", "?forward=false"])
async def test_an_unknown_connector_is_not_stopped(forward: str) -> None:
    """The receiving worker refuses an unknown connector, with `forward=false` as without it."""
    async with orders_plane() as (_, client):
        answer = await client.put(f"{BASE}/connectors/nix/stop{forward}")
    assert (answer.status_code, answer.json()["message"]) == (404, "Unknown connector nix")


async def test_missing_offsets_are_refused_before_the_connector_is_looked_up() -> None:
    """An alteration without offsets is refused before the connector is looked up."""
    async with orders_plane() as (_, client):
        answer = await client.patch(f"{BASE}/connectors/nix/offsets", json={"offsets": []})
    assert (answer.status_code, answer.json()["message"]) == (400, NO_OFFSETS)


NO_OFFSETS = "Partitions / offsets need to be provided for an alter offsets request"
PLACE = {"kafka_topic": "lines", "kafka_partition": 0}
NUMBERS = "values for sink connectors need to be integers."


@pytest.mark.parametrize(
    ("partition", "offset", "text"),
    [
        (None, None, "The partition for a sink connector offset cannot be null or missing"),
        (
            {"kafka_topic": "t"},
            None,
            (
                "The partition for a sink connector offset must contain the keys 'kafka_topic' and "
                "'kafka_partition'"
            ),
        ),
        (
            {**PLACE, "kafka_topic": None},
            None,
            "Kafka topic names must be valid strings and may not be null",
        ),
        (
            {**PLACE, "kafka_partition": None},
            None,
            "Kafka partitions must be valid numbers and may not be null",
        ),
        (
            {**PLACE, "kafka_partition": "x"},
            None,
            (
                "Failed to parse the following Kafka partition value in the provided offsets: 'x'. "
                f"Partition {NUMBERS}"
            ),
        ),
        (
            PLACE,
            {"offset": 1},
            (
                "The offset for a sink connector should either be null or contain the key "
                "'kafka_offset'"
            ),
        ),
        (
            PLACE,
            {"kafka_offset": 1.5},
            (
                "Failed to parse the following Kafka offset value in the provided offsets: '1.5'. "
                f"Offset {NUMBERS}"
            ),
        ),
    ],
)
async def test_each_invalid_sink_offset_has_its_message(
    partition: Any, offset: Any, text: str
) -> None:
    """Seven kinds of invalid sink offsets each have their own message; so do missing offsets."""
    async with at_rest() as scene:
        at = f"{BASE}/connectors/sink/offsets"
        alteration = {"offsets": [{"partition": partition, "offset": offset}]}
        responses = [
            await scene.client.patch(at, json=alteration),
            await scene.client.patch(at, json={"offsets": []}),
        ]
    assert [(response.status_code, response.json()["message"]) for response in responses] == [
        (400, text),
        (400, NO_OFFSETS),
    ]


@pytest.mark.parametrize("connector", ["copies", "sink"])
async def test_a_second_reset_succeeds(connector: str) -> None:
    """A second reset gets 200, too."""
    async with at_rest() as scene:
        at = f"{BASE}/connectors/{connector}/offsets"
        assert len((await scene.client.get(at)).json()["offsets"]) == 1
        twice = [await scene.client.delete(at), await scene.client.delete(at)]
        assert [response.status_code for response in twice] == [200, 200]
        assert twice[0].json() == twice[1].json()
        assert (await scene.client.get(at)).json() == {"offsets": []}


async def test_an_unknown_connector_has_no_active_topics() -> None:
    """Active topics of an unknown connector are empty."""
    async with orders_plane() as (_, client):
        answer = await client.get(f"{BASE}/connectors/nix/topics")
    assert (answer.status_code, answer.json()) == (200, {"nix": {"topics": []}})


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("", 200),
        ("?scope=", 200),
        ("?scope=banana", 200),
        ("?scope=Worker", 200),
        ("?scope=CLUSTER", 204),
        ("?scope=cluster&scope=worker", 204),
        ("?Scope=cluster", 200),
    ],
)
async def test_only_the_scope_cluster_means_all_workers(query: str, status: int) -> None:
    """Any scope but `cluster` means this worker; the first value counts."""
    async with orders_plane() as (_, client):
        answer = await client.put(f"{BASE}/admin/loggers/lab{query}", json={"level": "DEBUG"})
        assert answer.status_code == status
        assert (await client.get(f"{BASE}/admin/loggers/lab")).json()["level"] == "DEBUG"


def _signed(body: bytes, algorithm: str = "HmacSHA256", key: bytes = KEY) -> dict[str, str]:
    signature = b64encode(hmac.digest(key, body, "sha256")).decode()
    return {
        "x-connect-authorization": signature,
        "x-connect-request-signature-algorithm": algorithm,
    }


@pytest.mark.parametrize(
    ("headers", "status", "text"),
    [
        ({}, 400, "Internal request missing required signature"),
        (_signed(b"", "HmacMD5"), 400, "This worker does not support the 'HmacMD5' key signing"),
        (_signed(b"", "NoSuch"), 400, "Algorithm NoSuch not available"),
        (_signed(b"", key=b"another"), 403, "Internal request contained invalid signature."),
        (_signed(b""), 204, ""),
    ],
)
async def test_only_right_signatures_are_accepted(
    headers: dict[str, str], status: int, text: str
) -> None:
    """A right signature is accepted; a missing or wrong one and an unknown algorithm are not."""
    async with at_rest() as scene:
        answer = await scene.client.put(f"{BASE}/connectors/orders/fence", headers=headers)
    assert answer.status_code == status
    assert (answer.json()["message"] if answer.content else "").startswith(text)


async def test_a_signature_before_there_is_a_key_gets_503() -> None:
    """A signed request gets 503 before a leader has written the key."""
    async with orders_plane() as (_, client):
        answer = await client.put(f"{BASE}/connectors/orders/fence", headers=_signed(b""))
    assert answer.status_code == 503
    assert answer.json()["message"].startswith("This worker is still starting up and has not been")


@pytest.mark.parametrize(
    ("connector", "offset"),
    [
        ("copies", {"partition": {"filename": "a.txt"}, "offset": {"position": 8}}),
        ("sink", {"partition": PLACE, "offset": {"kafka_offset": 2}}),
    ],
)
async def test_dialects_show_offsets_in_their_form(connector: str, offset: Any) -> None:
    """Our dialect groups offsets by connector type (KIP-875); Kafka's shows a plain list."""
    async with at_rest() as scene:
        at = f"/connectors/{connector}/offsets"
        ours, theirs = await scene.client.get(at), await scene.client.get(BASE + at)
    kind = "sink" if connector == "sink" else "source"
    assert ours.json() == {"offsets": {kind: [offset]}}
    assert theirs.json() == {"offsets": [offset]}
