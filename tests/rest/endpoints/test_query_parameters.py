"""Query parameters: misspelt, impossible or contradictory ones are refused, and nothing is done."""

import pytest

from controlplane.core import views
from controlplane.plane import Settings
from tests.rest.plane import orders_plane

SLIPS = (
    "dryrun",
    "dry-run",
    "dryRun",
    "DRY_RUN",
    "dry_rnu",
    "dry",
    "drt_run",
    "dry_run_",
    "dr_yrun",
)


@pytest.mark.parametrize("slip", SLIPS)
@pytest.mark.parametrize("base", ["", "/compat/3.9", "/compat/2.3", "/compat/4.3"])
async def test_a_misspelt_dry_run_deletes_nothing(base: str, slip: str) -> None:
    """The error suggests the intended parameter, in every dialect."""
    async with orders_plane() as (plane, client):
        before = plane.state
        for place in (f"?{slip}=true", f"?{slip}", f";{slip}=true"):
            answer = await client.delete(f"{base}/connectors/orders{place}")
            assert answer.status_code == 400, place
            assert "did you mean dry_run=? Nothing has been done" in answer.json()["message"]
        assert plane.state is before


@pytest.mark.parametrize("base", ["", "/compat/3.9"])
async def test_contradicting_query_parameters_are_refused(base: str) -> None:
    """Two values of `dry_run=` or `profile=` contradict each other.

    The same value twice does not.
    """
    async with orders_plane() as (plane, client):
        path = f"{base}/connectors/orders"
        for query in ("dry_run=false&dry_run=true", "dry_run=&dry_run=true"):
            assert (await client.delete(f"{path}?{query}")).status_code == 400
        read = await client.get(f"{path}?profile=3.4&profile=3.9")
        assert (read.status_code, read.json()["message"]) == (
            400,
            "profile= is given twice, as 3.4 and as 3.9: give it once",
        )
        same = await client.delete(f"{path}?dry_run=true&dry_run=TRUE&profile=3.9&profile=3.9")
        assert same.json()["profile"].startswith("3.9")
        assert views.connectors(plane.state) == ["orders"]


@pytest.mark.parametrize(
    ("method", "target", "words"),
    [
        (
            "PUT",
            "/connectors/orders/stop?x=y",
            "is no parameter of PUT /connectors/{connector}/stop",
        ),
        ("PUT", "/connectors/orders/stop?x=y", "it takes as_of=, profile=, dry_run="),
        ("POST", "/connectors/orders/restart?includetasks=true", "did you mean includeTasks=?"),
        ("POST", "/connectors/orders/restart?onlyFailed=yes", "is neither true nor false"),
        ("POST", "/connectors/orders/undo?too=config@0", "did you mean to=?"),
        ("POST", "/connectors/orders/undo?to=config@0&offset=true", "did you mean offsets=?"),
        ("PUT", "/admin/loggers/root?Scope=cluster", "did you mean scope=?"),
        ("PUT", "/admin/loggers/root?scope=banana", "use worker or cluster"),
        ("DELETE", "/connectors/orders?profil=3.9", "did you mean profile=?"),
        ("DELETE", "/connectors/orders?forward=perhaps", "forward=perhaps is neither"),
        ("GET", "/commands?command=banana", "command=banana is unknown: use one of alter-offsets"),
        ("GET", "/commands?outcome=banana", "outcome=banana is unknown: use one of done, failed"),
        ("GET", "/commands?since=yesterday", "since=yesterday is no time: write it like"),
        ("GET", "/commands?limit=0", "limit=0 is no number from 1 to 10000"),
        ("GET", "/commands?conector=orders", "did you mean connector=?"),
        ("GET", "/commands?connector=a&connector=b", "connector= is given twice, as a and as b"),
        ("GET", "/targets?nmae=x", "is no parameter of GET /targets"),
        ("GET", "/connectors/orders/history?record=true", "did you mean records=?"),
        ("GET", "/connectors?expand=banana", "expand=banana is unknown: use one of status, info"),
        ("GET", "/connector-plugins?connectorsOnly=perhaps", "is neither true nor false"),
        ("GET", "/watch?conector=orders", "did you mean connector=?"),
        ("GET", "/connectors?as_of=config@0&as_of=config@1", "as_of= is given twice"),
        ("GET", "/connectors?profile=", "unknown release"),
    ],
)
async def test_impossible_query_parameters_are_refused(
    method: str, target: str, words: str
) -> None:
    """At `/` the refusal lists the possible names and values; no command is executed."""
    async with orders_plane() as (plane, client):
        before = plane.state
        body = {"level": "INFO"} if "loggers" in target else None
        answer = await client.request(method, target, json=body)
        assert answer.status_code == 400
        assert words in answer.json()["message"]
        assert plane.state is before


async def test_reads_name_ignored_parameters_in_a_notice() -> None:
    """Reads ignore unknown parameters, and a notice names them."""
    async with orders_plane() as (_, client):
        answer = await client.get("/connectors?asof=config@0")
        assert answer.status_code == 200
        assert "did you mean as_of=?" in answer.headers["x-controlplane-notice"]
        busted = await client.get("/connectors/orders?_=17000")
        assert (
            "is no parameter of GET /connectors/{connector}"
            in busted.headers["x-controlplane-notice"]
        )
        twice = await client.get("/connectors?expand=info&expand=status")
        assert (twice.status_code, "x-controlplane-notice" in twice.headers) == (200, False)


@pytest.mark.parametrize("base", ["", "/compat/3.9"])
@pytest.mark.parametrize(
    "query", ["x=y", "includetasks=true", "includeTasks=banana", "foward=true"]
)
async def test_a_release_ignores_the_parameters_that_kafka_ignores(query: str, base: str) -> None:
    """Meaningless values are handled as in Kafka; so are names that do not resemble `dry_run`."""
    async with orders_plane(Settings(profile="3.9")) as (_, client):
        path = f"{base}/connectors/orders/restart"
        plain = await client.post(path)
        answer = await client.post(f"{path}?{query}&forward=true")
        assert (answer.status_code, answer.content) == (plain.status_code, plain.content)
        assert "x-controlplane-notice" not in answer.headers


@pytest.mark.parametrize(
    "target", ["/connector-plugins?connectorsOnly", "/connectors?expand=banana", "/?_=1"]
)
async def test_existing_tools_read_the_root_of_a_release_as_beneath_compat(target: str) -> None:
    """`--release 3.9` makes the root answer as 3.9, with the query parameters of 3.9."""
    async with orders_plane(Settings(profile="3.9")) as (_, client):
        beneath = await client.get(f"/compat/3.9{target}")
        answer = await client.get(target)
        assert answer.status_code == 200
        assert (answer.content, answer.headers.get("x-controlplane-notice")) == (
            beneath.content,
            None,
        )


async def test_the_root_of_a_release_refuses_misspelt_parameters() -> None:
    """A misspelt `dry_run=` deletes nothing; our own endpoints suggest the intended parameter."""
    async with orders_plane(Settings(profile="3.9")) as (plane, client):
        for target in ("?dryrun=true", "?x=1&profile=3.9", "?profile=3.4&profile=3.9"):
            assert (await client.delete(f"/connectors/orders{target}")).status_code == 400
        assert views.connectors(plane.state) == ["orders"]
        message = (await client.get("/targets?conector=orders")).json()["message"]
        assert "did you mean connector=?" in message
