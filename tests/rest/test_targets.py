"""Targets and media types: differences between releases and our dialect that the probe lacks."""

import re
from urllib.parse import unquote

import pytest
from msgspec import UNSET

from controlplane.controller.external import ExternalActionFailed
from controlplane.core.commands import CreateConnector
from controlplane.core.plan import AdminOverrides, AlterGroup
from controlplane.core.releases.profiles import KIP, Profile
from controlplane.rest.errors import BadRequest, NoSuchPath, RestError
from controlplane.rest.jetty_errors import BadMessage, BadTarget, UnreadableRequest
from controlplane.rest.requests import parse_target
from tests.rest.broker import SimulatedBroker
from tests.rest.plane import orders_plane

SINK = {"connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector", "topics": "t"}


@pytest.mark.parametrize("release", ["2.3.0", "3.9.1", "4.0.0", KIP])
@pytest.mark.parametrize("path", ["/a", "/connectors/a.b~c-_1/status", "/a..b/c", "/A/0/9."])
def test_plain_paths_are_taken_as_they_are(path: str, release: str) -> None:
    """A plain path gives the same result on the fast path as segment by segment."""
    profile = Profile.of(release)
    plain = parse_target(f"{path}?x=1&x=", profile)
    assert plain == parse_target(f"{path};?x=1&x=", profile)
    assert plain.segments == tuple(path[1:].split("/"))


@pytest.mark.parametrize(
    ("target", "old", "new"),
    [
        ("/connectors/a{b}", UnreadableRequest, BadTarget),
        ("/connectors/a%00", BadMessage, BadTarget),
        ("/connectors/a%2Fb", None, BadTarget),
        ("connectors", BadMessage, BadTarget),
        ("/connectors//a", NoSuchPath, BadTarget),
        ("/connectors/a/;x=1", None, None),
        ("/connectors/a#b?c", None, None),
    ],
)
def test_each_server_refuses_its_own_invalid_targets(
    target: str, old: type[RestError] | None, new: type[RestError] | None
) -> None:
    """Up to 3.9 and from 4.0 on, different servers refuse different targets."""
    for release, error in (("3.9", old), ("4.3", new)):
        if error is None:
            assert parse_target(target, Profile.of(release)).segments[0] == "connectors"
        else:
            with pytest.raises(error):
                parse_target(target, Profile.of(release))


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("/connectors/50%", "The path holds '%', which is no escape: write a percent sign as %25"),
        ("/connectors/%zz/status", "The path holds '%zz', which is no escape"),
        ("/connectors/a%u00e4", "The path holds '%u0', which is no escape"),
        ("connectors", "The target of a request must be a path that begins with a slash"),
    ],
)
def test_invalid_targets_are_refused_with_a_reason(target: str, sentence: str) -> None:
    """At the root the message explains the refusal."""
    with pytest.raises(BadRequest, match=re.escape(sentence)):
        parse_target(target, Profile.of(KIP))


@pytest.mark.parametrize("name", ["a{b}", "a%2Fb%00", "\ufffd", "a|b", ".."])
def test_decodable_names_are_accepted(name: str) -> None:
    """At the root any decodable segment can be a name."""
    target = parse_target(f"/connectors/{name}", Profile.of(KIP))
    assert target.segments == ("connectors", unquote(name))


async def test_an_invalid_media_type_gets_json() -> None:
    """At the root an invalid media type gets JSON, not the server's page."""
    async with orders_plane() as (_, client):
        answer = await client.get("/connectors", headers={"content-type": "garbage"})
    assert answer.status_code == 415
    assert answer.json() == {"error_code": 415, "message": "HTTP 415 Unsupported Media Type"}


@pytest.mark.parametrize("release", ["3.9", "4.3"])
async def test_pages_for_bad_media_types_are_not_cached(release: str) -> None:
    """Jetty's error page for a bad media type forbids caching."""
    async with orders_plane() as (_, client):
        sent = {"content-type": "garbage"}
        page = await client.get(f"/compat/{release}/connectors", headers=sent)
    assert page.status_code == 400
    assert page.headers["content-type"] == "text/html;charset=iso-8859-1"
    assert page.headers["cache-control"] == "must-revalidate,no-cache,no-store"


async def test_offsets_of_a_sink_come_from_the_broker() -> None:
    """A sink's offsets come from the broker; our dialect lists them under `sink`, as in KIP-875."""
    broker = SimulatedBroker()
    broker.ends["t"] = 5
    async with orders_plane(outside=broker) as (plane, client):
        await plane.execute(CreateConnector("sink", SINK))
        broker.consume("connect-sink", "t")
        ours = await client.get("/connectors/sink/offsets")
        theirs = await client.get("/compat/3.9/connectors/sink/offsets")
        past = await client.get("/connectors/sink/offsets?as_of=config@1")
    committed = {
        "partition": {"kafka_partition": 0, "kafka_topic": "t"},
        "offset": {"kafka_offset": 5},
    }
    assert ours.json() == {"offsets": {"sink": [committed]}}
    assert theirs.json() == {"offsets": [committed]}
    assert past.status_code == 500
    assert "they lie in its consumer group" in past.json()["message"]


class UnreachableBroker(SimulatedBroker):
    """Broker whose consumer groups cannot be read."""

    async def group_offsets(
        self, group: str, admin: AdminOverrides = UNSET
    ) -> tuple[tuple[str, int, int], ...]:
        """Raise ExternalActionFailed for the group."""
        del admin
        raise ExternalActionFailed(f"group {group} cannot be asked")


async def test_offsets_of_an_unreachable_group_get_500() -> None:
    """An unreachable consumer group gets 500 with the reason."""
    async with orders_plane(outside=UnreachableBroker()) as (plane, client):
        await plane.execute(CreateConnector("sink", SINK))
        answer = await client.get("/connectors/sink/offsets")
        theirs = await client.get("/compat/3.9/connectors/sink/offsets")
    assert answer.status_code == 500
    words = "Failed to retrieve consumer group offsets for sink connector sink"
    assert answer.json()["message"] == f"{words}: group connect-sink cannot be asked"
    assert (theirs.status_code, theirs.json()["message"]) == (500, words)


async def test_a_group_is_deleted_with_its_last_offset() -> None:
    """A group is deleted with its last offset; a second removal fails, as in the probe."""
    broker = SimulatedBroker()
    broker.ends["t"] = 5
    broker.consume("connect-sink", "t")
    removal = AlterGroup("sink", "connect-sink", (), (("t", 0),))
    await broker.perform(removal)
    assert await broker.group_offsets("connect-sink") == ()
    with pytest.raises(ExternalActionFailed, match="Failed to alter consumer group offsets"):
        await broker.perform(removal)
