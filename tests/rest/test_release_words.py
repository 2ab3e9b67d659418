"""Messages of older releases, which come from the libraries of those releases.

`tests/rest/releases` compares some 1,400 requests per release; this module has single examples.
"""

import pytest

from tests.rest.plane import ORDERS, orders_plane

JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize("release", ["2.3", "2.8", "3.6"])
async def test_a_number_of_1200_digits_is_no_failure_before_jackson_2_15(release: str) -> None:
    """The older parser accepts the number; the service refuses the config without a class."""
    body = '{"name":"x","config":{"a":' + "9" * 1_200 + "}}"
    async with orders_plane() as (_, client):
        answer = await client.post(f"/compat/{release}/connectors", content=body, headers=JSON)
    assert answer.status_code == 400
    assert "contains no connector type" in answer.json()["message"]


async def test_an_unreadable_task_list_is_repeated_in_older_releases() -> None:
    """Before 3.7 the message shows the bytes; a body needs no `Content-Type`."""
    async with orders_plane() as (_, client):
        for release in ("2.4", "2.8", "3.4", "3.6"):
            path = f"/compat/{release}/connectors/orders/tasks"
            answer = await client.post(path, content="{", headers=JSON)
            assert '[Source: (byte[])"{"; line: 1, column: 1]' in answer.json()["message"]
            unsigned = await client.post(path, content="[]")
            assert unsigned.status_code == 400
            assert unsigned.json()["message"] == "Internal request missing required signature"


@pytest.mark.parametrize("release", ["2.3", "2.8", "3.2"])
async def test_an_older_release_takes_an_empty_topic_of_own_offsets(release: str) -> None:
    """`offsets.storage.topic` came with 3.3; for older releases it has no meaning."""
    config = ORDERS | {"name": "new", "offsets.storage.topic": ""}
    async with orders_plane() as (_, client):
        path = f"/compat/{release}/connectors"
        created = await client.post(path, json={"name": "new", "config": config})
        assert created.status_code == 201
        ours = await client.put("/connectors/new/config", json=config)
        assert ours.json()["message"].startswith("offsets.storage.topic is '', which cannot be")


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/connectors/%FF", "Bad UTF-8 encoding"),
        ("/connectors/a\\b", "Suspicious Path Character, Illegal Path Character"),
        ("/connectors/a%00b", "Bad Request"),
        ("/;x=1/connectors", "Ambiguous URI empty segment"),
        ("/connectors/..;/x", "Ambiguous URI path parameter"),
    ],
)
async def test_jetty_12_says_why_it_refuses_a_path(path: str, reason: str) -> None:
    """4.x answers with an error page whose title contains the reason."""
    async with orders_plane() as (_, client):
        request = client.build_request("GET", "http://connect/")
        raw = f"/compat/4.3{path}".encode()
        request.url = request.url.copy_with(raw_path=raw)
        answer = await client.send(request)
    assert answer.status_code == 400
    assert f"<title>Error 400 {reason}</title>" in answer.text


@pytest.mark.parametrize(
    ("release", "version"),
    [
        ("2.3.1", "9.4.18.v20190429"),
        ("2.8.0", "9.4.39.v20210325"),
        ("3.6.2", "9.4.53.v20231009"),
        ("3.9.0", "9.4.56.v20240826"),
        ("4.0.0", "12.0.15"),
        ("4.2.0", "12.0.22"),
        ("4.3.0", "12.0.34"),
    ],
)
async def test_an_error_page_names_the_jetty_of_the_release(release: str, version: str) -> None:
    """Each patch release bundles a Jetty of its own."""
    async with orders_plane() as (_, client):
        answer = await client.get(
            f"/compat/{release}/connectors", headers={"Content-Type": "nonsense"}
        )
    assert answer.status_code == 400
    assert f"Powered by Jetty:// {version}<" in answer.text
